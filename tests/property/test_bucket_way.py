"""Ingress → chunks → buckets, against the definitions: any split, any number of buckets, restarts anywhere, out of order, late, trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import Phase, assume, given, note, settings
from hypothesis import strategies as st

from app.bucket import matching as bucket_matching
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import Ingested, IngressPlan
from app.owners.tuple_memory import tuple_memory
from app.query.plan import Catalog, Plan
from tests.naive.arrival import arrive, arrive_trusted, on_time
from tests.naive.composites import Constituent, composite_events, match_identity
from tests.naive.language import Equivalence, Event, Item, Query, yaml_text
from tests.naive.matching import matches
from tests.property.application_way import answers, expected, plan_of
from tests.property.event_arrays import event_batch
from tests.property.random_queries import KINDS, cuts, queries, schemas, streams

TOPICS = ("t",)
SOURCES = frozenset((0, 1))


LIVELY = {"A": {"k": KINDS["k"]}, "B": {"k": KINDS["k"]}}
A, B = Item(("A",), "a"), Item(("B",), "b")
NOT_B = Item(("B",), "n", negated=True)
LIVELY_QUERIES = [
    Query((A, B), within=6),
    Query((A, B), (Equivalence("k"),), within=9),
    Query((A, NOT_B, Item(("A",), "c")), within=9),
    Query((A, Item(("A", "B"), "c"), NOT_B), within=5),
]
"""Queries that nearly every pair of events matters to: random ones seldom find much, and so miss what is only a matter of order."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict, Query]:
    """Schemas and a query."""
    if draw(st.booleans()):
        return LIVELY, draw(st.sampled_from(LIVELY_QUERIES))
    known = draw(schemas())
    return known, draw(queries(known))


@dataclass
class Found:
    """Answers of the first query, identities of all queries' composite events, late events."""

    answers: Counter
    identities: Counter
    late: list[tuple[int, int]]
    timeouts: Counter
    """Of the first query: end of the window, bound events, identity."""


Late = list[tuple[int, int]]


def driven(
    catalog: Catalog, schemas_: dict, steps: list[list[list[Event]]], rules: TimeRules, buckets: int, restarts: set[int]
) -> Iterator[tuple[Late, Sequence[bucket_matching.Found]]]:
    """Steps (micro-batches) of tasks of events in order of arrival; closing comes as a last, empty step. Gives what was late, and found."""
    plan = IngressPlan(catalog, rules, buckets)
    states = [Bucket(catalog, [rules], number, memory_of=tuple_memory) for number in range(buckets)]
    greatest: dict[int, int] = {}
    for number, tasks in enumerate([*steps, []]):
        progress = Progress(greatest, SOURCES, closing=number == len(steps))
        chunks: list[list[bytes]] = [[] for _ in range(buckets)]
        news = dict(greatest)
        for events in tasks:
            batch = event_batch(events, schemas_)
            ingested = plan.ingest(batch, progress)
            assert len(batch) == len(ingested.late) + ingested.irrelevant + ingested.shed + ingested.forwarded
            yield [(int(batch.source[row]), int(batch.offset[row])) for row in ingested.late], ()
            hand_over(ingested, chunks, news)
        greatest = news
        for bucket in range(buckets):
            if number in restarts:
                states[bucket] = Bucket.restore(catalog, [rules], bucket, states[bucket].snapshot(), memory_of=tuple_memory)
            output = states[bucket].advance(reversed(chunks[bucket]), progress)
            states[bucket].validate()
            yield [(int(source), int(offset)) for source, offset in output.late], output.found


def hand_over(ingested: Ingested, chunks: list[list[bytes]], greatest: dict[int, int]) -> None:
    """Adds what a task found to the chunks of all buckets, and to the greatest times by source."""
    greatest |= {s: t for s, t in ingested.judgement.greatest_times.items() if t > greatest.get(s, t - 1)}
    for bucket, packed in ingested.packed():
        chunks[bucket].append(packed)


def run(catalog: Catalog, schemas_: dict, steps: list[list[list[Event]]], rules: TimeRules, buckets: int, restarts: set[int]) -> Found:
    """What all steps give together."""
    found = Found(Counter(), Counter(), [], Counter())
    for late, news in driven(catalog, schemas_, steps, rules, buckets, restarts):
        found.late += late
        for one in news:
            own = catalog.plans[one.query]
            if own.name == "q":
                found.answers += Counter(answers(own, one.matches))
            found.identities += Counter(event.id for event in composite_events(own, one.matches, TOPICS))
            if own.name == "q" and one.timeouts is not None:
                found.timeouts += Counter(
                    (event.time, tuple((c.partition, c.offset) for c in event.events), event.id)
                    for event in composite_events(own, one.timeouts, TOPICS, "timeout")
                )
    return found


def arrivals_of(data: st.DataObject, events: list[Event]) -> list[Event]:
    """The events in another order of arrival, with the offsets of that order."""
    shift = {k: event["time"] + data.draw(st.sampled_from([0, 0, 1, 4, 9])) for k, event in enumerate(events)}
    arrived = [dict(events[k]) for k in sorted(shift, key=lambda k: shift[k])]
    for source in SOURCES:
        for offset, event in enumerate(e for e in arrived if e["source"] == source):
            event["offset"] = offset
    return arrived


def split(data: st.DataObject, arrivals: list[Event]) -> list[list[list[Event]]]:
    """Micro-batches of one task, or of one task per topic partition."""
    steps, begin = [], 0
    for end in data.draw(cuts(len(arrivals))):
        part, begin = arrivals[begin:end], end
        steps.append([part] if data.draw(st.booleans()) else [[e for e in part if e["source"] == source] for source in sorted(SOURCES)])
    return steps


