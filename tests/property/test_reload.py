"""A changed catalog at any batch border: unchanged queries find what they find undisturbed, and live engines go on as restored ones would."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket import family
from app.bucket.bucket import Bucket
from app.bucket.chunk import unpack_events
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.bucket.route import group_identity
from app.bucket.snapshot import DESCRIPTION, described, unpack_parts
from app.events.batch import EventBatch
from app.files.gathering import parse_events
from app.owners.tuple_memory import tuple_memory
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan, Shedding
from app.query.planning.chains import chain_of
from app.query.resolved.vocabulary import Streams
from tests.naive.composites import composite_events
from tests.naive.patterns import yaml_text
from tests.property import test_composition as composition
from tests.property import whole_language
from tests.property.application_way import plan_of
from tests.property.event_arrays import event_batch
from tests.property.random_queries import queries, schemas, streams
from tests.property.temporal_cases import SCHEMAS, bounded_queries, temporal_plan, temporal_queries, tuple_streams
from tests.property.test_bucket_way import LIVELY, LIVELY_QUERIES, SOURCES, TOPICS, arrivals_of, split
from tests.property.test_bucket_whole_language import in_steps
from tests.property.test_families import LIVELY as OF_FAMILIES
from tests.property.test_families import variants

Steps = Sequence[Sequence[EventBatch]]
SHEDDINGS = st.sampled_from([Shedding(), Shedding(), Shedding(safety=0.5), Shedding("pspice", 1000)])
"""State does not depend on them, save that shedders of partial matches know no chains."""
FEW = settings(max_examples=max(40, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))


def restored(bucket: Bucket, catalog: Catalog, rules: TimeRules) -> Bucket:
    """The way over bytes."""
    return Bucket.restore(catalog, [rules], bucket.number, bucket.snapshot(), TOPICS, memory_of=tuple_memory)


def reloaded(bucket: Bucket, catalog: Catalog, rules: TimeRules) -> Bucket:
    """The way of live engines."""
    wanted = state_of(restored(bucket, catalog, rules), catalog)
    after = bucket.reload(catalog, [rules], TOPICS)
    after.validate()
    assert state_of(after, catalog) == wanted
    return after


def state_of(bucket: Bucket, catalog: Catalog) -> Any:
    """The state by parts, without those of engines: a live one may still hold what is dead, which one from bytes does not. What they find must be the same."""
    parts = {name: bytes(part) for name, part in unpack_parts(bucket.snapshot()).items()}
    free = {DESCRIPTION} | {f"held-{group_identity(group):016x}" for group in catalog.groups if group.composed}
    kept = {name: part for name, part in parts.items() if name not in free and not name.startswith("engine-")}
    return described(parts), {name: content_of(name, part) for name, part in kept.items()}


def content_of(name: str, part: bytes) -> Any:
    """A part so that equal states are equal: events that are held are in no order, and have dictionaries that depend on how they came."""
    if not name.startswith("held-"):
        return part
    batch, items = unpack_events(part)
    return sorted(zip(batch.time.tolist(), batch.source.tolist(), batch.offset.tolist(), map(tuple, items.tolist()), strict=True))


def found_by_step(
    catalogs: Sequence[Catalog], steps: Steps, rules: TimeRules, buckets: int, way: Any, restarts: set[int]
) -> list[Counter[Any]]:
    """By step what each query finds while the step's catalog is in force; closing comes as a last, empty step."""
    states = [Bucket(catalogs[0], [rules], number, TOPICS, tuple_memory) for number in range(buckets)]
    greatest: dict[int, int] = {}
    told: list[Counter[Any]] = []
    for number, tasks in enumerate([*steps, []]):
        catalog = catalogs[number]
        plan = IngressPlan(catalog, rules, buckets)
        progress = Progress(greatest, SOURCES, closing=number == len(steps))
        chunks: list[list[bytes]] = [[] for _ in range(buckets)]
        news = dict(greatest)
        for batch in tasks:
            ingested = plan.ingest(batch, progress)
            news |= {s: t for s, t in ingested.judgement.greatest_times.items() if t > news.get(s, t - 1)}
            for bucket, packed in ingested.packed():
                chunks[bucket].append(packed)
        greatest = news
        told.append(Counter())
        for bucket, own in enumerate(chunks):
            if number in restarts:
                states[bucket] = restored(states[bucket], catalogs[max(0, number - 1)], rules)
            if number and catalogs[number - 1] is not catalog:
                states[bucket] = way(states[bucket], catalog, rules)
            output = states[bucket].advance(own, progress)
            states[bucket].validate()
            for one in output.found:
                running = catalog.plans[one.query]
                told[-1] += Counter((running.name, made.time, made.id) for made in composite_events(running, one.matches, TOPICS))
                if one.timeouts is not None:
                    late = composite_events(running, one.timeouts, TOPICS, "timeout")
                    told[-1] += Counter((running.name, "timeout", made.time, made.id) for made in late)
            told[-1] += Counter(("late", source, offset) for source, offset in output.late.tolist())
            told[-1] += Counter({("held", bucket): output.held})
            if not any(plan.temporal for plan in catalog.plans):  # runs of tuples that come from bytes are awake until their next window
                told[-1] += Counter({("pending", bucket): output.pending})
    return told


