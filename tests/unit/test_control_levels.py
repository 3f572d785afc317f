"""What a drop ratio means where partial matches are shed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.control.law.levels import Levels
from app.control.law.observations import Done, Streams, observation_of
from app.control.messages.directives import Directive, QueryShedding
from app.control.messages.reports import QueryTally, SourceProgress
from app.control.messages.totals import BatchTotals
from app.observe.progress import Progress
from app.query.compile import compile_texts
from app.query.plan import Plan
from app.query.resolved.vocabulary import UNKNOWN


def plan(shedder: str, within: str = "1 m") -> Plan:
    text = f"name: q\nevent: SEQ(A a, B b)\nwithin: {within}\nshedding: {{shedder: {shedder}, latency_bound: 1 s}}\n"
    (query,) = compile_texts([("q.yaml", text)], UNKNOWN).queries
    assert query.plan is not None
    return query.plan


def after(live: int, **more: int) -> BatchTotals:
    return BatchTotals(1, queries={"q": QueryTally("q", partial_matches=live, **more)})


def test_shedders_of_partial_matches_choose_the_evaluator_that_has_some():
    assert (plan("pm-random").evaluator, plan("gspice").evaluator) == ("runs", "stacks")


def test_a_ratio_speaks_of_the_partial_matches_without_shedding():
    levels = Levels()
    levels.see({}, after(1000), {})
    first = levels.orders(plan("pm-random"), 0.4, after(1000), 700.0)
    assert first == QueryShedding(0.4, "pm-random", "matching", 700.0, 1000, 0.4)
    # 600 were left, and 150 have begun since: as many as are beyond 600 go, not two fifths again
    shedding = {"q": first}
    levels.see(shedding, after(750), {})
    assert levels.orders(plan("pm-random"), 0.4, after(750), None).share == pytest.approx(0.2)
    assert levels.orders(plan("pm-random"), 0.4, after(500), None).share == 0.0
    assert levels.orders(plan("pm-random"), 0.1, after(750), None).share == 0.0


def test_more_partial_matches_in_spite_of_shedding_are_the_new_reference():
    levels = Levels()
    levels.see({}, after(10), {})
    assert levels.orders(plan("pm-random"), 0.5, after(400), None) == QueryShedding(0.5, "pm-random", "matching", None, 400, 0.5)


def test_beyond_all_partial_matches_that_may_go_events_go_as_well():
    levels = Levels()
    levels.see({}, after(1000), {})
    orders = levels.orders(plan("pm-random"), 1.4, after(1000), None)
    assert orders == QueryShedding(0.99, "pm-random", "matching", None, 1000, 0.99, 0.4)
    directive = Directive(3, shedding={"q": orders, "r": QueryShedding(0.5)})
    assert Directive.from_json(directive.to_json()) == directive
    assert "events" not in directive.to_plain()["shedding"]["r"], "what earlier versions do not know is written where it is needed only"
    assert levels.orders(plan("gspice"), 0.9, after(1000), None).events == 0


def test_a_state_that_fills_up_again_says_nothing_of_what_there_would_be():
    levels = Levels()
    levels.see({}, after(1000), {})
    shedding = {"q": levels.orders(plan("pm-random"), 0.8, after(1000), None)}
    for live in (200, 210):
        levels.see(shedding, after(live), {})
    for live in (400, 700, 900):  # nothing was shed in these batches, and the state is growing
        levels.see({}, after(live), {})
    assert levels.orders(plan("pm-random"), 0.5, after(900), None).reference == 1000
    for _ in range(20):  # it is full
        levels.see({}, after(900), {})
    assert levels.orders(plan("pm-random"), 0.5, after(900), None).reference == pytest.approx(900, abs=3)
    levels.see({}, after(2000), {})
    assert levels.orders(plan("pm-random"), 0.5, after(900), None).reference == 2000


def during(live: int, newest_ms: int, candidates: int) -> BatchTotals:
    source = SourceProgress(7, candidates, newest_ms)
    return BatchTotals(1, queries={"q": QueryTally("q", candidates=candidates, partial_matches=live)}, sources={7: source})


@pytest.mark.parametrize(("within", "followed_after"), [("1 m", 60), ("3000 events", 30)])
def test_a_state_that_fills_up_slowly_is_not_full_before_a_window_has_passed(within: str, followed_after: int) -> None:
    """In calm batches of a second and 100 events, in which it grows by little."""
    query, levels = plan("pm-random", within), Levels()
    levels.see({}, during(1000, 0, 100), {"q": query})
    levels.see({"q": levels.orders(query, 0.8, after(1000), None)}, during(200, 1_000, 100), {"q": query})
    for second in range(1, 100):
        live = 200 + 2 * second
        levels.see({}, during(live, 1_000 + 1_000 * second, 100), {"q": query})
        if second < followed_after:
            assert levels.reference("q") == 1000
            seen = observation_of(done(during(live, 0, 100)), [query], Streams(lambda _: "s", lambda _: "s"), levels.reference)
            assert seen.queries["q"].reference == 1000, "which is what the watchdog goes by while nothing is shed as well"
    assert levels.reference("q") == pytest.approx(400, abs=10)


def test_a_batch_without_events_does_not_forget_when_it_shed_last():
    query, levels = plan("pm-random"), Levels()
    levels.see({}, during(1000, 0, 100), {"q": query})
    shedding = {"q": levels.orders(query, 0.8, after(1000), None)}
    levels.see(shedding, during(200, 1_000, 100), {"q": query})
    levels.see(shedding, after(200), {"q": query})  # ended by the clock, say
    for second in range(1, 60):
        levels.see({}, during(210, 1_000 + 1_000 * second, 100), {"q": query})
        levels.see({}, after(210), {"q": query})
    assert levels.reference("q") == 1000


@pytest.mark.parametrize(("running", "ours"), [(None, True), ("a", True), ("b", False)])
def test_a_batch_under_way_at_a_reload_is_told_apart(running: str | None, *, ours: bool) -> None:
    """Under the old catalog a new query had no candidates, which says nothing of what it will have."""
    before = replace(done(after(1000)), directive=Directive(3, deployment="a"))
    assert observation_of(before, [], Streams(lambda _: "s", lambda _: "s"), lambda _: 0, running).of_catalog is ours


@pytest.mark.parametrize(("counted", "known"), [(700, 700), (0, 1000)])
def test_what_events_were_held_against_is_what_engines_counted_or_else_what_is_left(counted: int, known: int) -> None:
    """More were ended than there were before: within the batch, so what was there before says nothing."""
    totals = after(1000, ended_matches=5000, held_matches=counted)
    seen = observation_of(done(totals), [plan("pm-random")], Streams(lambda _: "s", lambda _: "s"), lambda _: 0)
    assert seen.of_catalog
    assert seen.queries["q"].matches == known


def done(totals: BatchTotals) -> Done:
    return Done(Progress(1, "run", 0, 100), totals, None, None)


def test_levels_outlive_a_restart_of_the_driver():
    levels, again = Levels(), Levels()
    levels.see({}, after(1000), {})
    again.restore({query: [*known, "of a later version"] for query, known in levels.snapshot().items()})
    assert again.orders(plan("pm-random"), 0.5, after(800), None) == levels.orders(plan("pm-random"), 0.5, after(800), None)
    assert again.orders(plan("pm-random"), 0.5, after(800), None).reference == 1000


def test_shedders_of_events_stay_at_the_ingress():
    assert Levels().orders(plan("random"), 0.4, after(10), 5.0) == QueryShedding(0.4, "random", "ingress", 5.0)
