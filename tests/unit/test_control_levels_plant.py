"""The watchdog against a simulated plant in which partial matches are what costs, and what is shed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from app.config.settings import Watchdog as WatchdogSettings
from app.control.law.levels import Levels
from app.control.law.query_cost import QueryObservation
from app.control.law.watchdog import Watchdog
from app.control.law.watched import BatchObservation, PlannedBatch, WatchedQuery
from app.control.messages.directives import QueryShedding
from app.control.messages.reports import QueryTally, SourceProgress
from app.control.messages.totals import BatchTotals
from tests.unit.test_control_levels import plan

pytestmark = pytest.mark.slow  # minutes of an application in virtual time per test

LARGEST, BOUND = 400_000, 2_000
CALM = 0.1


@dataclass
class Plant:
    """Micro-batches on simulated time. Every event begins a partial match that lives for ``window_ms``; an event is held against all that live.

    At `capacity` events per ms a steady batch takes half of the bound: its time is fixed + events * (own + per match * live), live = rate * window. Of those that are made in a batch
    the asked share goes at once. ``scatter``: of the work of a batch, whatever is in it. From
    a batch on everything may be `dearer`, by how many partial matches there ever are. ``power``: of the share that is kept, to which as many are left: more than 1 where most are made of kept ones.
    """

    rate_per_ms: float
    seed: int
    fixed_ms: float = 350.0
    event_ms: float = 0.002
    window_ms: float = 10_000.0
    match_ms: float = 2e-7
    scatter: float = 0.05
    dearer: float = 1.0
    dearer_from: int = 10**9
    power: float = 1.0
    calm_until: int = 0
    now: float = 0.0
    live: float = 0.0
    latencies: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    lives: list[float] = field(default_factory=list)

    def run(self, batches: int) -> None:
        watchdog = Watchdog((WatchedQuery("q", "pspice", BOUND, streams=("s",), of_matches=True),), WatchdogSettings(), LARGEST)
        levels, query, chance = Levels(), plan("pspice", f"{round(self.window_ms)} ms"), np.random.default_rng(self.seed)
        totals, shedding = BatchTotals(-1), {}
        taken_until = self.now = 1_000_000.0
        arrived = 0.0
        for batch in range(batches):
            planned = max(self.now, taken_until + 20)
            rate = self.rate_per_ms * (CALM if batch < self.calm_until else 1.0)
            consumed = rate * (planned - taken_until)
            levels.see(shedding, totals, {"q": query})
            watchdog.plan(PlannedBatch(batch, round(planned), {"s": round(consumed)}))
            shedding = {name: levels.orders(query, ratio, totals, None) for name, ratio in watchdog.ratios.items()}
            own = shedding.get("q", QueryShedding(0.0))
            judged = round(self.live) if own.share else 0
            ended = round(judged * own.share)
            self.live -= ended
            passed, began = planned - taken_until, self.live
            kept = consumed * (1 - own.events)
            made = rate * (1 - own.events) * min(passed, self.window_ms) * (1 - own.drop_ratio) ** self.power
            stay = self.live * max(0.0, 1 - passed / self.window_ms)
            met = (self.live + stay + made) / 2
            work = kept * (self.event_ms + self.match_ms * met) * float(np.exp(chance.normal(0, self.scatter)))
            work *= self.dearer if batch >= self.dearer_from else 1.0
            duration = (self.fixed_ms + work) * float(np.exp(chance.normal(0, 0.05)))
            self.live = stay + made
            tally = QueryTally(
                "q", candidates=round(consumed), partial_matches=round(self.live), judged_matches=judged, ended_matches=ended
            )
            source = SourceProgress(7, round(consumed), round(planned))
            totals = BatchTotals(batch, queries={"q": tally}, counts={"matched": round(consumed)}, sources={7: source})
            self.latencies.append(planned - taken_until + duration)
            self.ratios.append(own.drop_ratio)
            self.events.append(own.events)
            self.lives.append(self.live)
            arrived += consumed
            reference = own.reference if shedding else max(round(self.live), levels.reference("q"))
            asked = 1 + own.events if own.events else own.drop_ratio
            seen = QueryObservation(round(consumed), round(consumed - kept), work, (began + self.live) / 2, reference, asked)
            self.now, oldest, taken_until = planned + duration, taken_until, planned
            count = {"s": round(consumed)}
            arrivals = {"s": round(arrived)}
            watchdog.observe(
                BatchObservation(
                    batch, round(planned), duration, arrivals, 0, count, round(kept), round(consumed - kept), round(oldest), {"q": seen}
                )
            )
            watchdog.validate()


@pytest.mark.parametrize("seed", range(3))
def test_partial_matches_are_shed_until_the_bound_holds(seed: int) -> None:
    plant = Plant(rate_per_ms=25.0, seed=seed)
    unshed = plant.fixed_ms + 25 * 800 * (plant.event_ms + plant.match_ms * 25 * plant.window_ms)
    assert unshed > BOUND / 2, "without shedding a batch of 0.8 s of events alone takes longer than that"
    plant.run(400)
    settled = plant.latencies[150:]
    assert np.mean([latency > BOUND for latency in settled]) < 0.02
    assert 0.5 * BOUND < np.median(settled) < BOUND, "and not more is shed than need be"
    assert 0 < np.mean(plant.ratios[150:]) < 0.95
    assert np.std(plant.ratios[150:]) < 0.05


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("window_ms", "times"), [(10_000.0, 4), (750.0, 1), (750.0, 4)])
def test_lumps_and_windows_shorter_than_a_batch_do_not_make_the_ratio_swing(seed: int, window_ms: float, times: int) -> None:
    """Shedding begins before the state has ever been full, and afterwards nobody sees how many partial matches there would be."""
    plant = Plant(rate_per_ms=25.0, seed=seed, window_ms=window_ms, match_ms=times * 2e-7 * 10_000 / window_ms, scatter=0.15)
    plant.run(400)
    settled = plant.latencies[150:]
    assert np.mean([latency > BOUND for latency in settled]) < 0.04
    assert 0.6 * BOUND < np.median(settled) < 0.85 * BOUND
    assert min(plant.ratios[150:]) > 0.3
    assert np.std(plant.ratios[150:]) < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_what_becomes_dearer_while_it_is_shed_is_believed_within_some_batches(seed: int) -> None:
    plant = Plant(rate_per_ms=25.0, seed=seed, dearer=2.5, dearer_from=200)
    plant.run(300)
    late = [k for k in range(200, 300) if plant.latencies[k] > BOUND]
    assert late, "a batch that takes more than twice what was known is late"
    assert len(late) <= 16
    assert np.mean([latency > BOUND for latency in plant.latencies[220:]]) <= 0.1


def test_without_overload_no_partial_match_is_shed() -> None:
    plant = Plant(rate_per_ms=5.0, seed=1)
    plant.run(200)
    assert not any(plant.ratios)
    assert max(plant.latencies) < BOUND


@pytest.mark.parametrize("seed", range(3))
def test_the_ratio_of_a_burst_settles_where_partial_matches_are_made_of_kept_ones(seed: int) -> None:
    plant = Plant(90.0, seed, fixed_ms=160, window_ms=130.0, match_ms=0.08 / (90 * 130), scatter=0.15, power=2.0, calm_until=60)
    plant.run(160)
    burst = plant.latencies[60:]
    assert np.mean([latency > BOUND for latency in burst]) < 0.04
    assert np.median(burst) < 0.57 * BOUND, "taken for the share itself, latencies stay up to a third longer"
    assert np.std(plant.ratios[70:]) < 0.05


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("calm_until", [0, 100])
def test_where_events_by_themselves_are_too_much_events_go_as_well_and_no_longer_than_that(seed: int, calm_until: int) -> None:
    """A burst on a shedder of partial matches: each event is still fed, and costs something."""
    plant = Plant(rate_per_ms=300.0, seed=seed, event_ms=0.004, calm_until=calm_until)
    least_ms = plant.fixed_ms + 300 * 800 * plant.event_ms
    assert least_ms > 0.6 * BOUND, "with no partial match at all two batches take longer than the bound"
    plant.run(400)
    settled = slice(calm_until + 30, None)
    assert np.mean([latency > BOUND for latency in plant.latencies[settled]]) < 0.03
    # behind calm what an event costs with the last few partial matches is known from one batch, and that it is less shows slowly
    assert np.median(plant.latencies[settled]) > (0.45 if calm_until else 0.7) * BOUND, "and not much more is shed than need be"
    assert 0.2 < np.mean(plant.events[settled]) < (0.8 if calm_until else 0.6)
    assert np.std(plant.events[settled]) < 0.08
    assert max(plant.events[:calm_until], default=0.0) == 0


def test_who_wants_something_left_loses_no_events() -> None:
    assert [WatchedQuery("q", "pspice", BOUND, max_drop_ratio=most, of_matches=True).most for most in (0.5, 0.99)] == [0.5, 1.99]
    assert WatchedQuery("q", "random", BOUND).most == 0.99
