"""The control sample: partitions of which it is found out, for some time, what is there with nothing shed (`app.bucket.beside`).

What of it was found in spite of shedding is compared by identity. So recall is measured, whatever a query does with what it is not fed, and whoever sheds.

Who is in the sample changes (`Sample.turn_ms`). Partitions are uneven, and what shedding costs them as well: a few have most composite events, and of those that have few a shedder leaves less. A sample that is the same for ever
holds none of the few, or nothing but them, and its interval cannot know. In turns, everybody comes to it.
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
        share: of all turns of all partitions, 0 to 1.
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
        start = mixed(keys ^ _START) % np.uint64(self.turn_ms)
        number = (times + start.astype(np.int64)) // self.turn_ms
        return mixed(keys ^ mixed(number.astype(np.uint64)))

    def holds(self, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether events are in the sample, bool (events,); arguments as of `turns`."""
        return in_sample(self.turns(keys, times), self.share)

    def holds_whole(self, keys: NDArray[np.uint64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether all that matches can have to do with lies in one turn that is in the sample, bool (matches,).

        It is asked of the longest that a match can be, not of the match: else short ones would be in the sample more often than long ones.

        Args:
            keys: uint64 (matches,).
            ends: int64 (matches,), times of their last events.
        """
        first, last = self.turns(keys, ends - self.before_ms), self.turns(keys, ends + self.after_ms)
        return in_sample(first, self.share) & (first == last)


def in_sample(turns: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Whether turns are in the control sample; a smaller sample is part of a larger one.

    Args:
        turns: uint64, hashes.
        share: of all, 0 to 1.

    >>> in_sample(np.arange(100_000, dtype=np.uint64), 0.25).mean().round(2)
    np.float64(0.25)
    """
    return mixed(turns ^ _SALT) >> np.uint64(11) < np.uint64(int(share * (1 << 53)))


def group_of(turns: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The random group of each turn, 0 to `GROUPS` - 1; independent of who is in the sample."""
    return (mixed(~turns ^ _SALT) % np.uint64(GROUPS)).astype(np.int64)


def counted(turns: NDArray[np.uint64], survives: NDArray[np.bool_]) -> NDArray[np.int64]:
    """By random group, matches of sampled turns, and those of them that shedding has left.

    Args:
        turns: uint64 (matches,).
        survives: bool (matches,).

    Returns:
        int64 (2, GROUPS).
    """
    groups = group_of(turns)
    return np.stack([np.bincount(groups, minlength=GROUPS), np.bincount(groups[survives], minlength=GROUPS)]).astype(np.int64)
