"""What every generator returns: events as columns in order of arrival, and what is true of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.events.batch import ABSENT, NULL, PRESENT, VALUE_TYPES, Column, Dictionary, EventBatch
from app.events.types import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A string column: int32 codes (events,) into its distinct entries."""

    codes: NDArray[np.int32]
    entries: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Nothing:
    """A column of nulls: an attribute that the schema has and the generator leaves empty."""

    kind: Kind


Cells = NDArray[np.generic] | Text | Nothing


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Events of one type.

    Attributes:
        time: int64 (events,), milliseconds since the epoch.
        columns: by attribute; int64, float64 or bool arrays (events,), `Text`, or `Nothing`. All attributes of the type's schema.
        nulls: by attribute, bool (events,): where a column is null.
    """

    event_type: str
    time: NDArray[np.int64]
    columns: Mapping[str, Cells]
    nulls: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Truth:
    """What a query has to find.

    Attributes:
        fields: return fields that identify a finding.
        expected: their values, one tuple per finding.
    """

    fields: tuple[str, ...]
    expected: frozenset[tuple[object, ...]]

    def score(self, found: Iterable[Mapping[str, object]]) -> tuple[float, float]:
        """Precision and recall of composite events (their return fields); 1 where there is nothing to divide by.

        >>> Truth(("tag_id",), frozenset({("A",), ("B",)})).score([{"tag_id": "A"}, {"tag_id": "C"}])
        (0.5, 0.5)
        """
        findings = {tuple(fields[name] for name in self.fields) for fields in found}
        right = len(findings & self.expected)
        return (right / len(findings) if findings else 1.0, right / len(self.expected) if self.expected else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedStream:
    """A generated stream.

    Attributes:
        stream: its name in the shipped settings, what queries write in ``from``.
        batches: events in order of arrival; ``source`` 0, ``offset`` counts through all batches.
        truth: by query name.
    """

    stream: str
    batches: tuple[EventBatch, ...]
    truth: Mapping[str, Truth]


def stream_of(stream: str, tables: Sequence[Table], truth: Mapping[str, Truth], limit: int, batch_rows: int) -> GeneratedStream:
    """Puts tables together, in order of time; of equal times the earlier table and row comes first. Keeps the first ``limit`` events."""
    time = np.concatenate([table.time for table in tables])
    order = np.argsort(time, kind="stable")[:limit]
    types = np.repeat(np.arange(len(tables), dtype=np.int32), [len(table.time) for table in tables])
    names = list(dict.fromkeys(name for table in tables for name in table.columns))
    batch = EventBatch(
        time=time[order],
        source=np.zeros(len(order), dtype=np.int64),
        offset=np.arange(len(order), dtype=np.int64),
        type=Column(Kind.STRING, types[order], None, Dictionary.of([table.event_type.encode() for table in tables])),
        columns={name: _joined(name, tables, order) for name in names},
    )
    return GeneratedStream(stream, tuple(slices(batch, batch_rows)), truth)


def slices(batch: EventBatch, rows: int) -> Iterator[EventBatch]:
    """The batch in pieces of so many rows (the last may be shorter); arrays are views."""
    for start in range(0, len(batch), rows):
        part = slice(start, start + rows)
        yield EventBatch(
            time=batch.time[part],
            source=batch.source[part],
            offset=batch.offset[part],
            type=_cut(batch.type, part),
            columns={name: _cut(column, part) for name, column in batch.columns.items()},
        )


def _cut(column: Column, part: slice) -> Column:
    return replace(column, values=column.values[part], state=None if column.state is None else column.state[part])


def _joined(name: str, tables: Sequence[Table], order: NDArray[np.intp]) -> Column:
    parts = [table.columns.get(name) for table in tables]
    known = [part for part in parts if part is not None]
    kind, dictionary = _kind(next((part for part in known if not isinstance(part, Nothing)), known[0]))
    sizes = [len(table.time) for table in tables]
    state = np.concatenate([_state(name, table) for table in tables])[order]
    arrays = [_array(part, size, VALUE_TYPES[kind]) for part, size in zip(parts, sizes, strict=True)]
    return Column(kind, np.concatenate(arrays)[order], state if state.any() else None, dictionary)


def _state(name: str, table: Table) -> NDArray[np.uint8]:
    cells = table.columns.get(name)
    whole = ABSENT if cells is None else NULL if isinstance(cells, Nothing) else PRESENT
    state = np.full(len(table.time), whole, dtype=np.uint8)
    if name in table.nulls:
        state[table.nulls[name]] = NULL
    return state


def _kind(cells: Cells) -> tuple[Kind, Dictionary | None]:
    if isinstance(cells, Nothing):
        return cells.kind, Dictionary.of([]) if cells.kind.textual else None
    if isinstance(cells, Text):
        return Kind.STRING, Dictionary.of(cells.entries)
    return {"f": Kind.FLOAT, "b": Kind.BOOLEAN}.get(cells.dtype.kind, Kind.INTEGER), None


def _array(cells: Cells | None, size: int, dtype: type[np.generic]) -> NDArray[np.generic]:
    """Values for a joined column; `Text` of all tables of a stream share their entries."""
    if isinstance(cells, Nothing | None):
        return np.zeros(size, dtype=dtype)
    return (cells.codes if isinstance(cells, Text) else cells).astype(dtype)
