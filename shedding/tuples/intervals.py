"""Tuples with intervals, coalesced, and how much of the exact result an approximate one holds.

Axis names: ``tuples`` in the order of their start; ``coalesced``; ``pieces``.

**Source:** Al-Kateb and Lee, Load shedding in temporal queries over data streams, JCSE 5(4) 2011, section III-B; formulas as restored in the
specification, 5.1 and 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Values with the time for which they are valid.

    Attributes:
        value: int64 (tuples,), number of the value: equal numbers coalesce.
        start: int64 (tuples,), not falling, any unit.
        end: int64 (tuples,), same unit, first moment that is not valid any more.
    """

    value: Integers
    start: Integers
    end: Integers

    def __len__(self) -> int:
        return len(self.value)

    def rows(self, which: Integers | NDArray[np.bool_] | slice) -> Intervals:
        """Some of them, in the order asked."""
        return Intervals(self.value[which], self.start[which], self.end[which])

    def at_least(self, length: int) -> Intervals:
        """Those that are so long: the interval predicate ``length(VALID(S)) >= length``."""
        return self.rows(self.end - self.start >= length)


def run_starts(tuples: Intervals, gap: int = 0) -> NDArray[np.bool_]:
    """Whether each tuple begins a run: its value is not that of the one before, or it starts more than ``gap`` after its run's end.

    Returns:
        bool (tuples,).
    """
    starts = np.ones(len(tuples), dtype=np.bool_)
    if len(tuples) > 1:
        stretch = np.cumsum(tuples.value[1:] != tuples.value[:-1], dtype=np.int64)
        apart = stretch * (tuples.end.max() - tuples.start[0] + gap + 1)  # so that what another value reached is never reached
        reached = np.maximum.accumulate(tuples.end + np.concatenate([[0], apart]))
        starts[1:] = tuples.start[1:] + apart > reached[:-1] + gap
    return starts


def coalesced(tuples: Intervals, gap: int = 0) -> Intervals:
    """Runs of equal values as one tuple each.

    >>> merged = coalesced(Intervals(np.array([7, 7, 8]), np.array([1, 2, 3]), np.array([2, 3, 4])))
    >>> merged.value.tolist(), merged.start.tolist(), merged.end.tolist()
    ([7, 8], [1, 3], [3, 4])
    """
    first = np.flatnonzero(run_starts(tuples, gap))
    if not len(first):
        return tuples
    return Intervals(tuples.value[first], tuples.start[first], np.maximum.reduceat(tuples.end, first))


def value_accuracy(exact: Intervals, approximate: Intervals) -> float:
    """Jaccard coefficient of the multisets of values (equation 2); 1 where both are empty.

    >>> once, twice = np.array([5]), np.array([5, 5])
    >>> value_accuracy(Intervals(once, once, once + 1), Intervals(twice, twice, twice + 1))
    0.5
    """
    common, union = _multisets(exact, approximate)
    return common / union if union else 1.0


def accuracy(exact: Intervals, approximate: Intervals) -> float:
    """Share of the exact coalesced tuples that is left, extraneous pieces counted against it (equation 5).

    Args:
        exact: coalesced tuples, disjoint; those that satisfy the query.
        approximate: coalesced from some of the same tuples, so that each lies inside one exact one (property 1).

    Returns:
        0 to 1; 1 where both are empty. Of an exact tuple that was split, the longest piece counts; which one the paper takes is lost.
    """
    _, union = _multisets(exact, approximate)
    if not union:
        return 1.0
    inside = np.searchsorted(exact.start, approximate.start, side="right") - 1
    longest = np.zeros(len(exact))
    np.maximum.at(longest, inside, approximate.end - approximate.start)
    return float(np.minimum(1.0, longest / (exact.end - exact.start)).sum()) / union


def _multisets(exact: Intervals, approximate: Intervals) -> tuple[int, int]:
    """Sizes of the intersection and the union of the multisets of values."""
    values, places = np.unique(np.concatenate([exact.value, approximate.value]), return_inverse=True)
    exactly = np.bincount(places[: len(exact)], minlength=len(values))
    approximately = np.bincount(places[len(exact) :], minlength=len(values))
    return int(np.minimum(exactly, approximately).sum()), int(np.maximum(exactly, approximately).sum())
