"""State that is moved between buckets: composite events and late events are those of an undisturbed run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket.bucket import Bucket
from app.bucket.hold import TimeRules
from app.bucket.rescale import moved_groups
from app.errors import SnapshotError
from app.events.batch import EventBatch, take
from app.files.gathering import parse_events
from app.query.compile import compile_texts
from app.query.plan import Catalog
from app.query.resolved.vocabulary import Streams
from tests.naive import patterns
from tests.naive.language import Equivalence, Event, Item, Query, yaml_text
from tests.naive.temporal import TemporalQuery
from tests.property import test_composition, whole_language
from tests.property.application_way import plan_of
from tests.property.event_arrays import event_batch
from tests.property.moving import World, moved
from tests.property.random_queries import Schemas, queries, streams
from tests.property.temporal_cases import SCHEMAS, SHEDDERS, TESTS, bounded_queries, temporal_plan, temporal_queries, tuple_streams
from tests.property.test_bucket_way import LIVELY, A, arrivals_of, cases, split
from tests.property.test_bucket_whole_language import in_steps

pytestmark = pytest.mark.timeout(3600)
EXAMPLES = settings(max_examples=max(20, settings.default.max_examples // 2), deadline=None, phases=(Phase.explicit, Phase.generate))


def batches(steps: list[list[list[Event]]], schemas: Schemas) -> list[list[EventBatch]]:
    return [[event_batch(events, schemas) for events in tasks] for tasks in steps]


def worlds(data: st.DataObject, catalog: Catalog, steps: int) -> dict[int, World]:
    """One to three numbers of buckets, one after the other."""
    changes = data.draw(st.sets(st.integers(1, steps), min_size=1, max_size=2)) if steps else set()
    return {step: World(catalog, data.draw(st.integers(1, 4))) for step in sorted({0, *changes})}


@EXAMPLES
@given(st.data())
def test_queries_of_stacks_and_families_find_what_they_find_undisturbed(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    note(yaml_text(query))
    plan = replace(plan_of(query, known), name="q")
    shared = [replace(plan, name=f"s{n}", fingerprint=f"s{n}") for n in range(data.draw(st.sampled_from([0, 9])))]
    other = replace(plan_of(data.draw(queries(known)), known), name="r", fingerprint="other")
    catalog = Catalog.of((plan, other, *shared))
    arrivals = arrivals_of(data, data.draw(streams(known, most=30)))
    note(arrivals)
    rules = TimeRules("input", data.draw(st.sampled_from([0, 2, 9])))
    steps = split(data, arrivals)
    changes = worlds(data, catalog, len(steps))
    note(changes.keys())
    parts = batches(steps, known)
    assert moved(rules, parts, changes) == moved(rules, parts, {0: World(catalog, 1)})


@EXAMPLES
@given(st.data())
def test_trusted_streams_find_what_they_find_undisturbed(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    assume(query.equivalence)
    plan = replace(plan_of(query, known), name="q")
    key = plan.equivalence[0]
    assume(not any(item.lacks for item in plan.items))
    events = [one for one in data.draw(streams(known, most=30)) if one["attributes"].get(key) is not None]
    moved_in_time = data.draw(st.booleans())
    for one in events:  # equal keys in one topic partition
        one["source"] = len(str(one["attributes"][key])) % 2
    if not moved_in_time:
        events.sort(key=lambda one: (one["time"], one["source"]))
    for source in (0, 1):
        for offset, one in enumerate(e for e in events if e["source"] == source):
            one["offset"] = offset
    rules, steps = TimeRules("input", 0, ordered_by=key), split(data, events)
    parts, catalog = batches(steps, known), Catalog.of((plan,))
    assert moved(rules, parts, worlds(data, catalog, len(steps))) == moved(rules, parts, {0: World(catalog, 1)})


@EXAMPLES
@given(st.data())
def test_queries_of_the_whole_language_find_what_they_find_undisturbed(data: st.DataObject) -> None:
    query = data.draw(whole_language.queries())
    lines = data.draw(whole_language.streams(query))
    assume(whole_language.is_valid_for(query, lines))
    text = patterns.yaml_text(query)
    note(text + "\n".join(map(json.dumps, lines)))
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compiled = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    assume(not compiled.errors)
    (plan,) = compiled.catalog.plans
    event(f"{plan.evaluator}, ranks {plan.ranks}, {'keyed' if plan.equivalence else 'no key'}")
    source = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(lines), max_size=len(lines))), dtype=np.int64)
    rules, steps = TimeRules(plan.streams[0], 1_000_000), in_steps(data, replace(file.batch, source=source))
    rules = replace(rules, allowed_lateness_ms=data.draw(st.sampled_from([0, 1_000_000])))
    changes = worlds(data, compiled.catalog, len(steps))
    assert moved(rules, steps, changes) == moved(rules, steps, {0: World(compiled.catalog, 1)})


@EXAMPLES
@given(st.data())
def test_temporal_queries_find_what_they_find_undisturbed(data: st.DataObject) -> None:
    query = data.draw(temporal_queries())
    note(query.text("input"))
    catalog = Catalog.of((temporal_plan(query),))
    arrivals = arrivals_of(data, data.draw(tuple_streams(most=30)))
    rules = TimeRules("input", data.draw(st.sampled_from([0, 2, 9])))
    steps = split(data, arrivals)
    parts = batches(steps, SCHEMAS)
    assert moved(rules, parts, worlds(data, catalog, len(steps))) == moved(rules, parts, {0: World(catalog, 1)})


def with_reader(data: st.DataObject, alone: Catalog, read: Catalog, steps: int) -> dict[int, World]:
    """A reader that comes and goes, in other numbers of buckets each time."""
    changes = data.draw(st.sets(st.integers(1, steps), min_size=1, max_size=3)) if steps else set()
    found, now = {}, data.draw(st.booleans())
    for step in sorted({0, *changes}):
        found[step] = World(read if now else alone, data.draw(st.integers(1, 3)))
        now = not now
    return found


@EXAMPLES
@given(st.data())
def test_a_query_that_another_one_begins_or_ceases_to_read_goes_on(data: st.DataObject) -> None:
    upper, other = data.draw(st.sampled_from(test_composition.UPPER)), data.draw(st.sampled_from(test_composition.OTHER))
    own = [(upper, ("input",)), (other, ("input",))]
    lower = data.draw(st.sampled_from(test_composition.LOWER))
    alone, read = test_composition.compiled(own), test_composition.compiled([*own, lower])
    assert "u" in moved_groups(alone, read)
    arrivals = arrivals_of(data, data.draw(streams(LIVELY, most=25)))
    rules = TimeRules("input", data.draw(st.sampled_from([0, 2, 9])))
    steps = split(data, arrivals)
    parts = batches(steps, LIVELY)
    found, late = moved(rules, parts, with_reader(data, alone, read, len(steps)))
    undisturbed, also_late = moved(rules, parts, {0: World(alone, 1)})
    assert {key: count for key, count in found.items() if key[0] != "w"} == undisturbed
    assert late == also_late


@EXAMPLES
@given(st.data())
def test_any_query_that_another_one_begins_or_ceases_to_read_goes_on(data: st.DataObject) -> None:
    query = data.draw(whole_language.queries())
    lines = data.draw(whole_language.streams(query))
    assume(whole_language.is_valid_for(query, lines))
    text = patterns.yaml_text(query)
    note(text + "\n".join(map(json.dumps, lines)))
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    reader = '\n---\nname: reader\nfrom: query:q\nevent: "SEQ(q x, q y)"\nwithin: 5 ms\n'
    alone, read = (compile_texts([("q.yaml", one)], Streams(everything=file.schema)) for one in (text, text + reader))
    assume(not alone.errors and not read.errors)
    event(next(plan.evaluator for plan in alone.catalog.plans))
    source = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(lines), max_size=len(lines))), dtype=np.int64)
    rules = TimeRules(alone.catalog.plans[0].streams[0], data.draw(st.sampled_from([0, 1_000_000])))
    steps = in_steps(data, replace(file.batch, source=source))
    found, _ = moved(rules, steps, with_reader(data, alone.catalog, read.catalog, len(steps)))
    undisturbed, _ = moved(rules, steps, {0: World(alone.catalog, 1)})
    assert {key: count for key, count in found.items() if key[0] == "q"} == undisturbed


@EXAMPLES
@given(st.data())
def test_a_query_of_a_trusted_stream_that_another_one_begins_or_ceases_to_read_goes_on(data: st.DataObject) -> None:
    upper = Query(
        (A, Item(("A", "B"), "b")), (Equivalence("k"),), within=data.draw(st.sampled_from([6, 40])), returns=test_composition.KEY, name="u"
    )
    lower = data.draw(st.sampled_from([one for one in test_composition.LOWER if one[1] != ("query:u", "query:v")]))
    alone, read = test_composition.compiled([(upper, ("input",))]), test_composition.compiled([(upper, ("input",)), lower])
    events = [one for one in data.draw(streams(LIVELY, most=25)) if one["attributes"]["k"] is not None]
    for one in events:  # equal keys in one topic partition
        one["source"] = len(str(one["attributes"]["k"])) % 2
    events.sort(key=lambda one: (one["time"], one["source"]))
    for source in (0, 1):
        for offset, one in enumerate(e for e in events if e["source"] == source):
            one["offset"] = offset
    rules, steps = TimeRules("input", 0, ordered_by="k"), split(data, events)
    parts = batches(steps, LIVELY)
    found, _ = moved(rules, parts, with_reader(data, alone, read, len(steps)))
    assert {key: count for key, count in found.items() if key[0] == "u"} == moved(rules, parts, {0: World(alone, 1)})[0]


def test_a_state_that_would_have_to_be_moved_first_is_refused() -> None:
    own = [(test_composition.UPPER[1], ("input",))]
    alone, read = test_composition.compiled(own), test_composition.compiled([*own, test_composition.LOWER[0]])
    bucket = Bucket(alone, [TimeRules("input")], 0)
    with pytest.raises(SnapshotError, match='query "u" lives elsewhere now'):
        bucket.reload(read, [TimeRules("input")])


@st.composite
def crowded(draw: st.DrawFn) -> tuple[TemporalQuery, list[Event]]:
    """Memory for fewer tuples of a key than come, and several keys; now and then any bounded query."""
    if draw(st.integers(0, 3)) == 0:
        return draw(bounded_queries()), draw(tuple_streams(most=30))
    query = TemporalQuery(
        ("v",),
        draw(st.sampled_from([("g",), ("g",), ("f",)])),
        duration=draw(st.sampled_from([None, None, 3, 7])),
        max_gap=draw(st.sampled_from([0, 0, 2, 5])),
        range=draw(st.sampled_from([12, 30, 60])),
        slide=draw(st.sampled_from([1, 2, 5])),
        test=draw(st.sampled_from([None, None, *TESTS])),
        everything=draw(st.booleans()),
        shedder=draw(st.sampled_from(SHEDDERS)),
        memory=draw(st.integers(1, 4)),
    )
    time, value, offsets, events = 0, 0, [0, 0], []
    for _ in range(draw(st.integers(20, 60))):
        time, value = time + draw(st.sampled_from([0, 1, 1, 2])), value ^ draw(st.sampled_from([0, 0, 1]))
        attributes = {"v": value, "g": draw(st.sampled_from("uvwxyz")), "f": draw(st.sampled_from([0.0, 1.5, -2.5])), "b": True}
        events.append({"type": "T", "time": time, "source": draw(st.integers(0, 1)), "offset": 0, "attributes": attributes})
    events.sort(key=lambda one: (one["time"], one["source"]))
    for one in events:
        one["offset"] = offsets[one["source"]]
        offsets[one["source"]] += 1
    return query, events


@EXAMPLES
@given(st.data())
def test_bounded_memory_keeps_the_tuples_that_it_keeps_undisturbed(data: st.DataObject) -> None:
    """Memory is bounded by key: what goes does not depend on which keys live together."""
    query, tuples = data.draw(crowded())
    note(query.text("input"))
    catalog = Catalog.of((temporal_plan(query),))
    rules = TimeRules("input", data.draw(st.sampled_from([0, 2, 9])))
    steps = split(data, arrivals_of(data, tuples))
    parts = batches(steps, SCHEMAS)
    assert moved(rules, parts, worlds(data, catalog, len(steps))) == moved(rules, parts, {0: World(catalog, 1)})


WAITING_TEXTS = [
    'event: "SEQ(A a, B b)"\nwhere: "[k] AND a.s = b.s"\nwithin: 9 ms\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k] AND a.s = b.s"\nwithin: 9 ms\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, !(N n), B b)"\nwhere: "[k]"\nwithin: 9 ms\n',
    'event: "SEQ(A a, B b, !(N n))"\nwhere: "[k]"\nwithin: 6 ms\non_timeout: emit\n',
    'event: "SEQ(A a, B b, !(A n))"\nwhere: "[s]"\nwithin: 6 ms\n',
    'event: "SEQ(A a, !(N n), B+ b)"\nwhere: "[k]"\nwithin: 9 ms\n',
    'event: "SEQ(A a, B+ b, !(N n))"\nwhere: "[k]"\nwithin: 6 ms\n',
    'event: "SEQ(A a, B+ b, !(A n))"\nwhere: "[k]"\nwithin: 4 events\n',
    'event: "SEQ(A a, !(A n), B+ b)"\nwhere: "[k]"\nwindow: {size: 4 events, slide: 2 events, per: partition}\n',
    'event: "SEQ(!(N n), A a, B b)"\nwhere: "[k]"\nwithin: 4 events\n',
    'event: "SEQ(!(A n), B b, A a)"\nwhere: "[k]"\nwithin: 4 ms\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, B b, !(N n), !(A m))"\nwhere: "[k] AND m.v > a.v"\nwithin: 9 ms\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, B b, !(A m) FOR 4 ms)"\nwhere: "[k] AND m.v > a.v"\nwithin: 9 ms\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k]"\nwithin: 4 events\nstrategy: skip-till-next-match\n',
    'event: "SEQ(!(A n), B b, A a)"\nwhere: "[k]"\nwithin: 6 events\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, ANY(2; A, B) b, !(B m))"\nwhere: "[k]"\nwithin: 5 events\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, B b{2}, A c)"\nwhere: "[k]"\nwithin: 5 events\nstrategy: skip-till-next-match\non_timeout: emit\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k] AND sum(b.v) > 2"\nwithin: 9 ms\non_timeout: emit\n',
    'event: "SEQ(A a, AND(B b, A c))"\nwhere: "[k]"\nwithin: 9 ms\n',
    'event: "SEQ(A a, B b, A c)"\nwhere: "[k]"\nmax_gap: 4 ms\nwithin: 9 ms\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, B b, A c)"\nwhere: "[k]"\nwindow: {size: 8 ms, slide: 4 ms}\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, B b, A c)"\nwhere: "[k]"\nwithin: 6 ms\non_timeout: emit\nstrategy: skip-till-next-match\n',
    'event: "SEQ(A a, !(A n), B b)"\nwhere: "[k] AND n.v > a.v"\nwithin: 9 ms\nstrategy: skip-till-next-match\n',
]
CHOOSING_TEXTS = [
    'event: "SEQ(A a, B+ b)"\nwhere: "[k]"\nwithin: 9 ms\nafter: skip-past-last-event\n',
    'event: "SEQ(A a, ANY(1; A, B) b, B c)"\nwhere: "[k]"\nwithin: 9 ms\nafter: skip-to-next\n',
    'event: "SEQ(A a, B+ b, B c)"\nwhere: "[k]"\nwithin: 9 ms\nafter: skip-to-first b\n',
    'event: "SEQ(A+ a, B b)"\nwhere: "[k]"\nwithin: 9 ms\nafter: skip-to-last a\nemit: longest\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k] AND a.s = b.s"\nwithin: 9 ms\nemit: longest\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[s]"\nwithin: 9 ms\nstrategy: skip-till-next-match\nafter: skip-past-last-event\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k] AND [s]"\nwithin: 9 ms\nstrategy: skip-till-next-match\nafter: skip-to-last b\nemit: longest\n',
    'event: "SEQ(A a, !(N n), B+ b)"\nwhere: "[k]"\nwithin: 9 ms\nstrategy: skip-till-next-match\nafter: skip-to-next\n',
    'event: "SEQ(A a, B+ b, !(N n))"\nwhere: "[k]"\nwithin: 6 ms\nafter: skip-past-last-event\nemit: longest\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k]"\nwindow: {size: 8 ms, slide: 4 ms}\nafter: skip-to-next\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k]"\nwindow: {size: 4 events, slide: 2 events, per: partition}\nafter: skip-past-last-event\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k]"\nwindow: {size: 6 events, slide: 3 events}\nafter: skip-to-next\n',
    'event: "SEQ(A a, B+ b)"\nwhere: "[k]"\nwithin: 5 events\nafter: skip-past-last-event\n',
    'event: "SEQ(A a, OR(B b, A c))"\nwhere: "[k]"\nwithin: 9 ms\nafter: skip-past-last-event\n',
    'event: "SEQ(A a, B+ b)"\nwithin: 9 ms\nafter: skip-past-last-event\nemit: longest\n',
]
"""Of which what is told goes by what was told before."""


@st.composite
def lively_streams(draw: st.DrawFn) -> list[dict]:
    """Many events of few keys; those of type N belong to none."""
    lines, time = [], 0
    for _ in range(draw(st.integers(20, 60))):
        time += draw(st.sampled_from([0, 1, 1, 2]))
        kind = draw(st.sampled_from("AABBBN"))
        key = {} if kind == "N" else {"k": draw(st.integers(1, 4))}
        lines.append({"type": kind, "time": time, **key, "v": draw(st.integers(0, 2)), "s": draw(st.sampled_from(["x", "y", "z"]))})
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("texts", [WAITING_TEXTS, CHOOSING_TEXTS], ids=["waiting", "choosing"])
@EXAMPLES
@given(st.data())
def test_what_queries_wait_for_goes_on_elsewhere(texts: list[str], data: st.DataObject) -> None:
    """Queries that nearly every pair of events matters to, of every kind of state: random ones seldom hold much when they are moved."""
    text = "---\n".join(f"name: q{n}\nversion: 1\n{own}return: {{s: a.s, v: b.v}}\n" for n, own in enumerate(texts))
    lines = data.draw(lively_streams())
    note("\n".join(map(json.dumps, lines)))
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compiled = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    assert not compiled.errors
    source = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(lines), max_size=len(lines))), dtype=np.int64)
    rules = TimeRules(compiled.catalog.plans[0].streams[0], data.draw(st.sampled_from([0, 3])))
    steps = in_steps(data, replace(file.batch, source=source), most=8)
    changes = {step: World(compiled.catalog, data.draw(st.integers(1, 3))) for step in range(len(steps) + 1)}
    assert moved(rules, steps, changes) == moved(rules, steps, {0: World(compiled.catalog, 1)})


def test_a_border_that_a_partition_left_behind_is_not_the_one_it_goes_by() -> None:
    """`after: skip-past-last-event`: (2, 7) is told, all move, (14, 20) is told and (18, 20), which it skips, waits; all move again."""
    text = f"name: q\nversion: 1\n{CHOOSING_TEXTS[0]}return: {{s: a.s}}\n"
    keys, ticks = range(1, 9), [12, 24]
    of_keys = [[(kind, time, k) for kind, time in own for k in keys] for own in ([("A", 2), ("B", 7)], [("A", 14), ("A", 18), ("B", 20)])]
    lines = [*of_keys[0], ("C", ticks[0], 1), ("C", ticks[0], 1), *of_keys[1], ("C", ticks[1], 1), ("C", ticks[1], 1)]
    source = np.array([lines[:n].count(one) if one[0] == "C" else 0 for n, one in enumerate(lines)], dtype=np.int64)
    told = "".join(json.dumps({"type": kind, "time": time, "k": k, "s": "x"}) + "\n" for kind, time, k in lines)
    file = parse_events(told.encode())
    catalog = compile_texts([("q.yaml", text)], Streams(everything=file.schema)).catalog
    batch, step = replace(file.batch, source=source), np.repeat(np.arange(4), [len(of_keys[0]), 2, len(of_keys[1]), 2])
    steps = [[take(batch, np.flatnonzero(step == n))] for n in range(4)]
    rules = TimeRules(catalog.plans[0].streams[0], 0)
    undisturbed = moved(rules, steps, {0: World(catalog, 1)})
    assert undisturbed[0].total() == 2 * len(keys)
    assert moved(rules, steps, {0: World(catalog, 2), 2: World(catalog, 2), 4: World(catalog, 3)}) == undisturbed


def test_a_partition_that_a_match_waits_for_is_not_forgotten() -> None:
    """At the end of the input a match with a negated end has its partition's last time; nothing but the match is left of the partition."""
    text = 'name: q\nversion: 1\nevent: "SEQ(E a?, A, !(ANY(C, D)))"\nwhere: "[k]"\nwithin: 5 events\nstrategy: skip-till-any-match\n'
    lines = [("A", 0, 2), ("A", 2, 1), ("E", 7, 1), ("A", 10, 1)]
    file = parse_events("".join(json.dumps({"type": kind, "time": time, "k": k}) + "\n" for kind, time, k in lines).encode())
    catalog = compile_texts([("q.yaml", text)], Streams(everything=file.schema)).catalog
    rules, steps = TimeRules(catalog.plans[0].streams[0], 0), [[file.batch]]
    undisturbed = moved(rules, steps, {0: World(catalog, 1)})
    assert sorted(found[3] for found in undisturbed[0]) == [0, 10, 10, 10]
    assert moved(rules, steps, {0: World(catalog, 1), 1: World(catalog, 1)}) == undisturbed
    assert moved(rules, steps, {0: World(catalog, 2), 1: World(catalog, 3)}) == undisturbed
