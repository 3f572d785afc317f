"""Queries that read other queries' composite events (queries/README.md, *Queries over queries*).

Queries that read each other are all in one bucket (`route.home_of`), in one step after each other, so a composite event needs no way from
its query to its readers. It is an event there: its type is the query's name, its time the match time, its attributes the return fields;
its offset is part of its identity, which batching and restarts do not change. It waits, as other events do, until nothing earlier can come.
"""

from __future__ import annotations

import struct
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from app.asc.selection import Selection
from app.bucket.chunk import compacted
from app.bucket.hold import FOREVER, NEVER
from app.bucket.identity import identities_of, opener_windows, place_of
from app.bucket.ingress import counted_rows
from app.bucket.matching import Found
from app.bucket.places import COMPOSITES
from app.bucket.values import rounded
from app.cep.engine import Watermarks
from app.cep.matches import Constituents, Matches
from app.cep.snapshot.preamble import Buffer
from app.events.batch import NULL, PRESENT, Column, Dictionary, EventBatch, take, with_columns
from app.events.types import Kind
from app.query.plan import QUERY_STREAM, Catalog, Plan
from app.query.reach import emission_delay_ms, reach_ms

ORDER = "@order"
"""Rider of composite events: bytes that are sorted as matches are, by time, then their events in total order, then query name."""


def stream_of(query: str) -> str:
    """The stream that a query's composite events make."""
    return QUERY_STREAM + query


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
        self._binding = {stream: [plan for plan in inner if stream in plan.streams] for stream in self._owner}
        self._keys: dict[str, dict[int, bytes]] = {stream: {} for stream, plans in self._binding.items() if plans}

    def _in_order(self) -> Iterator[int]:
        group_of = {query: group.number for group in self._catalog.groups for query in group.queries}
        done: set[int] = set()

        def visit(number: int) -> Iterator[int]:
            if number in done:
                return
            done.add(number)
            for stream in self._catalog.groups[number].streams:
                if stream in self._owner:
                    yield from visit(group_of[self._owner[stream]])
            yield number

        for group in self._catalog.groups:
            yield from visit(group.number)

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

    def forget(self, watermarks: Mapping[str, int]) -> None:
        """Drops the order of composite events that no match can bind any more.

        Args:
            watermarks: by stream.
        """
        for stream, keys in self._keys.items():
            bound = min(self._bound(plan, watermarks) for plan in self._binding[stream]) if keys else NEVER
            if bound <= NEVER:
                continue
            for place in [place for place, key in keys.items() if _time_of(key) < bound]:
                del keys[place]

    def _bound(self, plan: Plan, watermarks: Mapping[str, int]) -> int:
        """No match of the query that is still to come binds an event from before this time."""
        reach, watermark = reach_ms(plan), min(watermarks[stream] for stream in plan.streams)
        return NEVER if reach is None or watermark <= NEVER else watermark - reach

    def go_on(self, before: Composition) -> None:
        """Takes over what is remembered under another catalog."""
        self._keys |= {stream: before._keys[stream] for stream in self._keys if stream in before._keys}

    def saved(self) -> dict[str, bytes]:
        """What is remembered, by stream."""
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


def _time_of(key: bytes) -> int:
    """The match time that an order key begins with."""
    return int.from_bytes(key[:8], "big") - (1 << 63)


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
    values = column.values.astype(np.float64)
    fits = np.isfinite(values) & (np.abs(values) < 2.0**63)
    whole = np.where(fits, rounded(values), 0.0).astype(np.int64)
    state = np.where(fits, PRESENT if column.state is None else column.state, NULL).astype(np.uint8)
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
