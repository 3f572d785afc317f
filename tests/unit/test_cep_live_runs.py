"""Partial matches as shedders see them: what is alive, and what ending some of them costs."""

from __future__ import annotations

import numpy as np
import pytest

from app.asc.selection import Selection
from app.bucket.recording import match_sorted, rows_between
from app.cep.engine import Watermarks
from app.cep.runs.engine import RunsEngine
from app.cep.runs.live import end_runs, live_runs, new_runs
from app.events.batch import Column, EventBatch, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from app.query.planning.abandoned import abandoned_plans

STREAM = StreamSchema("s", tuple(EventType(name, (Attribute("k", Kind.INTEGER),)) for name in "ABC"))


def plan_of(event: str, within: str = "10 s", more: str = "strategy: skip-till-next-match\n") -> Plan:
    compiled = compile_texts([("q.yaml", f"name: q\nfrom: s\nevent: {event}\nwhere: '[k]'\nwithin: {within}\n{more}")], {"s": STREAM})
    assert not compiled.errors, compiled.errors
    return compiled.catalog.plans[0]


def events(types: str, keys: list[int] | None = None) -> EventBatch:
    values = np.array(keys or [1] * len(types), np.int64)
    return events_of_types(list(types), [1000 * k for k in range(len(types))], {"k": Column(Kind.INTEGER, values)})


def steps(plan: Plan, batch: EventBatch):
    """Event by event: the engine, the matches of the step, the time."""
    engine, selection = RunsEngine(plan), Selection(Catalog.of((plan,)), None)
    for k in range(len(batch)):
        part = rows_between(batch, k, k + 1)
        items = np.zeros(1, np.uint64)
        rows, own = selection.select(part).of_query(0)
        items[rows] = own
        matches, _ = engine.feed(part, items, Watermarks(int(part.time[0])))
        yield engine, len(matches), int(part.time[0])


def test_live_runs_say_how_far_they_came_and_how_long_they_may_live() -> None:
    seen = []
    for engine, found, now in steps(plan_of("SEQ(A a, B b, C c)"), events("AABC")):
        live = live_runs(engine)
        order = np.argsort(live.begun_ms)
        seen.append((found, live.item[order].tolist(), live.time_left_ms(now)[order].tolist(), live.first[order, 1].tolist()))
        assert live.newest_ms[order].tolist() == [now] * len(live) or now == 1000
    assert seen == [(0, [0], [10_000], [0]), (0, [0, 0], [9_000, 10_000], [0, 1]), (0, [1, 1], [8_000, 9_000], [0, 1]), (2, [], [], [])]


def test_windows_in_events_count_the_partition() -> None:
    plan = plan_of("SEQ(A a, B b)", within="4 events")
    left = [live_runs(engine).events_left.tolist() for engine, _, _ in steps(plan, events("ACCAC", [1, 1, 2, 1, 1]))]
    assert [sorted(row) for row in left] == [[3], [2], [2], [1, 3], [2]]


def test_ended_runs_complete_nothing_and_the_others_do() -> None:
    batch = events("AAABBC", [1, 2, 3, 1, 3, 3])
    plan = plan_of("SEQ(A a, B b, C c)")
    found = 0
    for engine, new, now in steps(plan, batch):
        found += new
        if now == 4000:
            live = live_runs(engine)
            assert len(live) == 3
            assert end_runs(engine, live, live.item == 1) == 1  # key 2 saw no B
            engine.validate()
            assert len(live_runs(engine)) == 2
    assert found == 1
    for engine, new, _ in steps(plan, batch):
        live = live_runs(engine)
        end_runs(engine, live, np.zeros(len(live), np.bool_))
        assert new == 0
        assert len(live_runs(engine)) == 0


@pytest.mark.parametrize("restarted", [False, True])
def test_new_runs_are_told_once_each_also_after_a_restart(*, restarted: bool) -> None:
    plan, told = plan_of("SEQ(A a, B b, C c)"), []
    engine, batch = RunsEngine(plan), events("AABABC", [1, 2, 1, 3, 2, 1])
    for start in range(0, 6, 2):
        part = rows_between(batch, start, start + 2)
        items = np.array([1 << "ABC".index("AABABC"[k]) for k in (start, start + 1)], np.uint64)
        engine.feed(part, items, Watermarks(int(part.time[-1])))
        told.append(sorted(new_runs(engine).newest[:, 1].tolist()))
        assert len(new_runs(engine)) == 0
        if restarted:
            engine = RunsEngine.restore(plan, engine.snapshot())
    assert told == [[0, 1], [2, 3], [4]]


def found_by(plan: Plan, batch: EventBatch) -> list[list[int]]:
    places = [item.index for item in plan.positive]
    rows = []
    for one in match_sorted(Catalog.of((plan,)), batch).found:
        bound = one.matches.constituents(places)
        offsets = one.matches.events.offset[bound.rows].tolist()
        rows += [offsets[start:stop] for start, stop in zip(bound.starts[:-1].tolist(), bound.starts[1:].tolist(), strict=True)]
    return sorted(rows)


@pytest.mark.parametrize("more", ["", "strategy: skip-till-next-match\n", "evaluator: runs\n"])
def test_a_negation_in_the_middle_ends_what_began_before_it_once(more: str) -> None:
    plan = plan_of("SEQ(A a, !(B b), C c)", more=more)
    (abandoned,) = abandoned_plans(plan)
    batch = events("ABBCAC", [1, 1, 1, 1, 1, 1])
    assert found_by(abandoned, batch) == [[0, 1]]
    assert [4, 5] in found_by(plan, batch)


def test_negations_at_the_ends_and_those_before_count_too() -> None:
    start, end = plan_of("SEQ(!(B b), A a, C c)", more=""), plan_of("SEQ(A a, !(B x), B b, !(C c))", more="")
    assert found_by(abandoned_plans(start)[0], events("BAC")) == [[0, 1]]
    middle, last = abandoned_plans(end)
    assert found_by(middle, events("ABC")) == [[0, 1]]
    assert found_by(last, events("ABC")) == [[0, 1, 2]]
    assert found_by(last, events("ABBC")) == [[0, 1, 3]], "the second B is not the first after A"
    assert abandoned_plans(plan_of("SEQ(A a, B b)")) == ()


def test_state_in_bytes_follows_what_is_alive_and_a_restart_changes_nothing() -> None:
    plan = plan_of("SEQ(A a, B b, C c)", within="1000 s")
    engine, selection = RunsEngine(plan), Selection(Catalog.of((plan,)), None)
    batch = events("A" * 300 + "B" * 100, [k % 50 for k in range(400)])
    items, (rows, own) = np.zeros(len(batch), np.uint64), selection.select(batch).of_query(0)
    items[rows] = own
    empty = engine.state_bytes(0)
    engine.feed(batch, items, Watermarks(int(batch.time[-1])))
    full = engine.state_bytes(0)
    assert full > empty + 300 * 64
    assert RunsEngine.restore(plan, engine.snapshot()).state_bytes(0) == full
    live = live_runs(engine)
    assert end_runs(engine, live, np.arange(len(live)) >= len(live) // 2) == len(live) // 2
    assert engine.state_bytes(1 << 40) == full, "nobody looks while there is room"
    half = engine.state_bytes(0)
    assert 0.3 * full < half < 0.8 * full
    assert RunsEngine.restore(plan, engine.snapshot()).state_bytes(0) == half
    assert end_runs(engine, live_runs(engine), np.zeros(len(live_runs(engine)), np.bool_)) == len(live) - len(live) // 2
    assert engine.state_bytes(0) == empty
