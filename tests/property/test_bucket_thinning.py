"""Shedding in the bucket, by what was kept: any split, any number of buckets and restarts anywhere keep what the definition keeps of the whole stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.asc.selected import SelectedEvents
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.bucket.thinning import RANK
from app.evaluation.observing import event_observations
from app.evaluation.operator import Operator
from app.events.batch import Column, EventBatch
from app.events.types import Kind
from app.features.events import Features, candidate_items, protected_events
from app.features.shape import shape_of
from app.owners.chains import chains_of
from app.query.plan import Catalog, Plan, Shedding
from shedding.events.prefix import PrefixGate
from shedding.interface import Training
from shedding.registry import method
from tests.naive.arrival import on_time
from tests.naive.language import Equivalence, Event, Item, Query, yaml_text
from tests.naive.matching import matches
from tests.naive.shedding_prefix import Arrival, kept_events
from tests.property.application_way import answers, expected, plan_of
from tests.property.event_arrays import event_batch
from tests.property.random_queries import KINDS, streams
from tests.property.test_bucket_way import SOURCES, arrivals_of, hand_over, split

LIVELY = {name: {"k": KINDS["k"]} for name in "ABC"}
A, B, C = Item(("A",), "a"), Item(("B",), "b"), Item(("C",), "d")
NOT_B = Item(("B",), "n", negated=True)
K = (Equivalence("k"),)
QUERIES = [
    Query((A, NOT_B, C), K, within=9),
    Query((A, Item(("A", "B"), "n", negated=True), C), K, within=9),
    Query((A, B, Item(("A", "B"), "n", negated=True), C), within=9),
    Query((A, B), K, within=9),
    Query((A, B, Item(("A",), "c")), within=9),
    Query((A, NOT_B, Item(("A",), "c")), K, within=9),
    Query((A, NOT_B, Item(("A", "C"), "c"), B), within=9),
    Query((A, Item(("A", "B"), "c"), NOT_B), within=6),
]
CERTAIN = QUERIES[:5]
"""Without negations, or with such that end for certain what was before them."""
THRESHOLDS = (0.0, 0.7, 1.4, 2.0, 2.3, 2.6, 3.2)


def worth(source: int, offset: int) -> float:
    """Of an event: any number that follows from its place."""
    return (7 * source + 13 * offset) % 10 / 10


def riders(batch: EventBatch, selected: SelectedEvents) -> Mapping[int, Mapping[str, Column]]:
    del selected
    ranks = np.array([worth(*one) for one in zip(batch.source.tolist(), batch.offset.tolist(), strict=True)], np.float64)
    return {0: {f"{RANK}q": Column(Kind.FLOAT, ranks)}}


def catalog_of(query: Query, *, allow_false_positives: bool = True) -> Catalog:
    shedding = Shedding("prefix", 1000, allow_false_positives=allow_false_positives)
    plan = replace(plan_of(query, LIVELY), name="q", shedding=shedding)
    return Catalog.of((plan,))


def found(
    catalog: Catalog,
    steps: list[list[list[Event]]],
    rules: TimeRules,
    buckets: int,
    restarts: set[int],
    *thresholds: float,
    riders: Callable[[EventBatch, SelectedEvents], Mapping[int, Mapping[str, Column]]] = riders,
) -> tuple[Counter, int]:
    """Answers of all steps, and how many events were lost; thresholds hold in turn, a step each."""
    plan = IngressPlan(catalog, rules, buckets)
    states = [Bucket(catalog, [rules], number, chains_of=chains_of) for number in range(buckets)]
    greatest: dict[int, int] = {}
    told: Counter = Counter()
    lost = 0
    for number, tasks in enumerate([*steps, []]):
        progress, news = Progress(greatest, SOURCES, closing=number == len(steps)), dict(greatest)
        chunks: list[list[bytes]] = [[] for _ in range(buckets)]
        for events in tasks:
            ingested = plan.ingest(event_batch(events, LIVELY), progress, riders=riders)
            hand_over(ingested, chunks, news)
        greatest = news
        for bucket in range(buckets):
            if number in restarts:
                before = states[bucket].snapshot()
                states[bucket] = Bucket.restore(catalog, [rules], bucket, before, chains_of=chains_of)
                assert states[bucket].snapshot() == before
            output = states[bucket].advance(reversed(chunks[bucket]), progress, thresholds={0: thresholds[number % len(thresholds)]})
            states[bucket].validate()
            lost += sum(one.events for one in output.shed)
            for one in output.found:
                told += Counter(answers(catalog.plans[0], one.matches))
    return told, lost


def kept_of(plan: Plan, query: Query, events: list[Event], threshold: float) -> list[Event]:
    """By the definition, of events in total order."""
    shape = shape_of(plan)
    assert shape is not None
    items = candidate_items(plan, event_batch(events, LIVELY)).tolist()
    candidates = [(event, bits) for event, bits in zip(events, items, strict=True) if bits]
    arrivals = [
        Arrival(bits, hash(event["attributes"]["k"]) if query.equivalence else 0, event["time"], worth(event["source"], event["offset"]))
        for event, bits in candidates
    ]
    stays = kept_events(arrivals, shape.needs, shape.negated, shape.ending, shape.window, threshold)
    return [event for (event, _), one in zip(candidates, stays, strict=True) if one]


def in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one["time"], one["source"], one["offset"]))


@settings(max_examples=max(60, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_what_is_kept_does_not_depend_on_how_the_stream_was_cut(data: st.DataObject) -> None:
    query, threshold = data.draw(st.sampled_from(QUERIES)), data.draw(st.sampled_from(THRESHOLDS))
    note(yaml_text(query))
    catalog, lateness = catalog_of(query), data.draw(st.sampled_from([0, 2, 9]))
    arrivals = arrivals_of(data, data.draw(streams(LIVELY)))
    note(arrivals)
    steps = split(data, arrivals)
    own, _ = found(
        catalog,
        steps,
        TimeRules("input", lateness),
        data.draw(st.integers(1, 3)),
        data.draw(st.sets(st.integers(0, len(steps)))),
        threshold,
    )
    kept = kept_of(catalog.plans[0], query, in_order(on_time(arrivals, lateness)), threshold)
    assert own == expected(matches(query, kept), LIVELY)


@settings(max_examples=max(60, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_nor_on_topic_partitions_that_come_one_after_the_other(data: st.DataObject) -> None:
    """A trusted order: the second topic partition's events may be many windows behind what the first one's were."""
    query, threshold = data.draw(st.sampled_from([one for one in QUERIES if one.equivalence])), data.draw(st.sampled_from(THRESHOLDS))
    note(yaml_text(query))
    catalog, events = catalog_of(query), [one for one in data.draw(streams(LIVELY)) if one["attributes"].get("k") is not None]
    ahead = data.draw(st.sampled_from([0, 20, 100]))
    for event in events:  # equal keys in one topic partition
        event["source"] = hash(event["attributes"]["k"]) % 2
    events.sort(key=lambda one: (one["time"], one["source"]))
    for event in events:
        event["time"] += ahead * (1 - event["source"])
    for source in SOURCES:
        for offset, event in enumerate(one for one in events if one["source"] == source):
            event["offset"] = offset
    note(events)
    steps, rules = split(data, events), TimeRules("input", ordered_by="k")
    own, _ = found(catalog, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))), threshold)
    assert own == expected(matches(query, kept_of(catalog.plans[0], query, in_order(events), threshold)), LIVELY)


@settings(max_examples=max(60, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_nothing_false_is_told_where_it_is_certain_what_is_over(data: st.DataObject) -> None:
    """Negations between two single events: the memory ends itself what it drops."""
    query, threshold = data.draw(st.sampled_from(CERTAIN)), data.draw(st.sampled_from(THRESHOLDS))
    note(yaml_text(query))
    catalog, arrivals = catalog_of(query), data.draw(streams(LIVELY))
    steps, rules = split(data, arrivals), TimeRules("input", 9)
    own, _ = found(catalog, steps, rules, 2, set(), threshold, threshold / 4)
    assert own <= expected(matches(query, in_order(arrivals)), LIVELY)


@settings(max_examples=max(60, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_nothing_false_is_told_where_the_query_allows_none(data: st.DataObject) -> None:
    """Whatever is negated stays: ends and starts as well."""
    query, thresholds = data.draw(st.sampled_from(QUERIES)), data.draw(st.lists(st.sampled_from(THRESHOLDS), min_size=1, max_size=3))
    note(yaml_text(query))
    arrivals = data.draw(streams(LIVELY))
    own, _ = found(catalog_of(query, allow_false_positives=False), split(data, arrivals), TimeRules("input", 9), 2, set(), *thresholds)
    assert own <= expected(matches(query, in_order(arrivals)), LIVELY)


def test_what_a_negation_has_ended_costs_no_match_where_the_query_allows_none_that_is_false() -> None:
    """The engine is told of it, so there is nothing to be kept from it: neither later in the overload, nor after it."""
    query = QUERIES[0]
    told = [("A", 1, 1, 0), ("B", 1, 2, 0), ("A", 2, 3, 0), ("A", 2, 3, 1), ("A", 1, 4, 0), ("C", 1, 5, 0)]
    counted = [0, 0]
    arrivals = []
    for kind, key, time, source in told:
        arrivals.append({"type": kind, "time": time, "source": source, "attributes": {"k": key}, "offset": counted[source]})
        counted[source] += 1
    steps = [[arrivals[:4]], [arrivals[4:]]]  # the second one is worth 0.3, and all that it does is to end what the first one began
    own, lost = found(catalog_of(query, allow_false_positives=False), steps, TimeRules("input"), 1, set(), 1.4, 1.4, 0.0)
    assert own == expected(matches(query, arrivals), LIVELY)
    assert (own.total(), lost) == (1, 0)


def dense(events: int, seed: int) -> list[Event]:
    """Of three partitions, many events to a window."""
    chance = np.random.default_rng(seed)
    kinds, keys, times = chance.choice(list(LIVELY), events), chance.integers(1, 4, events), np.cumsum(chance.integers(0, 3, events))
    drawn = enumerate(zip(kinds.tolist(), keys.tolist(), times.tolist(), strict=True))
    return [{"type": kind, "time": time, "source": 0, "offset": place, "attributes": {"k": key}} for place, (kind, key, time) in drawn]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_who_judges_a_model_keeps_what_buckets_keep(query: Query, *, allowed: bool) -> None:
    """`cep evaluate` and `cep replay` on a recording, the application on a stream, by the same model at the same threshold: also of events that must stay."""
    catalog = catalog_of(query, allow_false_positives=allowed)
    plan, features = catalog.plans[0], Features.of(catalog.plans[0])
    observed = event_observations(plan, features, event_batch(dense(400, 1), LIVELY))
    model, events = method("prefix").train(observed, Training(0, plan.fingerprint)), dense(300, 2)
    batch = event_batch(events, LIVELY)
    for threshold in THRESHOLDS:
        gate = PrefixGate(model, threshold)

        def ranked(part: EventBatch, _: SelectedEvents, gate: PrefixGate = gate) -> Mapping[int, Mapping[str, Column]]:
            return {0: {f"{RANK}q": Column(Kind.FLOAT, gate.ranks(features.judged(part)))}}

        own, _ = found(catalog, [[events]], TimeRules("input"), 1, set(), threshold, riders=ranked)
        kept = gate.keep(features.judged(batch)) | protected_events(plan, batch)
        assert Counter(one for step in Operator(plan, batch).found(kept) for one in answers(plan, step.matches)) == own, threshold


@pytest.mark.parametrize("described", [True, False])
def test_where_nobody_remembers_what_was_kept_followers_stay(*, described: bool) -> None:
    """A snapshot of a version that did not remember, or moved to other buckets: what began before may be extended until a window later."""
    catalog, rules = catalog_of(Query((A, B), K, within=9)), TimeRules("input")
    plan = IngressPlan(catalog, rules, 1)
    bucket = Bucket(catalog, [rules], 0, chains_of=chains_of if described else lambda *_: None)
    opener = {"type": "A", "time": 1, "source": 0, "attributes": {"k": 1}, "offset": 0}
    follower = {"type": "B", "time": 5, "source": 0, "attributes": {"k": 1}, "offset": 3}  # of rank 0.9
    ingested = plan.ingest(event_batch([opener], LIVELY), Progress(sources=SOURCES), riders=riders)
    bucket.advance([packed for _, packed in ingested.packed()], Progress(sources=SOURCES), thresholds={0: 2.1})
    again = Bucket.restore(catalog, [rules], 0, bucket.snapshot(), chains_of=chains_of)
    ingested = plan.ingest(event_batch([follower], LIVELY), Progress({0: 1}, SOURCES), riders=riders)
    output = again.advance([packed for _, packed in ingested.packed()], Progress({0: 9}, SOURCES, closing=True), thresholds={0: 2.1})
    assert sum(one.events for one in output.shed) == (2 if described else 1), (
        "the opener, and what follows it only where it is known that nothing else began"
    )
