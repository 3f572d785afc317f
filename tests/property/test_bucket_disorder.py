"""Events out of order, in several topic partitions, ingress tasks, buckets and micro-batches: matches and late events as by the definitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given, note
from hypothesis import strategies as st

from app.bucket.bucket import Bucket
from app.bucket.chunk import Chunk
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.query.compile import compile_texts
from app.query.plan import Catalog
from tests.naive.arrival import arrive, on_time
from tests.naive.language import Equivalence, Event, Item, Query, yaml_text
from tests.naive.matching import matches
from tests.property.application_way import Answer, answers, expected
from tests.property.event_arrays import event_batch, stream_schema
from tests.property.random_queries import Schemas, cuts, queries, schemas, streams

SOURCES = 3


@st.composite
def arrivals(draw: st.DrawFn, known: Schemas) -> list[Event]:
    """Events in the order in which they arrive: sorted by time, then some pushed back; offsets count per topic partition."""
    events = draw(streams(known, sources=SOURCES))
    delays = [draw(st.sampled_from([0, 0, 0, 1, 3, 10])) for _ in events]
    shuffled = [event for _, event in sorted(zip(delays, events, strict=True), key=lambda pair: pair[0] + pair[1]["time"])]
    return numbered(shuffled)


def numbered(events: list[Event]) -> list[Event]:
    counts: Counter[int] = Counter()
    made = []
    for event in events:
        made.append({**event, "offset": counts[event["source"]]})
        counts[event["source"]] += 1
    return made


@dataclass(frozen=True)
class Input:
    """A stream, the types that it has, and its topic partitions."""

    rules: TimeRules
    known: Schemas
    sources: frozenset[int] = frozenset(range(SOURCES))


class Stage:
    """Ingress tasks and buckets."""

    def __init__(self, catalog: Catalog, inputs: list[Input], buckets: int) -> None:
        self.catalog, self.inputs = catalog, inputs
        self.rules = [one.rules for one in inputs]
        self.ingress = [IngressPlan(catalog, one.rules, buckets) for one in inputs]
        self.buckets = [Bucket(catalog, self.rules, number) for number in range(buckets)]
        self.greatest: dict[int, int] = {}
        self.found: dict[str, Counter[Answer]] = {plan.name: Counter() for plan in catalog.plans}
        self.late: set[tuple[int, int]] = set()

    def micro_batch(self, events: list[Event], tasks: list[set[int]], *, closing: bool = False) -> None:
        sources = frozenset(source for one in self.inputs for source in one.sources)
        progress = Progress(dict(self.greatest), sources, closing=closing)
        chunks: list[list[Chunk | bytes]] = [[] for _ in self.buckets]
        for one, ingress in zip(self.inputs, self.ingress, strict=True):
            for part in tasks:
                batch = event_batch([event for event in events if event["source"] in part & one.sources], one.known)
                ingested = ingress.ingest(batch, progress)
                self.late |= {(int(batch.source[row]), int(batch.offset[row])) for row in ingested.late}
                for number, chunk in ingested.packed():
                    chunks[number].append(chunk)
        for event in events:
            self.greatest[event["source"]] = max(event["time"], self.greatest.get(event["source"], event["time"]))
        for number, bucket in enumerate(self.buckets):
            output = bucket.advance(chunks[number], progress)
            bucket.validate()
            self.late |= {(int(source), int(offset)) for source, offset in output.late}
            for found in output.found:
                plan = self.catalog.plans[found.query]
                self.found[plan.name].update(answers(plan, found.matches))

    def restart(self) -> None:
        self.buckets = [Bucket.restore(self.catalog, self.rules, bucket.number, bucket.snapshot()) for bucket in self.buckets]


def drive(data: st.DataObject, stage: Stage, events: list[Event]) -> None:
    one, two, three = sorted(source for one in stage.inputs for source in one.sources)
    tasks = data.draw(st.sampled_from([[{one, two, three}], [{one, three}, {two}], [{one}, {two}, {three}]]))
    begin = 0
    for end in data.draw(cuts(len(events))):
        if data.draw(st.booleans()):
            stage.restart()
        stage.micro_batch(events[begin:end], tasks)
        begin = end
    stage.micro_batch([], tasks, closing=True)


def catalog_of(data: st.DataObject, wanted: list[Query], known: Schemas, ordered_by: str | None = None) -> Catalog:
    texts = [(f"{query.name}.yaml", yaml_text(query, "input")) for query in wanted]
    note("---\n".join(text for _, text in texts))
    compilation = compile_texts(texts, {"input": stream_schema(known)})
    assert not compilation.errors
    return compilation.catalog


@given(st.data())
def test_disorder_within_the_allowed_lateness_is_repaired_and_the_rest_is_late(data: st.DataObject) -> None:
    known = data.draw(schemas())
    wanted = [replace(data.draw(queries(known)), name=f"q{number}") for number in range(data.draw(st.sampled_from([1, 1, 3])))]
    events = data.draw(arrivals(known))
    lateness = data.draw(st.sampled_from([0, 1, 5, 100]))
    stage = Stage(catalog_of(data, wanted, known), [Input(TimeRules("input", lateness), known)], data.draw(st.sampled_from([1, 3])))
    drive(data, stage, events)
    late = arrive(events, lateness, frozenset(range(SOURCES))).late
    assert stage.late == {(event["source"], event["offset"]) for event in late}
    for query in wanted:
        assert stage.found[query.name] == expected(matches(query, on_time(events, lateness)), known)


@given(st.data())
def test_trusted_order_gives_the_same_matches(data: st.DataObject) -> None:
    """Each key stays in one topic partition and in order; keys and partitions drift apart within the allowed lateness."""
    known = {name: {"k": "integer", **attributes} for name, attributes in data.draw(schemas()).items()}
    query = data.draw(queries(known))
    if Equivalence("k") not in query.equivalence:
        query = replace(query, equivalence=(Equivalence("k"), *(test for test in query.equivalence if test.attribute != "k")))
    events = data.draw(streams(known))
    keys = [event["attributes"]["k"] for event in events]
    lag = {key: data.draw(st.integers(0, 6)) for key in (0, 1, None)}
    for event, key in zip(events, keys, strict=True):
        event["source"] = data.draw(st.integers(0, 2)) if key is None else key + 1
    moved = numbered([event for _, event in sorted(zip(keys, events, strict=True), key=lambda pair: pair[1]["time"] + lag[pair[0]])])
    stage = Stage(
        catalog_of(data, [query], known), [Input(TimeRules("input", 6, ordered_by="k"), known)], data.draw(st.sampled_from([1, 3]))
    )
    drive(data, stage, moved)
    assert stage.late == set()
    assert stage.found[query.name] == expected(matches(query, moved), known)


def test_an_event_at_the_watermark_waits_for_ties_that_come_before_it_in_total_order() -> None:
    known = {"A": {"v": "integer"}, "B": {"v": "integer"}}
    query = Query((Item(("A",), "a"), Item(("B",), "b")))
    catalog = compile_texts([("q.yaml", yaml_text(query, "input"))], {"input": stream_schema(known)}).catalog
    stage = Stage(catalog, [Input(TimeRules("input", 0), known)], 1)
    arrivals = [
        {"type": kind, "time": 5, "source": source, "offset": offset, "attributes": {"v": 1}}
        for kind, source, offset in (("B", 2, 0), ("B", 1, 0), ("B", 0, 0), ("A", 0, 1))
    ]
    stage.micro_batch(arrivals[:3], [{0, 1, 2}])
    stage.micro_batch(arrivals[3:], [{0, 1, 2}])
    stage.micro_batch([], [{0, 1, 2}], closing=True)
    assert sorted(bound for bound, _, _ in stage.found["q"].elements()) == [((0, 0, 1), (1, 1, 0)), ((0, 0, 1), (1, 2, 0))]


RIGHT = 1 << 20
"""The first topic partition of the second topic."""


@given(st.data())
def test_queries_over_two_streams_take_the_watermark_of_the_slower(data: st.DataObject) -> None:
    known = data.draw(schemas())
    query = data.draw(queries(known))
    left, right = ({name: known[name] for name in names} for names in (("A", "B"), ("C", "E-1")))
    drawn = data.draw(arrivals(known))
    events = numbered([{**event, "source": event["source"] % 2 if event["type"] in left else RIGHT} for event in drawn])
    patience = [data.draw(st.sampled_from([0, 2, 100])) for _ in range(2)]
    text = yaml_text(query, "[left, right]")
    note(text)
    compilation = compile_texts([("q.yaml", text)], {"left": stream_schema(left, "left"), "right": stream_schema(right, "right")})
    assert not compilation.errors
    inputs = [
        Input(TimeRules("left", patience[0], topics=frozenset((0,))), left, frozenset((0, 1))),
        Input(TimeRules("right", patience[1], topics=frozenset((1,))), right, frozenset((RIGHT,))),
    ]
    stage = Stage(compilation.catalog, inputs, data.draw(st.sampled_from([1, 3])))
    drive(data, stage, events)
    sides = [[event for event in events if (event["source"] == RIGHT) == is_right] for is_right in (False, True)]
    fed = [event for side, lateness in zip(sides, patience, strict=True) for event in on_time(side, lateness)]
    assert stage.late == {(e["source"], e["offset"]) for e in events} - {(e["source"], e["offset"]) for e in fed}
    assert stage.found[query.name] == expected(matches(query, fed), known)
