"""Queries over other queries' composite events: as by the definitions, whatever the split over batches, tasks and buckets, with restarts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.identity import place_of
from app.bucket.ingress import IngressPlan
from app.bucket.places import COMPOSITES
from app.query.compile import compile_texts
from app.query.plan import Catalog
from tests.naive.arrival import on_time
from tests.naive.composites import composite_events
from tests.naive.language import Attr, Equivalence, Event, Item, Query, yaml_text
from tests.naive.matching import Match, matches, order, return_fields
from tests.property.event_arrays import event_batch, stream_schema
from tests.property.random_queries import streams
from tests.property.test_bucket_way import LIVELY, SOURCES, arrivals_of, split

A, B = Item(("A",), "a"), Item(("B",), "b")
KEY = (("k", Attr("a", "k")),)
UPPER = [
    Query((A, B), within=6, returns=KEY, name="u"),
    Query((A, Item(("A", "B"), "b")), (Equivalence("k"),), within=9, returns=KEY, name="u"),
    Query((A, Item(("B",), "n", negated=True)), within=4, returns=KEY, name="u"),
    Query((A,), within=4, returns=KEY, name="u"),
]
OTHER = [Query((Item(("B",), "a"),), within=5, returns=KEY, name="v"), Query((A, B), within=3, returns=KEY, name="v")]
X, Y = Item(("u",), "x"), Item(("u", "v"), "y")
XK = (("k", Attr("x", "k")),)
LOWER = [
    (Query((X, Item(("u",), "y")), (Equivalence("k"),), within=9, returns=XK, name="w"), ("query:u",)),
    (Query((X, Y), within=5, returns=XK, name="w"), ("query:u", "query:v")),
    (Query((X, Item(("v",), "n", negated=True), Item(("u",), "y")), within=9, returns=XK, name="w"), ("query:u", "query:v")),
    (Query((X, Item(("A", "B"), "c")), within=6, returns=XK, name="w"), ("query:u", "input")),
    (Query((Item(("A",), "n", negated=True), X), within=4, returns=XK, name="w"), ("query:u", "input")),
    (Query((X, Item(("B",), "n", negated=True)), (Equivalence("k"),), within=4, returns=XK, name="w"), ("query:u", "input")),
]
LAST = (Query((Item(("w",), "x"), Item(("A", "w"), "y")), within=7, returns=XK, name="z"), ("query:w", "input"))
SCHEMAS = {**LIVELY, **{name: {"k": LIVELY["A"]["k"]} for name in "uvw"}}


def written(query: Query, streams_: tuple[str, ...]) -> str:
    return yaml_text(query, f"[{', '.join(streams_)}]")


def compiled(queries: list[tuple[Query, tuple[str, ...]]]) -> Catalog:
    compilation = compile_texts([("q.yaml", "---\n".join(written(*one) for one in queries))], {"input": stream_schema(LIVELY)})
    assert not compilation.errors, [finding.render() for finding in compilation.errors]
    return compilation.catalog


def composites(found: dict[str, list[Match]]) -> list[Event]:
    """Composite events in match order: match time, then the events in total order, then query name."""
    listed = sorted(
        ((match.time, [order(e) for e in _bound(match)], name, match) for name, own in found.items() for match in own), key=lambda m: m[:3]
    )
    return [
        {"type": name, "time": time, "source": COMPOSITES, "offset": n, "attributes": return_fields(match, SCHEMAS), "match": match}
        for n, (time, _, name, match) in enumerate(listed)
    ]


def _bound(match: Match) -> list[Event]:
    return sorted((event for events in match.assignment.values() for event in events), key=order)


def described(event: Event) -> Any:
    """An event by what it is, not by the number that it has somewhere."""
    match = event.get("match")
    return (event["source"], event["offset"]) if match is None else (event["type"], meaning(match))


def meaning(match: Match) -> Any:
    return match.time, tuple(sorted((item, described(event)) for item, events in match.assignment.items() for event in events))


def defined(queries: list[tuple[Query, tuple[str, ...]]], events: list[Event]) -> Counter:
    """All matches of all queries by the definitions."""
    found: dict[str, list[Match]] = {}
    for query, read in queries:
        upper = composites({name: own for name, own in found.items() if f"query:{name}" in read})
        found[query.name] = matches(query, sorted([*(events if "input" in read else []), *upper], key=order))
    return Counter((name, meaning(match)) for name, own in found.items() for match in own)


class Run:
    """The application's way: ingress, buckets, restarts."""

    def __init__(self, catalog: Catalog, rules: TimeRules, buckets: int) -> None:
        self.catalog, self.rules = catalog, rules
        self.plan = IngressPlan(catalog, rules, buckets)
        self.buckets = [Bucket(catalog, [rules], number, ("t",)) for number in range(buckets)]
        self.greatest: dict[int, int] = {}
        self.events: dict[int, tuple[str, Any]] = {}
        self.found: Counter = Counter()
        self.identities: Counter = Counter()

    def step(self, tasks: list[list[Event]], *, closing: bool, restart: bool) -> None:
        progress = Progress(self.greatest, SOURCES, closing=closing)
        chunks: list[list[bytes]] = [[] for _ in self.buckets]
        news = dict(self.greatest)
        for events in tasks:
            ingested = self.plan.ingest(event_batch(events, LIVELY), progress)
            news |= {s: t for s, t in ingested.judgement.greatest_times.items() if t > news.get(s, t - 1)}
            for bucket, packed in ingested.packed():
                chunks[bucket].append(packed)
        self.greatest = news
        for number, own in enumerate(chunks):
            if restart:
                data = self.buckets[number].snapshot()
                self.buckets[number] = Bucket.restore(self.catalog, [self.rules], number, data, ("t",))
            output = self.buckets[number].advance(own, progress)
            self.buckets[number].validate()
            for one in output.found:
                self._take(self.catalog.plans[one.query], one.matches)

    def _take(self, plan: Any, found: Any) -> None:
        for event in composite_events(plan, found, ("t",)):
            items = found.constituents([item.index for item in plan.positive])
            assert items is not None
            bound = tuple(
                sorted(
                    (next(i.index for i in plan.items if i.variable == c.variable), self._described(c.topic, c.partition, c.offset))
                    for c in event.events
                )
            )
            self.events[place_of(event.id)] = (plan.name, (event.time, bound))
            self.found[plan.name, (event.time, bound)] += 1
            self.identities[event.id] += 1

    def _described(self, topic: str, partition: int, offset: int) -> Any:
        if topic == "t":
            return partition, offset
        name, what = self.events[offset]
        assert topic == f"query:{name}"
        return name, what


