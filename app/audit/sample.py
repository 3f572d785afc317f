"""The control sample: partitions of which it is found out, for some time, what is there with nothing shed (`app.bucket.beside`).

What of it was found in spite of shedding is compared by identity. So recall is measured, whatever a query does with what it is not fed, and whoever sheds.

Who is in the sample changes (`Sample.turn_ms`). Partitions are uneven, and what shedding costs them as well: a few have most composite events, and of those that have few a shedder leaves less. A sample that is the same for ever
holds none of the few, or nothing but them, and its interval cannot know. In turns, everybody comes to it, and those that have most more often (`app.audit.heavy_hitters`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.audit.digests import mixed

GROUPS = 20
"""Random groups of turns, for the variance of an estimate (Wolter: Introduction to Variance Estimation, chapter 2): matches of one turn live and die together."""
TURN_REACHES = 4
"""A turn is so many times as long as what a match has to do with, so that three quarters of the matches that end in one belong to it alone."""
_SALT = np.uint64(0x5EED5A3B1E5A3B1E)
_START = np.uint64(0x7A11B0A7D0C5E5ED)


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one query's partitions.

    Attributes:
        share: of all turns of partitions that are not heavy, 0 to 1.
        before_ms: how long before the end of a match an event may have something to do with it.
        after_ms: and how long after it.
    """

    share: float
    before_ms: int
    after_ms: int = 0

    @property
    def turn_ms(self) -> int:
        """How long a partition is in the sample, or is not, before it is asked again."""
        return max(1, TURN_REACHES * (self.before_ms + self.after_ms))

    def turns(self, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.uint64]:
        """A hash of partition and turn, uint64 (events,): by key and time alone, so everywhere and whenever it is asked the same.

        Args:
            keys: uint64 (events,), hashes of partition keys. Each partition's turns begin at times of its own, so that not all change at once.
            times: int64 (events,), in ms.
        """
        return mixed(keys ^ mixed(self._numbers(keys, times).astype(np.uint64)))

    def begins(self, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.int64]:
        """When the turns of events begin, in ms, int64 (events,); arguments as of `turns`."""
        return self._numbers(keys, times) * self.turn_ms - self._starts(keys)

    def _numbers(self, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.int64]:
        return (times + self._starts(keys)) // self.turn_ms

    def _starts(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return (mixed(keys ^ _START) % np.uint64(self.turn_ms)).astype(np.int64)


def in_sample(turns: NDArray[np.uint64], share: float | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether turns are in the control sample; a smaller sample is part of a larger one.

    Args:
        turns: uint64, hashes.
        share: of all; float64 (turns,) where it is not the same of all partitions. From 1 on everything is in it.

    >>> in_sample(np.arange(100_000, dtype=np.uint64), 0.25).mean().round(2)
    np.float64(0.25)
    """
    return mixed(turns ^ _SALT) >> np.uint64(11) < np.asarray(np.minimum(share, 1.0) * (1 << 53)).astype(np.uint64)


def group_of(turns: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The random group of each turn, 0 to `GROUPS` - 1; independent of who is in the sample."""
    return (mixed(~turns ^ _SALT) % np.uint64(GROUPS)).astype(np.int64)


def counted(turns: NDArray[np.uint64], survives: NDArray[np.bool_], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """By random group, matches of sampled turns, and those of them that shedding has left, as they weigh.

    Args:
        turns: uint64 (matches,).
        survives: bool (matches,).
        weights: float64 (matches,), one over how many times as often their partitions are in the sample.

    Returns:
        float64 (2, GROUPS).
    """
    groups = group_of(turns)
    return np.stack([np.bincount(groups, one, minlength=GROUPS) for one in (weights, weights * survives)])
