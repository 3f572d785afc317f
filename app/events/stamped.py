"""Machine code that is kept only as long as all sources stay as they are that are compiled into it.

numba keeps machine code per function and asks only whether the function's own file has changed; constants and inlined functions of other modules are compiled in. A function that
seems to capture a stamp of these sources is another one for numba's cache when the stamp is.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from importlib.resources.abc import Traversable
from types import CellType, FunctionType
from typing import Any


def stamp_of(sources: Iterable[Traversable]) -> str:
    """A hash of the files' contents, in this order."""
    return sha256(b"\0".join([one.read_bytes() for one in sources])).hexdigest()


def stamped(function: Any, stamp: str) -> FunctionType:
    """The function, capturing the stamp."""
    code = function.__code__.replace(co_freevars=("_sources",))
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, (CellType(stamp),))
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, function.__qualname__, function.__doc__
    return copy
