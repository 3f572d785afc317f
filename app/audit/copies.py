"""Events that several questions are about, one after the other on one line of time: so one feed of an engine answers all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.audit.memory import Recalled
from app.events.batch import EventBatch, take


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """A copy of some events for each question. Copies are so far apart in time that nothing spans two of them.

    Attributes:
        events: of all copies; their times are shifted, their places are what they were.
        hidden: int64 (copies,), how many shed events each has.
        rank: int64 (events,), which of its copy's shed events an event is; of others a number that is never reached.
        copy: int64 (events,).
        begin_ms: of the first copy.
        width_ms: from the beginning of one to that of the next; 0 when there is only one, which is where it was.
    """

    events: Recalled
    hidden: NDArray[np.int64]
    rank: NDArray[np.int64]
    copy: NDArray[np.int64]
    begin_ms: int
    width_ms: int

    @staticmethod
    def of(events: Recalled, rows: Sequence[NDArray[np.intp]], own: NDArray[np.uint64], reach_ms: int) -> Copies:
        """Copies of some rows each.

        Args:
            events: in total order.
            rows: of each copy, ascending; none is empty.
            own: uint64 (words,), the query's bits.
            reach_ms: how long before and after them events have to do with each other; 0: there is one copy, and its times stay.
        """
        every = np.concatenate(rows)
        copy = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
        times = events.batch.time[every]
        first = np.array([events.batch.time[one[0]] for one in rows])
        span_ms = max(int(events.batch.time[one[-1]] - events.batch.time[one[0]]) for one in rows)
        width_ms = span_ms + 2 * reach_ms + 1 if reach_ms else 0
        begin_ms = int(first.min())
        shifted = begin_ms + copy * width_ms + (times - first[copy]) if reach_ms else times
        batch = replace(take(events.batch, every), time=shifted)
        shed = (events.shed[every] & own).any(axis=1)
        before: NDArray[np.int64] = np.cumsum(shed) - shed
        starts = np.searchsorted(copy, np.arange(len(rows)))
        rank = np.where(shed, before - before[starts][copy], np.iinfo(np.int64).max)
        hidden = np.bincount(copy[shed], minlength=len(rows)).astype(np.int64)
        return Copies(Recalled(batch, events.kept[every], events.shed[every]), hidden, rank, copy, begin_ms, width_ms)

    def some(self, which: NDArray[np.bool_], back: NDArray[np.int64]) -> tuple[EventBatch, NDArray[np.uint64]]:
        """The events of some of the copies, bool (copies,), and as what they are fed, uint64 (events, words), when the first so many shed ones of each, int64 (copies,), are back."""
        rows = np.flatnonzero(which[self.copy])
        there = (self.rank[rows] < back[self.copy[rows]])[:, None]
        return take(self.events.batch, rows), self.events.kept[rows] | np.where(there, self.events.shed[rows], np.uint64(0))

    def copy_of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """To which copies matches of these times belong."""
        return (times - self.begin_ms) // self.width_ms if self.width_ms else np.zeros(len(times), np.int64)

    def places(self, number: NDArray[np.int64]) -> NDArray[np.int64]:
        """Source and offset, int64 (copies, 2), of the shed event that is counted so, from 1, in each copy; -1 where it has not so many."""
        found = np.full((len(number), 2), -1, np.int64)
        rows = np.flatnonzero(self.rank == number[self.copy] - 1)
        found[self.copy[rows], 0] = self.events.batch.source[rows]
        found[self.copy[rows], 1] = self.events.batch.offset[rows]
        return found
