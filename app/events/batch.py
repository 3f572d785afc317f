"""EventBatch: events as arrays, one per attribute, from decoding to the match.

No Python object per event. Axis names used in every docstring: ``events`` (rows of a batch), ``entries`` (of a dictionary).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from app.events.types import Kind

PRESENT, NULL, ABSENT = 0, 1, 2
"""States of a cell: has a value; the attribute is there but null (its comparison is false);
the event's schema does not have the attribute (its comparison is true)."""

VALUE_TYPES: Mapping[Kind, type[np.generic]] = {
    Kind.BOOLEAN: np.int64,
    Kind.INTEGER: np.int64,
    Kind.FLOAT: np.float64,
    Kind.STRING: np.int32,
    Kind.BYTES: np.int32,
    Kind.TIME: np.int64,
    Kind.DURATION: np.int64,
}
"""The dtype of a column's values."""

PARTITION_BITS = 20
"""``source = topic_index << 20 | partition``: sorting by source is sorting by (topic's number, partition). Kafka allows far fewer partitions."""


def source_number(topic_index: int, partition: int) -> int:
    """The number of a topic partition; ``topic_index`` is the topic's number (`app.events.topics`).

    >>> source_number(1, 3) == (1 << 20) + 3
    True
    """
    return topic_index << PARTITION_BITS | partition


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """The distinct byte strings that a column's codes stand for. Entries may repeat (after batches were joined).

    Attributes:
        data: uint8 (bytes,), all entries after each other (UTF-8 for strings).
        offsets: int64 (entries + 1,), entry ``k`` is ``data[offsets[k]:offsets[k + 1]]``.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def entry(self, code: int) -> bytes:
        """The bytes of one entry."""
        return self.data[self.offsets[code] : self.offsets[code + 1]].tobytes()

    def entries(self) -> list[bytes]:
        """All entries; one Python object each, so for dictionaries, never for events."""
        data, bounds = self.data.tobytes(), self.offsets.tolist()
        return [data[start:end] for start, end in pairwise(bounds)]

    @staticmethod
    def of(entries: Sequence[bytes]) -> Dictionary:
        """A dictionary of the given byte strings.

        >>> Dictionary.of([b"a", b"bc"]).entry(1)
        b'bc'
        """
        offsets = np.zeros(len(entries) + 1, dtype=np.int64)
        np.cumsum([len(e) for e in entries], out=offsets[1:])
        return Dictionary(np.frombuffer(b"".join(entries), dtype=np.uint8), offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One attribute of all events of a batch.

    Attributes:
        values: (events,) int64 (boolean, integer, time), float64 (float) or int32 codes (string, bytes). Undefined where the state is not PRESENT.
        state: uint8 (events,) of PRESENT, NULL, ABSENT; None means that all are present.
        dictionary: for string and bytes.
    """

    kind: Kind
    values: NDArray[np.generic]
    state: NDArray[np.uint8] | None = None
    dictionary: Dictionary | None = None


OFFSET_BITS, NEAR_BITS = 40, 14
"""Of the number that stands for an event's place, those of the offset and of the partition; the topic has the other ten."""


def place_numbers(source: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where events stand as one number each, int64 (events,): for looking them up. Different ones are different for 1,024 topics of 16,384 partitions each.

    Args:
        source: int64 (events,), see `source_number`.
        offset: int64 (events,), less than 2**40.

    >>> bool(place_numbers(np.array([source_number(3, 1)]), np.array([7])) == place_numbers(np.array([source_number(19, 1)]), np.array([7])))
    False
    """
    topic, partition = source >> PARTITION_BITS, source & ((1 << PARTITION_BITS) - 1)
    return (topic << (OFFSET_BITS + NEAR_BITS)) | (partition << OFFSET_BITS) | offset


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Events of one stream (or of the streams of one query group), columnar.

    Attributes:
        time: int64 (events,), milliseconds since the epoch.
        source: int64 (events,), see `source_number`; 0 for files.
        offset: int64 (events,), Kafka offset, or the line number of a file.
        type: string column of event type names; always present.
        columns: by attribute name.
    """

    time: NDArray[np.int64]
    source: NDArray[np.int64]
    offset: NDArray[np.int64]
    type: Column
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.time)

    def total_order(self) -> NDArray[np.intp]:
        """Row numbers sorted by (time, source, offset): the total order of queries/README.md, *Time and order*."""
        return np.lexsort((self.offset, self.source, self.time))


