"""Composite events: the stable identity of a match, and matches as rows and as the JSON objects of `cep replay`.

**Identity.** The first 128 bits of SHA-256 over query name, version, window number and, in total order, (variable, topic, partition,
offset) of the bound events, as hexadecimal text; of a partial match that timed out also the word ``timeout``, so that it is told from a
match of the same events. It depends on the input alone: batching, restarts and the number of buckets do not show. The place of an event of a topic that
was deleted and created again says so (``topic#2``), or identities would be repeated with the offsets.

**Window numbers.** Those of time and count windows are numbers; that of a window which an event opened is the event's place,
``topic/partition/offset`` (in `cep replay`, its line).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.cep.matches import Lists, Matches
from app.events.batch import PARTITION_BITS, PRESENT, Column
from app.events.topics import topic_and_incarnation, topic_label
from app.events.types import Kind
from app.query.plan import QUERY_STREAM, Plan

_SEPARATOR = "\x1f"

COMPOSITES = 1 << 44
"""The source of composite events that other queries read: behind all topic partitions, so that at equal times raw events come first."""
PLACE_DIGITS = 15
"""Of the hexadecimal digits of a composite event's id so many are its offset where it is read as an event: 60 bit."""

Outcome = Literal["match", "timeout"]
"""What became of a partial match: it was completed, or it ran out of its window."""
Window = int | str | None


@dataclass(frozen=True, slots=True)
class Constituent:
    """An event that a match bound."""

    variable: str | None
    type: str
    topic: str
    partition: int
    offset: int
    time: int
    incarnation: int = 1
    """How often the topic had been created."""

    @property
    def label(self) -> str:
        """The topic as identities know it."""
        return topic_label(self.topic, self.incarnation)


@dataclass(frozen=True, slots=True)
class CompositeEvent:
    """What a query emits, ready to be encoded.

    Attributes:
        time: match time, ms; of a timeout the end of its window.
        window: number of the explicit window, the place of the event that opened it, or None without one.
        key: of the record: the ``output.key`` field's text, else the partition key, else None.
        partition_key: values of the equivalence attributes as text, None without any.
        fields: by return field.
        events: in total order.
        kind: whether it is a match or a partial match that timed out.
        missing: of a timeout, what is not bound: variables, and of anonymous items their types.
    """

    id: str
    query: str
    version: int
    time: int
    window: Window
    key: str | None
    partition_key: str | None
    fields: dict[str, Any]
    events: tuple[Constituent, ...]
    kind: Outcome = "match"
    missing: tuple[str, ...] = ()


def composite_events(plan: Plan, matches: Matches, topics: Sequence[str], kind: Outcome = "match") -> Iterator[CompositeEvent]:
    """The matches of a query as composite events, in their order.

    Args:
        plan: of the query.
        matches: what its engine found.
        topics: by number (`app.events.topics`).
        kind: what became of them.
    """
    topics = named_topics(plan, topics)
    constituents = matches.constituents([item.index for item in plan.positive])
    starts = constituents.starts.tolist()
    everything = _bound_events(plan, matches, constituents.items, constituents.rows, topics)
    windows = _windows(plan, matches, topics)
    names = [field.name for field in plan.returns]
    kinds = {field.name: field.kind for field in plan.returns}
    fields = [field_values(matches.fields[name], kinds[name]) for name in names]
    keys = [plain_values(column) for column in matches.key.values()]
    for k, time in enumerate(matches.time.tolist()):
        returned = {name: column[k] for name, column in zip(names, fields, strict=True)}
        partition_key = key_text([column[k] for column in keys]) if keys else None
        chosen = returned[plan.output.key] if plan.output.key else None
        record_key = key_text([chosen]) if chosen is not None else partition_key
        own = slice(starts[k], starts[k + 1])
        events = tuple(everything[own])
        missing = _missing(plan, constituents.items[own].tolist()) if kind == "timeout" else ()
        identity = match_identity(plan, windows[k], events, kind)
        yield CompositeEvent(
            identity, plan.name, plan.version, time, windows[k], record_key, partition_key, returned, events, kind, missing
        )


