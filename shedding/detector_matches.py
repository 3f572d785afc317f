"""When to drop partial matches, and how many: pSPICE's overload detector, as functions of what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHAPES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda n: n,
    "n log n": lambda n: n * np.log2(n + 1),
    "square": lambda n: n * n,
    "root": np.sqrt,
}
"""How latency may grow with the number of partial matches, of arrays and of single numbers; all rise from 0 at 0."""

_STEPS = 200
"""Halvings at most; before, low and high are neighbouring floats, but where the count is all but nothing."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Latency by number of partial matches: ``offset + slope * shape(n)``.

    Attributes:
        shape: one of `SHAPES`.
        offset: seconds, not negative.
        slope: seconds per unit, not negative.
    """

    shape: str
    offset: float
    slope: float

    def latency_s(self, count: float) -> float:
        """Seconds with so many partial matches."""
        return self.offset + self.slope * float(SHAPES[self.shape](count))

    def count(self, latency_s: float) -> float:
        """The most partial matches with at most this latency: 0 when not even none, infinite when the latency does not depend on them."""
        if self.latency_s(0) > latency_s:
            return 0.0
        if self.slope <= 0:
            return inf
        low, high = 0.0, 1.0
        while self.latency_s(high) <= latency_s and high < 1e15:
            low, high = high, 2 * high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if self.latency_s(middle) <= latency_s else (low, middle)
        return low


def fitted(counts: NDArray[np.float64], latency_s: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Curve:
    """The curve that fits best: each shape by least squares, then the one of least error.

    Args:
        counts: float64 (samples,), partial matches.
        latency_s: float64 (samples,), seconds that processing an event (or shedding) took with so many.
        weights: float64 (samples,), of squared errors; None: all alike.

    Raises:
        ValueError: there are no samples.

    >>> curve = fitted(np.array([10.0, 20.0, 40.0]), np.array([2.0, 8.0, 32.0]))
    >>> curve.shape, round(curve.slope, 3), round(curve.count(8.0), 3)
    ('square', 0.02, 20.0)
    """
    if not len(counts):
        raise ValueError("a curve needs samples")
    weights = np.ones(len(counts)) if weights is None else weights
    curves = [_fitted(shape, counts, latency_s, weights) for shape in SHAPES]
    errors = [float(weights @ np.square(curve.offset + curve.slope * SHAPES[curve.shape](counts) - latency_s)) for curve in curves]
    return curves[int(np.argmin(errors))]


def _fitted(shape: str, counts: NDArray[np.float64], latency_s: NDArray[np.float64], weights: NDArray[np.float64]) -> Curve:
    """Least squares with neither offset nor slope negative: both free, else without offset, else constant."""
    x = SHAPES[shape](counts)
    middle, mean_s = (float(np.average(values, weights=weights)) for values in (x, latency_s))
    spread = x - middle
    slope = float((weights * spread) @ (latency_s - mean_s) / ((weights * spread) @ spread)) if np.any(spread) else 0.0
    offset = mean_s - slope * middle
    if slope <= 0:
        return Curve(shape, max(0.0, mean_s), 0.0)
    if offset < 0:
        return Curve(shape, 0.0, max(0.0, float((weights * x) @ latency_s / ((weights * x) @ x))))
    return Curve(shape, offset, slope)


def matches_to_drop(
    count: int, queued_s: float, processing: Curve, shedding: Curve, latency_bound_s: float, *, buffer_s: float = 0.0
) -> int:
    """How many partial matches must go so that the event at hand is in time.

    Args:
        count: partial matches now.
        queued_s: how long the event has waited.
        processing: seconds that an event takes by number of partial matches: f of the paper.
        shedding: seconds that dropping takes: g of the paper.
        latency_bound_s: from arrival to the end of processing.
        buffer_s: safety.

    Returns:
        0 when it is in time anyway; all when nothing helps.

    Source: pSPICE (2019), Algorithm 1, equations 4 to 6.
    """
    shedding_s = shedding.latency_s(count)
    if queued_s + processing.latency_s(count) + shedding_s + buffer_s <= latency_bound_s:
        return 0
    allowed = processing.count(latency_bound_s - queued_s - shedding_s - buffer_s)
    return count if allowed <= 0 else max(0, count - (count if allowed == inf else floor(allowed)))
