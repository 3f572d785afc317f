"""Chunks: what one ingress task sends to one bucket in one micro-batch, as bytes.

A chunk is a header and one section per query group: the group's columns of the rows for this bucket and the bitmaps of the items that
each row can be, as an Arrow IPC stream. A bucket without rows gets a chunk too: its header makes time advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.cep.snapshot.preamble import Buffer, Kept, read_preamble, reading, write_preamble
from app.errors import SnapshotError
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind

CHUNK = Kept(b"CEPCHUNK", "chunk")
_FIXED = ("time", "source", "offset")


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """Rows of one query group.

    Attributes:
        group: `route.group_identity`.
        layout: fingerprint of the group's `ItemLayout`, which says what the bits mean.
        batch: events, with the group's columns only.
        bitmaps: uint64 (events, words).
        keys: uint64 (keys,), of a trusted group: keys of which there were events that are not sent here.
        key_times: int64 (keys,), the greatest times of those events, ms.
        hidden: these events were shed, and the bits are those that were taken from them: for audits, nobody is fed them.
    """

    group: int
    layout: str
    batch: EventBatch
    bitmaps: NDArray[np.uint64]
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    key_times: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    hidden: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """What one ingress task sends to one bucket.

    Attributes:
        stream: where the events come from.
        greatest_times: by source the greatest event time that the task has seen (late, irrelevant and shed events included), ms.
    """

    stream: str
    greatest_times: Mapping[int, int]
    sections: Sequence[Section] = field(default_factory=tuple)


def pack_chunk(chunk: Chunk) -> bytes:
    """The chunk as bytes."""
    bodies = [(s.keys.tobytes(), s.key_times.tobytes(), pack_events(s.batch, s.bitmaps)) for s in chunk.sections]
    header = {
        "stream": chunk.stream,
        "greatest": [[source, time] for source, time in sorted(chunk.greatest_times.items())],
        "sections": [
            [s.group, s.layout, sum(map(len, body)), len(s.keys), *([True] if s.hidden else [])]
            for s, body in zip(chunk.sections, bodies, strict=True)
        ],
    }
    return b"".join([write_preamble(CHUNK, header), *(buffer for body in bodies for buffer in body)])


def unpack_chunk(data: bytes | memoryview) -> Chunk:
    """The chunk of the bytes; arrays look into them (read-only) wherever they can.

    Raises:
        SnapshotError: the bytes are no chunk, cut off, damaged in what describes them, or of a newer version.
    """
    preamble = read_preamble(CHUNK, data)
    with reading(CHUNK.what):
        return READERS[preamble.format](preamble.description, memoryview(data)[preamble.stop :])


def _chunk(header: Mapping[str, Any], view: memoryview) -> Chunk:
    at, sections = 0, []
    for group, layout, size, keys, *hidden in header["sections"]:
        if at + size > len(view):
            raise SnapshotError("chunk is cut off")
        hashes = np.frombuffer(view[at : at + 8 * keys], dtype=np.uint64)
        times = np.frombuffer(view[at + 8 * keys : at + 16 * keys], dtype=np.int64)
        batch, bitmaps = unpack_events(view[at + 16 * keys : at + size])
        sections.append(Section(group, layout, batch, bitmaps, hashes, times, hidden=bool(hidden)))
        at += size
    return Chunk(header["stream"], dict(header["greatest"]), sections)


READERS: Mapping[int, Callable[[Mapping[str, Any], memoryview], Chunk]] = {1: _chunk}
"""By format; those of old formats stay."""


def pack_events(batch: EventBatch, bitmaps: NDArray[np.uint64]) -> memoryview:
    """Events and their bitmaps as an Arrow IPC stream; dictionaries hold the entries that occur, no others."""
    arrays: list[pa.Array] = [pa.array(getattr(batch, name)) for name in _FIXED]
    fields = [pa.field(name, pa.int64()) for name in _FIXED]
    for k in range(bitmaps.shape[1]):
        arrays.append(pa.array(np.ascontiguousarray(bitmaps[:, k])))
        fields.append(pa.field(f"bits:{k}", pa.uint64()))
    for name, column in (("type", batch.type), *((f"value:{name}", column) for name, column in batch.columns.items())):
        array = _values(column)
        arrays.append(array)
        fields.append(pa.field(name, array.type, metadata={"kind": column.kind.value}))
        if column.state is not None:
            arrays.append(pa.array(column.state))
            fields.append(pa.field(f"state:{name}", pa.uint8()))
    schema = pa.schema(fields)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return memoryview(sink.getvalue())


def unpack_events(data: Buffer) -> tuple[EventBatch, NDArray[np.uint64]]:
    """What `pack_events` packed.

    Raises:
        SnapshotError: it is something else.
    """
    with reading("a table of events"):
        return _events(data)


def _events(data: Buffer) -> tuple[EventBatch, NDArray[np.uint64]]:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        record_batch = reader.read_next_batch()
    record_batch.validate()
    schema, fixed, states = record_batch.schema, {}, {}
    values: dict[str, Column] = {}
    words = []
    for name, array in zip(schema.names, record_batch.columns, strict=True):
        if name in _FIXED:
            fixed[name] = array.to_numpy()
        elif name.startswith("bits:"):
            words.append(array.to_numpy())
        elif name.startswith("state:"):
            states[name.removeprefix("state:")] = array.to_numpy()
        else:
            values[name] = _column(Kind(schema.field(name).metadata[b"kind"].decode()), array)
    columns = {name: Column(c.kind, c.values, states.get(name), c.dictionary) for name, c in values.items()}
    kind = columns.pop("type")
    attributes = {name.removeprefix("value:"): column for name, column in columns.items()}
    return EventBatch(fixed["time"], fixed["source"], fixed["offset"], kind, attributes), _side_by_side(words, record_batch.num_rows)


def _side_by_side(words: Sequence[NDArray[np.uint64]], rows: int) -> NDArray[np.uint64]:
    if len(words) == 1:
        return words[0].reshape(-1, 1)
    return np.ascontiguousarray(np.stack(words, axis=1)) if words else np.zeros((rows, 0), dtype=np.uint64)


def compacted(column: Column) -> Column:
    """The column with a dictionary of only the entries that occur, in the order of their codes; others as they are."""
    if column.dictionary is None:
        return column
    codes = column.values.astype(np.int32, copy=False)
    if column.state is not None:
        codes = np.where(column.state == 0, codes, np.int32(0)) if len(column.dictionary) else np.zeros(len(codes), dtype=np.int32)
    used = np.zeros(len(column.dictionary), dtype=np.bool_)
    used[codes if len(column.dictionary) else codes[:0]] = True
    if used.all() and codes is column.values:
        return column
    number = (np.cumsum(used) - 1).astype(np.int32)
    kept = _entries(column.dictionary).take(pa.array(np.flatnonzero(used)))
    return Column(column.kind, number[codes] if len(number) else codes, column.state, _dictionary(kept))


def compacted_batch(batch: EventBatch) -> EventBatch:
    """The batch with compacted dictionaries, so that waiting events do not keep the entries of those that are gone."""
    columns = {name: compacted(column) for name, column in batch.columns.items()}
    return EventBatch(batch.time, batch.source, batch.offset, compacted(batch.type), columns)


def _values(column: Column) -> pa.Array:
    if column.dictionary is None:
        return pa.array(column.values)
    small = compacted(column)
    assert small.dictionary is not None  # noqa: S101 - a compacted text column stays one
    return pa.DictionaryArray.from_arrays(pa.array(small.values.astype(np.int32, copy=False)), _entries(small.dictionary), safe=False)


def _column(kind: Kind, array: pa.Array) -> Column:
    if not pa.types.is_dictionary(array.type):
        return Column(kind, array.to_numpy())
    return Column(kind, array.indices.to_numpy(), None, _dictionary(array.dictionary))


def _entries(dictionary: Dictionary) -> pa.Array:
    offsets = np.ascontiguousarray(dictionary.offsets)
    data = np.ascontiguousarray(dictionary.data)
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(dictionary), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _dictionary(entries: pa.Array) -> Dictionary:
    _, offsets, data = entries.buffers()
    if len(entries) == 0:
        return Dictionary(np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64))
    bounds = np.frombuffer(offsets, dtype=np.int64)[entries.offset : entries.offset + len(entries) + 1]
    return Dictionary(np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8), bounds)
