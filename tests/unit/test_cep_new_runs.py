"""New partial matches are found from where shedders looked last: whatever happens between two looks, they are those that a look at all of them finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from app.bucket.recording import rows_between
from app.cep.engine import Looking, Watermarks
from app.cep.matches import Matches
from app.cep.partitions.arrays import FREE, NEWEST
from app.cep.runs import arrays as at
from app.cep.runs.engine import RunsEngine
from app.cep.runs.live import LiveRuns, end_runs, live_runs, new_runs
from app.events.batch import Column, EventBatch, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan

STREAM = StreamSchema("s", tuple(EventType(name, (Attribute("k", Kind.INTEGER),)) for name in "ABC"))
PATTERNS = {
    "time": "event: SEQ(A a, B b, C c)\nwithin: 12 s\n",
    "events": "event: SEQ(A a, B b, C c)\nwithin: 9 events\n",
    "next": "event: SEQ(A a, B b, C c)\nwithin: 12 s\nstrategy: skip-till-next-match\n",
    "closure": "event: SEQ(A a, B+ b[], C c)\nwithin: 8 s\n",
    "timeouts": "event: SEQ(A a, B b, C c)\nwithin: 6 s\non_timeout: emit\nstrategy: skip-till-next-match\n",
}
STEP = st.one_of(
    st.tuples(st.just("feed"), st.text("ABC", min_size=1, max_size=12), st.lists(st.integers(1, 3), min_size=12, max_size=12)),
    st.tuples(st.sampled_from(["look", "look at all"]), st.integers(0, 6), st.integers(1, 7)),
    st.tuples(st.sampled_from(["sweep", "restart", "pass"])),
)


def plan_of(pattern: str) -> Plan:
    text = f"name: q\nfrom: s\nwhere: '[k]'\nevaluator: runs\n{pattern}"
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, compiled.errors
    return compiled.catalog.plans[0]


PLANS = {name: plan_of(pattern) for name, pattern in PATTERNS.items()}


class Told:
    """An engine, and all that it told. ``forgets``: nothing is known of where looks ended, as behind a restart."""

    def __init__(self, plan: Plan, *, forgets: bool) -> None:
        self.plan, self.forgets = plan, forgets
        self.engine = RunsEngine(plan)
        self.told: list[object] = []
        self.time = self.offset = 0
        self.behind = 0

    def do(self, step: tuple[object, ...]) -> None:
        slots = self.engine._store.slots
        taken = slots[slots[:, NEWEST] != FREE]
        if self.forgets:
            slots[:, at.S_SEEN] = -1
        self.behind += int(np.count_nonzero(taken[:, at.S_SEEN] >= 0))
        match step:
            case ("feed", str(types), list(keys)):
                self._feed(types, keys)
            case ("look", int(kept), int(of)):
                self._look(new_runs(self.engine), kept, of)
            case ("look at all", int(kept), int(of)):
                self._look(live_runs(self.engine), kept, of)
            case ("sweep",):
                self.engine.state_bytes(0)
            case ("pass",):
                self.time += 5000
                self._told(self.engine.feed(rows_between(batch("A", [1], 0, 0), 0, 0), np.zeros(0, np.uint64), Watermarks(self.time))[0])
            case ("restart",):
                self.engine = RunsEngine.restore(self.plan, self.engine.snapshot())
        self.engine.validate()

    def _feed(self, types: str, keys: list[int]) -> None:
        events = batch(types, keys[: len(types)], self.time, self.offset)
        self.time, self.offset = self.time + 1000 * len(types), self.offset + len(types)
        items = np.array([1 << "ABC".index(one) for one in types], np.uint64)
        self._told(self.engine.feed(events, items, Watermarks(self.time - 1000))[0])

    def _told(self, matches: Matches) -> None:
        self.told.append(len(matches))

    def _look(self, live: LiveRuns, kept: int, of: int) -> None:
        self.told.append(np.column_stack([live.first, live.newest, live.item]).tolist())
        end_runs(self.engine, live, live.newest[:, 1] * 31 % of <= kept)


def batch(types: str, keys: list[int], time: int, offset: int) -> EventBatch:
    made = events_of_types(list(types), [time + 1000 * k for k in range(len(types))], {"k": Column(Kind.INTEGER, np.array(keys, np.int64))})
    made.offset[:] += offset
    return made


@pytest.mark.parametrize("name", PATTERNS)
@given(steps=st.lists(STEP, min_size=2, max_size=25))
@settings(max_examples=40, deadline=None)
def test_new_runs_are_those_that_a_walk_over_all_of_them_finds(name: str, steps: list[tuple[object, ...]]) -> None:
    known, walked = Told(PLANS[name], forgets=False), Told(PLANS[name], forgets=True)
    for step in steps:
        known.do(step)
        walked.do(step)
        assert known.told == walked.told
    event(f"behind where looks ended: {min(known.behind, 3)}")


@pytest.mark.parametrize(("kept", "held"), [(0, 10), (1, 200)])
def test_what_events_are_held_against_is_counted_while_somebody_looks(kept: int, held: int) -> None:
    """Each event begins a partial match; after every twenty all of them end, or none."""
    engine = RunsEngine(plan_of("event: SEQ(A a, B b)\nwithin: 1000 s\n"))
    events = batch("A" * 400, [1] * 400, 0, 0)

    def look(_: int) -> None:
        live = new_runs(engine)
        assert len(live) == 20
        end_runs(engine, live, np.full(20, bool(kept)))

    _, tally = engine.feed(events, np.ones(400, np.uint64), Watermarks(0), Looking(20_000, look))
    assert tally.held_matches == pytest.approx(held, abs=1)
    _, tally = engine.feed(events, np.ones(400, np.uint64), Watermarks(0))
    assert tally.held_matches == 0, "nobody looks, so nobody counts"


@pytest.mark.parametrize("name", PATTERNS)
def test_a_look_goes_on_where_the_one_before_ended(name: str) -> None:
    told = Told(PLANS[name], forgets=False)
    for step in (("feed", "AAB", [1, 2, 1]), ("look", 6, 7), ("feed", "AB", [1, 2]), ("look", 6, 7), ("feed", "A", [3])):
        told.do(step)
    assert told.behind >= 4
    assert len(new_runs(told.engine)) == 1
