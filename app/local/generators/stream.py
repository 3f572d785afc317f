"""What every generator returns: events as columns in order of arrival, and what is true of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.events.batch import ABSENT, PRESENT, Column, Dictionary, EventBatch
from app.events.types import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A string column: int32 codes (events,) into its distinct entries."""

    codes: NDArray[np.int32]
    entries: Sequence[bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Events of one type.

    Attributes:
        time: int64 (events,), milliseconds since the epoch.
        columns: by attribute; int64, float64 or bool arrays (events,), or `Text`.
    """

    event_type: str
    time: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.generic] | Text]


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
    state = np.concatenate([np.full(len(t.time), PRESENT if name in t.columns else ABSENT, dtype=np.uint8) for t in tables])[order]
    parts = [table.columns.get(name) for table in tables]
    known = next(part for part in parts if part is not None)
    dictionary = None
    if isinstance(known, Text):
        kind = Kind.STRING
        dictionary = Dictionary.of(known.entries)
        if any(isinstance(part, Text) and part.entries is not known.entries for part in parts):
            raise ValueError(f"column {name}: all tables must share one list of entries")
        arrays = [part.codes if isinstance(part, Text) else np.zeros(len(t.time), np.int32) for part, t in zip(parts, tables, strict=True)]
    else:
        kind = Kind.FLOAT if known.dtype.kind == "f" else Kind.BOOLEAN if known.dtype.kind == "b" else Kind.INTEGER
        dtype = np.float64 if kind is Kind.FLOAT else np.int64
        arrays = [np.zeros(len(t.time), dtype) if part is None or isinstance(part, Text) else part.astype(dtype) for part, t in zip(parts, tables, strict=True)]
    return Column(kind, np.concatenate(arrays)[order], state if state.any() else None, dictionary)
