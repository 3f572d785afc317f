"""State that is moved between buckets: composite events and late events are those of an undisturbed run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket.hold import TimeRules
from app.events.batch import EventBatch
from app.events.files import parse_events
from app.query.compile import compile_texts
from app.query.plan import Catalog
from app.query.vocabulary import Streams
from tests.naive import patterns
from tests.naive.language import Event, yaml_text
from tests.property import whole_language
from tests.property.application_way import plan_of
from tests.property.event_arrays import event_batch
from tests.property.moving import World, moved
from tests.property.random_queries import Schemas, queries, streams
from tests.property.temporal_cases import SCHEMAS, temporal_plan, temporal_queries, tuple_streams
from tests.property.test_bucket_way import arrivals_of, cases, split
from tests.property.test_bucket_whole_language import in_steps

EXAMPLES = settings(max_examples=max(40, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))


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