def check(data: st.DataObject, pool: Sequence[Plan], steps: Steps, rules: TimeRules) -> None:
    """Queries of the pool come and go, all but the first."""
    catalogs, running = [], Catalog.of(tuple(pool))
    for _ in range(len(steps) + 1):
        if data.draw(st.booleans()):
            some = [pool[0], *data.draw(st.lists(st.sampled_from(pool[1:]), unique_by=lambda plan: plan.name))]
            running = Catalog.of(
                tuple(plan if plan.shedding.bounds_memory else replace(plan, shedding=data.draw(SHEDDINGS)) for plan in some)
            )
        elif not catalogs:
            running = Catalog.of(tuple(pool[: data.draw(st.integers(1, len(pool)))]))
        catalogs.append(running)
    note([[plan.name for plan in catalog.plans] for catalog in catalogs])
    buckets, restarts = data.draw(st.integers(1, 2)), data.draw(st.sets(st.integers(0, len(steps))))
    found = found_by_step(catalogs, steps, rules, buckets, reloaded, restarts)
    assert found == found_by_step(catalogs, steps, rules, buckets, restored, set())
    always = set.intersection(*({(plan.name, chain_of(plan) is None) for plan in catalog.plans} for catalog in catalogs))
    staying = [plan for plan in pool if (plan.name, chain_of(plan) is None) in always]
    alone = found_by_step([Catalog.of(tuple(staying))] * len(catalogs), steps, rules, buckets, reloaded, set())
    names = {plan.name for plan in staying} if rules.ordered_by is None else set()  # how late is too late is then a matter of all queries
    event(f"{len(names)} of {len(pool)} stay, {len({id(one) for one in catalogs})} catalogs")
    assert of(names, found) == of(names, alone)


def of(names: set[str], found: Sequence[Counter[Any]]) -> Counter[Any]:
    """What queries of these names found in all steps."""
    return sum((Counter({key: n for key, n in step.items() if key[0] in names}) for step in found), Counter())


def as_batches(data: st.DataObject, arrivals: list[Any], known: Any) -> Steps:
    return [[event_batch(events, known) for events in tasks] for tasks in split(data, arrivals)]


