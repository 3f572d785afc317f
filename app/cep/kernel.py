"""Declares the kernels of pattern queries; see `shedding.lazy_kernel`. With stale code, tables would be read by old column numbers, without bounds checks."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from app.events.kernel import TEXT_SOURCE, declaring, sources_in, stamp_of

_SHARED = ("cells", "partitions", "predicates", "candidates", "windows", "negation", "returns")
"""Rooms whose kernels are compiled into those of the ways of matching."""
_WAYS = ("stacks", "runs", "chains")
_APART = ("policies",)
"""Rooms whose kernels are compiled into no other room's."""


def rooms_of(package: str) -> tuple[str, ...]:
    """The rooms of whose sources something is compiled into the kernels of a package."""
    room = package.rpartition(".")[2]
    return (*_SHARED, room) if room in (*_WAYS, *_APART) else _SHARED


def _stamp(package: str) -> str:
    """A hash of the sources that are compiled into kernels."""
    house = files("app.cep")
    rooms = (house.joinpath(room) for room in rooms_of(package))
    return stamp_of([*(one for room in rooms for one in sources_in(room, "arrays.py", "opcodes.py", "kernels")), TEXT_SOURCE])


STAMPS = {package: _stamp(package) for package in (f"app.cep.{room}" for room in (*_SHARED, *_WAYS, *_APART))}
"""By package."""


def kernel(signature: Any, *, counted: bool = True) -> Callable[[Callable[..., Any]], Any]:
    """Declares a function to be compiled for one signature, with its machine code kept beside the source, callable without the interpreter's lock.

    ``counted`` False: references of arrays are not counted, for functions that make no array and call none that returns one; where arrays
    are views of a world (`app.cep.runs.kernels_world`), counting them was most of the time.
    """

    def declared(function: Any) -> Any:
        return declaring(STAMPS[function.__module__.rpartition(".")[0]], nogil=True)(signature, counted=counted)(function)

    return declared
