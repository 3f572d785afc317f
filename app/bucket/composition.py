"""Queries that read other queries' composite events (queries/README.md, *Queries over queries*).

Queries that read each other are all in one bucket (`route.home_of`), in one step after each other, so a composite event needs no way from
its query to its readers. It is an event there: its type is the query's name, its time the match time, its attributes the return fields;
its offset is part of its identity, which batching and restarts do not change. It waits, as other events do, until nothing earlier can come.
"""

from __future__ import annotations

import struct
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.asc.selection import Selection
from app.bucket.chunk import compacted
from app.bucket.hold import FOREVER, NEVER
from app.bucket.identity import identities_of, opener_windows, place_of
from app.bucket.ingress import counted_rows
from app.bucket.matching import Found
from app.bucket.places import COMPOSITES
from app.bucket.route import group_identity
from app.bucket.values import whole_numbers
from app.cep.engine import Watermarks
from app.cep.matches import Constituents, Matches
from app.cep.snapshot.preamble import Buffer
from app.events.batch import NULL, PRESENT, Column, Dictionary, EventBatch, take, with_columns
from app.events.types import Kind
from app.query.plan import QUERY_STREAM, Catalog, Plan
from app.query.reach import emission_delay_ms

ORDER = "@order"
"""Rider of composite events: bytes that are sorted as matches are, by time, then their events in total order, then query name."""

SMALL = 1_024
"""Composite events whose order may be remembered for nothing: each takes some hundred bytes."""
LOOKED_THROUGH = 128
"""So many of them a step may be worth at most, on average, when a burst has left many that no longer grow: 0.1 ms."""


class Holder(Protocol):
    """A query group with its engines (`app.bucket.group.GroupState`)."""

    def composites(self, queries: Iterable[int]) -> NDArray[np.int64]:
        """Offsets of the composite events that the queries' matches to come can bind, those that are still to come left out."""


def stream_of(query: str) -> str:
    """The stream that a query's composite events make."""
    return QUERY_STREAM + query


def read_by(plan: Plan, catalog: Catalog) -> Sequence[Plan]:
    """The queries whose composite events a query reads."""
    return [other for other in catalog.current if stream_of(other.name) in plan.streams]


def with_all_read(plans: Iterable[Plan], catalog: Catalog) -> list[Plan]:
    """The queries and all that they read, directly or not; in order of name."""
    found: dict[str, Plan] = {}
    waiting = list(plans)
    while waiting:
        plan = waiting.pop()
        if plan.name not in found:
            found[plan.name] = plan
            waiting += read_by(plan, catalog)
    return [found[name] for name in sorted(found)]


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """Composite events for one query group.

    Attributes:
        group: its number.
        batch: the events, with the group's columns and `ORDER`.
        bitmaps: uint64 (events, words), in the group's layout.
    """

    group: int
    batch: EventBatch
    bitmaps: NDArray[np.uint64]


