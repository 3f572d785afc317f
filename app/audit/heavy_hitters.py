"""Partitions that have much of what a query finds are in its control sample more often than others, and weigh the less (Horvitz and Thompson, JASA 47, 1952).

Where three of 200 partitions have all composite events, a sample of 1 % of all turns holds none of theirs for minutes, and nothing can be said; and what it says of a few
turns has a wide interval. Who has many is known from what was found until now, so it is settled before a turn begins, and nothing that happens in a turn changes whether it is looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.audit.sample import Sample, in_sample

MOST_OFTEN = 8
"""A partition is in the sample so many times as often as others, at most; a power of two."""
PART = 32
"""Who has one in so many of a query's composite events is as often in the sample as others; who has twice as many, twice as often."""
ENOUGH = 200
"""So many composite events must be known before anybody is said to have many."""
KNOWN = 1_000
"""Partitions of a query of which is remembered how many they have: those with most."""
PARTS = 64
"""Lists of partitions that are put together at once."""


@dataclass(slots=True)
class _Found:
    """How many composite events of a query partitions have, lately.

    Attributes:
        keys: uint64 (partitions,), ascending.
        counts: float64 (partitions,).
        total: of all partitions, those that are not remembered among them.
    """

    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    counts: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    total: float = 0.0
    news: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = field(default_factory=list)

    def note(self, keys: NDArray[np.uint64]) -> None:
        """Composite events more, uint64 (matches,)."""
        self.total += len(keys)
        self.news.append(np.unique(keys, return_counts=True))
        if len(self.news) >= PARTS:
            self.put_together()

    def put_together(self) -> None:
        """Counts the news, and forgets those with few."""
        parts = [(self.keys, self.counts), *self.news]
        keys, own = np.unique(np.concatenate([one for one, _ in parts]), return_inverse=True)
        counts = np.bincount(own, np.concatenate([one for _, one in parts]), minlength=len(keys)).astype(np.float64)
        most = np.sort(np.argpartition(counts, -KNOWN)[-KNOWN:]) if len(keys) > KNOWN else np.arange(len(keys))
        self.keys, self.counts, self.news = keys[most], counts[most], []

    def forget_half(self) -> None:
        """What is old counts for less."""
        self.counts, self.total = self.counts / 2, self.total / 2


@dataclass(frozen=True, slots=True)
class _Era:
    """Who is in the sample more often, from one time on.

    Attributes:
        first: the first of its epochs.
        keys: uint64 (partitions,), ascending.
        often: int64 (partitions,), powers of two above 1.
    """

    first: int
    keys: NDArray[np.uint64]
    often: NDArray[np.int64]

    def is_like(self, other: _Era) -> bool:
        """Whether the same partitions are in the sample as often."""
        return np.array_equal(self.keys, other.keys) and np.array_equal(self.often, other.often)

    def of(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """How often, int64 (events,)."""
        if not len(self.keys):
            return np.ones(len(keys), np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.often[at], 1)


def may_hold(sample: Sample, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether events are in the sample if their partitions are heavy, bool (events,); arguments as of `Sample.turns`."""
    return in_sample(sample.turns(keys, times), sample.share * MOST_OFTEN)


class HeavyHitters:
    """Of the queries that share a sample.

    Time is cut into epochs as long as a turn, so one turn of every partition begins in each. How often a partition is in the sample is settled for all turns that begin in an epoch when the
    first event of the epoch is seen.

    Args:
        sample: of partitions that have few.
    """

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._most = MOST_OFTEN if sample.share * MOST_OFTEN <= 1 else 1 << int(math.log2(1 / sample.share))
        self._found: dict[int, _Found] = {}
        self._eras = [_Era(-(1 << 62), np.zeros(0, np.uint64), np.zeros(0, np.int64))]
        self._settled = self._eras[0].first

    def note(self, query: int, keys: NDArray[np.uint64]) -> None:
        """What a query (index in `Catalog.plans`) found, by partition, uint64 (matches,)."""
        self._found.setdefault(query, _Found()).note(keys)

    def choose_heavy(self, until_ms: int, *, more: bool) -> bool:
        """Settles who is in the sample more often in all turns that begin until this time; whether it was not settled already.

        Args:
            until_ms: the newest event's time.
            more: whether anybody is to be.
        """
        epoch = until_ms // self._sample.turn_ms
        if epoch <= self._settled:
            return False
        self._settled = epoch
        heavy: dict[int, int] = {}
        for found in self._found.values():
            found.put_together()
            if more and found.total >= ENOUGH:
                often = np.minimum(PART * found.counts / found.total, self._most)
                for key, times in zip(found.keys[often >= 2].tolist(), often[often >= 2].tolist(), strict=True):
                    heavy[key] = max(heavy.get(key, 1), 1 << int(math.log2(times)))
            found.forget_half()
        keys = np.array(sorted(heavy), np.uint64)
        era = _Era(epoch, keys, np.array([heavy[key] for key in keys.tolist()], np.int64))
        if not era.is_like(self._eras[-1]):
            self._eras.append(era)
        return True

    def let_go(self, before_ms: int) -> None:
        """Of events before this time nobody asks any more."""
        oldest = before_ms // self._sample.turn_ms - 1  # a turn may have begun in the epoch before
        while len(self._eras) > 1 and self._eras[1].first <= oldest:
            self._eras.pop(0)

    def often(self, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many times as often as others the turns of events are in the sample, int64 (events,); arguments as of `Sample.turns`."""
        epochs = self._sample.begins(keys, times) // self._sample.turn_ms
        era = np.searchsorted([one.first for one in self._eras], epochs, side="right") - 1
        often = np.ones(len(keys), np.int64)
        for number in np.unique(era).tolist():
            rows = np.flatnonzero(era == number)
            often[rows] = self._eras[number].of(keys[rows])
        return often

    def hold(self, keys: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether events are in the sample, bool (events,); arguments as of `Sample.turns`."""
        turns, share = self._sample.turns(keys, times), self._sample.share
        held = in_sample(turns, share * self._most)
        rows = np.flatnonzero(held)  # who is heavy is asked of few
        held[rows] = in_sample(turns[rows], np.asarray(share * self.often(keys[rows], times[rows]), np.float64))
        return held

    def hold_whole(self, keys: NDArray[np.uint64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether all that matches can have to do with lies in one turn that is in the sample, bool (matches,).

        It is asked of the longest that a match can be, not of the match: else short ones would be in the sample more often than long ones.

        Args:
            keys: uint64 (matches,).
            ends: int64 (matches,), times of their last events.
        """
        sample = self._sample
        return self.hold(keys, ends) & (sample.turns(keys, ends - sample.before_ms) == sample.turns(keys, ends + sample.after_ms))
