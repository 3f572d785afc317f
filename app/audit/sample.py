"""The control sample: partitions that are never shed, and what shedding would have cost them.

A composite event of a sampled partition is a true one, found with all events. It would have been found despite shedding if none of the events that it binds would have been
shed: whatever else is taken away can only make a query find it more easily. So recall needs no second engine, only the question whether its events were marked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.audit.digests import mixed

GROUPS = 20
"""Random groups of partitions, for the variance of an estimate (Wolter: Introduction to Variance Estimation, chapter 2): matches of one partition live and die together."""
_SALT = np.uint64(0x5EED5A3B1E5A3B1E)


def in_sample(keys: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Whether partitions are in the control sample; by their keys alone, so for ever and everywhere the same.

    Args:
        keys: uint64, hashes of partition keys.
        share: of all partitions, 0 to 1.

    >>> in_sample(np.arange(100_000, dtype=np.uint64), 0.25).mean().round(2)
    np.float64(0.25)
    """
    return mixed(keys ^ _SALT) >> np.uint64(11) < np.uint64(int(share * (1 << 53)))


def group_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The random group of each partition, 0 to `GROUPS` - 1; independent of who is in the sample."""
    return (mixed(~keys ^ _SALT) % np.uint64(GROUPS)).astype(np.int64)


def counted(keys: NDArray[np.uint64], survives: NDArray[np.bool_]) -> NDArray[np.int64]:
    """By random group, matches of sampled partitions, and those of them that shedding would have left.

    Args:
        keys: uint64 (matches,).
        survives: bool (matches,).

    Returns:
        int64 (2, GROUPS).
    """
    groups = group_of(keys)
    return np.stack([np.bincount(groups, minlength=GROUPS), np.bincount(groups[survives], minlength=GROUPS)]).astype(np.int64)
