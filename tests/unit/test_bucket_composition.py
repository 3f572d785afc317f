"""What is remembered of the order of composite events: no more than matches can still bind, and all of that (queries/README.md, *Queries over queries*)."""

from __future__ import annotations

from typing import Any

import pytest

from app.bucket import composition
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.query.compile import compile_texts
from app.query.plan import Catalog
from tests.naive.language import Event
from tests.property.event_arrays import event_batch, stream_schema

SCHEMAS = {"A": {"n": "integer", "k": "integer"}, "B": {"k": "integer"}, "C": {"k": "integer"}}
RULES = TimeRules("input")
UPPER = "name: u\nfrom: input\nevent: A a\nreturn: {n: a.n, k: a.k}\n"
LAST = "name: z\nfrom: query:w\nevent: SEQ(w x, w y)\nwithin: 10 s\nreturn: {first: x.n, second: y.n}\n"
PAIR = "from: [query:u, input]\nevent: SEQ(u x, B b)\nreturn: {n: x.n}\n"
MIDDLE = {
    "a family's": f"{PAIR}within: 50 ms\n",
    "stacks": f"{PAIR}where: '[k]'\nwithin: 50 ms\n",
    "counted": f"{PAIR}within: 50 events\n",
    "counted in partitions": f"{PAIR}where: '[k]'\nwithin: 50 events\n",
    "alternatives": "from: [query:u, input]\nevent: SEQ(u x, OR(B b, SEQ(C c, C d)))\nwithin: 10 s\nreturn: {n: x.n}\n",
    "runs": f"{PAIR.replace('B b', 'B+ b')}max_gap: 50 ms\n",
    "chains": f"{PAIR}max_gap: 50 ms\nwhere: '[k]'\nstrategy: skip-till-next-match\n",
    "a temporal query": "from: query:u\nselect: [n]\ncoalesce: {duration: until-next}\nwindow: {range: 100 ms, slide: 20 ms}\nkey: [k]\n",
}


def catalog_of(middle: str) -> Catalog:
    texts = "---\n".join([UPPER, f"name: w\n{middle}", LAST])
    compiled = compile_texts([("q.yaml", texts)], {"input": stream_schema(SCHEMAS)})
    assert not compiled.errors, [finding.render() for finding in compiled.errors]
    return compiled.catalog


def event(name: str, time: int, offset: int, **attributes: int) -> Event:
    return {"type": name, "time": time, "source": 0, "offset": offset, "attributes": {"k": 1, **attributes}}


class Stage:
    """One ingress task and one bucket."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.ingress, self.bucket = IngressPlan(catalog, RULES, 1), Bucket(catalog, [RULES], 0, ("t",))
        self.greatest: dict[int, int] = {}

    def step(self, events: list[Event], *, closing: bool = False) -> list[tuple[int, int]]:
        """Feeds events; what the last query found."""
        progress = Progress(dict(self.greatest), frozenset((0,)), closing=closing)
        ingested = self.ingress.ingest(event_batch(events, SCHEMAS), progress)
        self.greatest |= ingested.judgement.greatest_times
        output = self.bucket.advance(ingested.chunks, progress)
        found: list[Any] = [one.matches.fields for one in output.found if self.catalog.plans[one.query].name == "z"]
        return [pair for one in found for pair in zip(one["first"].values.tolist(), one["second"].values.tolist(), strict=True)]

    def restart(self) -> None:
        self.bucket = Bucket.restore(self.catalog, [RULES], 0, self.bucket.snapshot(), ("t",))

    @property
    def remembered(self) -> int:
        return len(self.bucket._composition._keys["query:u"])

    @property
    def saved(self) -> int:
        return sum(len(piece) for name, pieces in self.bucket.snapshot_parts() if name == "order-query:u" for piece in pieces)


@pytest.mark.parametrize("middle", MIDDLE.values(), ids=MIDDLE.keys())
@pytest.mark.parametrize("restarts", [False, True])
def test_the_order_of_what_a_query_in_the_middle_still_holds_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, middle: str, *, restarts: bool
) -> None:
    """Eight events of one time, in an order that only `u` knows; `w` binds them steps later, at one time, and `z` pairs what `w` found in that order."""
    monkeypatch.setattr(composition, "SMALL", 0)
    stage = Stage(catalog_of(middle))
    steps = [
        [event("A", 0, n, n=n, k=n if "select" in middle else 1) for n in range(8)],
        [event("C", 5, 8)],
        [event("B", 10, 9)],
    ]
    found = []
    for number, events in enumerate([*steps, []]):
        found += stage.step(events, closing=number == len(steps))
        if restarts:
            stage.restart()
        stage.bucket.validate()
    assert sorted(found) == [(n, later) for n in range(8) for later in range(n + 1, 8)]


@pytest.mark.slow
@pytest.mark.parametrize("middle", MIDDLE.values(), ids=MIDDLE.keys())
def test_the_order_of_composite_events_that_nothing_can_bind_any_more_is_forgotten(middle: str) -> None:
    """Of 9,000 at most fifty can be bound at any time by the definitions of the windows, by that of ten seconds a thousand."""
    stage = Stage(catalog_of(middle))
    for first in range(0, 9_000, 100):
        stage.step([event("A", 10 * n, n, n=n) for n in range(first, first + 100)])
        assert stage.remembered < 3_500
    kept = stage.saved
    stage.restart()
    assert stage.remembered <= (1_001 if "10 s" in middle else 51)
    assert stage.saved == kept


def test_what_a_burst_has_left_is_forgotten_though_nothing_comes_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "SMALL", 10)
    stage = Stage(catalog_of(MIDDLE["alternatives"]))
    for first in range(0, 2_000, 500):
        stage.step([event("A", n, n, n=n) for n in range(first, first + 500)])
    assert stage.remembered >= 1_900
    for later in range(30):
        stage.step([event("A", 60_000 + later, 2_000 + later, n=later)])
    assert stage.remembered < 100
