"""How ratios that hold follow those that are wanted."""

from __future__ import annotations

import pytest

from app.config.settings import Watchdog as WatchdogSettings
from app.control.law.running import BACK, MOST_MISSED, OUT, Running
from app.control.law.settling import HOLDING_MS, Strain, settle

SETTINGS = WatchdogSettings()
PLATEAU_MS = 800.0


def settled(running: Running, *wanted: float, held: float = 1.0, least: float = 0.3, since_ms: float = 400.0, clear: bool = False) -> float:
    """What is aimed at behind decisions that wanted this, one after the other."""
    for one in wanted:
        settle(running, {"q": one}, Strain(held, least, PLATEAU_MS), SETTINGS, of_matches=(), since_ms=since_ms, clear=clear)
        running.steady = dict(running.aimed)
    return running.aimed["q"]


def holding(ratio: float) -> Running:
    return Running(steady={"q": ratio}, aimed={"q": ratio})


def test_what_holds_is_the_mean_of_what_was_wanted_since_it_is_about_right() -> None:
    assert settled(holding(0.5), 0.52, 0.48, 0.54, 0.46) == pytest.approx((0.5 + 0.52 + 0.48 + 0.54 + 0.46) / 5)


def test_the_mean_forgets_by_time_and_not_by_decisions() -> None:
    often, seldom = holding(0.5), holding(0.5)
    for one in (often, seldom):
        one.settled = 1_000
    assert settled(often, 0.55, since_ms=300.0) == pytest.approx(0.5 + 0.05 * 300 / HOLDING_MS)
    assert settled(seldom, 0.55, since_ms=24_000.0) == pytest.approx(0.5 + 0.05 * 24_000 / HOLDING_MS)


def test_a_batch_that_is_fixed_for_the_most_part_is_not_about_right_for_being_long() -> None:
    """Behind a burst: nine tenths of what a batch may take are there at any ratio, and nearly all is shed."""
    assert settled(holding(0.95), *[0.3] * 5, held=0.87, least=0.85) < 0.6
    assert settled(holding(0.55), *[0.5] * 5, held=0.96, least=0.85) > 0.5, "here it is"


def test_batches_that_take_far_too_long_are_no_noise_however_few_they_are() -> None:
    """An overload begins while a process is cold: 9,000 events/s become 27,000, and batches of half a second take a second and a half. By their number it would be six of them until more is shed."""
    short, long = holding(0.4), holding(0.4)
    for one in (short, long):
        one.settled = 10
    assert settled(short, 0.95, 0.95, held=3.0) < 0.5, "in 0.8 s"
    assert settled(long, 0.95, 0.95, held=3.0, since_ms=1_500.0) > 0.9


def test_where_there_is_no_overload_nothing_waits_for_a_mean() -> None:
    running = holding(0.3)
    running.settled = 1_000
    assert settled(running, 0.0, clear=True) < 0.2


def test_a_query_that_comes_into_a_deployment_in_overload_does_not_begin_at_nothing() -> None:
    running = Running(steady={"old": 0.5}, aimed={"old": 0.5}, settled=1_000)
    settle(running, {"old": 0.5, "new": 0.4}, Strain(1.0, 0.3, PLATEAU_MS), SETTINGS, of_matches=(), since_ms=400.0, clear=False)
    assert running.aimed["new"] >= 0.2
    assert running.aimed["old"] == pytest.approx(0.5)


def test_partial_matches_never_wait() -> None:
    running = holding(0.5)
    running.settled = 1_000
    settle(running, {"q": 0.6}, Strain(1.0, 0.3, PLATEAU_MS), SETTINGS, of_matches={"q"}, since_ms=400.0, clear=False)
    assert running.aimed["q"] == pytest.approx(0.55)


def test_batches_that_miss_what_they_were_to_take_are_remembered_slowly_and_none_for_too_much() -> None:
    running = Running(planned=7, expected_ms=100.0)
    running.learn_missed(6, 300.0)
    assert running.missed == 0.0, "of another batch nothing was expected"
    running.learn_missed(7, 10_000.0)
    assert 0 < running.missed < 0.05 * MOST_MISSED
    for _ in range(300):
        running.learn_missed(7, 80.0)
    assert running.missed == pytest.approx(0.223, abs=0.01), "shorter ones as well"


def test_a_report_that_comes_when_the_next_batch_is_planned_already_teaches_as_well() -> None:
    running = Running()
    running.plan(7, 0)
    running.expected_ms = 100.0
    running.plan(8, 400)
    running.learn_missed(7, 150.0)
    assert running.missed > 0
    running.missed = 0.0
    running.plan(10, 800)
    running.learn_missed(9, 150.0)
    assert running.missed == 0.0, "nothing is known of the ninth"


def test_how_clear_an_overload_is_is_known_at_once_and_remembered_for_minutes() -> None:
    running = Running()
    assert running.learn_overload(1000, -0.5) == 0.0, "there is none"
    assert running.learn_overload(2000, 0.5) == 1.0, "of another bound"
    for _ in range(6):
        begun = running.learn_overload(1000, 0.4)
    assert begun > 0.8
    for _ in range(100):
        later = running.learn_overload(1000, 0.0)
    assert 0.6 < later < 0.8
    assert Running().learn_overload(1000, 0.02) == pytest.approx(0.1), "hardly one"


def reach(running: Running, *beyond: str, times: int) -> list[str]:
    """What is told when that was so for so many decisions."""
    for _ in range(times):
        running.learn_reach(beyond)
    return running.out_of_reach


def test_a_bound_is_out_of_reach_or_back_in_it_when_that_has_held() -> None:
    running = Running()
    for _ in range(2):
        assert not reach(running, "q", times=OUT - 1)
        assert not reach(running, times=1)
    assert not reach(running, "q", times=1)
    assert reach(running, "q", "other", times=OUT - 1) == ["q"], "each bound by itself"
    assert reach(running, "q", "other", times=1) == ["other", "q"]
    assert reach(running, "q", times=BACK) == ["q"]
    assert reach(running, times=BACK - 1) == ["q"]
    assert reach(running, "q", times=1) == ["q"]
    assert reach(running, times=BACK - 1) == ["q"]
    assert reach(running, times=1) == []
    assert running.otherwise == {}
