"""Latency watchdogs: how much must be shed so that every query stays below its latency bound, and not more.

A pure state machine: observations of finished batches in, drop ratios out; the clock is in the observations.

**Prediction.** When the next batch is planned, ``waiting`` events are there: what the last batch left in Kafka, and what arrives during it. Clearing
them takes ``clear(r)``; an event that arrives just after the planning waits for that, and then for its own batch. So its latency is

    latency(r) = clear(r) + batch(arrivals during clear(r), r)

with the costs of `app.control.costs` at drop ratio r. In a steady state that is twice a batch's time, which is what is measured at p95.
The ratio is the smallest one with ``latency(r) <= safety * bound`` for every query. Events that are late already play no part: nothing helps them any more.

**Out of reach.** When no allowed ratio suffices (the fixed cost alone is too much, or the events belong to queries that do not shed),
shedding more and more would only do damage: the smallest ratio whose latency is close to the best one is taken.

When the backlog grows nevertheless and drops still have an effect, the ratio is raised step by step: that also shows the model what a kept event costs.

**Falling.** A ratio rises at once and falls step by step, and only when no backlog is left and the present ratio keeps the bound.

**Split.** A query of twice the weight sheds half as much, as far as the largest ratios allow. An event used by several queries goes only when all of them
drop it, so less goes than is asked; the realised share is measured and taken into account.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from app.config.settings import Watchdog as WatchdogSettings
from app.control.costs import BatchCost, CostModel, CostPrior, fit_costs
from app.query.plan import Plan
from app.query.text.keys import TUPLE_SHEDDERS

CLOSE_TO_BEST = 1.1
"""Out of reach, a ratio is good enough when its latency is within a tenth of the best one."""
SMOOTHING = 0.3
"""Weight of the newest batch in running averages of rates and shares: three batches to follow a change."""
LARGEST_OFFSET = 0.25
"""Of the target: measured waiting that the model does not explain is believed up to here; beyond, producers' clocks are wrong."""
NO_EFFECT = 0.1
"""Of what was asked: when less than this is dropped, others keep the events, and shedding is in vain."""
PROBE = 0.1
"""How much a ratio is raised when a backlog grows although the model sees no way: small enough to be taken back, large enough to be measured."""


@dataclass(frozen=True, slots=True)
class WatchedQuery:
    """What the watchdog needs to know of a query."""

    query: str
    shedder: str = "none"
    latency_bound_ms: int | None = None
    safety: float = 0.8
    max_drop_ratio: float = 0.95
    weight: float = 1.0

    @staticmethod
    def of(plan: Plan) -> WatchedQuery:
        """The watched side of a plan."""
        shedding = plan.shedding
        return WatchedQuery(plan.name, shedding.shedder, shedding.latency_bound_ms, shedding.safety, shedding.max_drop_ratio, plan.weight)

    @property
    def sheds(self) -> bool:
        """Whether the query allows anything to be dropped. Shedders of tuples drop what memory does not hold, whatever the latency is."""
        return self.shedder not in ("none", *TUPLE_SHEDDERS) and self.max_drop_ratio > 0

    @property
    def target_ms(self) -> float | None:
        """The latency to stay below; None when the query has no bound or cannot do anything about it."""
        return self.safety * self.latency_bound_ms if self.sheds and self.latency_bound_ms is not None else None


