"""What a shedder saves: the work of matching what it leaves, measured by matching it.

Events do not cost the same. One that completes much is held against much, and a shedder that keeps the events that are worth most may keep those that cost most: it must drop more of them
than chance would for the same relief. A share of the events says nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Where it is measured; between them it is interpolated."""
LEAST_TIMES, MOST_TIMES, TIMING_S = 3, 24, 0.3
"""How often all and what is left are matched in turn, and for how long where that is short: the same takes up to 1.7 times as long while a neighbour is busy."""

Kept = NDArray[np.bool_]
Matching = Callable[[Kept | None], float]
"""Matches what is left, all without a mask → seconds of the processor."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkCurve:
    """Work over drop ratios.

    Attributes:
        event_ns: processor time of the query's engine per event without shedding.
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


def in_turn(match: Matching, kept: Kept, *, times: int = MOST_TIMES) -> tuple[float, float]:
    """Of matching what is left, as a share of matching all; and seconds for all: both in turn, at most so many times, and those in the middle count."""
    left, whole = list[float](), list[float]()
    while len(left) < min(times, LEAST_TIMES) or (sum(left) + sum(whole) < TIMING_S and len(left) < times):
        left.append(match(kept))
        whole.append(match(None))
    return float(np.median(np.array(left) / np.maximum(whole, 1e-9))), float(np.median(whole))


def measured(events: int, kept_at: Callable[[float], Kept], match: Matching) -> WorkCurve:
    """Matches what is left at each of `RATIOS`, in turn with all.

    Args:
        events: of the recording.
        kept_at: drop ratio → which candidates are left.
        match: see there.
    """
    masks = {ratio: kept_at(ratio) for ratio in RATIOS if ratio}
    match(None)  # kernels are loaded, memory is there
    shares, whole_s = zip(*(in_turn(match, mask) for mask in masks.values()), strict=True)
    kept = np.array([1.0, *(float(mask.mean()) for mask in masks.values())])
    return WorkCurve(1e9 * float(np.median(whole_s)) / max(events, 1), np.array(RATIOS), np.minimum.accumulate([1.0, *shares]), kept)
