"""Matches as numbers that are equal when they bind the same events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.cep.matches import Matches

_PRIMES = tuple(np.uint64(prime) for prime in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def match_digests(matches: Matches, items: Sequence[int], *, opened: bool = False) -> NDArray[np.uint64]:
    """One number per match, of its window and of what it binds as what; 64 bits, so two of a million are taken for one in 3 of 100 million cases.

    Args:
        matches: of one query.
        items: indices of the plan's positive items, as of `Matches.constituents`.
        opened: events open the windows, whose numbers are then places in the matches' events.

    Returns:
        uint64 (matches,).
    """
    bound = matches.constituents(items)
    source, offset = matches.events.source[bound.rows], matches.events.offset[bound.rows]
    each = mixed(mixed(mixed(bound.items.astype(np.uint64) + np.uint64(1)) ^ source.astype(np.uint64)) ^ offset.astype(np.uint64))
    sums = np.append(np.uint64(0), np.cumsum(each, dtype=np.uint64))  # wraps around, and so do the differences
    digests = sums[bound.starts[1:]] - sums[bound.starts[:-1]]
    if matches.windows is None:
        return digests
    windows = matches.windows.astype(np.uint64)
    if opened:
        opener = matches.windows
        windows = mixed(matches.events.source[opener].astype(np.uint64)) ^ matches.events.offset[opener].astype(np.uint64)
    return mixed(digests ^ windows)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014)."""
    mixed = values + _PRIMES[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _PRIMES[1]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _PRIMES[2]
    return mixed ^ (mixed >> np.uint64(31))
