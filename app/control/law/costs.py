"""What a micro-batch costs: a fixed part, a part per consumed event (read, decode, select), a part per shipped event (hand-over, hold), and the queries' own work.

The queries' work is measured where it is done, in time of the processor (`app.control.law.query_costs`); the rest is only seen in the batch's whole duration, and is fitted from the batches themselves. Under steady load batches look alike and cannot tell
the parts apart; then what is known beforehand decides (`CostPrior`), and as soon as they differ, they do. A neighbour on the machine lengthens batches and no work: a few such batches are outliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

FORGETTING = 0.95
"""Weight of a batch against the next newer one: after 45 batches 10 % are left."""
NOISE = 0.08
"""Typical scatter of batch times, as a share of them, on machines that are not alone."""
OUTLIER = 3.0
"""Residuals above so many typical ones (a garbage collection, a busy neighbour) count less, in proportion."""
PACE_BATCHES = 15
"""Batches that the present pace is the median of: seven slow ones among them are a neighbour, eight are a slower machine."""
MOST_PACE = 4.0
"""Beyond that batches are no measure of anything: the machine stood still."""


@dataclass(frozen=True, slots=True)
class BatchCost:
    """One batch as the model sees it.

    Attributes:
        consumed: records.
        shipped: events that were handed to matching.
        work_ms: time of the processor that the slowest owner spent on queries.
        duration_ms: of the batch, by the clock.
        trust: how much it counts, 0 to 1; see `trust_in`.
    """

    consumed: int
    shipped: int
    work_ms: float
    duration_ms: float
    trust: float = 1.0

    @property
    def features(self) -> tuple[float, float, float, float]:
        """What `CostModel`'s costs are multiplied with."""
        return 1.0, float(self.consumed), float(self.shipped), self.work_ms


@dataclass(frozen=True, slots=True)
class CostPrior:
    """What is believed before any batch was seen: mean and standard deviation of each part, ms; of the work: time that passes per time of the processor.

    Measured on 2 cores: 90 to 140 ms fixed, 1.3 µs per event altogether (`python -m ops.bench.pipeline phases`); the deviations are wide enough for large clusters to be believed after a few
    differing batches.
    """

    fixed_ms: tuple[float, float] = (200.0, 300.0)
    per_consumed_ms: tuple[float, float] = (0.0013, 0.002)
    per_shipped_ms: tuple[float, float] = (0.0009, 0.002)
    per_work: tuple[float, float] = (1.0, 0.4)


@dataclass(frozen=True, slots=True)
class CostModel:
    """``duration = fixed + per_consumed * consumed + per_shipped * shipped + per_work * work``, in ms, none negative."""

    fixed_ms: float
    per_consumed_ms: float
    per_shipped_ms: float
    per_work: float

    def duration_ms(self, consumed: float, shipped: float, work_ms: float) -> float:
        """The expected duration of a batch."""
        return self.fixed_ms + self.per_consumed_ms * consumed + self.per_shipped_ms * shipped + self.per_work * work_ms


def fit_costs(batches: Sequence[BatchCost], prior: CostPrior = CostPrior()) -> CostModel:
    """Fits the model to batches, oldest first; with fewer than three it is what is believed beforehand.

    The most probable non-negative costs (Bayesian linear regression), the newest batches counting most, outliers counting less.

    >>> sizes = ((100, 10), (5000, 5000), (20000, 100), (90000, 8000), (300000, 200000))
    >>> round(fit_costs([BatchCost(n, k, 0.0, 300 + 0.001 * n + 0.002 * k) for n, k in sizes]).duration_ms(10_000, 0, 0), -1)
    310.0
    """
    if len(batches) < 3:
        return CostModel(prior.fixed_ms[0], prior.per_consumed_ms[0], prior.per_shipped_ms[0], prior.per_work[0])
    features = np.array([batch.features for batch in batches])
    durations = np.array([batch.duration_ms for batch in batches])
    trusted = np.array([batch.trust for batch in batches])
    median = float(np.median(durations))
    usual = np.sqrt(
        median * np.maximum(durations, median)
    )  # of 20 s, when the machine stood still, a batch says less about those of half a second
    weights = trusted * FORGETTING ** np.arange(len(batches) - 1, -1, -1, dtype=np.float64) / (NOISE * usual + 1.0) ** 2
    costs = _most_probable(features, durations, weights, prior)
    residuals = np.abs(features @ costs - durations)
    typical = max(float(np.median(residuals)), NOISE / 2 * float(np.median(durations)), 1e-9)
    trust = np.minimum(1.0, OUTLIER * typical / np.maximum(residuals, 1e-12))
    costs = _most_probable(features, durations, weights * trust, prior)
    return CostModel(*(float(cost) for cost in costs))


