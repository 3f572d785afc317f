"""How far a stream is from what a model was learned from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mean_squared_difference(then: NDArray[np.float64], now: NDArray[np.float64]) -> float:
    """Of two arrays: transition matrices of one query, or shares of event types, where types that one of them lacks have share 0.

    Source: pSPICE (2019), retraining: (1 / m^2) sum of (T_ij - T'_ij)^2, and 1.2.6 for types.

    >>> mean_squared_difference(np.array([0.5, 0.5]), np.array([0.5, 0.3, 0.1, 0.1])).__round__(3)
    0.015
    """
    shape = tuple(max(sizes) for sizes in zip(then.shape, now.shape, strict=True))
    padded = [np.pad(one, [(0, wide - size) for wide, size in zip(shape, one.shape, strict=True)]) for one in (then, now)]
    return float(np.square(padded[0] - padded[1]).mean()) if padded[0].size else 0.0


def total_variation(then: NDArray[np.float64], now: NDArray[np.float64]) -> float:
    """Of two distributions over the same kinds: the share that is of another kind, 0 to 1, however many kinds there are.

    >>> total_variation(np.array([0.5, 0.5]), np.array([0.4, 0.6])).__round__(3), total_variation(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    (0.1, 1.0)
    """
    return float(np.abs(then - now).sum() / 2)


def by_chance(shares: NDArray[np.float64], chance: float) -> float:
    """The total variation to expect of two samples of one distribution: the mean of a normal law's absolute value, kind by kind.

    Args:
        shares: float64 (kinds,), of the distribution.
        chance: one over the size of the one sample and one over that of the other.

    >>> round(by_chance(np.array([0.5, 0.5]), 1 / 3000 + 1 / 3000), 4)
    0.0103
    """
    return float(np.sqrt(2 / np.pi * chance * shares * (1 - shares)).sum() / 2)
