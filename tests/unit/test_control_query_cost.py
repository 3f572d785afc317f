"""What a query costs by its partial matches: what is remembered of many of them while few are left."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from app.control.law.query_cost import COLD_MS, FEED_MS, QueryCost, QueryObservation, restored

REFERENCE = 150_000


def each_ms(matches: float) -> float:
    return 0.005 + 7e-7 * matches


def seen(matches: float, kept: int = 5_000, *, work_ms: float | None = None, shed: int = 0, asked: float = 0.0) -> QueryObservation:
    work_ms = kept * each_ms(matches) if work_ms is None else work_ms
    return QueryObservation(kept + shed, shed, FEED_MS + work_ms, matches, REFERENCE, asked)


def learn(cost: QueryCost, one: QueryObservation) -> None:
    cost.learn(one, one.candidates, None, warm=True)


@pytest.fixture
def cost() -> QueryCost:
    """Of which batches with few and with many partial matches were seen."""
    known = QueryCost()
    for matches in (150_000, 100_000, 50_000, 20_000, 10_000, 5_000) * 3:
        learn(known, seen(matches, asked=1 - matches / REFERENCE))
    return known


def of_events(candidates: int, work_ms: float, *, warm: bool = True) -> tuple[QueryObservation, int, None]:
    return QueryObservation(candidates, 0, work_ms), candidates, None


def test_a_quiet_night_of_batches_that_take_next_to_nothing_says_nothing_of_the_next_burst() -> None:
    known = QueryCost()
    for _ in range(20):
        known.learn(*of_events(5_000, FEED_MS + 200.0), warm=True)
    each, lumpy = known.whole_ms, known.surprises.lumpy
    assert each == pytest.approx(0.04, rel=0.01)
    for _ in range(300):
        known.learn(*of_events(10, 0.6), warm=True)
    for _ in range(5):
        known.learn(*of_events(10, 0.6), warm=False)  # after a reload
    assert known.whole_ms == pytest.approx(each)
    known.learn(*of_events(5_000, FEED_MS + 200.0), warm=True)
    assert known.surprises.lumpy <= lumpy + 0.01, "it was foretold"


def test_while_processes_are_cold_what_takes_seconds_is_believed_and_what_loads_is_not() -> None:
    known = QueryCost()

    def learn(events: int, work_ms: float, matches: float, *, warm: bool = False) -> None:
        known.learn(QueryObservation(events, 0, FEED_MS + work_ms, matches), events, None, warm=warm)

    learn(5_000, 50.0, 1_000.0, warm=True)
    learn(50, COLD_MS / 2, 1_200.0)
    assert known.whole_ms == pytest.approx(0.01)
    learn(50, 9 * COLD_MS, 1_000.0)
    assert known.whole_ms == pytest.approx(0.01), "with no more than before: a kernel is compiled"
    learn(5_000, COLD_MS + 2_000.0, 3_000.0)
    assert known.whole_ms == pytest.approx(0.4)
    learn(5_000, 100.0, 3_000.0)
    assert known.whole_ms == pytest.approx(0.02)


def test_an_event_that_finds_an_empty_state_behind_an_outage_does_not_say_what_it_costs_with_a_full_one() -> None:
    """All events are joined: one costs 0.1 ms with 10,000 in the state."""
    known = QueryCost()
    for _ in range(20):
        known.learn(QueryObservation(1_000, 0, FEED_MS + 100.0, 10_000.0), 1_000, None, warm=True)
    for _ in range(3):  # a hundredth is kept, and finds next to nothing
        known.learn(QueryObservation(100_000, 99_000, FEED_MS + 1_000 * 0.1 * 0.05, 500.0, asked=0.99), 100_000, None, warm=False)
    assert 0.05 < known.whole_ms < 0.2


def test_an_empty_state_behind_an_outage_is_none_of_all_events_either() -> None:
    known = QueryCost()
    for _ in range(20):
        known.learn(QueryObservation(1_000, 0, FEED_MS + 100.0, 10_000.0), 1_000, None, warm=True)
    known.learn(QueryObservation(100_000, 99_000, FEED_MS + 0.5, 0.0, asked=0.99), 100_000, None, warm=False)
    assert known.whole_ms > 0.02
    assert known.full == pytest.approx(10_000.0)


def test_what_an_event_adds_is_seen_while_a_state_fills_and_not_forgotten_when_as_much_goes() -> None:
    known = QueryCost()
    for number in range(3_000):
        held, more = min(1_000.0 * number, 20_000.0), 1_000 * (number < 20)
        known.learn(QueryObservation(1_000, 0, FEED_MS + held / 100, held, more_matches=more), 1_000, None, warm=True, period_ms=500.0)
    assert known.born == pytest.approx(1.0, rel=0.01)
    assert known.full == pytest.approx(20_000.0)
    assert known.dense == pytest.approx(2.0)


def test_a_full_state_is_that_of_the_batches_that_say_what_an_event_costs() -> None:
    """A large batch says more of both than a small one."""
    known = QueryCost()
    for _ in range(30):
        known.learn(QueryObservation(100, 0, FEED_MS + 3.0, 6_000.0), 100, None, warm=True)
    known.learn(QueryObservation(300_000, 0, FEED_MS + 225_000.0, 150_000.0), 300_000, None, warm=True)
    assert known.whole_ms == pytest.approx(0.75, rel=0.01)
    assert known.full == pytest.approx(150_000.0, rel=0.01)


def test_a_large_batch_that_takes_next_to_nothing_is_believed() -> None:
    known = QueryCost()
    for count, work_ms in ((5_000, 201.0), (50_000, 0.9)):
        for _ in range(20):
            known.learn(*of_events(count, work_ms), warm=True)
    assert known.whole_ms < 0.001


def test_one_batch_that_was_foretold_wildly_wrong_is_no_scatter_for_minutes() -> None:
    known = QueryCost()
    for _ in range(20):
        known.learn(*of_events(5_000, 2.0), warm=True)
    for _ in range(60):
        known.learn(*of_events(5_000, 5_000.0), warm=True)
    assert known.surprises.lumpy < 0.7


def at(cost: QueryCost, matches: float) -> float:
    return cost.work_by_ratio()(1 - matches / REFERENCE)


def test_the_work_of_an_event_by_partial_matches_is_what_was_seen(cost: QueryCost) -> None:
    for matches in (5_000, 30_000, 150_000):
        assert at(cost, matches) == pytest.approx(each_ms(matches), rel=0.1)


def test_what_ending_partial_matches_takes_is_not_taken_for_work_of_the_few_events_that_are_left(cost: QueryCost) -> None:
    """All but one in a hundred events go, and 145,000 partial matches: 46 events in 30 ms."""
    learn(cost, seen(1_060, 46, work_ms=30.0, shed=4_598, asked=1.99))
    for matches in (5_000, 30_000, 150_000):
        assert at(cost, matches) == pytest.approx(each_ms(matches), rel=0.15)


def test_cheap_events_with_few_partial_matches_say_nothing_of_many(cost: QueryCost) -> None:
    for _ in range(20):
        learn(cost, seen(2_000, work_ms=5_000 * each_ms(2_000) / 4, asked=0.99))
    assert at(cost, 150_000) > 0.6 * each_ms(150_000), "a tenth of it, where all levels moved with these"
    assert at(cost, 2_000) < 0.6 * each_ms(2_000)


def test_dear_events_with_few_partial_matches_are_dear_with_many(cost: QueryCost) -> None:
    for _ in range(20):
        learn(cost, seen(10_000, work_ms=5_000 * each_ms(10_000) * 2.5, asked=0.93))
    assert at(cost, 150_000) > 1.5 * each_ms(150_000)


def test_what_was_dear_for_some_batches_is_dear_no_longer_with_many_partial_matches_either(cost: QueryCost) -> None:
    before = at(cost, 150_000)
    for times in (2.5, 1.0):
        for _ in range(30):
            learn(cost, seen(10_000, work_ms=5_000 * each_ms(10_000) * times, asked=0.93))
    assert at(cost, 150_000) == pytest.approx(before, rel=0.25), (
        "twice as much and more, where nothing but many partial matches themselves says so"
    )


def test_a_state_that_fills_up_again_is_not_taken_for_what_a_ratio_of_nothing_leaves(cost: QueryCost) -> None:
    before = at(cost, 150_000)
    for matches in (10_000, 12_000, 15_000, 19_000, 24_000, 30_000, 38_000, 48_000, 60_000):
        learn(cost, seen(matches, 700))
    assert at(cost, 150_000) == pytest.approx(before, rel=0.1)


def test_samples_of_an_earlier_version_go_on() -> None:
    known = restored({"samples": [[5_000, each_ms(5_000)], [50_000, each_ms(50_000)], [150_000, each_ms(150_000)]], "reference": REFERENCE})
    assert at(known, 100_000) == pytest.approx(each_ms(100_000), rel=0.05)


def test_what_is_known_goes_through_snapshots_and_comes_from_those_that_had_all_in_one(cost: QueryCost) -> None:
    written = json.loads(json.dumps(asdict(cost)))
    flat = {**written, **written["by_matches"], **written["surprises"]}
    del flat["by_matches"], flat["surprises"]
    assert cost.surprises.foretold > 0
    assert restored(written) == restored(flat) == cost
