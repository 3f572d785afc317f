"""Declares the kernels of pattern queries; see `shedding.lazy_kernel`. With stale code, tables would be read by old column numbers, without bounds checks."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from app.events.kernel import TEXT_SOURCE, declaring, sources_in, stamp_of

_SHARED = ("cells", "partitions", "predicates", "candidates", "stacks")
"""Rooms whose kernels are compiled into those of the ways of matching."""
_WAYS = ("runs", "chains")


def _stamp(*rooms: str) -> str:
    """A hash of the sources that are compiled into kernels."""
    house = files("app.cep")
    own = [one for room in rooms for one in sources_in(house.joinpath(room), "arrays.py", "opcodes.py", "kernels")]
    return stamp_of([*own, TEXT_SOURCE])


_STAMP = _stamp(*_SHARED)
_STAMPS = {f"app.cep.{way}": _stamp(*_SHARED, way) for way in _WAYS}
"""By package, of those with tables of their own."""


def kernel(signature: Any, *, counted: bool = True) -> Callable[[Callable[..., Any]], Any]:
    """Declares a function to be compiled for one signature, with its machine code kept beside the source, callable without the interpreter's lock.

    ``counted`` False: references of arrays are not counted, for functions that make no array and call none that returns one; where arrays
    are views of a world (`app.cep.runs.kernels_world`), counting them was most of the time.
    """

    def declared(function: Any) -> Any:
        stamp = _STAMPS.get(function.__module__.rpartition(".")[0], _STAMP)
        return declaring(stamp, nogil=True)(signature, counted=counted)(function)

    return declared
