"""A claim of the paper against the figures of all seeds: code decides, not the author."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ops.experiments.shedding_figures import interval

Verdict = Literal["reproduced", "shape reproduced", "not reproduced"]
LEAST_SEEDS = 3
"""From fewer nothing is reproduced: their interval says nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Something the paper says, as a number that should be small.

    Attributes:
        figure: of the paper.
        says: the claim.
        on: the workload.
        effect: what the number is.
        values: one per seed; paired, as all schemes of a seed see the same tuples and queries.
        limit: the claim says that the number is not above it.
        loose: as far as that, the curves still look like the paper's.
    """

    figure: int
    says: str
    on: str
    effect: str
    values: tuple[float, ...]
    limit: float = 0.0
    loose: float = 0.0

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """Over seeds."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def holding(self) -> int:
        """In how many seeds it holds."""
        return sum(value <= self.limit for value in self.values)

    def interval(self) -> tuple[float, float]:
        """Of the mean: 95 %, Student's over seeds."""
        return interval(np.array(self.values))

    def verdict(self) -> Verdict:
        """Reproduced: the whole interval keeps the limit. Shape reproduced: it keeps the looser one. An effect of nothing is no effect."""
        end = self.interval()[1]
        if len(self.values) < LEAST_SEEDS or self.mean >= max(self.limit, self.loose):
            return "not reproduced"
        return "reproduced" if end <= self.limit else "shape reproduced" if end <= self.loose else "not reproduced"


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's: 1 if y rises with x throughout, -1 if it falls; 0 if one of them does not change."""
    a, b = _ranks(np.array(x)), _ranks(np.array(y))
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 0; equal values share the mean of their ranks."""
    below = (values[None, :] < values[:, None]).sum(axis=1)
    return below + ((values[None, :] == values[:, None]).sum(axis=1) - 1) / 2
