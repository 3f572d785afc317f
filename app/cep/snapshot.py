"""A state as bytes: a header of JSON, then named arrays of int64 and uint8, each aligned to eight bytes.

Layout: ``b"CEPSTATE"``, uint32 format version, uint32 header length, header, padding, arrays. The header names the plan's fingerprint, so a
state is never read by a plan with another meaning.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import SnapshotError

MAGIC = b"CEPSTATE"
VERSION = 1
_PREFIX = struct.Struct("<8sII")
_TYPES = {"<i8": np.int64, "|u1": np.uint8}


def pack(fingerprint: str, kinds: Mapping[str, str], partitioned: bool, arrays: Mapping[str, NDArray[Any]]) -> bytes:  # noqa: FBT001
    """Bytes from which `unpack` makes the same again."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    entries = [[name, array.dtype.str, array.shape] for name, array in whole.items()]
    header = json.dumps({"fingerprint": fingerprint, "kinds": kinds, "partitioned": partitioned, "arrays": entries}).encode()
    parts = [_PREFIX.pack(MAGIC, VERSION, len(header)), header, bytes(-len(header) % 8)]
    for array in whole.values():
        parts += [memoryview(array.reshape(-1).view(np.uint8)), bytes(-array.nbytes % 8)]
    return b"".join(parts)


def unpack(data: bytes, fingerprint: str, partitioned: bool) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:  # noqa: FBT001
    """Kinds of columns and arrays (read-only views of the bytes).

    Raises:
        SnapshotError: not a snapshot, cut off, of another format or of another plan.
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
        header = json.loads(data[_PREFIX.size : _PREFIX.size + length])
    except ValueError as error:
        raise SnapshotError("state has a broken header") from error
    if header["fingerprint"] != fingerprint:
        raise SnapshotError(f"state belongs to a plan with fingerprint {header['fingerprint']!r}, not {fingerprint!r}")
    if header["partitioned"] != partitioned:
        raise SnapshotError("state was kept with another choice of partitioned stacks")
    at = _PREFIX.size + length + -length % 8
    arrays = {}
    for name, dtype, shape in header["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        size = count * _TYPES[dtype]().itemsize
        if at + size > len(data):
            raise SnapshotError(f"state is cut off inside {name}")
        arrays[name] = np.frombuffer(data, _TYPES[dtype], count, at).reshape(shape)
        at += size + -size % 8
    return header["kinds"], arrays
