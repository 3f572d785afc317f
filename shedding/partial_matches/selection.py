"""Choosing the least among all: no threshold, the partial matches of the moment compete with each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import Mask


def all_but_least(utilities: NDArray[np.float64], ties: NDArray[np.uint64], count: int) -> Mask:
    """Keeps all but the ``count`` candidates of least utility, in O(n).

    Args:
        utilities: float64 (candidates,), none of them NaN.
        ties: uint64 (candidates,), distinct; of equal utilities the lower ties go first.
        count: how many to drop, at most all.

    Returns:
        bool (candidates,), True = keep. What is dropped at a count is dropped at every higher one.

    >>> all_but_least(np.array([0.5, 0.1, 0.5, 0.9]), np.array([7, 3, 2, 1], dtype=np.uint64), 2).tolist()
    [True, False, False, True]

    **Source:** pSPICE, algorithm 2, which sorts, in O(n log n); the set is the same.
    """
    if count <= 0:
        return np.ones(len(utilities), dtype=np.bool_)
    if count >= len(utilities):
        return np.zeros(len(utilities), dtype=np.bool_)
    bound = utilities.min()
    if np.count_nonzero(utilities == bound) < count:  # ties slow partitioning down: 82 ns per candidate where half of them are worth 0
        bound = np.partition(utilities, count - 1)[count - 1]
    kept = utilities >= bound
    tied = np.flatnonzero(utilities == bound)
    going = count - (len(kept) - int(np.count_nonzero(kept)))
    kept[tied[np.argpartition(ties[tied], going - 1)[:going]]] = False
    return kept
