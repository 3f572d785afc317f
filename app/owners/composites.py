"""Composite events and timeouts of one query as records: Avro with CloudEvents headers (Kafka protocol binding, binary mode).

A query may find ten thousand in a second, so their bytes are put together as columns (`app.bucket.encoding`); an object per record are its key, its value and its headers, as the producer wants them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.bucket.encoding.avro import NULL, VALUE, counts_of, nulls, number, numbers, of_column, of_lists, text, union
from app.bucket.encoding.pieces import Elements, Texts, cells_of, put_together, side_by_side, template_of, texts_of
from app.bucket.identity import SEPARATOR, Outcome, event_types, identities, opener_windows, window_texts
from app.bucket.places import Places, named_topics
from app.bucket.values import field_values, key_text, plain_values
from app.cep.matches import Constituents, Lists, Matches
from app.delivery.composite_schema import composite_schema, timeout_schema
from app.errors import SnapshotError
from app.events.batch import PARTITION_BITS
from app.events.topics import topic_name
from app.events.types import Kind
from app.owners.deployment import OutputTopic
from app.owners.egress import Headers, Records
from app.query.plan import Plan

ID_CHARACTERS = 32
MOST_CHECKED = 10_000
_CHECKED: set[tuple[Any, ...]] = set()
"""Of what was seen to be this version's schema."""


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    """The events that matches bind.

    Attributes:
        bounds: int64 (matches + 1,); those of match k stand at ``bounds[k] : bounds[k + 1]``.
        item: int64 (bound,), index into `Plan.items`.
        time: int64 (bound,), ms.
        places: of the events.
        type: int64 (bound,), index into ``types``.
    """

    bounds: NDArray[np.int64]
    item: NDArray[np.int64]
    time: NDArray[np.int64]
    places: Places
    type: NDArray[np.int64]
    types: Sequence[str]

    @staticmethod
    def of(plan: Plan, matches: Matches, constituents: Constituents, topics: Sequence[str]) -> _Bound:
        events, rows = matches.events, constituents.rows
        types = event_types(events, rows)
        places = Places.of(events.source[rows], events.offset[rows], types, named_topics(plan, topics))
        return _Bound(constituents.starts, constituents.items, events.time[rows], places, *types)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where composite events of one query go, and what their records say beside them.

    Attributes:
        output: topic and registered schema.
        application: its name.
        topics: by number (`app.events.topics`).
        detected_at_ms: when they were found, ms since the epoch.
    """

    output: OutputTopic
    application: str
    topics: Sequence[str]
    detected_at_ms: int


def add_composite_events(records: Records, plan: Plan, matches: Matches, to: Destination, kind: Outcome = "match") -> list[str]:
    """Adds a record for each of a query's matches, or of its partial matches that timed out.

    Args:
        records: added to.
        plan: of the query.
        matches: what its engine found, at least one.
        to: where they go.
        kind: what became of them.

    Returns:
        their identities.

    Raises:
        SnapshotError: the output's schema is another version's.
    """
    _check_schema(plan, kind, to.output.schema)
    bound = _Bound.of(plan, matches, matches.constituents([item.index for item in plan.positive]), to.topics)
    windows = window_texts(plan, matches, to.topics)
    ids = identities(plan, kind, windows, Elements(bound.bounds, bound.item, bound.places.texts(SEPARATOR)))
    partitions = _partition_keys(matches)
    values = _values(
        plan,
        bound,
        to,
        [_id_texts(ids), numbers(matches.time), _windows(plan, matches, windows), partitions.as_union(), *_fields(plan, matches)],
    )
    if kind == "timeout":
        values = side_by_side(values, _missing(plan, bound))
    headers = _headers(_constant_headers(plan, kind, to.application), ids, matches.time, windows)
    longest = max(headers, key=lambda own: len(own[-2][1] or b""))  # the number of the window may vary
    records.extend(to.output.topic, _record_keys(plan, matches, partitions), values.to_bytes(), headers, longest)
    return ids


def _check_schema(plan: Plan, kind: Outcome, registered: str) -> None:
    """Records are written by place, not by name: with a schema of another shape they would be broken bytes."""
    known = (registered, kind, plan.fingerprint, tuple((one.name, one.kind, one.array) for one in plan.returns))
    if known in _CHECKED:
        return
    own = timeout_schema(plan) if kind == "timeout" else composite_schema(plan)
    if _shape(json.loads(registered)) != _shape(own):
        raise SnapshotError(
            f"the output of query {plan.name} was registered with a schema that this version does not write"
            "\nhint: start the version that made the checkpoint, let it finish its batch, then upgrade"
        )
    if len(_CHECKED) >= MOST_CHECKED:
        _CHECKED.clear()
    _CHECKED.add(known)


def _shape(schema: Any) -> Any:
    """What decides how values are written."""
    if isinstance(schema, dict):
        return {key: _shape(value) for key, value in schema.items() if key not in ("doc", "default", "namespace")}
    return [_shape(one) for one in schema] if isinstance(schema, list) else schema


def _values(plan: Plan, bound: _Bound, to: Destination, cells: Sequence[Texts]) -> Texts:
    """Records in the registry's wire format, but for what timeouts have behind them: a zero byte, the schema's id, Avro.

    ``cells``: identities, times, windows, partition keys, return fields.
    """
    head = b"\0" + to.output.schema_id.to_bytes(4, "big") + number(ID_CHARACTERS)
    constants = [head, text(plan.name.encode()) + number(plan.version), number(to.detected_at_ms)]
    columns = [*cells, counts_of(bound.bounds)]
    parts = [*constants, *[b""] * (len(columns) + 1 - len(constants))]
    items = [NULL if item.variable is None else VALUE + text(item.variable.encode()) for item in plan.items]
    return put_together(template_of(parts, items, b"", NULL), cells_of(columns, Elements(bound.bounds, bound.item, _events(bound))))


def _fields(plan: Plan, matches: Matches) -> list[Texts]:
    found = [(matches.fields[one.name], one.kind) for one in plan.returns]
    return [of_lists(field, kind, nan=True) if isinstance(field, Lists) else of_column(field, kind, nan=True) for field, kind in found]


def _events(bound: _Bound) -> Texts:
    """Type, topic, partition, offset and time of every bound event."""
    places = bound.places
    types = len(bound.types)
    distinct, which = np.unique((places.topic * types + bound.type) << PARTITION_BITS | places.partition, return_inverse=True)
    fronts = []
    for one in distinct.tolist():
        topic, kind = divmod(one >> PARTITION_BITS, types)
        partition = number(one & ((1 << PARTITION_BITS) - 1))
        fronts.append(text(bound.types[kind].encode()) + text(topic_name(places.labels[topic]).encode()) + partition)
    return side_by_side(texts_of(fronts).at(which), numbers(places.offset), numbers(bound.time))


def _id_texts(ids: Sequence[str]) -> Texts:
    starts = np.arange(len(ids), dtype=np.int64) * ID_CHARACTERS
    return Texts(np.frombuffer("".join(ids).encode(), dtype=np.uint8), starts, starts + ID_CHARACTERS)


def _windows(plan: Plan, matches: Matches, texts: Texts | None) -> Texts:
    if texts is None or matches.windows is None:
        return nulls(len(matches))
    if opener_windows(plan):
        return texts_of([VALUE + text(one) for one in texts.to_bytes()])
    return union(numbers(matches.windows))


def _missing(plan: Plan, bound: _Bound) -> Texts:
    """What timeouts have no event for: variables in textual order, of anonymous items their types."""
    known: dict[bytes, bytes] = {}
    found = []
    for start, stop in zip(bound.bounds[:-1].tolist(), bound.bounds[1:].tolist(), strict=True):
        items = bound.item[start:stop]
        there = items.tobytes()
        if there not in known:
            known[there] = _array(_unbound(plan, items.tolist()))
        found.append(known[there])
    return texts_of(found)


def _unbound(plan: Plan, items: Sequence[int]) -> list[str]:
    there = {plan.items[index].bound_to for index in items}
    left = [item for item in plan.positive if item.bound_to not in there]
    return list(dict.fromkeys(item.variable or " or ".join(item.types) for item in left))


def _array(entries: Sequence[str]) -> bytes:
    return (number(len(entries)) + b"".join(text(one.encode()) for one in entries) if entries else b"") + NULL


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """Partition keys as texts.

    Attributes:
        texts: that occur; None stands for no key.
        codes: int64 (matches,), index into them.
    """

    texts: Sequence[str | None]
    codes: NDArray[np.int64]

    def as_union(self) -> Texts:
        """For the record."""
        return texts_of([NULL if one is None else VALUE + text(one.encode()) for one in self.texts]).at(self.codes)


def _partition_keys(matches: Matches) -> _Keys:
    columns = list(matches.key.values())
    if not columns:
        return _Keys([None], np.zeros(len(matches), dtype=np.int64))
    if len(columns) == 1 and columns[0].kind is Kind.STRING and columns[0].state is None:
        column = compacted(columns[0])
        entries = [] if column.dictionary is None else column.dictionary.entries()
        if entries:
            return _Keys([key_text([entry.decode(errors="replace")]) for entry in entries], column.values.astype(np.int64))
    values = [plain_values(column) for column in columns]
    return _Keys([key_text(row) for row in zip(*values, strict=True)], np.arange(len(matches)))


def _record_keys(plan: Plan, matches: Matches, partitions: _Keys) -> list[bytes | None]:
    """What ``output.key`` names; where that is null, or nothing is named, the partition key."""
    encoded = [None if one is None else one.encode() for one in partitions.texts]
    own = [encoded[code] for code in partitions.codes.tolist()]
    if not plan.output.key:
        return own
    kinds = {one.name: one.kind for one in plan.returns}
    chosen = field_values(matches.fields[plan.output.key], kinds[plan.output.key])
    return [key if value is None else key_text([value]).encode() for value, key in zip(chosen, own, strict=True)]


def _constant_headers(plan: Plan, kind: Outcome, application: str) -> tuple[Headers, Headers]:
    """What stands before the identity, and behind it."""
    type_ = f"cep.{plan.name}.v{plan.version}{'.timeout' if kind == 'timeout' else ''}"
    source = f"/{application}/queries/{plan.name}"
    return (("ce_specversion", b"1.0"),), (("ce_source", source.encode()), ("ce_type", type_.encode()))


def _headers(constant: tuple[Headers, Headers], ids: Sequence[str], time: NDArray[np.int64], windows: Texts | None) -> list[Headers]:
    """By record. What varies in length stands last but one."""
    before, behind = constant
    content = ("content-type", b"application/avro")
    times = np.datetime_as_string(time.astype("datetime64[ms]"), unit="ms", timezone="UTC").astype("S").tolist()
    if windows is None:
        return [(*before, ("ce_id", one.encode()), *behind, ("ce_time", at), content) for one, at in zip(ids, times, strict=True)]
    return [
        (*before, ("ce_id", one.encode()), *behind, ("ce_time", at), ("ce_window", window), content)
        for one, at, window in zip(ids, times, windows.to_bytes(), strict=True)
    ]
