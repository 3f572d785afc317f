"""Composite events match by match and object by object, from the definition: the twin of `app.bucket.identity` and `app.owners.composites`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.identity import Outcome, opener_windows
from app.bucket.places import COMPOSITES, named_topics
from app.bucket.values import field_values, key_text, plain_values
from app.cep.matches import Matches
from app.delivery.composite_schema import field_name
from app.events.batch import PARTITION_BITS, Column
from app.events.topics import topic_and_incarnation, topic_label
from app.events.types import Kind
from app.owners.deployment import OutputTopic
from app.owners.egress import Headers, Records, encode
from app.query.plan import QUERY_STREAM, Plan

_SEPARATOR = "\x1f"

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


def _encode_composite(output: OutputTopic, value: dict[str, Any]) -> bytes:
    """As `encode`; whole numbers that left 64 bit, which Avro's long cannot hold, become null. That is rare, so it costs nothing before it happens."""
    try:
        return encode(output, value)
    except (ValueError, OverflowError):
        whole = _whole_numbers(output.schema)
        fields = {name: _as_longs(content) if name in whole else content for name, content in value["fields"].items()}
        return encode(output, {**value, "fields": fields})


def _whole_numbers(schema: str) -> frozenset[str]:
    """The returned fields that are longs, or lists of them."""
    (fields,) = (field["type"] for field in json.loads(schema)["fields"] if field["name"] == "fields")
    kinds = {field["name"]: _plain_type(field["type"][-1]) for field in fields["fields"]}
    return frozenset(name for name, kind in kinds.items() if kind == "long")


def _plain_type(kind: Any) -> Any:
    """The name of a type, of a list that of its elements."""
    if isinstance(kind, dict):
        return _plain_type(kind["items"][-1]) if kind["type"] == "array" else kind["type"]
    return kind


def _as_longs(value: Any) -> Any:
    return [_as_long(element) for element in value] if isinstance(value, list) else _as_long(value)


def _as_long(value: Any) -> int | None:
    """A whole number of 64 bit, or None. In a feed where one value left 64 bit the engine has floats for all of them."""
    if value is None or not math.isfinite(value):
        return None
    whole = round(value)
    return whole if -(1 << 63) <= whole < 1 << 63 else None


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def add_objects(records: Records, events: Iterable[CompositeEvent], output: OutputTopic, application: str, detected_at_ms: int) -> None:
    """What `app.owners.composites.add_composite_events` adds, object by object."""
    for event in events:
        value = _encode_composite(
            output,
            {
                "id": event.id,
                "query": event.query,
                "version": event.version,
                "time": event.time,
                "detected_at": detected_at_ms,
                "window": event.window,
                "partition_key": event.partition_key,
                "fields": {field_name(name): content for name, content in event.fields.items()},
                "events": [
                    {
                        "variable": c.variable,
                        "type": c.type,
                        "topic": c.topic,
                        "partition": c.partition,
                        "offset": c.offset,
                        "time": c.time,
                    }
                    for c in event.events
                ],
                **({"missing": list(event.missing)} if event.kind == "timeout" else {}),
            },
        )
        type_ = f"cep.{event.query}.v{event.version}{'.timeout' if event.kind == 'timeout' else ''}"
        headers: Headers = (
            ("ce_specversion", b"1.0"),
            ("ce_id", event.id.encode()),
            ("ce_source", f"/{application}/queries/{event.query}".encode()),
            ("ce_type", type_.encode()),
            ("ce_time", _iso(event.time).encode()),
            *(() if event.window is None else (("ce_window", str(event.window).encode()),)),
            ("content-type", b"application/avro"),
        )
        records.add(output.topic, None if event.key is None else event.key.encode(), value, headers)