def match_identity(plan: Plan, window: Window, events: Sequence[Constituent], kind: Outcome = "match") -> str:
    """The identity of a match: 32 hexadecimal digits."""
    parts = [plan.name, str(plan.version), "" if window is None else str(window)]
    for event in events:
        # a blank cannot be part of a variable: an anonymous item is told from any name
        parts += [" " if event.variable is None else event.variable, event.label, str(event.partition), str(event.offset)]
    if kind == "timeout":
        parts.append(kind)
    return sha256(_SEPARATOR.join(parts).encode()).hexdigest()[:32]


def named_topics(plan: Plan, topics: Sequence[str]) -> Sequence[str]:
    """The topics by number; without any (files without positions), the query's stream stands for the topic."""
    return topics or [stream for stream in plan.streams if not stream.startswith(QUERY_STREAM)][:1]


def place_of(identity: str) -> int:
    """The offset that a composite event has where it is read as an event.

    >>> place_of("00000000000000a9f3d6a1d9b0e2c480")
    10
    """
    return int(identity[:PLACE_DIGITS], 16)


def opener_windows(plan: Plan) -> bool:
    """Whether events open the plan's windows: `Matches.windows` are then places in its events."""
    return plan.runs is not None and plan.runs.window is not None and plan.runs.window.slide is None


def _windows(plan: Plan, matches: Matches, topics: Sequence[str]) -> list[Window]:
    """Per match the number of its window."""
    if matches.windows is None:
        return [None] * len(matches)
    if not opener_windows(plan):
        return matches.windows.tolist()
    items = np.full(len(matches), plan.runs.window.opener if plan.runs and plan.runs.window else 0)
    openers = _bound_events(plan, matches, items, matches.windows, topics)
    return [opener_place(opener) for opener in openers]


def opener_place(opener: Constituent) -> str:
    """The number of a window that an event opened.

    >>> opener_place(Constituent(None, "Quote", "quotes", 1, 7, 0))
    'quotes/1/7'
    """
    return f"{opener.label}/{opener.partition}/{opener.offset}"


def _missing(plan: Plan, bound: Sequence[int]) -> tuple[str, ...]:
    """What of the pattern has no event: variables in textual order, of anonymous items their types."""
    there = {plan.items[index].bound_to for index in bound}
    left = [item for item in plan.positive if item.bound_to not in there]
    return tuple(dict.fromkeys(item.variable or " or ".join(item.types) for item in left))


def _bound_events(
    plan: Plan, matches: Matches, items: NDArray[np.int64], rows: NDArray[np.int64], topics: Sequence[str]
) -> list[Constituent]:
    """The constituents of all matches, one after the other."""
    table, variables = matches.events, [item.variable for item in plan.items]
    kinds = plain_values(Column(Kind.STRING, table.type.values[rows], None, table.type.dictionary))
    columns = (items, table.source[rows], table.offset[rows], table.time[rows])
    return [
        Constituent(variables[item], kind, topic, source & ((1 << PARTITION_BITS) - 1), offset, time, incarnation)
        for kind, item, source, offset, time in zip(kinds, *(column.tolist() for column in columns), strict=True)
        for topic, incarnation in (topic_and_incarnation(topic_of(topics, source, kind)),)
    ]


def topic_of(topics: Sequence[str], source: int, event_type: str) -> str:
    """The topic of an event as identities know it; of another query's composite event, the stream of that query, whose name is the event's type."""
    if source == COMPOSITES:
        return QUERY_STREAM + event_type
    index = source >> PARTITION_BITS
    return topics[index] if index < len(topics) else ""


def key_text(values: Sequence[Any]) -> str:
    r"""Key values as one text.

    >>> key_text(["T1"]), key_text([7, 'a,b', True])
    ('T1', '7,a\\,b,true')
    >>> key_text([None])  # of temporal queries
    'null'
    """
    if len(values) == 1:
        return _text(values[0])
    return ",".join(_text(value).replace("\\", "\\\\").replace(",", "\\,") for value in values)


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)


def field_values(field: Column | Lists, kind: Kind | None = None) -> list[Any]:
    """A return field as Python values: as `plain_values`, and lists where it holds them; an empty list is null."""
    if isinstance(field, Column):
        return plain_values(field, kind)
    values = plain_values(field.values, kind)
    return [values[start:stop] or None for start, stop in pairwise(field.starts.tolist())]


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
