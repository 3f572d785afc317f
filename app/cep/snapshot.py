"""A state as bytes: a header of JSON, then named arrays of int64 and uint8, each aligned to eight bytes.

Layout: ``b"CEPSTATE"``, uint32 format version, uint32 header length, header, padding, arrays. The header names the plan's fingerprint, so a
state is never read by a plan with another meaning.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import SnapshotError

MAGIC = b"CEPSTATE"
VERSION = 3
_PREFIX = struct.Struct("<8sII")
_TYPES: dict[str, np.dtype[Any]] = {"<i8": np.dtype(np.int64), "|u1": np.dtype(np.uint8)}


@dataclass(frozen=True, slots=True)
class Header:
    """Whose state it is.

    Attributes:
        fingerprint: of the plan.
        kinds: attribute → kind of its column.
        partitioned: the engine's option of that name, which decides what the tables mean.
    """

    fingerprint: str
    kinds: Mapping[str, str]
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


def pack(header: Header, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Bytes from which `unpack` makes the same again."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    entries = [[name, array.dtype.str, array.shape] for name, array in whole.items()]
    text = json.dumps({**asdict(header), "arrays": entries}).encode()
    parts = [_PREFIX.pack(MAGIC, VERSION, len(text)), text, bytes(-len(text) % 8)]
    for array in whole.values():
        parts += [array.tobytes(), bytes(-array.nbytes % 8)]
    return b"".join(parts)


def unpack(data: bytes) -> tuple[Header, dict[str, NDArray[Any]]]:
    """Header and arrays (read-only views of the bytes).

    Raises:
        SnapshotError: not a snapshot, cut off, or of another format.
    """
    try:
        magic, version, length = _PREFIX.unpack_from(data)
    except struct.error as error:
        raise SnapshotError("state is cut off before its header") from error
    if magic != MAGIC:
        raise SnapshotError("these bytes are no state of the engine")
    if version != VERSION:
        raise SnapshotError(f"state has format {version}, this version reads {VERSION}")
    try:
        written = json.loads(data[_PREFIX.size : _PREFIX.size + length])
        header = Header(written["fingerprint"], written["kinds"], written["partitioned"])
        entries = [(name, _TYPES[dtype], shape) for name, dtype, shape in written["arrays"]]
    except (ValueError, KeyError) as error:
        raise SnapshotError("state has a broken header") from error
    at = _PREFIX.size + length + -length % 8
    arrays = {}
    for name, dtype, shape in entries:
        count = int(np.prod(shape, dtype=np.int64))
        size = count * dtype.itemsize
        if at + size > len(data):
            raise SnapshotError(f"state is cut off inside {name}")
        arrays[name] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += size + -size % 8
    return header, arrays


def names_in(data: bytes) -> frozenset[str]:
    """The names of a snapshot's arrays: whose state it is, where several engines run a plan.

    Raises:
        SnapshotError: as `unpack`.
    """
    return frozenset(unpack(data)[1])