@FEW
@given(st.data())
def test_sequences_and_families_go_on_whatever_comes_and_goes_beside_them(data: st.DataObject) -> None:
    known = data.draw(st.sampled_from([OF_FAMILIES, LIVELY]) | schemas())
    if known is LIVELY:
        pool = [replace(plan_of(query, known), name=f"q{n}", fingerprint=f"q{n}") for n, query in enumerate(LIVELY_QUERIES)]
    else:
        pool = [*data.draw(variants(known)), replace(plan_of(data.draw(queries(known)), known), name="more", fingerprint="more")]
    pool = data.draw(st.permutations(pool))
    steps = as_batches(data, arrivals_of(data, data.draw(streams(known))), known)
    with patch.object(family, "LEAST_PARTITIONED", data.draw(st.integers(1, 4))):
        ordered = data.draw(st.sampled_from([None, "k"])) if known is not OF_FAMILIES and "k" in known["A"] else None
        check(data, pool, steps, TimeRules("input", data.draw(st.sampled_from([0, 2, 9])), ordered_by=ordered))


@FEW
@given(st.data())
def test_temporal_queries_go_on(data: st.DataObject) -> None:
    drawn = [temporal_plan(data.draw(temporal_queries() | bounded_queries())) for _ in range(3)]
    pool = [replace(plan, name=f"q{n}", fingerprint=f"q{n}") for n, plan in enumerate(drawn)]
    steps = as_batches(data, arrivals_of(data, data.draw(tuple_streams(most=20))), SCHEMAS)
    rules = TimeRules("input", data.draw(st.sampled_from([0, 2, 9])), ordered_by=data.draw(st.sampled_from([None, "g"])))
    check(data, pool, steps, rules)


@FEW
@given(st.data())
def test_the_whole_language_goes_on(data: st.DataObject) -> None:
    first = data.draw(whole_language.queries())
    lines = data.draw(whole_language.streams(first))
    assume(whole_language.is_valid_for(first, lines))
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    pool: list[Plan] = []
    for n, query in enumerate([first, data.draw(whole_language.queries()), data.draw(whole_language.queries())]):
        compiled = compile_texts([("q.yaml", yaml_text(query))], Streams(everything=file.schema))
        if not compiled.errors and (not pool or compiled.catalog.plans[0].streams == pool[0].streams):
            pool.append(replace(compiled.catalog.plans[0], name=f"q{n}", fingerprint=f"q{n}"))
    assume(pool and len(pool) > 1)
    event(", ".join(sorted(plan.evaluator for plan in pool)))
    check(data, pool, in_steps(data, file.batch), TimeRules(pool[0].streams[0], 1_000_000))


@FEW
@given(st.data())
def test_queries_that_read_others_go_on(data: st.DataObject) -> None:
    """Who reads and who is read stays; a reader and queries of their own come and go."""
    own = data.draw(composition.cases())
    plans = {plan.name: plan for plan in composition.compiled(own[:3]).plans}
    more = {plan.name: plan for plan in composition.compiled([*own[:3], composition.LAST]).plans}
    beside = [replace(plan_of(query, LIVELY), name=f"b{n}", fingerprint=f"b{n}") for n, query in enumerate(LIVELY_QUERIES)]
    assume(all(plans[name] == more[name] for name in plans))
    steps = as_batches(data, arrivals_of(data, data.draw(streams(LIVELY, most=14))), LIVELY)
    rules = TimeRules("input", data.draw(st.sampled_from([0, 2, 9])))
    readers = more if data.draw(st.booleans()) else plans  # a reader that comes makes the one that it reads another group
    cut = sorted(data.draw(st.lists(st.integers(0, len(steps)), min_size=2, max_size=2)))
    with_others, without = Catalog.of((*readers.values(), *beside)), Catalog.of(tuple(readers.values()))
    catalogs = [with_others if cut[0] <= n < cut[1] else without for n in range(len(steps) + 1)]
    found = found_by_step(catalogs, steps, rules, 2, reloaded, set())
    assert found == found_by_step(catalogs, steps, rules, 2, restored, set())
    alone = found_by_step([Catalog.of(tuple(readers.values()))] * len(catalogs), steps, rules, 2, reloaded, set())
    assert of(set(readers), found) == of(set(readers), alone)
