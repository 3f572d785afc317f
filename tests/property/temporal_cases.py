"""Random temporal queries and streams of tuples, and the application's answers in the naive world's words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import strategies as st

from app.cep.matches import Matches
from app.query.compile import compile_texts
from app.query.plan import Plan
from shedding.identity import identities, shuffled
from tests.naive.language import Event
from tests.naive.temporal import WEIGHTS, Coalesced, TemporalQuery, comparable
from tests.property.event_arrays import _cells, stream_schema

SHEDDERS = sorted(WEIGHTS)
Schemas = dict[str, dict[str, str]]
SCHEMAS: Schemas = {
    "T": {"v": "integer", "g": "string", "f": "float", "b": "boolean"},
    "U": {"v": "integer", "g": "string", "f": "float"},
    "W": {"f": "float"},
}
VALUES = {"v": [0, 0, 1, None], "g": ["x", "x", "y", None], "f": [0.0, -0.0, 1.5, math.nan, None], "b": [True, False, None]}


def _of(name, holds):
    """A comparison: true where the type lacks the attribute, false where it is null."""

    def where(event: Event) -> bool:
        if name not in event["attributes"]:
            return True
        value = event["attributes"][name]
        return value is not None and holds(value)

    return where


CONDITIONS = [
    ("v = 0", _of("v", lambda v: v == 0)),
    ("v != 1 AND g = 'x'", lambda e: _of("v", lambda v: v != 1)(e) and _of("g", lambda g: g == "x")(e)),
    ("f < 1 OR b = true", lambda e: _of("f", lambda f: f < 1)(e) or _of("b", lambda b: b)(e)),
    ("NOT upper(g) LIKE 'X%'", lambda e: not _of("g", lambda g: g == "x")(e)),
    ("v + 1 > 1 AND type = 'T'", lambda e: _of("v", lambda v: v + 1 > 1)(e) and e["type"] == "T"),
    ("g IS NULL", lambda e: e["attributes"].get("g", ...) in (None, ...)),
    ("v IN (0, 5) AND time >= TIMESTAMP '1970-01-01T00:00:00.006Z'", lambda e: _of("v", lambda v: v == 0)(e) and e["time"] >= 6),
    ("1 = 2", lambda _: False),
]
TESTS = [
    (">= 4 ms", lambda start, end: end - start >= 4),
    ("> 4 ms", lambda start, end: end - start > 4),
    ("< 6 ms", lambda start, end: end - start < 6),
    ("<= 6 ms", lambda start, end: end - start <= 6),
    ("OVERLAPS (8, 15)", lambda start, end: start < 15 and end > 8),
    ("CONTAINS (8, 15)", lambda start, end: start <= 8 and end >= 15),
    ("DURING (3, 25)", lambda start, end: start >= 3 and end <= 25),
]


@st.composite
def temporal_queries(draw: st.DrawFn) -> TemporalQuery:
    """Any combination of what the page has."""
    key = draw(st.sampled_from([(), ("g",), ("g",), ("v",), ("b",), ("f",), ("g", "v"), ("type",), ("v", "type")]))
    select = draw(st.sampled_from([("v",), ("v",), ("f",), ("g", "v"), ("b",), ("type",), ("v", "f", "g")]))
    counted = draw(st.integers(0, 2)) == 0
    return TemporalQuery(
        select,
        key,
        draw(st.sampled_from([None, None, None, *CONDITIONS])),
        draw(st.sampled_from([None, None, 1, 3, 7])),
        draw(st.sampled_from([0, 0, 1, 4, 20])),
        draw(st.sampled_from([1, 2, 3, 5, 8] if counted else [2, 5, 10, 30])),
        draw(st.sampled_from([1, 2, 3, 7] if counted else [1, 2, 5, 7, 10])),
        counted,
        draw(st.sampled_from([None, None, *TESTS])),
        draw(st.booleans()),
    )


@st.composite
def bounded_queries(draw: st.DrawFn) -> TemporalQuery:
    """The same with bounded memory."""
    query = draw(temporal_queries())
    size = draw(st.sampled_from([query.range, 12, 30, 60]))
    return replace(query, range=size, shedder=draw(st.sampled_from(SHEDDERS)), memory=draw(st.integers(1, 4)))


def crowded_case(seed: int) -> tuple[TemporalQuery, list[Event]]:
    """A query whose memory is too small, and tuples of one or two keys that come closely, in runs of equal values."""
    chance = Random(seed)
    counted = chance.random() < 0.2
    query = TemporalQuery(
        ("v",),
        chance.choice([(), ("g",)]),
        duration=chance.choice([None, None, 3, 7]),
        max_gap=chance.choice([0, 0, 0, 2, 5]),
        range=chance.choice([6, 10] if counted else [12, 30, 60]),
        slide=chance.choice([1, 2, 5]),
        counted=counted,
        test=chance.choice([None, None, *TESTS]),
        everything=chance.random() < 0.3,
        shedder=chance.choice(SHEDDERS),
        memory=chance.randint(1, 5),
    )
    steps, change, time, v, events = chance.choice([[1], [0, 1, 2], [1, 2, 5]]), chance.choice([0.0, 0.1, 0.4]), 0, 0, []
    for offset in range(chance.randint(10, 40)):
        time, v = time + chance.choice(steps), v ^ (chance.random() < change)
        attributes = {"v": v, "g": chance.choice("xxxy"), "f": 0.0, "b": True}
        events.append({"type": "T", "time": time, "source": 0, "offset": offset, "attributes": attributes})
    return query, events


def tie_of(event: Event) -> int:
    """What the shedders' choice among equals goes by."""
    place = np.array([event["source"]]), np.array([event["offset"]])
    return int(shuffled(identities(*place), 0)[0] >> np.uint64(1))


