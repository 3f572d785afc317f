"""Declares the kernels of pattern queries; see `shedding.lazy_kernel`. With stale code, tables would be read by old column numbers, without bounds checks."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from app.events.kernel import TEXT_SOURCE, declaring, sources_in, stamp_of


def _stamp(*folders: Traversable) -> str:
    """A hash of the sources that are compiled into kernels."""
    return stamp_of([*(one for folder in folders for one in sources_in(folder, "arrays.py", "opcodes.py", "kernels")), TEXT_SOURCE])


_STAMP = _stamp(files("app.cep"))
_STAMPS = {
    "app.cep.runs": _stamp(files("app.cep"), files("app.cep").joinpath("runs")),
    "app.cep.chains": _stamp(files("app.cep"), files("app.cep").joinpath("chains")),
}
"""Of packages with tables of their own."""


def kernel(signature: Any, *, counted: bool = True) -> Callable[[Callable[..., Any]], Any]:
    """Declares a function to be compiled for one signature, with its machine code kept beside the source, callable without the interpreter's lock.

    ``counted`` False: references of arrays are not counted, for functions that make no array and call none that returns one; where arrays
    are views of a world (`app.cep.runs.kernels_world`), counting them was most of the time.
    """

    def declared(function: Any) -> Any:
        stamp = _STAMPS.get(function.__module__.rpartition(".")[0], _STAMP)
        return declaring(stamp, nogil=True)(signature, counted=counted)(function)

    return declared