@dataclass(frozen=True, slots=True)
class BatchObservation:
    """A finished batch.

    Attributes:
        planned_at_ms: clock when its offsets were chosen.
        duration_ms: from there to its commit.
        arrived: records in the input topics at planning, since their beginning (sum of latest offsets).
        remaining: records that the batch left behind at planning.
        consumed: records of the batch.
        kept: events that were handed to matching.
        shed: events that were dropped.
        oldest_broker_ms: least Kafka timestamp in the batch, when known.
        candidates: per query, events that it could use, shed ones included.
        kept_ms: time that the tasks spent on kept events, per core, when measured.
        asked: the drop ratios under which the batch ran; None for those decided last.
    """

    batch: int
    planned_at_ms: int
    duration_ms: float
    arrived: int
    remaining: int
    consumed: int
    kept: int
    shed: int = 0
    oldest_broker_ms: int | None = None
    candidates: Mapping[str, int] = field(default_factory=dict)
    kept_ms: float | None = None
    asked: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Why the ratios are as they are; for metrics, reports and `/queries`."""

    waiting: float
    rate_per_s: float
    unshed_latency_ms: float
    latency_ms: float
    in_reach: bool
    costs: CostModel


@dataclass(slots=True)
class _Running:
    """Averages and the last batch; everything here goes through `Watchdog.snapshot`."""

    ratio: float = 0.0
    rate_per_ms: float = 0.0
    relevant_share: float = 1.0
    effect: float = 1.0
    offset_ms: float = 0.0
    per_kept_ms: float | None = None
    shares: dict[str, float] = field(default_factory=dict)
    last_batch: int = -1
    last_planned_ms: int = 0
    last_duration_ms: float = 0.0
    last_arrived: int = 0
    decided_at_ms: int = -(10**15)
    ratios: dict[str, float] = field(default_factory=dict)


class Watchdog:
    """Watches all queries of the application; they share batches, so they share a cost model.

    Args:
        queries: all queries, shedding or not.
        settings: steps, windows; see `app.config.settings.Watchdog`.
        largest_batch: most records that a batch takes.
    """

    def __init__(self, queries: Sequence[WatchedQuery], settings: WatchdogSettings, largest_batch: int) -> None:
        self._queries = tuple(queries)
        self._settings = settings
        self._largest_batch = largest_batch
        self._costs: deque[BatchCost] = deque(maxlen=settings.cost_window)
        self._running = _Running()
        self._seen = 0
        self._forecast: Forecast | None = None

    @property
    def ratios(self) -> dict[str, float]:
        """The drop ratios of the next batch; queries that keep everything are missing."""
        return dict(self._running.ratios)

    @property
    def forecast(self) -> Forecast | None:
        """The prediction behind `ratios`; None before the first decision."""
        return self._forecast

    def observe(self, observation: BatchObservation) -> None:
        """Takes a finished batch into account and decides anew. Batches that were seen already (a repeated report) change nothing."""
        if observation.batch <= self._running.last_batch:
            return
        self._seen += 1
        self._average(observation)
        if self._seen > self._settings.warm_up_batches:
            self._costs.append(BatchCost(observation.consumed, observation.kept, observation.duration_ms))
            ended = observation.planned_at_ms + round(observation.duration_ms)
            if ended - self._running.decided_at_ms >= self._settings.interval:
                self._running.decided_at_ms = ended
                self._decide(observation)

    def snapshot(self) -> dict[str, Any]:
        """Everything that decisions depend on, as JSON values."""
        return {"running": asdict(self._running), "costs": [[c.consumed, c.kept, round(c.duration_ms, 3)] for c in self._costs]}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Goes on from a snapshot; the warm-up starts again, and until it is over the ratios stay."""
        if not snapshot:
            return
        self._running = _Running(**snapshot["running"])
        known = {watched.query for watched in self._queries if watched.sheds}
        self._running.ratios = {query: ratio for query, ratio in self._running.ratios.items() if query in known}
        self._costs.extend(BatchCost(*values) for values in snapshot["costs"])

    def validate(self) -> None:
        """Raises AssertionError when an invariant is broken; tests call it after every step."""
        limits = {watched.query: watched.max_drop_ratio for watched in self._queries if watched.sheds}
        for query, ratio in self._running.ratios.items():
            if not 0 < ratio <= limits.get(query, 0.0) + 1e-9:
                raise AssertionError(f"ratio {ratio} of {query} outside (0, {limits.get(query, 0.0)}]")
        if not self._settings.enabled and self._running.ratios:
            raise AssertionError("shedding although the watchdog is disabled")

    def _average(self, seen: BatchObservation) -> None:
        running = self._running
        if running.last_batch >= 0 and seen.planned_at_ms > running.last_planned_ms:
            period = seen.planned_at_ms - running.last_planned_ms
            newest = max(0, seen.arrived - running.last_arrived) / period
            # A rise counts at once: waiting for the average to follow would cost the bound.
            running.rate_per_ms = max(newest, _smoothed(running.rate_per_ms, newest))
            if seen.oldest_broker_ms is not None and seen.remaining == 0:
                explained = min(period, running.last_duration_ms) + seen.duration_ms
                unexplained = seen.planned_at_ms + seen.duration_ms - seen.oldest_broker_ms - explained
                running.offset_ms = _smoothed(running.offset_ms, max(0.0, min(unexplained, 60_000.0)))
        relevant = seen.kept + seen.shed
        if seen.consumed > 0:
            running.relevant_share = (
                _smoothed(running.relevant_share, relevant / seen.consumed) if self._seen > 1 else relevant / seen.consumed
            )
        asked = self._mean_ratio(running.ratios if seen.asked is None else seen.asked)
        if asked > 0.05 and relevant > 100:
            running.effect = _smoothed(running.effect, min(1.0, seen.shed / relevant / asked))
        if seen.kept_ms is not None and seen.kept > 1000:
            measured = seen.kept_ms / seen.kept
            running.per_kept_ms = measured if running.per_kept_ms is None else _smoothed(running.per_kept_ms, measured)
        uses = sum(seen.candidates.values())
        if uses > 0:
            queries = {*running.shares, *seen.candidates}
            running.shares = {q: _smoothed(running.shares.get(q, 0.0), seen.candidates.get(q, 0) / uses) for q in sorted(queries)}
        running.last_batch, running.last_planned_ms = seen.batch, seen.planned_at_ms
        running.last_duration_ms, running.last_arrived = seen.duration_ms, seen.arrived

    def _decide(self, seen: BatchObservation) -> None:
        prior = CostPrior() if self._running.per_kept_ms is None else CostPrior().with_kept(self._running.per_kept_ms)
        costs = fit_costs(self._costs, prior)
        targets = [watched.target_ms for watched in self._queries if watched.target_ms is not None]
        if costs is None:
            return
        waiting = seen.remaining + self._running.rate_per_ms * seen.duration_ms
        if not targets or not self._settings.enabled:
            self._running.ratio, self._running.ratios = 0.0, {}
            latency = self._latency(0.0, waiting, costs)
            self._forecast = Forecast(waiting, self._running.rate_per_ms * 1000, latency, latency, True, costs)
            return
        # All queries share their batches, so the tightest target is everybody's.
        target = min(targets)
        offset = min(self._running.offset_ms, LARGEST_OFFSET * target)
        grid = self._grid()
        latencies = [self._latency(ratio, waiting, costs) + offset for ratio in grid]
        in_reach = latencies[-1] <= target
        enough = target if in_reach else CLOSE_TO_BEST * latencies[-1]
        wanted = next(ratio for ratio, latency in zip(grid, latencies, strict=True) if latency <= max(target, enough))
        if not in_reach and seen.remaining > 0 and self._running.effect > NO_EFFECT:
            wanted = max(wanted, min(grid[-1], self._running.ratio + PROBE))
        kept_bound = self._latency(self._running.ratio, waiting, costs) + offset <= target
        if wanted < self._running.ratio:
            may_fall = (seen.remaining == 0 and (kept_bound or not in_reach)) or self._running.effect <= NO_EFFECT
            wanted = max(wanted, self._running.ratio - self._settings.largest_fall) if may_fall else self._running.ratio
        self._running.ratio = round(wanted, 6)
        self._running.ratios = self._split(wanted)
        self._forecast = Forecast(
            waiting, self._running.rate_per_ms * 1000, latencies[0], self._latency(wanted, waiting, costs) + offset, in_reach, costs
        )

    def _latency(self, ratio: float, waiting: float, costs: CostModel) -> float:
        kept_share = self._running.relevant_share * (1 - self._running.effect * ratio)
        per_event = costs.per_consumed_ms + costs.per_kept_ms * kept_share
        clear = max(1, math.ceil(waiting / self._largest_batch)) * costs.fixed_ms + waiting * per_event
        arriving = self._running.rate_per_ms * clear
        return clear + max(1, math.ceil(arriving / self._largest_batch)) * costs.fixed_ms + arriving * per_event

    def _grid(self) -> list[float]:
        step = self._settings.smallest_step
        greatest = max(watched.max_drop_ratio for watched in self._queries if watched.sheds)
        return [*(k * step for k in range(math.ceil(greatest / step - 1e-9))), greatest]

    def _split(self, mean: float) -> dict[str, float]:
        """Ratios in inverse proportion to the weights, whose mean (by the queries' share of candidate events) is the given one."""
        shedding = [watched for watched in self._queries if watched.sheds]
        if mean <= 0 or not shedding:
            return {}
        low, high = 0.0, max(watched.weight for watched in shedding)
        ratios = {watched.query: watched.max_drop_ratio for watched in shedding}
        if self._mean_ratio(ratios) > mean:
            for _ in range(50):
                level = (low + high) / 2
                ratios = {watched.query: min(watched.max_drop_ratio, level / watched.weight) for watched in shedding}
                low, high = (level, high) if self._mean_ratio(ratios) < mean else (low, level)
        return {query: round(ratio, 6) for query, ratio in sorted(ratios.items()) if round(ratio, 6) > 0}

    def _mean_ratio(self, ratios: Mapping[str, float]) -> float:
        shedding = [watched.query for watched in self._queries if watched.sheds]
        shares = {query: max(self._running.shares.get(query, 0.0), 1e-6) for query in shedding}
        whole = sum(shares.values())
        return sum(shares[query] * ratios.get(query, 0.0) for query in shedding) / whole if whole > 0 else 0.0


def _smoothed(average: float, newest: float) -> float:
    return (1 - SMOOTHING) * average + SMOOTHING * newest
