"""The watchdog against a simulated plant: batches whose time follows from what is kept, arrivals at a given rate."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config.settings import Watchdog as WatchdogSettings
from app.control.costs import BatchCost, fit_costs
from app.control.watchdog import BatchObservation, Watchdog, WatchedQuery

LARGEST = 400_000
BOUND = 2_000
ONE = (WatchedQuery("q", "random", BOUND),)


@dataclass
class Plant:
    """Micro-batches on simulated time. ``rate`` gives events per ms at a time."""

    rate: Callable[[float], float]
    fixed_ms: float = 350.0
    per_consumed_ms: float = 0.0006
    per_kept_ms: float = 0.004
    relevant: float = 1.0
    noise: float = 0.05
    seed: int = 1
    delay: int = 0
    unseen_ms: float = 0.0
    dropped_share: Callable[[dict[str, float]], float] = lambda ratios: min(ratios.values(), default=0.0)
    now: float = 1_000_000.0
    arrived: float = 0.0
    taken: float = 0.0
    batch: int = 0
    latencies: list[float] = field(default_factory=list)
    ratios: list[dict[str, float]] = field(default_factory=list)
    decided: list[dict[str, float]] = field(default_factory=list)
    marks: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)

    def arrive_until(self, until: float) -> None:
        while self.now < until:
            step = min(20.0, until - self.now)
            self.now += step
            self.arrived += self.rate(self.now) * step
            self.marks.append((self.arrived, self.now))

    def arrival_time(self, position: float) -> float:
        return next((at for count, at in self.marks if count >= position), self.now)

    def run(self, watchdog: Watchdog, batches: int) -> None:
        for _ in range(batches):
            while self.arrived - self.taken < 1:
                self.arrive_until(self.now + 20)
            planned = self.now
            consumed = int(min(self.arrived - self.taken, LARGEST))
            remaining = int(self.arrived - self.taken - consumed)
            latest = int(self.arrived)
            oldest = self.arrival_time(self.taken + 1)
            self.decided.append(watchdog.ratios)
            ratios = self.decided[max(0, len(self.decided) - 1 - self.delay)]
            relevant = int(consumed * self.relevant)
            shed = int(relevant * self.dropped_share(ratios)) if ratios else 0
            kept = relevant - shed
            duration = self.fixed_ms + self.per_consumed_ms * consumed + self.per_kept_ms * kept
            duration *= float(np.exp(self.chance.normal(0, self.noise)))
            self.arrive_until(planned + duration)
            self.taken += consumed
            self.marks = [mark for mark in self.marks if mark[0] >= self.taken]
            self.latencies.append(self.now - oldest + self.unseen_ms)
            self.ratios.append(ratios)
            watchdog.observe(
                BatchObservation(
                    batch=self.batch,
                    planned_at_ms=round(planned),
                    duration_ms=duration,
                    arrived=latest,
                    remaining=remaining,
                    consumed=consumed,
                    kept=kept,
                    shed=shed,
                    oldest_broker_ms=round(oldest - self.unseen_ms),
                    asked=ratios,
                    candidates={query.query: relevant for query in watchdog._queries},
                )
            )
            watchdog.validate()
            self.batch += 1

    @property
    def capacity_per_ms(self) -> float:
        per_event = self.per_consumed_ms + self.per_kept_ms * self.relevant
        return LARGEST / (self.fixed_ms + LARGEST * per_event)


def a_watchdog(queries: tuple[WatchedQuery, ...] = ONE, **changes: object) -> Watchdog:
    return Watchdog(queries, WatchdogSettings(**changes), LARGEST)  # type: ignore[arg-type]


def at_capacity(plant: Plant, times: float) -> Plant:
    level = plant.capacity_per_ms * times
    plant.rate = lambda _: level
    return plant


def test_without_overload_nothing_is_shed() -> None:
    plant = at_capacity(Plant(lambda _: 0), 0.4)
    plant.run(a_watchdog(), 200)
    assert max(plant.latencies) < BOUND
    assert not any(plant.ratios)


@pytest.mark.parametrize(("seed", "delay"), [(0, 0), (1, 0), (2, 0), (3, 1)])
def test_at_twice_the_capacity_latency_returns_below_the_bound_and_stays(seed: int, delay: int) -> None:
    # Delay: Spark's progress may come when the next batch has its directive already.
    plant = at_capacity(Plant(lambda _: 0, seed=seed, delay=delay), 2.0)
    watchdog = a_watchdog()
    plant.run(watchdog, 300)
    settled = plant.latencies[60:]
    assert np.mean([latency > BOUND for latency in settled]) < 0.02
    assert np.median(settled) < 0.9 * BOUND
    ratio = np.mean([ratios["q"] for ratios in plant.ratios[100:]])
    # A steady batch of D takes fixed / (1 - load), and latency is 2 D: the least ratio with 2 D = 0.8 * bound.
    rate = plant.rate(0)
    least = 1 - (1 - plant.fixed_ms / (0.4 * BOUND) - plant.per_consumed_ms * rate) / (plant.per_kept_ms * rate)
    assert least - 0.05 < ratio < least + 0.05


def test_ratio_falls_only_when_the_backlog_is_gone() -> None:
    plant = Plant(lambda _: 0)
    quiet, burst = plant.capacity_per_ms * 0.3, plant.capacity_per_ms * 8
    plant.rate = lambda now: burst if 1_040_000 < now < 1_060_000 else quiet
    watchdog = a_watchdog()
    before = 0.0
    backlogged = 0
    for _ in range(260):
        plant.run(watchdog, 1)
        ratio = watchdog.ratios.get("q", 0.0)
        remaining = plant.arrived - plant.taken - plant.rate(plant.now) * plant.latencies[-1]
        if remaining > LARGEST:
            backlogged += 1
            assert ratio >= before
        assert ratio >= before - 0.1 - 1e-9
        before = ratio
    assert backlogged > 0
    assert max(r.get("q", 0) for r in plant.ratios) > 0.5
    assert before == 0
    assert plant.latencies[-1] < BOUND


def observed(batch: int, consumed: int, duration_ms: float, *, arrived: int, remaining: int, ratio: float = 0.0) -> BatchObservation:
    shed = int(consumed * ratio)
    return BatchObservation(
        batch, 1_000_000 + 1_000 * batch, duration_ms, arrived, remaining, consumed, consumed - shed, shed, asked={"q": ratio}
    )


def test_ratio_waits_for_the_backlog_and_then_falls_in_steps() -> None:
    plant, watchdog = at_capacity(Plant(lambda _: 0), 2.0), a_watchdog()
    plant.run(watchdog, 60)
    raised = watchdog.ratios["q"]
    assert raised > 0.5
    arrived = int(plant.arrived)
    for batch in range(60, 65):  # hardly anything arrives any more, but something is left in Kafka
        watchdog.observe(observed(batch, 1_000, 360.0, arrived=arrived, remaining=5_000, ratio=raised))
        assert watchdog.ratios["q"] >= raised
    ratios = []
    for batch in range(65, 85):
        watchdog.observe(observed(batch, 1_000, 360.0, arrived=arrived, remaining=0, ratio=raised))
        ratios.append(watchdog.ratios.get("q", 0.0))
    assert all(0 <= before - after <= 0.1 + 1e-9 for before, after in zip([raised, *ratios], ratios, strict=False))
    assert ratios[0] < raised
    assert ratios[-1] == 0


def test_growing_backlog_raises_the_ratio_although_the_model_sees_no_way() -> None:
    # All batches are alike, so the model takes their whole time for fixed cost, which no shedding could save.
    watchdog = Watchdog(ONE, WatchdogSettings(warm_up_batches=0), 1_000)
    for batch in range(12):
        ratio = watchdog.ratios.get("q", 0.0)
        watchdog.observe(observed(batch, 1_000, 1_900.0, arrived=100_000 * batch, remaining=100_000 * batch + 1, ratio=ratio))
    assert watchdog.forecast is not None
    assert watchdog.ratios["q"] > 0.5


def test_waiting_that_the_model_does_not_know_is_measured_and_made_up_for() -> None:
    plant = at_capacity(Plant(lambda _: 0, unseen_ms=390.0), 1.6)
    plant.run(a_watchdog(), 150)
    # Without that, latency would settle at 0.8 * 2 s + 0.39 s.
    assert np.median(plant.latencies[80:]) < 0.9 * BOUND


def test_load_just_below_the_bound_is_left_alone() -> None:
    plant = Plant(lambda _: 0, noise=0.0)
    # A steady batch of 700 ms has a latency of 1.4 s, below 0.8 * 2 s.
    level = 350 / 700 / (plant.per_consumed_ms + plant.per_kept_ms)
    plant.rate = lambda _: level
    plant.run(a_watchdog(), 100)
    assert not any(plant.ratios)


def test_bound_that_no_ratio_reaches_does_not_shed_everything_at_low_load() -> None:
    plant = at_capacity(Plant(lambda _: 0), 0.05)
    watchdog = a_watchdog((WatchedQuery("q", "random", 500),))
    plant.run(watchdog, 100)
    assert watchdog.forecast is not None
    assert not watchdog.forecast.in_reach
    assert not any(plant.ratios)


def test_shedding_that_frees_nothing_is_kept_low() -> None:
    # All events are also used by a query that does not shed: dropping them for the other one saves nothing.
    queries = (WatchedQuery("keeps", "none"), WatchedQuery("sheds", "random", BOUND))
    plant = at_capacity(Plant(lambda _: 0, dropped_share=lambda _: 0.0), 1.5)
    watchdog = a_watchdog(queries)
    plant.run(watchdog, 150)
    assert plant.ratios[-1].get("sheds", 0.0) <= 0.05


def test_queries_shed_in_inverse_proportion_to_their_weights() -> None:
    queries = (WatchedQuery("dear", "random", BOUND, weight=3.0), WatchedQuery("cheap", "random", BOUND, weight=1.0))
    plant = at_capacity(Plant(lambda _: 0, dropped_share=lambda r: (r.get("dear", 0) + r.get("cheap", 0)) / 2), 1.4)
    plant.run(a_watchdog(queries), 150)
    last = plant.ratios[-1]
    assert last["cheap"] == pytest.approx(min(0.95, 3 * last["dear"]), rel=0.01)
    assert np.median(plant.latencies[60:]) < BOUND


def test_disabled_watchdog_and_queries_without_shedder_shed_nothing() -> None:
    for watchdog in (
        a_watchdog(enabled=False),
        a_watchdog((WatchedQuery("q", "none", BOUND),)),
        a_watchdog((WatchedQuery("q", "random"),)),
    ):
        plant = at_capacity(Plant(lambda _: 0), 2.0)
        plant.run(watchdog, 30)
        assert not any(plant.ratios)


def test_one_slow_batch_sheds_nothing() -> None:
    plant = at_capacity(Plant(lambda _: 0), 0.15)
    watchdog = a_watchdog()
    plant.run(watchdog, 40)
    plant.fixed_ms = 3_000
    plant.run(watchdog, 1)
    plant.fixed_ms = 350
    plant.run(watchdog, 40)
    assert not any(plant.ratios)


def test_decisions_are_deterministic_and_survive_a_restart() -> None:
    whole, cut = (at_capacity(Plant(lambda _: 0), 1.8) for _ in range(2))
    one, two = a_watchdog(warm_up_batches=0), a_watchdog(warm_up_batches=0)
    whole.run(one, 60)
    cut.run(two, 25)
    again = a_watchdog(warm_up_batches=0)
    again.restore(json.loads(json.dumps(two.snapshot())))
    cut.run(again, 35)
    assert whole.ratios == cut.ratios


def test_repeated_observation_changes_nothing() -> None:
    plant, watchdog = at_capacity(Plant(lambda _: 0), 1.8), a_watchdog()
    plant.run(watchdog, 30)
    before = watchdog.snapshot()
    watchdog.observe(BatchObservation(29, 10**9, 10_000.0, 10**9, 10**9, 10**6, 10**6))
    assert watchdog.snapshot() == before


@settings(max_examples=25, deadline=None)
@given(st.floats(50, 500), st.floats(0.0002, 0.005), st.floats(0.0002, 0.005), st.integers(0, 99))
def test_costs_are_recovered_from_varied_batches(fixed: float, consumed: float, kept: float, seed: int) -> None:
    chance = np.random.default_rng(seed)
    sizes = [(int(n), int(n * share)) for n, share in zip(chance.integers(1_000, 400_000, 40), chance.random(40), strict=True)]
    model = fit_costs([BatchCost(n, k, fixed + consumed * n + kept * k) for n, k in sizes])
    assert model is not None
    for n, k in sizes:
        assert model.duration_ms(n, k) == pytest.approx(fixed + consumed * n + kept * k, rel=0.1, abs=20)


def test_costs_are_never_negative() -> None:
    model = fit_costs([BatchCost(n, n, 500 - n / 100) for n in (10, 1_000, 10_000, 20_000)])
    assert model is not None
    assert min(model.fixed_ms, model.per_consumed_ms, model.per_kept_ms) >= 0
