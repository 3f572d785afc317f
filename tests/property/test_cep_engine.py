"""The engine on random queries and streams: equal to the naive twin, whole or in batches, with snapshots, with optimisations off."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.cep.engine import EngineOptions, Watermarks
from app.cep.matches import Matches
from app.cep.stacks.engine import StacksEngine
from app.events.types import Kind
from tests.naive.language import Equivalence, Event, Query, mentioned
from tests.naive.matching import matches, return_fields
from tests.property.event_arrays import event_batch
from tests.property.naive_plans import candidate_masks, plan_of
from tests.property.random_queries import Schemas, cuts, queries, schemas, streams

INFINITY = 2**63 - 1
OPTIONS = st.builds(
    EngineOptions,
    partitioned=st.booleans(),
    window_pushdown=st.booleans(),
    predicate_pushdown=st.booleans(),
    chunk=st.sampled_from([1, 3, 1000]),
)


def found_by_engine(query: Query, known: Schemas, result: Matches) -> list[Any]:
    positives = query.positive
    found = []
    sources, offsets = result.sources().tolist(), result.offsets().tolist()
    fields = {name: cells(column) for name, column in result.fields.items()}
    for k in result.total_order().tolist():
        bound = sorted((int(result.events.time[result.rows[k, p]]), sources[k][p], offsets[k][p], item) for p, item in enumerate(positives))
        identity = tuple((item, source, offset) for _, source, offset, item in bound)
        found.append((int(result.time[k]), identity, {name: values[k] for name, values in fields.items()}))
    return found


def cells(column: Any) -> list[Any]:
    values = column.values.tolist()
    if column.dictionary is not None:
        values = [
            column.dictionary.entry(code).decode() if column.state is None or not column.state[k] else None for k, code in enumerate(values)
        ]
    if column.kind is Kind.BOOLEAN:
        values = [bool(v) for v in values]
    state = [0] * len(values) if column.state is None else column.state.tolist()
    return [None if s else v for s, v in zip(state, values, strict=True)]


def found_by_twin(query: Query, known: Schemas, events: list[Event]) -> list[Any]:
    fields = (lambda match: return_fields(match, known)) if query.returns is not None else (lambda match: {})
    return [(match.time, match.identity, fields(match)) for match in matches(query, events)]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float | int):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-12)
    return one == other


def assert_same(one: list[Any], other: list[Any]) -> None:
    assert [m[:2] for m in one] == [m[:2] for m in other]
    for (_, _, fields), (_, _, expected) in zip(one, other, strict=True):
        assert fields.keys() == expected.keys()
        for name, value in fields.items():
            assert same(value, expected[name]), (name, value, expected[name])


def run(
    query: Query, known: Schemas, events: list[Event], *, ends: list[int], options: EngineOptions, restarts: list[bool], lag: int
) -> list[Any]:
    plan = plan_of(query, known)
    engine = StacksEngine(plan, options)
    found: list[Any] = []
    start = 0
    for end, restart in zip(ends, restarts, strict=True):
        part = events[start:end]
        # nothing that comes later lies before the watermark; how far behind it is may only change when matches are told
        watermark = events[end]["time"] - lag if end < len(events) else INFINITY
        result, tally = engine.feed(event_batch(part, known), candidate_masks(query, part), Watermarks(watermark))
        engine.validate()
        assert tally.events == len(part)
        assert tally.matches == len(result)
        found += found_by_engine(query, known, result)
        if restart:
            engine = StacksEngine.restore(plan, engine.snapshot(), options)
            engine.validate()
        start = end
    return found


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_engine_finds_what_the_definitions_say(data: st.DataObject) -> None:
    known = data.draw(schemas())
    query = data.draw(queries(known))
    events = data.draw(streams(known))
    ends = data.draw(cuts(len(events)))
    options = data.draw(OPTIONS)
    restarts = data.draw(st.lists(st.booleans(), min_size=len(ends), max_size=len(ends)))
    lag = data.draw(st.sampled_from([0, 0, 2, 40]))
    assert_same(
        sorted(run(query, known, events, ends=ends, options=options, restarts=restarts, lag=lag), key=str),
        sorted(found_by_twin(query, known, events), key=str),
    )


@st.composite
def trusted(draw: st.DrawFn) -> tuple[Query, Schemas, list[list[Event]], list[int]]:
    """A query with [k], events of equal k in one source, and an order of arrival: which source is next."""
    known = {name: {"k": "integer", **attributes} for name, attributes in draw(schemas()).items()}
    query = draw(queries(known))
    if all(test.attribute != "k" for test in query.equivalence):
        query = replace(query, equivalence=(*query.equivalence, Equivalence("k")))
    events = draw(streams(known))
    # every type has every key, so that no negated event belongs to no partition: such a one has no place in a trusted order
    tests = tuple(test for test in query.equivalence if all(test.attribute in attributes for attributes in known.values()))
    by_source: list[list[Event]] = [[], []]
    for event in events:
        source = 1 if event["attributes"]["k"] == 1 else 0
        by_source[source].append({**event, "source": source, "offset": len(by_source[source])})
    arrival = draw(st.permutations([0] * len(by_source[0]) + [1] * len(by_source[1])))
    return replace(query, equivalence=tests), known, by_source, arrival


@settings(max_examples=60, deadline=None)
@given(st.data(), trusted())
def test_trusted_order_finds_the_same_matches_and_fires_by_the_own_source(data: st.DataObject, case: tuple[Any, ...]) -> None:
    query, known, by_source, arrival = case
    plan, options = plan_of(query, known), replace(data.draw(OPTIONS), partitioned=True)
    engine = StacksEngine(plan, options)
    found: list[Any] = []
    places = [0, 0]
    start = 0
    for end in data.draw(cuts(len(arrival))):
        part = []
        for source in arrival[start:end]:
            part.append(by_source[source][places[source]])
            places[source] += 1
        start = end
        marks = {s: by_source[s][places[s]]["time"] if places[s] < len(by_source[s]) else INFINITY for s in (0, 1)}
        result, _ = engine.feed(event_batch(part, known), candidate_masks(query, part), Watermarks(min(marks.values()), marks))
        engine.validate()
        found += found_by_engine(query, known, result)
        if data.draw(st.booleans()):
            engine = StacksEngine.restore(plan, engine.snapshot(), options)
        if query.items[-1].negated:
            due = [m for m in matches(query, by_source[0] + by_source[1]) if m.time <= marks[m.identity[-1][1]]]
            assert len(found) == len(due)
    expected = found_by_twin(query, known, by_source[0] + by_source[1])
    assert_same(sorted(found, key=str), sorted(expected, key=str))


def unfinished(query: Query, events: list[Event]) -> list[tuple[Any, ...]]:
    """Every prefix that is a match of the pattern cut off behind it, with the end of its window."""
    assert query.within is not None
    start = query.positive[0]
    found = []
    for place in range(len(query.positive) - 1):
        items = query.items[start : query.positive[place] + 1]
        known = {item.var for item in items}
        where = tuple(predicate for predicate in query.where if mentioned(predicate) <= known)
        for match in matches(replace(query, items=items, where=where), events):
            first = min(event["time"] for bound in match.assignment.values() for event in bound)
            found.append((first + query.within, tuple((item + start, *position) for item, *position in match.identity)))
    return sorted(found, key=str)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_unfinished_prefix_times_out_once(data: st.DataObject) -> None:
    known = data.draw(schemas())
    query = data.draw(queries(known))
    query = replace(query, within=query.within or data.draw(st.integers(1, 25)), returns=None)
    events = data.draw(streams(known))
    options = data.draw(OPTIONS)
    plan = replace(plan_of(query, known), on_timeout="emit")
    engine = StacksEngine(plan, options)
    lag = data.draw(st.sampled_from([0, 0, 2, 40]))
    found: list[tuple[Any, ...]] = []
    start = 0
    for end in data.draw(cuts(len(events))):
        part = events[start:end]
        start = end
        watermark = events[end]["time"] - lag if end < len(events) else INFINITY
        engine.feed(event_batch(part, known), candidate_masks(query, part), Watermarks(watermark))
        engine.validate()
        if len(query.positive) > 1:
            assert engine.timeouts is not None
            assert all(time <= watermark for time in engine.timeouts.time.tolist())
            found += prefixes(query, engine.timeouts)
        if data.draw(st.booleans()):
            engine = StacksEngine.restore(plan, engine.snapshot(), options)
    assert sorted(found, key=str) == unfinished(query, events)


def prefixes(query: Query, timeouts: Matches) -> list[tuple[Any, ...]]:
    table = timeouts.events
    return [
        (time, tuple((query.positive[place], int(table.source[row]), int(table.offset[row])) for place, row in enumerate(rows) if row >= 0))
        for time, rows in zip(timeouts.time.tolist(), timeouts.rows.tolist(), strict=True)
    ]
