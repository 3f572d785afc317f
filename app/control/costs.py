"""What a micro-batch costs: a fixed part, a part per consumed event (read, decode, select) and a part per kept event (ship, match).

Shedding saves the last part only, so the three are fitted separately, from the batches themselves. Under steady load batches look alike and cannot tell
the parts apart; then what is known beforehand decides (`CostPrior`), and as soon as they differ, they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

FORGETTING = 0.97
"""Weight of a batch against the next newer one: after 64 batches 14 % are left."""
NOISE = 0.08
"""Typical scatter of batch times, as a share of them, on machines that are not alone."""
OUTLIER = 3.0
"""Residuals above so many typical ones (a garbage collection, a busy neighbour) count less, in proportion."""


@dataclass(frozen=True, slots=True)
class BatchCost:
    """One batch as the model sees it."""

    consumed: int
    kept: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class CostPrior:
    """What is believed before any batch was seen: mean and standard deviation of each part, ms.

    Measured on 2 cores: 350 ms fixed, 2.2 µs per event altogether (kafka-facts.md, section 3); the deviations are wide enough for large clusters
    and dear queries to be believed after a few differing batches.
    """

    fixed_ms: tuple[float, float] = (350.0, 300.0)
    per_consumed_ms: tuple[float, float] = (0.0013, 0.002)
    per_kept_ms: tuple[float, float] = (0.0009, 0.004)

    def with_kept(self, per_kept_ms: float) -> CostPrior:
        """The same, but the tasks have measured what a kept event costs them."""
        return CostPrior(self.fixed_ms, self.per_consumed_ms, (per_kept_ms, max(0.002, per_kept_ms / 2)))


@dataclass(frozen=True, slots=True)
class CostModel:
    """``duration = fixed + per_consumed * consumed + per_kept * kept``, all in ms, none negative."""

    fixed_ms: float
    per_consumed_ms: float
    per_kept_ms: float

    def duration_ms(self, consumed: float, kept: float) -> float:
        """The expected duration of a batch."""
        return self.fixed_ms + self.per_consumed_ms * consumed + self.per_kept_ms * kept


def fit_costs(batches: Sequence[BatchCost], prior: CostPrior = CostPrior()) -> CostModel | None:
    """Fits the model to batches, oldest first; None with fewer than three.

    The most probable non-negative costs (Bayesian linear regression), the newest batches counting most, outliers counting less.

    >>> sizes = ((100, 10), (5000, 5000), (20000, 100), (90000, 8000), (300000, 200000))
    >>> round(fit_costs([BatchCost(n, k, 300 + 0.001 * n + 0.002 * k) for n, k in sizes]).duration_ms(10_000, 0), -1)
    310.0
    """
    if len(batches) < 3:
        return None
    features = np.array([[1.0, b.consumed, b.kept] for b in batches])
    durations = np.array([b.duration_ms for b in batches])
    weights = FORGETTING ** np.arange(len(batches) - 1, -1, -1, dtype=np.float64) / (NOISE * float(np.median(durations)) + 1.0) ** 2
    costs = _most_probable(features, durations, weights, prior)
    residuals = np.abs(features @ costs - durations)
    typical = max(float(np.median(residuals)), NOISE / 2 * float(np.median(durations)), 1e-9)
    trust = np.minimum(1.0, OUTLIER * typical / np.maximum(residuals, 1e-12))
    costs = _most_probable(features, durations, weights * trust, prior)
    return CostModel(*(float(cost) for cost in costs))


def _most_probable(
    features: NDArray[np.float64], durations: NDArray[np.float64], weights: NDArray[np.float64], prior: CostPrior
) -> NDArray[np.float64]:
    # Three unknowns: all sets of non-zero costs are tried, which is exact and has no tolerance to tune.
    mean, deviation = np.array([prior.fixed_ms, prior.per_consumed_ms, prior.per_kept_ms]).T
    # In units of the prior's deviations the equations are well conditioned, whatever the sizes of batches.
    root = np.sqrt(weights)
    scaled, target, expected = features * deviation * root[:, None], durations * root, mean / deviation
    best, best_loss = np.zeros(3), float("inf")
    for columns in chain.from_iterable(combinations(range(3), size) for size in range(1, 4)):
        chosen = list(columns)
        part = scaled[:, chosen]
        solution = np.zeros(3)
        solution[chosen] = np.linalg.solve(part.T @ part + np.eye(len(chosen)), part.T @ target + expected[chosen])
        loss = float(np.square(scaled @ solution - target).sum() + np.square(solution - expected).sum())
        if solution.min() >= 0 and loss < best_loss:
            best, best_loss = solution, loss
    return best * deviation
