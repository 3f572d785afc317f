"""Partitions and times that matches have to do with, and the events that lie there: sorted arrays answer for all of them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Of each match what it has to do with: partition, and times, both ends included; int64 (matches,)."""

    keys: NDArray[np.uint64]
    since: NDArray[np.int64]
    until: NDArray[np.int64]

    def of(self, which: NDArray[np.intp]) -> Spans:
        """Those of some of the matches."""
        return Spans(self.keys[which], self.since[which], self.until[which])


def covered(spans: Spans, keys: NDArray[np.uint64], everywhere: NDArray[np.bool_], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether events lie within one of the spans of their partition, bool (events,).

    At any moment as many spans are open as have begun and are not over. Partition and moment are one number, so that two sorted arrays answer for all.

    Args:
        spans: of matches; there is at least one.
        keys: uint64 (events,).
        everywhere: bool (events,), events that belong to every partition.
        times: int64 (events,).
    """
    known, own = np.unique(spans.keys, return_inverse=True)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    moments = np.unique(np.concatenate([spans.since, spans.until]))
    width = 2 * len(moments) + 1  # every moment, and what is between moments
    at = np.searchsorted(moments, times, "left") + np.searchsorted(moments, times, "right")
    since, until = (2 * np.searchsorted(moments, bounds) + 1 for bounds in (spans.since, spans.until))
    open_here = _begun(own * width + since, place * width + at) > _over(own * width + until, place * width + at)
    open_anywhere = _begun(since, at) > _over(until, at)
    return np.where(everywhere, open_anywhere, (known[place] == keys) & open_here)


def _begun(since: NDArray[np.intp], at: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.searchsorted(np.sort(since), at, "right")


def _over(until: NDArray[np.intp], at: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.searchsorted(np.sort(until), at, "left")


class Places:
    """Where the events of a partition and time are, among events in total order.

    Args:
        times: int64 (events,), rising.
        keys: uint64 (events,), hashes of partition keys.
        everywhere: bool (events,), events that belong to every partition.
    """

    def __init__(self, times: NDArray[np.int64], keys: NDArray[np.uint64], everywhere: NDArray[np.bool_]) -> None:
        self._times, self._everywhere = times, np.flatnonzero(everywhere)
        own = np.flatnonzero(~everywhere)
        self._by_key = own[np.argsort(keys[own], kind="stable")]
        self._keys = keys[self._by_key]

    def counted(self, spans: Spans) -> NDArray[np.int64]:
        """How many there are for each of the spans, int64 (spans,)."""
        partitions, of_event = np.unique(self._keys, return_inverse=True)
        moments = np.unique(self._times)
        width = len(moments) + 1  # partition and moment in one number, so that one sorted array answers for all
        ranked = of_event * width + np.searchsorted(moments, self._times[self._by_key])
        place = np.searchsorted(partitions, spans.keys)
        there = np.isin(spans.keys, partitions)
        first, last = np.searchsorted(moments, spans.since, "left"), np.searchsorted(moments, spans.until, "right")
        own = np.searchsorted(ranked, place * width + last) - np.searchsorted(ranked, place * width + first)
        anywhere = self._times[self._everywhere]
        common = np.searchsorted(anywhere, spans.until, "right") - np.searchsorted(anywhere, spans.since, "left")
        return np.where(there, own, 0) + common

    def of(self, spans: Spans, which: int) -> NDArray[np.intp]:
        """Rows of the events of one of the spans, in total order."""
        key, since, until = spans.keys[which], spans.since[which], spans.until[which]
        own = self._by_key[np.searchsorted(self._keys, key, "left") : np.searchsorted(self._keys, key, "right")]
        found = [
            rows[np.searchsorted(times, since, "left") : np.searchsorted(times, until, "right")]
            for rows, times in ((own, self._times[own]), (self._everywhere, self._times[self._everywhere]))
        ]
        return np.sort(np.concatenate(found))
