"""Between the naive world (dicts) and the application's (arrays): events, schemas, batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.events.batch import ABSENT, NULL, PRESENT, Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from tests.naive.language import Event

KIND = {"integer": Kind.INTEGER, "float": Kind.FLOAT, "string": Kind.STRING, "boolean": Kind.BOOLEAN, "time": Kind.TIME}
DTYPE = {"integer": np.int64, "float": np.float64, "string": np.int32, "boolean": np.int64, "time": np.int64}


def stream_schema(schemas: dict[str, dict[str, str]], stream: str = "input") -> StreamSchema:
    """The application's schema of the naive one; everything is nullable."""
    types = (
        EventType(name, tuple(Attribute(a, KIND[kind], nullable=True) for a, kind in attrs.items())) for name, attrs in schemas.items()
    )
    return StreamSchema(stream, tuple(types))


def event_batch(events: Sequence[Event], schemas: dict[str, dict[str, str]]) -> EventBatch:
    """The events as columns, in the order given."""
    kinds: dict[str, str] = {}
    for name, kind in (pair for attributes in schemas.values() for pair in attributes.items()):
        kinds[name] = kind if kinds.get(name, kind) == kind else "float"
    return EventBatch(
        time=np.array([event["time"] for event in events], dtype=np.int64),
        source=np.array([event["source"] for event in events], dtype=np.int64),
        offset=np.array([event["offset"] for event in events], dtype=np.int64),
        type=_column([event["type"] for event in events], "string"),
        columns={name: _column([e["attributes"].get(name, ...) for e in events], kind) for name, kind in kinds.items()},
    )


def _column(cells: list[object], kind: str) -> Column:
    state = np.array([ABSENT if cell is ... else NULL if cell is None else PRESENT for cell in cells], dtype=np.uint8)
    dictionary = None
    if kind == "string":
        entries = sorted({cell.encode() for cell in cells if isinstance(cell, str)})
        codes = {entry: code for code, entry in enumerate(entries)}
        cells = [codes[cell.encode()] if isinstance(cell, str) else 0 for cell in cells]
        dictionary = Dictionary.of(entries)
    values = np.array([0 if cell is ... or cell is None else cell for cell in cells], dtype=DTYPE[kind])
    return Column(KIND[kind], values, state if state.any() else None, dictionary)


def naive_events(batch: EventBatch) -> list[Event]:
    """The events of a batch as dicts."""
    columns = {name: _cells(column) for name, column in batch.columns.items()}
    return [
        {
            "type": event_type,
            "time": int(batch.time[row]),
            "source": int(batch.source[row]),
            "offset": int(batch.offset[row]),
            "attributes": {name: cells[row] for name, cells in columns.items() if cells[row] is not ...},
        }
        for row, event_type in enumerate(_cells(batch.type))
    ]


def _cells(column: Column) -> list[object]:
    cells = column.values.tolist()
    if column.dictionary is not None:
        entries = [entry.decode() for entry in column.dictionary.entries()] or [""]
        cells = [entries[code] for code in cells]
    if column.kind is Kind.BOOLEAN:
        cells = [bool(cell) for cell in cells]
    state = column.state.tolist() if column.state is not None else [PRESENT] * len(cells)
    return [... if s == ABSENT else None if s == NULL else cell for s, cell in zip(state, cells, strict=True)]