@st.composite
def tuple_streams(draw: st.DrawFn, most: int = 30) -> list[Event]:
    """Events in total order; many ties, now and then a long silence, perhaps all at times at which windows end."""
    time, events, offsets = draw(st.sampled_from([0, 0, 3, -12])), [], [0, 0]
    steps, steady = draw(st.sampled_from([[0, 0, 1, 1, 2, 2, 3, 5, 5, 12, 60], [0, 5, 5, 10, 60]])), draw(st.booleans())
    for _ in range(draw(st.integers(0, most))):
        time += draw(st.sampled_from(steps))
        kind = draw(st.sampled_from(["T", "T", "T", "U", "W"]))
        attributes = {name: draw(st.sampled_from(VALUES[name])) for name in SCHEMAS[kind]}
        if steady and "v" in attributes:
            attributes |= {"v": draw(st.sampled_from([0, 0, 0, 1])), "g": "x"}
        events.append({"type": kind, "time": time, "source": draw(st.integers(0, 1)), "offset": 0, "attributes": attributes})
    events.sort(key=lambda event: (event["time"], event["source"]))
    for event in events:
        event["offset"] = offsets[event["source"]]
        offsets[event["source"]] += 1
    return events


def temporal_plan(query: TemporalQuery, schemas: Schemas = SCHEMAS) -> Plan:
    """The compiled query; its findings fail the test."""
    compilation = compile_texts([("q.yaml", query.text("input"))], {"input": stream_schema(schemas)})
    assert not compilation.errors, "\n".join(finding.render() for finding in compilation.errors)
    return compilation.catalog.plans[0]


def coalesced_of(query: TemporalQuery, matches: Matches) -> Iterable[Coalesced]:
    """What the engine found."""
    fields = {name: _cells(column) for name, column in matches.fields.items()}
    bound, windows = matches.varying, matches.windows
    assert bound is not None and windows is not None and not bound.items.any()
    assert list(matches.key) == sorted(query.key)
    for k, time in enumerate(matches.time.tolist()):
        rows = bound.rows[bound.starts[k] : bound.starts[k + 1]]
        one = {name: cells[k] for name, cells in fields.items()}
        assert one["length"] == one["end"] - one["start"]
        event = {"attributes": {name: _cells(column)[k] for name, column in matches.key.items()}, "type": one.get("type")}
        assert [comparable(event, name) for name in query.key] == [comparable({**event, "attributes": one}, name) for name in query.key]
        event = {"time": one.get("time"), "type": one.get("type"), "attributes": one}
        yield Coalesced(
            time,
            int(windows[k]),
            tuple((name, comparable(event, name)) for name in (*query.key, *query.select)),
            one["start"],
            one["end"],
            one["truncated_start"],
            one["truncated_end"],
            tuple(zip(matches.events.source[rows].tolist(), matches.events.offset[rows].tolist(), strict=True)),
        )


def watermark_after(events: Sequence[Event], stop: int, draw: st.DataObject) -> int:
    """A watermark that may hold after the first events: at most the time of the next one."""
    if stop < len(events):
        low = events[stop - 1]["time"] if stop else events[0]["time"] - 20
        return draw.draw(st.integers(low, events[stop]["time"]))
    return (events[-1]["time"] if events else 0) + draw.draw(st.sampled_from([0, 1, 5, 33]))