class Composition:
    """Who reads whom, and the order of composite events that matches of readers that are read themselves may bind.

    Args:
        catalog: all queries.
        topics: by number; identities speak of them.
    """

    def __init__(self, catalog: Catalog, topics: Sequence[str]) -> None:
        self._catalog = catalog
        self._topics = topics
        read = {stream for plan in catalog.plans for stream in plan.streams if stream.startswith(QUERY_STREAM)}
        self._owner = {stream_of(plan.name): query for query, plan in enumerate(catalog.plans) if stream_of(plan.name) in read}
        self._readers = {stream: [group for group in catalog.groups if stream in group.streams] for stream in self._owner}
        self._selections = {stream: Selection(catalog, stream) for stream in self._owner}
        self.streams = tuple(sorted(read))
        """All streams of composite events that are read."""
        self.silent = tuple(sorted(read - set(self._owner)))
        """Those of queries that do not run: nothing comes."""
        self.order = tuple(self._in_order())
        """Numbers of the query groups, every one behind those that it reads."""
        inner = [plan for plan in catalog.plans if stream_of(plan.name) in self._owner]
        self._keys: dict[str, dict[int, bytes]] = {stream: {} for stream in self._owner if any(stream in plan.streams for plan in inner)}
        # all that read the stream, inner or not: who reads these may come with the next catalog
        self._binding = {stream: self._bound_by(stream) for stream in self._keys}
        self._needed = dict.fromkeys(self._keys, 0)  # how many were, when they were last looked through
        self._steps = dict.fromkeys(self._keys, 0)  # since then

    def _bound_by(self, stream: str) -> dict[int, list[int]]:
        """The queries that read a stream, by their group's identity."""
        plans = self._catalog.plans
        return {
            group_identity(group): [query for query in group.queries if stream in plans[query].streams] for group in self._readers[stream]
        }

    def _in_order(self) -> Iterator[int]:
        """Depth first; what is being visited is kept here: chains of queries may be longer than Python calls."""
        group_of = {query: group.number for group in self._catalog.groups for query in group.queries}
        seen: set[int] = set()
        for group in self._catalog.groups:
            way: list[tuple[int, Iterator[int]]] = []
            below: int | None = group.number if group.number not in seen else None
            while way or below is not None:
                if below is not None:
                    seen.add(below)
                    way.append((below, self._read_by(below, group_of)))
                else:
                    yield way.pop()[0]
                below = next((other for other in way[-1][1] if other not in seen), None) if way else None

    def _read_by(self, number: int, group_of: Mapping[int, int]) -> Iterator[int]:
        return (group_of[self._owner[stream]] for stream in self._catalog.groups[number].streams if stream in self._owner)

    def pass_on(self, found: Found) -> list[Passed]:
        """What a query found, for those that read it."""
        plan = self._catalog.plans[found.query]
        selection = self._selections.get(stream_of(plan.name))
        if selection is None or not len(found.matches):
            return []
        stream = stream_of(plan.name)
        keys = order_keys(plan, found.matches, ChainMap(*(self._keys[own] for own in plan.streams if own in self._keys)))
        events = as_events(plan, found.matches, self._topics, keys)
        if stream in self._keys:
            self._keys[stream].update(zip(events.offset.tolist(), keys, strict=True))
        selected = selection.select(events)
        passed = []
        for group in self._readers[stream]:
            rows, bitmaps = selected.of_group(group.number)
            counted = counted_rows(events, group, np.zeros(len(events), dtype=np.bool_), rows)
            nothing = np.zeros((len(counted), bitmaps.shape[1]), dtype=np.uint64)
            own = with_columns(events, (*group.columns, ORDER))
            passed.append(Passed(group.number, take(own, np.concatenate([rows, counted])), np.concatenate([bitmaps, nothing])))
        return passed

    def watermark(self, query: int, fed: Watermarks) -> int | None:
        """How far the stream of the query's composite events is complete after a feed; None when nobody reads it."""
        plan = self._catalog.plans[query]
        if stream_of(plan.name) not in self._owner:
            return None
        if fed.default_ms == FOREVER:
            return FOREVER
        delay = emission_delay_ms(plan)
        return NEVER if delay is None or fed.default_ms <= NEVER else fed.default_ms - delay

    def forget(self, groups: Mapping[int, Holder]) -> None:
        """Drops the order of composite events that no match can bind any more, once they may be half of what is remembered, or have stayed for long: most steps look at none.

        Args:
            groups: all, by identity, after the step.
        """
        for stream, keys in self._keys.items():
            self._steps[stream] += 1
            waited = len(keys) < LOOKED_THROUGH * self._steps[stream]
            if len(keys) > SMALL and (waited or len(keys) > 2 * self._needed[stream] + SMALL):
                self._drop(stream, groups)

    def _drop(self, stream: str, groups: Mapping[int, Holder]) -> None:
        # only engines know what a match can bind: windows may be counted in events, or end by gaps
        keys, held = self._keys[stream], set[int]()
        for identity, queries in self._binding[stream].items():
            held.update(groups[identity].composites(queries).tolist())
        self._keys[stream] = {place: key for place, key in keys.items() if place in held}
        self._needed[stream], self._steps[stream] = len(self._keys[stream]), 0

    def go_on(self, before: Composition) -> None:
        """Takes over what is remembered under another catalog."""
        self._keys |= {stream: before._keys[stream] for stream in self._keys if stream in before._keys}

    def saved(self, groups: Mapping[int, Holder]) -> dict[str, bytes]:
        """What a match can still bind of what is remembered, by stream; ``groups``: all, whose engines have just told their states and hold nothing that is dead."""
        for stream, keys in self._keys.items():
            if keys:
                self._drop(stream, groups)
        return {
            stream: b"".join(struct.pack("<qI", place, len(key)) + key for place, key in sorted(keys.items()))
            for stream, keys in self._keys.items()
        }

    def load(self, saved: Mapping[str, Buffer]) -> None:
        """What `saved` gave."""
        for stream, data in saved.items():
            at = 0
            while stream in self._keys and at < len(data):
                place, size = struct.unpack_from("<qI", data, at)
                self._keys[stream][place] = bytes(data[at + 12 : at + 12 + size])
                at += 12 + size


def merged_orders(saved: Sequence[Mapping[str, Buffer]]) -> dict[str, Buffer]:
    """What `Composition.saved` gave in several buckets, together; queries that read each other are in one, so no place is in two."""
    return {name: b"".join(one.get(name, b"") for one in saved) for name in dict.fromkeys(name for one in saved for name in one)}


