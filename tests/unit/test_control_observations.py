"""What the watchdog is told of a finished batch, and of a query."""

from __future__ import annotations

import pytest

from app.control.law.observations import Done, Streams, observation_of
from app.control.law.query_cost import QueryObservation
from app.control.law.watched import WatchedQuery
from app.control.messages.reports import QueryTally
from app.control.messages.totals import BatchTotals
from app.observe.progress import Progress
from app.query.compile import compile_texts
from app.query.plan import Plan
from app.query.resolved.vocabulary import UNKNOWN


def a_plan(shedder: str = "random", within: str = "10 s") -> Plan:
    text = f"name: q\nevent: SEQ(A a, B b)\nwithin: {within}\nshedding: {{shedder: {shedder}, latency_bound: 1 s}}\n"
    (query,) = compile_texts([("q.yaml", text)], UNKNOWN).queries
    assert query.plan is not None, query.findings
    return query.plan


def seen(plan: Plan, before: int, there: int, ended: int = 0) -> QueryObservation:
    """A batch with so many partial matches before and behind it, some of which were ended."""
    totals = BatchTotals(7, queries={"q": QueryTally("q", partial_matches=there, ended_matches=ended)})
    earlier = BatchTotals(6, queries={"q": QueryTally("q", partial_matches=before)})
    done = Done(Progress(7, "r", 0, 1), totals, None, earlier)
    return observation_of(done, [plan], Streams(lambda _: None, lambda _: None), lambda _: 0).queries["q"]


def test_more_partial_matches_are_those_that_came_whatever_was_ended_meanwhile() -> None:
    plan = a_plan()
    assert seen(plan, 100, 150).more_matches == 50
    assert seen(plan, 100, 70).more_matches == 0, "more went than came"
    assert seen(plan, 100, 90, 30).more_matches == 20
    assert seen(plan, 0, 150).matches == 75, "half of them on average"


def test_who_hides_events_ends_no_partial_match() -> None:
    assert seen(a_plan("hspice"), 100, 150, 60).more_matches == 50


@pytest.mark.parametrize(("within", "window_ms"), [("10 s", 10_000), ("200 events", None)])
def test_only_a_time_says_how_long_things_stay(within: str, window_ms: float | None) -> None:
    assert WatchedQuery.of(a_plan(within=within)).window_ms == window_ms
