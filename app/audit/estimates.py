"""Recall and precision with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054
"""Of a 95 % interval."""
_T_OF_19 = 2.093024054408263
"""Student's t for 20 random groups, two-sided 95 %."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share, and the interval in which the true one lies in 95 of 100 cases. All 0 to 1."""

    value: float
    lower: float
    upper: float


def recall_of_sample(counts: NDArray[np.int64]) -> Estimate | None:
    """The share of composite events that shedding leaves; None when the sample had none.

    Args:
        counts: int64 (2, groups), by random group of partitions: composite events, and those that shedding would have left.

    A ratio estimate, with its variance from the groups (Wolter, chapter 2), turned into an effective number of independent composite events, and Wilson's interval for
    these (as Korn and Graubard do with Clopper's and Pearson's): it stays inside 0 and 1, and is not empty where all or none were left.
    """
    found, left = counts.astype(np.float64)
    total = float(found.sum())
    if not total:
        return None
    ratio = float(left.sum()) / total
    groups = len(found)
    variance = groups / (groups - 1) * float(((left - ratio * found) ** 2).sum()) / total**2 * (_T_OF_19 / Z) ** 2
    effective = min(total, ratio * (1 - ratio) / variance) if variance else float(np.count_nonzero(found))
    return wilson(ratio, max(effective, 1.0))


def wilson(share: float, number: float) -> Estimate:
    """Wilson's interval for a share of so many independent cases.

    >>> half = wilson(0.5, 100)
    >>> round(half.lower, 3), half.value, round(half.upper, 3)
    (0.404, 0.5, 0.596)
    """
    spread = Z * math.sqrt(share * (1 - share) / number + Z**2 / (4 * number**2))
    middle, scale = share + Z**2 / (2 * number), 1 + Z**2 / number
    return Estimate(share, max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale))


def precision_of_verdicts(found: int, false: int, unverifiable: int) -> Estimate | None:
    """The share of written composite events that are true. Verdicts are no sample: only what is unverifiable is unknown.

    Args:
        found: composite events.
        false: of them, false positives.
        unverifiable: of them, those that may be.

    >>> precision_of_verdicts(100, 5, 10)
    Estimate(value=0.9444444444444444, lower=0.85, upper=0.95)
    """
    if not found:
        return None
    judged = found - unverifiable
    value = 1 - false / judged if judged else 1 - (false + unverifiable / 2) / found
    return Estimate(value, 1 - (false + unverifiable) / found, 1 - false / found)