def first_of_each(batch: EventBatch, order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Bool (events,): in an order that puts an event that came twice beside itself, whether it is there for the first time."""
    source, offset = batch.source[order], batch.offset[order]
    return np.concatenate([[True], (source[1:] != source[:-1]) | (offset[1:] != offset[:-1])])[: len(order)]


def take(batch: EventBatch, rows: NDArray[np.integer]) -> EventBatch:
    """The given rows of a batch, in the given order; dictionaries are shared, not copied.

    Args:
        batch: any batch.
        rows: integers (rows,), each in 0..events-1; rows may repeat.

    >>> b = events_of_types(["A", "B"], time=[5, 6])
    >>> take(b, np.array([1])).time.tolist()
    [6]
    """
    return EventBatch(
        time=batch.time[rows],
        source=batch.source[rows],
        offset=batch.offset[rows],
        type=_take_column(batch.type, rows),
        columns={name: _take_column(column, rows) for name, column in batch.columns.items()},
    )


def _take_column(column: Column, rows: NDArray[np.integer]) -> Column:
    state = None if column.state is None else column.state[rows]
    if state is not None and not state.any():
        state = None
    return Column(column.kind, column.values[rows], state, column.dictionary)


def with_columns(batch: EventBatch, names: Iterable[str]) -> EventBatch:
    """The batch with these columns only, in this order; names that it does not have are left out. Nothing is copied."""
    kept = {name: batch.columns[name] for name in names if name in batch.columns}
    return EventBatch(batch.time, batch.source, batch.offset, batch.type, kept)


def in_total_order(batch: EventBatch) -> EventBatch:
    """The batch sorted by (time, source, offset); the very same batch if it is sorted already."""
    if is_in_total_order(batch):
        return batch
    return take(batch, batch.total_order())


def is_in_total_order(batch: EventBatch) -> bool:
    """Whether no event stands before one that is less in (time, source, offset)."""
    time, source, offset = batch.time, batch.source, batch.offset
    tied = time[1:] == time[:-1]
    ahead = (source[1:] > source[:-1]) | ((source[1:] == source[:-1]) & (offset[1:] >= offset[:-1]))
    return bool(np.all((time[1:] > time[:-1]) | (tied & ahead)))


def concatenate(batches: Sequence[EventBatch]) -> EventBatch:
    """The events of all batches after each other, in the order given.

    Columns are united by name; where a batch lacks one, its cells are ABSENT. Dictionaries are joined, not deduplicated
    (one that several batches share is taken once). Integer and float columns of one name become float.

    Raises:
        ValueError: columns of one name have kinds that do not go together (a programming error: schemas are checked before).

    >>> b = concatenate([events_of_types(["A"], time=[5]), events_of_types(["B"], time=[6])])
    >>> [b.type.dictionary.entry(c) for c in b.type.values.tolist()]
    [b'A', b'B']
    """
    if not batches:
        return empty_batch()
    if len(batches) == 1:
        return batches[0]
    sizes = [len(batch) for batch in batches]
    names = dict.fromkeys(name for batch in batches for name in batch.columns)
    return EventBatch(
        time=np.concatenate([batch.time for batch in batches]),
        source=np.concatenate([batch.source for batch in batches]),
        offset=np.concatenate([batch.offset for batch in batches]),
        type=_concatenate_columns([batch.type for batch in batches], sizes),
        columns={name: _concatenate_columns([batch.columns.get(name) for batch in batches], sizes) for name in names},
    )


def concatenate_streams(batches: Sequence[EventBatch]) -> EventBatch:
    """As `concatenate`, of events of several streams: a column that is of one kind in one of them and of another in the next is left out, since no query over both may speak of it.

    >>> whole, text = Column(Kind.INTEGER, np.array([5])), Column(Kind.STRING, np.array([0]), None, Dictionary.of([b"x"]))
    >>> parts = [events_of_types(["A"], [1], {"id": whole, "code": column}) for column in (whole, text)]
    >>> list(concatenate_streams(parts).columns)
    ['id']
    """
    kinds: dict[str, set[Kind]] = {}
    for batch in batches:
        for name, column in batch.columns.items():
            kinds.setdefault(name, set()).add(column.kind)
    shared = [name for name, own in kinds.items() if len(own) == 1 or own in JOINED_AS_FLOATS]
    return concatenate(batches if len(shared) == len(kinds) else [with_columns(batch, shared) for batch in batches])


def empty_batch() -> EventBatch:
    """A batch without events and columns."""
    none = np.zeros(0, dtype=np.int64)
    return EventBatch(none, none, none, Column(Kind.STRING, np.zeros(0, dtype=np.int32), None, Dictionary.of([])), {})


def events_of_types(types: Sequence[str], time: Sequence[int], columns: Mapping[str, Column] | None = None) -> EventBatch:
    """A batch from lists, for tests and examples: source 0, offsets counted from 0."""
    names = list(dict.fromkeys(types))
    codes = np.array([names.index(name) for name in types], dtype=np.int32)
    return EventBatch(
        time=np.array(time, dtype=np.int64),
        source=np.zeros(len(types), dtype=np.int64),
        offset=np.arange(len(types), dtype=np.int64),
        type=Column(Kind.STRING, codes, None, Dictionary.of([name.encode() for name in names])),
        columns=columns or {},
    )


def _concatenate_columns(columns: Sequence[Column | None], sizes: Sequence[int]) -> Column:
    kind = _common_kind([column.kind for column in columns if column is not None])
    state = _concatenate_states(columns, sizes)
    if kind.textual:
        return _concatenate_texts(kind, columns, sizes, state)
    dtype = VALUE_TYPES[kind]
    parts = [
        np.zeros(size, dtype=dtype) if column is None else column.values.astype(dtype, copy=False)
        for column, size in zip(columns, sizes, strict=True)
    ]
    return Column(kind, np.concatenate(parts), state)


JOINED_AS_FLOATS = ({Kind.INTEGER, Kind.FLOAT}, {Kind.DURATION, Kind.FLOAT}, {Kind.TIME, Kind.FLOAT})
"""Arithmetic with times and durations gives whole milliseconds, or floats where one of them is none: in one piece so, in the next one so."""


def _common_kind(kinds: Sequence[Kind]) -> Kind:
    distinct = set(kinds)
    if len(distinct) == 1:
        return kinds[0]
    if distinct in JOINED_AS_FLOATS:
        return Kind.FLOAT
    raise ValueError(f"columns of kinds {sorted(distinct)} cannot be joined")


def _concatenate_states(columns: Sequence[Column | None], sizes: Sequence[int]) -> NDArray[np.uint8] | None:
    if all(column is not None and column.state is None for column in columns):
        return None
    parts = []
    for column, size in zip(columns, sizes, strict=True):
        if column is None:
            parts.append(np.full(size, ABSENT, dtype=np.uint8))
        else:
            parts.append(np.zeros(size, dtype=np.uint8) if column.state is None else column.state)
    state = np.concatenate(parts)
    return state if state.any() else None


def _concatenate_texts(kind: Kind, columns: Sequence[Column | None], sizes: Sequence[int], state: NDArray[np.uint8] | None) -> Column:
    """Joins codes and dictionaries; each distinct dictionary object is appended once and codes move by its place."""
    first_code: dict[int, int] = {}
    joined: list[Dictionary] = []
    total = 0
    parts = []
    for column, size in zip(columns, sizes, strict=True):
        if column is None or column.dictionary is None:
            parts.append(np.zeros(size, dtype=np.int32))
            continue
        known = first_code.get(id(column.dictionary))
        if known is None:
            known = first_code[id(column.dictionary)] = total
            joined.append(column.dictionary)
            total += len(column.dictionary)
        parts.append((column.values + known).astype(np.int32) if known else column.values.astype(np.int32, copy=False))
    return Column(kind, np.concatenate(parts), state, _join_dictionaries(joined))


def _join_dictionaries(dictionaries: Sequence[Dictionary]) -> Dictionary:
    if len(dictionaries) == 1:
        return dictionaries[0]
    offsets = [np.zeros(1, dtype=np.int64)]
    start = 0
    for dictionary in dictionaries:
        offsets.append(dictionary.offsets[1:] - dictionary.offsets[0] + start)
        start += int(dictionary.offsets[-1] - dictionary.offsets[0])
    data = [d.data[d.offsets[0] : d.offsets[-1]] for d in dictionaries]
    return Dictionary(np.concatenate([*data, np.zeros(0, dtype=np.uint8)]), np.concatenate(offsets))
