"""Who an event is, as a number that looks random but is the same in every batch, retry and replay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shedding import kernels
from shedding.candidates import JudgedInWindows


def identities(source: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hashes of events' places.

    Args:
        source: int64 (events,), number of the topic partition.
        offset: int64 (events,), place in it.

    Returns:
        uint64 (events,), spread evenly over all 64-bit numbers.

    >>> place = np.array([0, 0]), np.array([1, 2])
    >>> identities(*place).tolist() == identities(*place).tolist()
    True
    """
    hashes = np.empty(len(source), dtype=np.uint64)
    kernels.hash_places(np.ascontiguousarray(source, dtype=np.int64), np.ascontiguousarray(offset, dtype=np.int64), hashes)
    return hashes


def pair_identities(pairs: JudgedInWindows) -> NDArray[np.uint64]:
    """Hashes of pairs of an event and a window, uint64 (pairs,)."""
    hashes = np.empty(len(pairs), dtype=np.uint64)
    kernels.hash_pairs(pairs.events.identity, pairs.event, pairs.window, hashes)
    return hashes


def shuffled(identity: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """The identities mixed with a seed, so that another seed orders them otherwise: what breaks ties.

    >>> shuffled(np.arange(3, dtype=np.uint64), 1).argsort().tolist() == shuffled(np.arange(3, dtype=np.uint64), 4).argsort().tolist()
    False
    """
    h = np.empty(len(identity), dtype=np.uint64)
    kernels.mix(identity, np.uint64(seed), h)
    return h
