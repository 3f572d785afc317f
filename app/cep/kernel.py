"""Compiles the kernels of pattern queries; see `app.events.stamped`. With stale code, tables would be read by old column numbers, without bounds checks."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from numba import njit

from app.events.stamped import stamp_of, stamped

_COMPILED_IN = ("arrays.py", "opcodes.py", "kernels")


def _stamp(*folders: Traversable) -> str:
    """A hash of the sources that are compiled into kernels."""
    sources = [one for folder in folders for one in sorted(folder.iterdir(), key=lambda one: one.name) if one.name.startswith(_COMPILED_IN)]
    return stamp_of([*(one for one in sources if one.name.endswith(".py")), files("app.events").joinpath("kernels_text.py")])


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
        return njit(signature, cache=True, nogil=True, _nrt=counted)(stamped(function, stamp))

    return compiled
