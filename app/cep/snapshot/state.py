"""An engine's state as bytes: a preamble, then named arrays of int64 and uint8, each aligned to eight bytes.

The preamble names the engine, the format of its arrays, and the plan's fingerprint, so a state is never read by a plan with another meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.known import Known
from app.cep.snapshot.preamble import Buffer, Kept, read_preamble, reading, write_preamble
from app.errors import SnapshotError
from app.events.types import Kind

Arrays = dict[str, NDArray[Any]]
STATE = Kept(b"CEPSTATE", "state of an engine")
"""Its format is that of the bytes; what the arrays mean has a format of its own, by engine: `ArrayFormat`."""
_TYPES: dict[str, np.dtype[Any]] = {"<i8": np.dtype(np.int64), "|u1": np.dtype(np.uint8)}


def as_they_are(arrays: Arrays) -> Arrays:
    """The reader of the format that is written."""
    return arrays


@dataclass(frozen=True, slots=True)
class ArrayFormat:
    """What the arrays of an engine's state mean.

    Attributes:
        engine: its name.
        readers: by format, what makes its arrays those of the newest one, which is written. Those of old formats stay.
    """

    engine: str
    readers: Mapping[int, Callable[[Arrays], Arrays]]

    @property
    def newest(self) -> int:
        """The format that is written."""
        return max(self.readers)

    def read(self, number: int, arrays: Arrays) -> Arrays:
        """Arrays of any known format as those of the newest.

        Raises:
            SnapshotError: of a newer version.
        """
        reader = self.readers.get(number)
        if reader is None:
            raise SnapshotError(
                f"state of {self.engine} was written by a newer version: format {number}, this one reads up to {self.newest}"
            )
        return reader(arrays)


@dataclass(frozen=True, slots=True)
class Header:
    """Whose state it is.

    Attributes:
        fingerprint: of the plan.
        kinds: attribute → kind of its column.
        partitioned: the engine's option of that name, which decides what the tables mean.
    """

    fingerprint: str
    kinds: Mapping[str, Kind]
    partitioned: bool

    def require(self, fingerprint: str, partitioned: bool) -> None:  # noqa: FBT001 - compared, switches nothing
        """Refuses the state of another plan.

        Raises:
            SnapshotError: it is one.
        """
        if self.fingerprint != fingerprint:
            raise SnapshotError(f"state belongs to a plan with fingerprint {self.fingerprint!r}, not {fingerprint!r}")
        if self.partitioned != partitioned:
            raise SnapshotError("state was kept with another choice of partitioned stacks")


def pack(written: ArrayFormat, header: Header, arrays: Mapping[str, NDArray[Any]]) -> Sequence[Buffer]:
    """Buffers which, one after the other, are bytes from which `unpack` makes the same again. They look into the arrays: nothing is copied."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    buffers: list[Buffer] = [_begun(written, header, {name: (array.dtype.str, array.shape) for name, array in whole.items()})]
    for array in whole.values():
        buffers += [array.reshape(-1).view(np.uint8).data, bytes(-array.nbytes % 8)]
    return [buffer for buffer in buffers if len(buffer)]


def _begun(written: ArrayFormat, header: Header, arrays: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """How a state begins; of every array the type and the shape."""
    description = {
        "engine": written.engine,
        "format": written.newest,
        "fingerprint": header.fingerprint,
        "kinds": {name: kind.value for name, kind in header.kinds.items()},
        "partitioned": header.partitioned,
        "arrays": [[name, *described] for name, described in arrays.items()],
    }
    return write_preamble(STATE, description)


def kept(
    written: ArrayFormat, fingerprint: str, known: Known, arrays: Mapping[str, NDArray[Any]], *, partitioned: bool = True
) -> Sequence[Buffer]:
    """The state of an engine: its arrays, and what it has learnt; buffers that look into them, as of `pack`."""
    return pack(written, Header(fingerprint, known.kinds, partitioned), {**arrays, **known.texts.saved()})


def kept_together(written: ArrayFormat, fingerprint: str, states: Mapping[str, Sequence[Buffer]]) -> Sequence[Buffer]:
    """The states of several engines as that of one, which has learnt nothing itself: arrays of bytes, which nothing copies.

    Args:
        written: by the one engine.
        fingerprint: of its plan.
        states: by name, buffers whose lengths together are a multiple of eight, as those of every state are.
    """
    lengths = {name: sum(memoryview(buffer).nbytes for buffer in own) for name, own in states.items()}
    begun = _begun(written, Header(fingerprint, {}, partitioned=True), {name: ("|u1", (length,)) for name, length in lengths.items()})
    return [begun, *(buffer for own in states.values() for buffer in own)]


@contextmanager
def restoring(wanted: ArrayFormat, data: Buffer, fingerprint: str, known: Known, *, partitioned: bool = True) -> Iterator[Arrays]:
    """The arrays of a state, while an engine takes them over that knows by then what the one of before had learnt.

    Args:
        wanted: of the engine.
        data: the state.
        fingerprint: of the plan that it must be of.
        known: of an engine that has seen nothing yet, in-out.
        partitioned: the engine's option.

    Raises:
        SnapshotError: the bytes are no state of this engine, damaged, of a newer version, or of a plan with another fingerprint.
    """
    header, arrays = unpack(wanted, data)
    header.require(fingerprint, partitioned)
    with reading(STATE.what):
        known.kinds.update(header.kinds)
        known.texts.load(arrays)
        yield arrays


def unpack(wanted: ArrayFormat, data: Buffer) -> tuple[Header, Arrays]:
    """Header and arrays (read-only views of the bytes).

    Raises:
        SnapshotError: no state of this engine, cut off, or of a newer version.
    """
    preamble = read_preamble(STATE, data)
    with reading(STATE.what):
        written = preamble.description
        if written["engine"] != wanted.engine:
            raise SnapshotError(f"state was kept by {written['engine']}, not by {wanted.engine}")
        kinds = {name: Kind(kind) for name, kind in written["kinds"].items()}
        header = Header(written["fingerprint"], kinds, written["partitioned"])
        return header, wanted.read(written["format"], _arrays(written["arrays"], data, preamble.stop))


def _arrays(described: Sequence[Sequence[Any]], data: Buffer, at: int) -> Arrays:
    arrays = {}
    for name, dtype, shape in described:
        kind, count = _TYPES[dtype], int(np.prod(shape, dtype=np.int64))
        size = count * kind.itemsize
        if at + size > len(data):
            raise SnapshotError(f"state is cut off inside {name}")
        array = np.frombuffer(data, kind, count, at).reshape(shape)
        arrays[name] = array if array.flags.aligned else array.copy()  # kernels know aligned arrays only
        at += size + -size % 8
    return arrays


def engine_of(data: Buffer) -> str:
    """The name of the engine that kept a state, where several run a plan.

    Raises:
        SnapshotError: as `unpack`.
    """
    with reading(STATE.what):
        return str(read_preamble(STATE, data).description["engine"])