def trust_in(duration_ms: float, expected_ms: float, scatter: float = NOISE) -> float:
    """How much a batch counts that took so long where so much was expected: what no noise explains, little.

    It is decided when the batch comes: a slow batch leaves more to the next one, so the slowest are the largest, and would bend any fit that they are part of.

    Args:
        duration_ms: of the batch.
        expected_ms: by the model.
        scatter: see `scatter_of`.

    >>> trust_in(110, 100), round(trust_in(200, 100), 3), round(trust_in(200, 100, scatter=0.3), 2)
    (1.0, 0.058, 0.81)
    """
    off = abs(duration_ms / max(expected_ms, 1.0) - 1)
    return min(1.0, OUTLIER * scatter / max(off, 1e-9)) ** 2


def scatter_of(batches: Sequence[BatchCost], model: CostModel) -> float:
    """By how much batches miss what the model says, as a share of it: typically, and not less than `NOISE`."""
    off = [abs(batch.duration_ms / max(1.0, model.duration_ms(*batch.features[1:])) - 1) for batch in batches]
    return max(NOISE, float(np.median(off))) if off else NOISE


def pace_of(batches: Sequence[BatchCost], model: CostModel) -> float:
    """How long batches take now by what the model says: the median of the last few, so that a neighbour who takes the processor for some seconds leaves no trace.

    >>> model = CostModel(100.0, 0.0, 0.0, 1.0)
    >>> pace_of([BatchCost(1, 1, 0.0, took) for took in (110, 100, 900, 110, 110, 950, 110)], model)
    1.1
    """
    newest = [batch.duration_ms / max(1.0, model.duration_ms(*batch.features[1:])) for batch in batches[-PACE_BATCHES:]]
    return min(MOST_PACE, max(1 / MOST_PACE, float(np.median(newest)))) if len(newest) > 2 else 1.0


def _most_probable(
    features: NDArray[np.float64], durations: NDArray[np.float64], weights: NDArray[np.float64], prior: CostPrior
) -> NDArray[np.float64]:
    # Four unknowns: all sets of non-zero costs are tried, which is exact and has no tolerance to tune. Where all of them together are not negative no fewer fit better.
    mean, deviation = np.array([prior.fixed_ms, prior.per_consumed_ms, prior.per_shipped_ms, prior.per_work]).T
    # In units of the prior's deviations the equations are well conditioned, whatever the sizes of batches.
    root = np.sqrt(weights)
    scaled, target, expected = features * deviation * root[:, None], durations * root, mean / deviation
    unknown = len(mean)
    best, best_loss = np.zeros(unknown), float("inf")
    for columns in chain.from_iterable(combinations(range(unknown), size) for size in range(unknown, 0, -1)):
        chosen = list(columns)
        part = scaled[:, chosen]
        solution = np.zeros(unknown)
        solution[chosen] = np.linalg.solve(part.T @ part + np.eye(len(chosen)), part.T @ target + expected[chosen])
        loss = float(np.square(scaled @ solution - target).sum() + np.square(solution - expected).sum())
        if solution.min() >= 0 and loss < best_loss:
            best, best_loss = solution, loss
            if len(chosen) == unknown:
                break
    return best * deviation
