"""Events → JSON lines as `cep replay` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import orjson

from app.events.batch import ABSENT, PARTITION_BITS, PRESENT, Column, EventBatch
from app.events.rows import NAMED_FLOATS
from app.events.types import Kind


def json_lines(batches: Iterable[EventBatch], stream: str | None = None, topics: Sequence[str] | None = None) -> Iterator[bytes]:
    """One line per event, in the order of the batches; nulls are written, absent attributes are not, and floats that are no numbers to JSON are texts.

    Args:
        batches: events; no attribute is called ``type``, ``time``, ``stream`` or, with ``topics``, ``position``: these keys say something else.
        stream: value of the key ``stream`` of every line; without it lines belong to every stream.
        topics: those that the events' sources count along: every line then says where its event stood, as ``position``.
    """
    for batch in batches:
        head = {"stream": stream} if stream else {}
        names = ["time", *batch.columns]
        columns: list[list[object]] = [batch.time.tolist(), *map(_values, batch.columns.values())]
        if topics is not None:
            names.append("position")
            columns.append(_places(batch, topics))
        for event_type, *row in zip(_values(batch.type), *columns, strict=True):
            cells = {name: value for name, value in zip(names, row, strict=True) if value is not ABSENT_CELL}
            yield orjson.dumps({"type": event_type, **cells, **head}) + b"\n"


ABSENT_CELL = object()
NAMES_OF_FLOATS = {str(value): name for name, value in NAMED_FLOATS.items()}


def _places(batch: EventBatch, topics: Sequence[str]) -> list[object]:
    numbers, partitions = batch.source >> PARTITION_BITS, batch.source & ((1 << PARTITION_BITS) - 1)
    return [[topics[k], *place] for k, *place in zip(numbers.tolist(), partitions.tolist(), batch.offset.tolist(), strict=True)]


def _values(column: Column) -> list[object]:
    values: list[object]
    if column.dictionary is not None:
        encoding = "latin-1" if column.kind is Kind.BYTES else "utf-8"  # bytes are texts of their code points, as in Avro's JSON
        entries = [entry.decode(encoding, errors="replace") for entry in column.dictionary.entries()] or [""]
        values = [entries[code] for code in column.values.tolist()]
    elif column.kind is Kind.BOOLEAN:
        values = [bool(value) for value in column.values.tolist()]
    else:
        values = column.values.tolist()
    if column.kind is Kind.FLOAT:
        for row in np.flatnonzero(~np.isfinite(column.values)).tolist():
            values[row] = NAMES_OF_FLOATS[str(values[row])]
    if column.state is None:
        return values
    states = column.state.tolist()
    return [v if s == PRESENT else ABSENT_CELL if s == ABSENT else None for v, s in zip(values, states, strict=True)]
