"""When to learn again: the stream, or what becomes of it, is no longer what a model was learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.threshold import UtilityShares


def mean_squared_difference(then: NDArray[np.float64], now: NDArray[np.float64]) -> float:
    """Of two arrays: transition matrices of one query, or shares of event types, where types that one of them lacks have share 0.

    Source: pSPICE (2019), retraining: (1 / m^2) sum of (T_ij - T'_ij)^2; specification 3.2, and 1.2.6 for types.

    >>> mean_squared_difference(np.array([0.5, 0.5]), np.array([0.5, 0.3, 0.1, 0.1])).__round__(3)
    0.015
    """
    shape = tuple(max(sizes) for sizes in zip(then.shape, now.shape, strict=True))
    padded = [np.pad(one, [(0, wide - size) for wide, size in zip(shape, one.shape, strict=True)]) for one in (then, now)]
    return float(np.square(padded[0] - padded[1]).mean()) if padded[0].size else 0.0


def drifted(then: NDArray[np.float64], now: NDArray[np.float64], limit: float) -> bool:
    """Whether the mean squared difference exceeds the limit: learn again."""
    return mean_squared_difference(then, now) > limit


def mean_utility(shares: UtilityShares) -> float:
    """Mean of the utilities that a model gave when it was learned."""
    steps: NDArray[Any] = np.diff(shares.cumulative, prepend=0.0)
    return float(shares.utility @ steps) if len(steps) else 0.0


def utility_drifted(shares: UtilityShares, utilities: NDArray[np.float64], limit: float) -> bool:
    """Whether the mean utility of events differs from that at learning by more than this share of it.

    Args:
        shares: of the model.
        utilities: float64 (events,), of all events of late, before any are dropped.
        limit: 0.2 means a fifth more or less.
    """
    then, now = mean_utility(shares), float(utilities.mean()) if len(utilities) else 0.0
    return bool(len(utilities)) and abs(now - then) > limit * abs(then)
