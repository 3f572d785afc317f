"""Compiles kernels, and keeps the machine code only as long as everything that is compiled into it.

numba keeps machine code per function and asks only whether the function's own file has changed. Constants of `arrays` and `opcodes` and
inlined functions of other modules are compiled in: with stale code, tables would be read by old column numbers, without bounds checks.
So every kernel carries a stamp of all these sources, which numba's cache takes for a captured variable.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import CellType, FunctionType
from typing import Any

from numba import njit

_COMPILED_IN = ("arrays.py", "opcodes.py", "kernels")


def _stamp(*folders: Traversable) -> str:
    """A hash of the sources that are compiled into kernels."""
    sources = [one for folder in folders for one in sorted(folder.iterdir(), key=lambda one: one.name) if one.name.startswith(_COMPILED_IN)]
    texts = [one.read_bytes() for one in sources if one.name.endswith(".py")]
    return sha256(b"\0".join([*texts, files("app.events").joinpath("kernels_text.py").read_bytes()])).hexdigest()


_STAMP = _stamp(files("app.cep"))
_STAMPS = {
    "app.cep.runs": _stamp(files("app.cep"), files("app.cep").joinpath("runs")),
    "app.cep.chains": _stamp(files("app.cep"), files("app.cep").joinpath("chains")),
}
"""Of packages with tables of their own."""


def kernel(signature: Any, *, counted: bool = True) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function for one signature, with its machine code kept beside the source, callable without the interpreter's lock.

    ``counted`` False: references of arrays are not counted, for functions that make no array and call none that returns one; where arrays
    are views of a world (`app.cep.runs.kernels_world`), counting them was most of the time.
    """

    def compiled(function: Any) -> Any:
        stamp = _STAMPS.get(function.__module__.rpartition(".")[0], _STAMP)
        code = function.__code__.replace(co_freevars=("_sources",))
        stamped = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, (CellType(stamp),))
        stamped.__module__, stamped.__qualname__, stamped.__doc__ = function.__module__, function.__qualname__, function.__doc__
        return njit(signature, cache=True, nogil=True, _nrt=counted)(stamped)

    return compiled
