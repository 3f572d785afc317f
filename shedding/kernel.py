"""Compiles kernels, and keeps the machine code only as long as every kernel's source stays as it is.

numba keeps machine code per function and asks only whether the function's own file has changed; functions of other files are compiled in. So every kernel
carries a stamp of all these sources, which numba's cache takes for a captured variable.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from types import CellType, FunctionType
from typing import Any

from numba import njit

_FOLDERS = (files("shedding"), files("shedding").joinpath("tuples"))
_SOURCES = [one for folder in _FOLDERS for one in sorted(folder.iterdir(), key=lambda one: one.name) if one.name.startswith("kernels")]
_STAMP = sha256(b"\0".join(one.read_bytes() for one in _SOURCES)).hexdigest()


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function for one signature, with its machine code kept beside the source, callable without the interpreter's lock."""

    def compiled(function: Any) -> Any:
        code = function.__code__.replace(co_freevars=("_sources",))
        stamped = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, (CellType(_STAMP),))
        stamped.__module__, stamped.__qualname__, stamped.__doc__ = function.__module__, function.__qualname__, function.__doc__
        return njit(signature, cache=True, nogil=True)(stamped)

    return compiled