def positions(events: list[Event]) -> list[tuple[int, int]]:
    return sorted((event["source"], event["offset"]) for event in events)


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_any_split_over_batches_tasks_and_buckets_with_restarts_finds_what_the_definitions_find(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    note(yaml_text(query))
    plan = replace(plan_of(query, known), name="q")
    other = replace(plan_of(data.draw(queries(known)), known), name="r", fingerprint="other")
    catalog = Catalog.of((plan, other))
    arrivals = arrivals_of(data, data.draw(streams(known)))
    note(arrivals)
    lateness = data.draw(st.sampled_from([0, 2, 9]))
    rules = TimeRules("input", lateness)
    steps = split(data, arrivals)
    found = run(catalog, known, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))))
    assert found.answers == expected(matches(query, on_time(arrivals, lateness)), known)
    assert sorted(found.late) == positions(arrive(arrivals, lateness, SOURCES).late)
    assert max(found.identities.values(), default=1) == 1
    assert found.identities == run(catalog, known, [[arrivals]], rules, 1, set()).identities


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_a_trusted_stream_finds_the_same_without_waiting(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    assume(query.equivalence)
    note(yaml_text(query))
    plan = replace(plan_of(query, known), name="q")
    key = plan.equivalence[0]
    assume(not any(item.lacks for item in plan.items))
    events = [event for event in data.draw(streams(known)) if event["attributes"].get(key) is not None]
    for event in events:  # equal keys in one topic partition
        event["source"] = len(str(event["attributes"][key])) % 2
    events.sort(key=lambda event: (event["time"], event["source"]))
    for source in SOURCES:
        for offset, event in enumerate(e for e in events if e["source"] == source):
            event["offset"] = offset
    rules = TimeRules("input", 0, ordered_by=key)
    steps = split(data, events)
    found = run(Catalog.of((plan,)), known, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))))
    fed = arrive_trusted(events, key)
    assert found.late == [] == fed.late
    assert found.answers == expected(matches(query, sorted(fed.fed, key=lambda e: (e["time"], e["source"], e["offset"]))), known)


TRUSTED = {"A": {"k": "integer", "g": "string"}, "B": {"k": "integer", "g": "string"}, "C": {"k": "integer"}}


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_in_a_trusted_stream_every_event_of_a_key_counts_as_predecessor(data: st.DataObject) -> None:
    """Also those that no query wants, that went to another bucket or that came in an earlier batch."""
    wide = data.draw(st.booleans())
    query = Query((A, B), (Equivalence("k"), Equivalence("g")) if wide else (Equivalence("k"),), within=50)
    plan = replace(plan_of(query, TRUSTED), name="q")
    events = data.draw(streams(TRUSTED, most=16))
    moved = sorted(range(len(events)), key=lambda k: events[k]["time"] + data.draw(st.sampled_from([0, 0, 0, 3, 7])))
    arrivals = [{**events[k], "source": 1 if events[k]["attributes"]["k"] == 1 else 0} for k in moved]
    for source in SOURCES:
        for offset, event in enumerate(e for e in arrivals if e["source"] == source):
            event["offset"] = offset
    note(arrivals)
    steps = split(data, arrivals)
    rules = TimeRules("input", 0, ordered_by="k")
    found = run(Catalog.of((plan,)), TRUSTED, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))))
    keyed = [event for event in arrivals if event["attributes"]["k"] is not None]
    fed = arrive_trusted(keyed, "k")
    wanted = [e for e in fed.late if e["type"] != "C" and (not wide or e["attributes"]["g"] is not None)]
    assert sorted(found.late) == positions(wanted)
    assert found.answers == expected(matches(query, sorted(fed.fed, key=lambda e: (e["time"], e["source"], e["offset"]))), TRUSTED)


@settings(max_examples=max(20, settings.default.max_examples // 2), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_a_changed_catalog_lets_unchanged_queries_go_on(data: st.DataObject) -> None:
    known, query = data.draw(cases())
    plan = replace(plan_of(query, known), name="q")
    extra = replace(plan_of(data.draw(queries(known)), known), name="a", fingerprint="extra")
    one, two = Catalog.of((plan,)), Catalog.of((extra, plan))
    if data.draw(st.booleans()):
        one, two = two, one
    arrivals = arrivals_of(data, data.draw(streams(known)))
    rules, cut = TimeRules("input", 9), data.draw(st.integers(0, len(arrivals)))
    bucket, found, greatest = Bucket(one, [rules], 0), Counter(), {}
    for catalog, part, closing in ((one, arrivals[:cut], False), (two, arrivals[cut:], True)):
        bucket = bucket.reload(catalog, [rules])
        ingested = IngressPlan(catalog, rules, 1).ingest(event_batch(part, known), Progress(greatest, SOURCES))
        output = bucket.advance(ingested.chunks, Progress(ingested.judgement.greatest_times, SOURCES, closing=closing))
        greatest = ingested.judgement.greatest_times
        bucket.validate()
        for news in output.found:
            if catalog.plans[news.query].name == "q":
                found += Counter(answers(catalog.plans[news.query], news.matches))
    assert found == expected(matches(query, on_time(arrivals, 9)), known)


def test_the_identity_of_a_match_is_what_it_always_was() -> None:
    plan = Plan("shoplifting", 1, "", (), 1.0, ("retail",), (), (), (), None, (), ())
    events = (Constituent("s", "ShelfReading", "retail", 0, 7, 5), Constituent(None, "ExitReading", "retail", 3, 1, 9))
    assert match_identity(plan, None, events) == "a96c40a7ce2553f0ea40d9bbd4f1cfdb"
    assert match_identity(plan, 4, events) != match_identity(plan, None, events)
    assert np.unique([match_identity(plan, None, events[:1]), match_identity(plan, None, events)]).size == 2
