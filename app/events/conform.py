"""Events of a file → events of a configured stream: its types, its attributes, its kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.events.batch import ABSENT, NULL, PRESENT, VALUE_TYPES, Column, Dictionary, EventBatch, take
from app.events.rows import BadValueError, converted
from app.events.types import Attribute, Kind, StreamSchema
from app.similar import closest


@dataclass(frozen=True, slots=True, eq=False)
class Conformed:
    """Events as a stream's schema has them.

    Attributes:
        batch: the events whose type is one of the stream's, in the order given.
        rows: int64 (events,), where each stood in the input.
        bad: input row → why it cannot be an event of the stream. Events of types that the stream does not have are not bad, only not its.
    """

    batch: EventBatch
    rows: NDArray[np.int64]
    bad: Mapping[int, str]


NOTHING: Mapping[str, frozenset[str]] = MappingProxyType({})


def conformed(batch: EventBatch, schema: StreamSchema, required: Mapping[str, frozenset[str]] = NOTHING) -> Conformed:
    """Converts the columns of events whose kinds came from the data.

    Integers become floats or times (milliseconds), ISO-8601 texts times, whole floats integers, numbers texts, as the schema asks. What is
    missing is NULL where the type has the attribute and ABSENT where it does not.

    Args:
        batch: in file order.
        schema: of the stream.
        required: by event type (with a type attribute: by the name of the one that the schema has), attributes without which an event is bad.
    """
    bad: dict[int, str] = {}
    batch, rows = _typed(batch, schema, bad)
    owners = {name: _owned(batch, schema, name) for name in (attribute.name for attribute in schema.columns())}
    columns = {attribute.name: _column(batch, attribute, owners[attribute.name], rows, bad) for attribute in schema.columns()}
    whole = EventBatch(batch.time, batch.source, batch.offset, batch.type, columns)
    for row, message in _missing(batch, whole, schema, required).items():
        bad.setdefault(int(rows[row]), message)
    if bad:
        keep = np.flatnonzero(~np.isin(rows, list(bad)))
        whole, rows = take(whole, keep), rows[keep]
    return Conformed(whole, rows, bad)


def _typed(batch: EventBatch, schema: StreamSchema, bad: dict[int, str]) -> tuple[EventBatch, NDArray[np.int64]]:
    """Only the events whose type is one of the stream's, with the type where the stream has it from."""
    everything = np.arange(len(batch), dtype=np.int64)
    if schema.type_attribute is None:
        names = batch.type.dictionary.entries() if batch.type.dictionary is not None else []
        known = np.array([schema.event_type(name.decode()) is not None for name in names], dtype=bool)
        rows = everything[known[batch.type.values]] if len(batch) else everything
        return (batch if len(rows) == len(batch) else take(batch, rows)), rows
    column = batch.columns.get(schema.type_attribute)
    if column is None:
        return take(batch, everything[:0]), everything[:0]
    state = np.zeros(len(batch), dtype=np.uint8) if column.state is None else column.state
    bad.update(dict.fromkeys(np.flatnonzero(state == NULL).tolist(), f'no "{schema.type_attribute}", which is the type'))
    rows = np.flatnonzero(state == PRESENT)
    taken = take(batch, rows)
    kind = _converted(taken.columns[schema.type_attribute], Kind.STRING, np.ones(len(rows), dtype=bool), {})
    return EventBatch(taken.time, taken.source, taken.offset, kind, taken.columns), rows


def _owned(batch: EventBatch, schema: StreamSchema, name: str) -> NDArray[np.bool_]:
    """Which events are of a type that has the attribute."""
    if schema.type_attribute is not None or batch.type.dictionary is None:
        return np.ones(len(batch), dtype=bool)
    owns = []
    for entry in batch.type.dictionary.entries():
        event_type = schema.event_type(entry.decode())
        owns.append(event_type is not None and event_type.attribute(name) is not None)
    return np.array(owns, dtype=bool)[batch.type.values]