def run(catalog: Catalog, steps: list[list[list[Event]]], rules: TimeRules, buckets: int, restarts: set[int]) -> Run:
    own = Run(catalog, rules, buckets)
    for number, tasks in enumerate([*steps, []]):
        own.step(tasks, closing=number == len(steps), restart=number in restarts)
    return own


@st.composite
def cases(draw: st.DrawFn) -> list[tuple[Query, tuple[str, ...]]]:
    queries = [(draw(st.sampled_from(UPPER)), ("input",)), (draw(st.sampled_from(OTHER)), ("input",)), draw(st.sampled_from(LOWER))]
    return [*queries, LAST] if draw(st.booleans()) else queries


@settings(max_examples=max(30, settings.default.max_examples // 8), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_composite_events_are_read_as_by_the_definitions_whatever_the_split(data: st.DataObject) -> None:
    queries = data.draw(cases())
    note("\n".join(written(*one) for one in queries))
    arrivals = arrivals_of(data, data.draw(streams(LIVELY, most=14)))
    note(arrivals)
    lateness = data.draw(st.sampled_from([0, 2, 9]))
    rules = TimeRules("input", lateness)
    steps = split(data, arrivals)
    catalog = compiled(queries)
    found = run(catalog, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))))
    wanted = defined(queries, on_time(arrivals, lateness))
    assert found.found == wanted
    assert found.identities == run(catalog, [[arrivals]], rules, 1, set()).identities
    assert max(found.identities.values(), default=1) == 1


def test_composite_events_of_one_time_keep_their_order_when_steps_later_matches_of_them_are_sorted() -> None:
    """Six matches of `u` at one time, found in one step; in another one `w` finds a match with each of them, and `z` counts on their order."""
    upper = Query((A,), within=50, returns=KEY, name="u")
    middle = Query((X, Item(("B",), "c")), within=50, returns=XK, name="w")
    last = Query((Item(("w",), "x"), Item(("w",), "y")), within=50, returns=XK, name="z")
    queries = [(upper, ("input",)), (middle, ("query:u", "input")), (last, ("query:w",))]

    def event(name: str, time: int, source: int, offset: int) -> Event:
        return {"type": name, "time": time, "source": source, "offset": offset, "attributes": {"k": 1}}

    first = [event("A", 0, offset % 2, offset // 2) for offset in range(6)]
    ticks = [event("A", 9, source, 3) for source in (0, 1)]
    steps = [[first], [ticks], [[event("B", 10, 0, 4)]]]
    events = [one for (tasks,) in steps for one in tasks]
    for restarts in (set(), {2, 3}):
        found = run(compiled(queries), steps, TimeRules("input", 0), 2, restarts)
        assert found.found == defined(queries, events)
        assert sum(count for (name, _), count in found.found.items() if name == "z") == 28


@settings(max_examples=max(20, settings.default.max_examples // 10), phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_composite_events_of_a_trusted_stream_are_read_in_their_order(data: st.DataObject) -> None:
    """The upper query is fed at once, key by key; the lower one waits until nothing earlier can come."""
    upper = Query((A, Item(("A", "B"), "b")), (Equivalence("k"),), within=data.draw(st.sampled_from([6, 40])), returns=KEY, name="u")
    lower = data.draw(st.sampled_from([one for one in LOWER if one[1] != ("query:u", "query:v")]))
    queries = [(upper, ("input",)), lower]
    events = [event for event in data.draw(streams(LIVELY, most=14)) if event["attributes"]["k"] is not None]
    for event in events:  # equal keys in one topic partition
        event["source"] = len(str(event["attributes"]["k"])) % 2
    events.sort(key=lambda event: (event["time"], event["source"]))
    for source in SOURCES:
        for offset, event in enumerate(e for e in events if e["source"] == source):
            event["offset"] = offset
    note("\n".join(written(*one) for one in queries))
    rules = TimeRules("input", 0, ordered_by="k")
    steps = split(data, events)
    catalog = compiled(queries)
    found = run(catalog, steps, rules, data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(0, len(steps)))))
    assert found.found == defined(queries, events)
