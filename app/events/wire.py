"""The registry's wire formats: where a record's schema id is, and where its Avro bytes begin.

* magic byte 0, four bytes of id (big-endian), Avro bytes;
* magic byte 1, 16 bytes of GUID, Avro bytes;
* a record header ``__value_schema_id`` with one of those prefixes, the value being Avro bytes only. Reading headers triples the cost
  of the hot path, so only streams that say so pay.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.events.failures import Failure
from app.events.kernels import read_prefixes

MAGIC_ID, MAGIC_GUID = 0, 1
SCHEMA_HEADER = "__value_schema_id"
GUID_BASE = 1 << 40
"""Schemas named by GUID get numbers from here on within a batch; ids have 32 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Framed:
    """Records with their schema ids found.

    Attributes:
        data: uint8, all bytes.
        starts, ends: int64 (records,), the Avro bytes of each.
        ids: int64 (records,), schema id; from `GUID_BASE` on the place in `guids`; -1 for failures.
        guids: texts.
        failures: uint8 (records,) of `Failure`.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    ids: NDArray[np.int64]
    guids: tuple[str, ...]
    failures: NDArray[np.uint8]


def framed(values: pa.Array | pa.ChunkedArray, headers: pa.Array | pa.ChunkedArray | None = None) -> Framed:
    """Finds schema ids and Avro bytes; copies nothing of a contiguous array.

    Args:
        values: binary (records,), null for tombstones.
        headers: list<struct<key: string, value: binary>> (records,) as Spark's Kafka source has them, or None.
    """
    values = _contiguous(values)
    data, offsets = bytes_of(values)
    count = len(values)
    failures = np.zeros(count, dtype=np.uint8)
    if values.null_count:
        failures[np.asarray(values.is_null())] = Failure.NULL_VALUE
    starts, ids = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    named = np.zeros(count, dtype=bool) if headers is None else _with_header(_contiguous(headers))
    prefixed = failures
    if named.any():
        prefixed = np.where(named, Failure.OTHER, failures).astype(np.uint8)
    read_prefixes(data, offsets, starts, ids, prefixed)
    failures = np.where(named, failures, prefixed).astype(np.uint8) if named.any() else prefixed
    guids: dict[str, int] = {}
    for row in np.flatnonzero((ids < 0) & (failures == 0) & ~named).tolist():
        guid = str(UUID(bytes=data[starts[row] - 16 : starts[row]].tobytes()))
        ids[row] = GUID_BASE + guids.setdefault(guid, len(guids))
    if headers is not None and named.any():
        _apply_headers(_contiguous(headers), ids, failures, guids)
    return Framed(data, starts, offsets[1:], ids, tuple(guids), failures)


def _contiguous(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return array


def bytes_of(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Data (a view) and int64 offsets (records + 1,) of a binary or string array, whatever its slice."""
    large = pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type)
    _, offsets, data = values.buffers()
    if offsets is None or len(values) == 0:
        return np.frombuffer(b"", dtype=np.uint8), np.zeros(len(values) + 1, dtype=np.int64)
    bounds = np.frombuffer(offsets, dtype=np.int64 if large else np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(b"" if data is None else data, dtype=np.uint8)
    content.flags.writeable = False  # the kernel's signature has read-only bytes
    return content, bounds.astype(np.int64)


def _with_header(headers: pa.Array) -> NDArray[np.bool_]:
    """Which records carry the header."""
    named = np.zeros(len(headers), dtype=bool)
    parents, _ = _schema_headers(headers)
    named[parents] = True
    return named


def _schema_headers(headers: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Records and values of the schema headers, in order."""
    parents = pc.list_parent_indices(headers)
    flat = pc.list_flatten(headers)
    hits = pc.equal(pc.struct_field(flat, 0), SCHEMA_HEADER)
    hits = pc.and_(pc.fill_null(hits, fill_value=False), pc.is_valid(pc.struct_field(flat, 1)))
    return np.asarray(parents.filter(hits), dtype=np.int64), pc.struct_field(flat, 1).filter(hits)


def _apply_headers(headers: pa.Array, ids: NDArray[np.int64], failures: NDArray[np.uint8], guids: dict[str, int]) -> None:
    """Takes ids and GUIDs from the headers; of several the last counts. Distinct values are few, so they are parsed once each."""
    parents, values = _schema_headers(headers)
    encoded = values.dictionary_encode()
    numbers = np.array([_header_id(text, guids) for text in encoded.dictionary.to_pylist()], dtype=np.int64)
    found = numbers[np.asarray(encoded.indices, dtype=np.int64)]
    ids[parents] = found
    bad = parents[(found < 0) & (failures[parents] == 0)]
    failures[bad] = Failure.NO_SCHEMA_ID


def _header_id(text: bytes, guids: dict[str, int]) -> int:
    if len(text) == 17 and text[0] == MAGIC_GUID:
        return GUID_BASE + guids.setdefault(str(UUID(bytes=text[1:])), len(guids))
    if len(text) == 5 and text[0] == MAGIC_ID:
        return int(struct.unpack(">I", text[1:])[0])
    return -1


def prefix(schema_id: int) -> bytes:
    """What stands before the Avro bytes.

    >>> prefix(258).hex()
    '0000000102'
    """
    return struct.pack(">bI", MAGIC_ID, schema_id)


def guid_prefix(guid: str) -> bytes:
    """What stands before the Avro bytes, or in the header, of a schema named by GUID."""
    return bytes([MAGIC_GUID]) + UUID(guid).bytes