def _column(batch: EventBatch, attribute: Attribute, owned: NDArray[np.bool_], rows: NDArray[np.int64], bad: dict[int, str]) -> Column:
    column = batch.columns.get(attribute.name)
    if column is None:
        values = np.zeros(len(batch), dtype=VALUE_TYPES[attribute.kind])
        state = np.where(owned, NULL, ABSENT).astype(np.uint8)
        return Column(attribute.kind, values, state if len(state) else None, Dictionary.of([b""]) if attribute.kind.textual else None)
    present = owned if column.state is None else owned & (column.state == PRESENT)
    wrong: dict[int, str] = {}
    found = _converted(column, attribute.kind, present, wrong)
    for row, message in wrong.items():
        bad.setdefault(int(rows[row]), f'attribute "{attribute.name}": {message}')
    state = np.where(present, PRESENT, np.where(owned, NULL, ABSENT)).astype(np.uint8)
    return Column(attribute.kind, found.values, state if state.any() else None, found.dictionary)


def _missing(given: EventBatch, whole: EventBatch, schema: StreamSchema, required: Mapping[str, frozenset[str]]) -> dict[int, str]:
    """Events without a value that they must have, and what is missing; attributes that the schema does not know may be meant."""
    found: dict[int, str] = {}
    others = [name for name in given.columns if name not in whole.columns]
    for owner, names in sorted(required.items()):
        own = np.ones(len(whole), dtype=bool) if schema.type_attribute is not None else _is_type(whole, owner)
        for name in sorted(names & set(whole.columns)):
            state = whole.columns[name].state
            rows = np.flatnonzero(own & (state == NULL)) if state is not None else np.zeros(0, dtype=np.int64)
            near = closest(name, (other for other in others if _has_any(given.columns[other], rows))) if len(rows) else None
            hint = f'; did you mean "{near}"?' if near else ""
            for row in rows.tolist():
                found.setdefault(row, f'no "{name}", which every {owner} has{hint}')
    return found


def _is_type(batch: EventBatch, name: str) -> NDArray[np.bool_]:
    entries = [] if batch.type.dictionary is None else batch.type.dictionary.entries()
    return np.array([entry == name.encode() for entry in entries], dtype=bool)[batch.type.values] if entries else np.zeros(len(batch), bool)


def _has_any(column: Column, rows: NDArray[np.int64]) -> bool:
    return column.state is None or bool((column.state[rows] == PRESENT).any())


def as_kind(column: Column, kind: Kind) -> Column:
    """A column as one of another kind; cells that cannot be are empty."""
    present = np.ones(len(column.values), dtype=bool) if column.state is None else column.state == PRESENT
    return _converted(column, kind, present, {})


def _converted(column: Column, kind: Kind, present: NDArray[np.bool_], wrong: dict[int, str]) -> Column:
    """The column's present cells as another kind; distinct values are converted once each."""
    if column.kind is kind:
        return column
    if column.kind is Kind.INTEGER and kind in (Kind.FLOAT, Kind.TIME):
        return Column(kind, column.values.astype(VALUE_TYPES[kind]), column.state)
    values = np.zeros(len(column.values), dtype=VALUE_TYPES[kind])
    rows = np.flatnonzero(present)
    distinct, places = np.unique(column.values[rows], return_inverse=True)
    cells: list[Any] = []
    for k, value in enumerate(distinct.tolist()):
        try:
            cells.append(converted(_as_python(column, value), kind))
        except (BadValueError, OverflowError, ValueError) as error:
            cells.append(b"" if kind.textual else 0)
            wrong.update(dict.fromkeys(rows[places == k].tolist(), str(error)))
    if kind.textual:
        values[rows] = places
        return Column(kind, values, column.state, Dictionary.of(cells or [b""]))
    values[rows] = np.array(cells, dtype=VALUE_TYPES[kind])[places] if cells else 0
    return Column(kind, values, column.state)


def _as_python(column: Column, value: Any) -> Any:
    if column.kind.textual and column.dictionary is not None:
        entry = column.dictionary.entry(value)
        return entry.decode() if column.kind is Kind.STRING else entry
    return bool(value) if column.kind is Kind.BOOLEAN else value
