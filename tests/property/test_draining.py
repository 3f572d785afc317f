"""Old versions of changed queries: together with the new one they find what both find alone, cut where the query changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.owners.tuple_memory import tuple_memory
from app.query.plan import Catalog, Draining, Plan
from tests.naive.composites import composite_events
from tests.property.application_way import plan_of
from tests.property.event_arrays import event_batch
from tests.property.temporal_cases import SCHEMAS, bounded_queries, temporal_plan, temporal_queries, tuple_streams
from tests.property.test_bucket_way import LIVELY, LIVELY_QUERIES, SOURCES, TOPICS, arrivals_of, hand_over, split, streams

Answers = Counter[tuple[int, tuple[tuple[str, int, int], ...], str]]


def driven(catalogs: Sequence[Catalog], schemas: dict, steps: list, rules: TimeRules, buckets: int, restarts: set[int]) -> Answers:
    """What is found when the catalog of each step is in force in it; closing comes as a last, empty step."""
    states = [Bucket(catalogs[0], [rules], number, memory_of=tuple_memory) for number in range(buckets)]
    greatest: dict[int, int] = {}
    found: Answers = Counter()
    for number, tasks in enumerate([*steps, []]):
        catalog = catalogs[number]
        plan = IngressPlan(catalog, rules, buckets)
        progress = Progress(greatest, SOURCES, closing=number == len(steps))
        chunks: list[list[bytes]] = [[] for _ in range(buckets)]
        news = dict(greatest)
        for events in tasks:
            ingested = plan.ingest(event_batch(events, schemas), progress)
            hand_over(ingested, chunks, news)
        greatest = news
        for bucket in range(buckets):
            if number in restarts:
                states[bucket] = Bucket.restore(catalog, [rules], bucket, states[bucket].snapshot(), memory_of=tuple_memory)
            elif number and catalogs[number - 1] is not catalog:
                states[bucket] = states[bucket].reload(catalog, [rules])
            output = states[bucket].advance(chunks[bucket], progress)
            states[bucket].validate()
            for one in output.found:
                own = catalog.plans[one.query]
                for event in composite_events(own, one.matches, TOPICS):
                    found[own.version, tuple((c.topic, c.partition, c.offset) for c in event.events), event.id] += 1
    return found


def check(data: st.DataObject, old: Plan, new: Plan, schemas: dict, arrivals: list, rules: TimeRules) -> None:
    """The query changes before one of the steps."""
    old, new = replace(old, name="q", version=1, fingerprint="old"), replace(new, name="q", version=2, fingerprint="new")
    steps, buckets = split(data, arrivals), data.draw(st.integers(1, 2))
    change = data.draw(st.integers(0, len(steps)))
    restarts = data.draw(st.sets(st.integers(0, len(steps))))
    draining = Catalog.of((new, replace(old, draining=Draining())))
    before, after = (Catalog.of((plan,)) for plan in (old, new))

    def cut(first: Catalog, then: Catalog) -> list[Catalog]:
        return [first if number < change else then for number in range(len(steps) + 1)]

    early = {(f"{event['source']}", event["offset"]) for tasks in steps[:change] for events in tasks for event in events}
    alone = driven(cut(before, before), schemas, steps, rules, buckets, set())
    begun = Counter({key: n for key, n in alone.items() if any((f"{part}", offset) in early for _, part, offset in key[1])})
    wanted = begun + Counter(
        {key: n for key, n in driven(cut(before, after), schemas, steps, rules, buckets, set()).items() if key[0] == 2}
    )
    found = driven(cut(before, draining), schemas, steps, rules, buckets, restarts)
    if change == 0:
        wanted = driven(cut(before, after), schemas, steps, rules, buckets, set())
    assert (found - wanted, wanted - found) == (Counter(), Counter())


@settings(phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_a_pattern_that_changes_finishes_what_it_began(data: st.DataObject) -> None:
    old, new = (plan_of(data.draw(st.sampled_from(LIVELY_QUERIES)), LIVELY) for _ in range(2))
    arrivals = arrivals_of(data, data.draw(streams(LIVELY)))
    rules = TimeRules("input", data.draw(st.sampled_from([0, 2, 9])), ordered_by=data.draw(st.sampled_from([None, "k"])))
    check(data, old, new, LIVELY, arrivals, rules)


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_a_temporal_query_that_changes_finishes_what_it_began(data: st.DataObject) -> None:
    old, new = (temporal_plan(data.draw(temporal_queries() | bounded_queries())) for _ in range(2))
    arrivals = arrivals_of(data, data.draw(tuple_streams(most=20)))
    check(data, old, new, SCHEMAS, arrivals, TimeRules("input", data.draw(st.sampled_from([0, 2, 9]))))
