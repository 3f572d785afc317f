"""Recall and precision with their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054
"""Of a 95 % interval."""
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093)
"""Student's t by degrees of freedom, from 1 to 19, two-sided 95 %."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share, and the interval in which the true one lies in 95 of 100 cases. All 0 to 1."""

    value: float
    lower: float
    upper: float


def recall_of_sample(counts: NDArray[np.float64]) -> Estimate | None:
    """The share of composite events that shedding leaves; None when the sample had none.

    Args:
        counts: float64 (2, groups), by random group of partitions: composite events, and those that shedding would have left, as they weigh (`app.audit.sample.counted`).

    A ratio estimate, with its variance from the groups, each left out in turn (jackknife; Wolter, chapter 4), turned into an effective number of independent composite events, and Wilson's interval for
    these (as Korn and Graubard do with Clopper's and Pearson's): it stays inside 0 and 1, and is not empty where all or none were left.

    Partitions are uneven: often one has more composite events than all others together, and lies close to a ratio that it makes itself. Left out, it shows how little the others know; and as few groups as
    make up most of the sample have as few degrees of freedom (one less for the ratio, one less because how uneven groups are is known from themselves).
    """
    found, left = counts.astype(np.float64)
    total = float(found.sum())
    if not total:
        return None
    ratio, weight = float(left.sum()) / total, found / total
    if weight.max() == 1:
        return wilson(ratio, 1.0)
    off = (left - ratio * found) / total / (1 - weight)
    groups = 1 / float((weight**2).sum())
    variance = (len(found) - 1) / len(found) * float((off**2).sum()) * (_student(groups - 2) / Z) ** 2
    effective = min(total, ratio * (1 - ratio) / variance) if variance else groups
    return wilson(ratio, max(effective, 1.0))


def _student(freedom: float) -> float:
    """Between two whole numbers in proportion to their inverses, as it grows with these.

    >>> round(_student(0.5), 2), round(_student(2.5), 2), round(_student(30), 2)
    (12.71, 3.63, 2.09)
    """
    known = np.arange(1, len(_T) + 1)
    return float(np.interp(1 / min(max(freedom, 1.0), len(_T)), 1 / known[::-1], _T[::-1]))


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
