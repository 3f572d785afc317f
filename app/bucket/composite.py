"""Composite events: the stable identity of a match, and matches as rows and as the JSON objects of `cep replay`.

**Identity.** The first 128 bits of SHA-256 over query name, version, window number and, in total order, (variable, topic, partition,
offset) of the bound events, as hexadecimal text. It depends on the input alone: batching, restarts and the number of buckets do not show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.cep.matches import Matches
from app.events.batch import PARTITION_BITS, PRESENT, Column
from app.events.types import Kind
from app.query.plan import Plan

_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Constituent:
    """An event that a match bound."""

    variable: str | None
    type: str
    topic: str
    partition: int
    offset: int
    time: int


@dataclass(frozen=True, slots=True)
class CompositeEvent:
    """What a query emits, ready to be encoded.

    Attributes:
        time: match time, ms.
        window: number of the explicit window, None without one.
        key: of the record: the ``output.key`` field's text, else the partition key, else None.
        partition_key: values of the equivalence attributes as text, None without any.
        fields: by return field.
        events: in total order.
    """

    id: str
    query: str
    version: int
    time: int
    window: int | None
    key: str | None
    partition_key: str | None
    fields: dict[str, Any]
    events: tuple[Constituent, ...]


def composite_events(plan: Plan, matches: Matches, topics: Sequence[str]) -> Iterator[CompositeEvent]:
    """The matches of a query as composite events, in their order.

    Args:
        plan: of the query.
        matches: what its engine found.
        topics: the application's sorted topics, which ``source`` numbers count along.
    """
    bound = _bound_events(plan, matches, topics)
    names = [field.name for field in plan.returns]
    kinds = {field.name: field.kind for field in plan.returns}
    fields = [plain_values(matches.fields[name], kinds[name]) for name in names]
    keys = [plain_values(column) for column in matches.key.values()]
    for k, time in enumerate(matches.time.tolist()):
        returned = {name: column[k] for name, column in zip(names, fields, strict=True)}
        partition_key = key_text([column[k] for column in keys]) if keys else None
        chosen = returned[plan.output.key] if plan.output.key else None
        record_key = key_text([chosen]) if chosen is not None else partition_key
        events = bound[k]
        identity = match_identity(plan, None, events)
        yield CompositeEvent(identity, plan.name, plan.version, time, None, record_key, partition_key, returned, events)


def match_identity(plan: Plan, window: int | None, events: Sequence[Constituent]) -> str:
    """The identity of a match: 32 hexadecimal digits."""
    parts = [plan.name, str(plan.version), "" if window is None else str(window)]
    for event in events:
        # a blank cannot be part of a variable: an anonymous item is told from any name
        parts += [" " if event.variable is None else event.variable, event.topic, str(event.partition), str(event.offset)]
    return sha256(_SEPARATOR.join(parts).encode()).hexdigest()[:32]


def _bound_events(plan: Plan, matches: Matches, topics: Sequence[str]) -> list[tuple[Constituent, ...]]:
    """Per match its constituents in total order. A sequence of single events is bound in total order already."""
    table, rows = matches.events, matches.rows
    columns: list[list[Constituent]] = []
    for place, item in enumerate(plan.positive):
        own = rows[:, place]
        kinds = plain_values(Column(Kind.STRING, table.type.values[own], None, table.type.dictionary))
        sources, offsets, times = table.source[own].tolist(), table.offset[own].tolist(), table.time[own].tolist()
        columns.append(
            [
                Constituent(item.variable, kind, _topic(topics, source), source & ((1 << PARTITION_BITS) - 1), offset, time)
                for kind, source, offset, time in zip(kinds, sources, offsets, times, strict=True)
            ]
        )
    return list(zip(*columns, strict=True))


def _topic(topics: Sequence[str], source: int) -> str:
    index = source >> PARTITION_BITS
    return topics[index] if index < len(topics) else ""


def key_text(values: Sequence[Any]) -> str:
    r"""Key values as one text.

    >>> key_text(["T1"]), key_text([7, 'a,b', True])
    ('T1', '7,a\\,b,true')
    """
    if len(values) == 1:
        return _text(values[0])
    return ",".join(_text(value).replace("\\", "\\\\").replace(",", "\\,") for value in values)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)


def plain_values(column: Column, kind: Kind | None = None) -> list[Any]:
    """A column as Python values: None where null or absent; times and durations in milliseconds."""
    make = _PLAIN.get(kind or column.kind, _numbers)
    values = make(compacted(column) if column.dictionary is not None else column)
    if column.state is None:
        return values
    return [value if state == PRESENT else None for value, state in zip(values, column.state.tolist(), strict=True)]


def _numbers(column: Column) -> list[Any]:
    return column.values.tolist()


def _milliseconds(column: Column) -> list[Any]:
    """Times and durations are written as whole milliseconds, half away from zero; what is none (NaN, infinity) is null."""
    if column.values.dtype.kind != "f":
        return column.values.tolist()
    return [int(math.copysign(math.floor(abs(value) + 0.5), value)) if math.isfinite(value) else None for value in column.values.tolist()]


def _booleans(column: Column) -> list[Any]:
    return [bool(value) for value in column.values.tolist()]


def _by_code(entries: Sequence[Any], codes: NDArray[np.generic]) -> list[Any]:
    return [entries[code] for code in codes.tolist()] if entries else [None] * len(codes)


def _strings(column: Column) -> list[Any]:
    assert column.dictionary is not None  # noqa: S101 - text columns have one
    return _by_code([entry.decode(errors="replace") for entry in column.dictionary.entries()], column.values)


def _bytes(column: Column) -> list[Any]:
    assert column.dictionary is not None  # noqa: S101 - text columns have one
    return _by_code(column.dictionary.entries(), column.values)


_PLAIN: dict[Kind, Callable[[Column], list[Any]]] = {
    Kind.BOOLEAN: _booleans,
    Kind.STRING: _strings,
    Kind.BYTES: _bytes,
    Kind.TIME: _milliseconds,
    Kind.DURATION: _milliseconds,
}


def json_fields(fields: dict[str, Any]) -> dict[str, Any]:
    r"""Return fields as JSON holds them: NaN and infinity are null, bytes are texts of their code points (as in Avro's JSON).

    >>> json_fields({"x": float("nan"), "b": b"\xff"})
    {'x': None, 'b': 'ÿ'}
    """
    return {name: _json_value(value) for name, value in fields.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [_json_value(element) for element in value] if isinstance(value, list) else value
