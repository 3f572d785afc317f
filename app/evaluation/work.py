"""What a shedder saves: the work of matching what it leaves, measured by matching it.

Events do not cost the same. One that completes much is held against much, and a shedder that keeps the events that are worth most may keep those that cost most: it must drop more of them
than chance would for the same relief. A share of the events says nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import process_time_ns

import numpy as np
from numpy.typing import NDArray

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Where it is measured; between them it is interpolated."""
ROUNDS = 2
"""The least counts: other programs only add."""

Kept = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class WorkCurve:
    """Work over drop ratios.

    Attributes:
        event_ns: processor time per event without shedding.
        ratios: float64 (n,), rising, from 0.
        work: float64 (n,), as shares of the work without shedding; never rising.
        kept: float64 (n,), share of the events that is left.
    """

    event_ns: float
    ratios: NDArray[np.float64]
    work: NDArray[np.float64]
    kept: NDArray[np.float64]

    def within(self, own_share: float) -> WorkCurve:
        """The same of all the work on an event, of which this is a part: the rest is there whatever is dropped.

        >>> curve = WorkCurve(900.0, np.array([0.0, 0.5]), np.array([1.0, 0.8]), np.array([1.0, 0.4]))
        >>> found = curve.within(0.5)
        >>> found.event_ns, found.work.tolist(), found.least_ratio(0.9)
        (1800.0, [1.0, 0.9], 0.5)
        """
        return replace(self, event_ns=self.event_ns / own_share, work=1 - own_share * (1 - self.work))

    def dearness(self, ratio: float) -> float:
        """How many times the mean event's work one that is left takes.

        >>> curve = WorkCurve(900.0, np.array([0.0, 0.5]), np.array([1.0, 0.8]), np.array([1.0, 0.4]))
        >>> [round(curve.dearness(ratio), 3) for ratio in (0.0, 0.5, 0.9)]
        [1.0, 2.0, 2.0]
        """
        left = float(np.interp(ratio, self.ratios, self.kept))
        return float(np.interp(ratio, self.ratios, self.work)) / left if left > 0 else 0.0

    def least_ratio(self, share: float) -> float:
        """The least drop ratio that leaves at most this share of the work; 1 where none does.

        >>> curve = WorkCurve(900.0, np.array([0.0, 0.5]), np.array([1.0, 0.8]), np.array([1.0, 0.4]))
        >>> [round(curve.least_ratio(share), 3) for share in (1.0, 0.9, 0.8, 0.5)]
        [0.0, 0.25, 0.5, 1.0]
        """
        if share < self.work[-1]:
            return 1.0
        return float(np.interp(-share, -self.work, self.ratios))


def measured(events: int, kept_at: Callable[[float], Kept], match: Callable[[Kept | None], object]) -> WorkCurve:
    """Matches what is left at each of `RATIOS`, in rounds.

    Args:
        events: of the recording.
        kept_at: drop ratio → which candidates are left.
        match: matches them; all without a mask.
    """
    masks = [None if not ratio else kept_at(ratio) for ratio in RATIOS]
    match(None)  # kernels are loaded, memory is there
    spent = np.min([[_spent_ns(match, mask) for mask in masks] for _ in range(ROUNDS)], axis=0)
    work = np.minimum.accumulate(spent / max(spent[0], 1.0))
    kept = np.array([1.0 if mask is None else float(mask.mean()) for mask in masks])
    return WorkCurve(float(spent[0]) / max(events, 1), np.array(RATIOS), work, kept)


def _spent_ns(match: Callable[[Kept | None], object], mask: Kept | None) -> float:
    begun = process_time_ns()
    match(mask)
    return float(process_time_ns() - begun)