def as_events(plan: Plan, matches: Matches, topics: Sequence[str], keys: Sequence[bytes]) -> EventBatch:
    """Matches as the events that other queries read; ``keys``: see `order_keys`."""
    columns = {
        field.name: _declared(column, field.kind)
        for field in plan.returns
        if isinstance(column := matches.fields[field.name], Column) and field.name not in ("time", "type")
    }
    columns[ORDER] = Column(Kind.BYTES, np.arange(len(keys), dtype=np.int32), None, Dictionary.of(keys))
    places = [place_of(one) for one in identities_of(plan, matches, topics)]
    kind = Column(Kind.STRING, np.zeros(len(matches), dtype=np.int32), None, Dictionary.of([plan.name.encode()]))
    sources = np.full(len(matches), COMPOSITES, dtype=np.int64)
    return EventBatch(np.array(matches.time), sources, np.array(places, dtype=np.int64), kind, columns)


def _declared(column: Column, kind: Kind) -> Column:
    """A return field as an attribute of its declared kind: where the engine has floats for whole numbers, those of 64 bit, null for others."""
    if kind.textual:
        return compacted(column)
    if kind is Kind.FLOAT or column.values.dtype.kind != "f":
        return Column(kind, np.array(column.values), column.state)
    whole, none = whole_numbers(column.values)
    state = np.where(none, NULL, PRESENT if column.state is None else column.state).astype(np.uint8)
    return Column(kind, whole, state if state.any() else None)


_ELEMENT = np.dtype([("mark", "u1"), ("time", ">u8"), ("source", ">u8"), ("offset", ">u8")])


def order_keys(plan: Plan, matches: Matches, nested: Mapping[int, bytes]) -> list[bytes]:
    """Per match bytes that are sorted as matches are: by time, then their events in total order, then query name.

    A shorter list comes before the lists that it begins: every event is preceded by a 1, and a 0 ends them.

    Args:
        plan: of the query.
        matches: what it found.
        nested: of composite events among the bound ones, by offset, their keys.
    """
    constituents = matches.constituents([item.index for item in plan.positive])
    elements = _elements(matches, constituents)
    width = _ELEMENT.itemsize
    packed, name = elements.tobytes(), b"\0" + plan.name.encode() + b"\0"
    heads = _ordered(matches.time).tobytes()
    windows = _ordered(_windows(plan, matches)).tobytes()
    items = constituents.items.astype(">u2").tobytes()
    keys = []
    for k, (start, stop) in enumerate(pairwise(constituents.starts.tolist())):
        events = packed[width * start : width * stop]
        if nested:
            events = b"".join(_with_nested(packed[width * j : width * (j + 1)], elements[j], nested) for j in range(start, stop))
        keys.append(b"".join([heads[8 * k : 8 * k + 8], events, name, windows[8 * k : 8 * k + 8], items[2 * start : 2 * stop]]))
    return keys


def _windows(plan: Plan, matches: Matches) -> NDArray[np.int64]:
    """Numbers that tell windows apart, whatever step their matches were found in."""
    if matches.windows is None:
        return np.zeros(len(matches), np.int64)
    return matches.events.offset[matches.windows] if opener_windows(plan) else matches.windows


def _with_nested(element: bytes, parts: np.void, nested: Mapping[int, bytes]) -> bytes:
    known = nested.get(int(parts["offset"])) if int(parts["source"]) == COMPOSITES else None
    return element if known is None else element[:-8] + known


def _elements(matches: Matches, constituents: Constituents) -> NDArray[np.void]:
    elements = np.empty(len(constituents.rows), dtype=_ELEMENT)
    elements["mark"] = 1
    elements["time"] = _ordered(matches.events.time[constituents.rows])
    elements["source"] = matches.events.source[constituents.rows]
    elements["offset"] = matches.events.offset[constituents.rows]
    return elements


def _ordered(values: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
    """Numbers as unsigned ones in the same order, big-endian."""
    return (np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8")


def in_match_order(batch: EventBatch, bitmaps: NDArray[np.uint64]) -> tuple[EventBatch, NDArray[np.uint64]]:
    """Events in total order; composite events of one time, which have no place of their own there, in the order of their matches."""
    column = batch.columns.get(ORDER)
    if column is None or column.dictionary is None:
        return batch, bitmaps
    entries = column.dictionary.entries()
    rank = np.empty(len(entries), dtype=np.int64)
    rank[sorted(range(len(entries)), key=entries.__getitem__)] = np.arange(len(entries))
    composite = batch.source == COMPOSITES
    place = batch.offset.copy()
    place[composite] = rank[column.values[composite]]
    order = np.lexsort((place, batch.source, batch.time))
    return take(batch, order), bitmaps[order]
