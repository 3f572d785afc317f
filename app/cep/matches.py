"""What an engine finds: matches as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.events.batch import Column


@dataclass(frozen=True, slots=True, eq=False)
class EventTable:
    """The stored events that matches refer to; views of the engine's arrays, which later feeds do not change.

    Attributes:
        time: int64 (stored,), milliseconds since the epoch.
        source: int64 (stored,).
        offset: int64 (stored,).
        type: string column (stored,); its codes are a view of the stored events, int64.
    """

    time: NDArray[np.int64]
    source: NDArray[np.int64]
    offset: NDArray[np.int64]
    type: Column


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A return field that holds a list per match: a bare attribute of a closure.

    Attributes:
        values: column (elements,), the elements of all lists one after the other.
        starts: int64 (matches + 1,); list k is ``values[starts[k] : starts[k + 1]]``. Null where it is empty: a closure that did not bind.
    """

    values: Column
    starts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Constituents:
    """The bound events of matches, in total order.

    Attributes:
        starts: int64 (matches + 1,); those of match k stand at ``starts[k] : starts[k + 1]``.
        items: int64 (bound,), index into `Plan.items`.
        rows: int64 (bound,), places in the events.
    """

    starts: NDArray[np.int64]
    items: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Matches of one feed, in the order in which they were found (by time of their last event, or of their window's end).

    Attributes:
        time: int64 (matches,), of the last event, or the end of the window for a negated end.
        rows: int64 (matches, positives), places in ``events``, by positive item in textual order; (matches, 0) where ``varying`` is given.
        events: what ``rows`` refers to.
        fields: return field → column (matches,), or lists.
        key: equivalence attribute → column (matches,), sorted by attribute: the partition key.
        varying: the bound events of a plan of runs, whose matches bind different numbers of events.
        windows: int64 (matches,), numbers of explicit windows; None without.

    Partial matches that timed out are such a table too: their ``time`` is the end of their window, ``rows`` is -1 and fields are null
    where nothing is bound.
    """

    time: NDArray[np.int64]
    rows: NDArray[np.int64]
    events: EventTable
    fields: Mapping[str, Column | Lists]
    key: Mapping[str, Column]
    varying: Constituents | None = None
    windows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.time)

    def constituents(self, items: Sequence[int]) -> Constituents:
        """The bound events of every match, whichever engine found it.

        Args:
            items: indices of the plan's positive items, in textual order (``[item.index for item in plan.positive]``).
        """
        if self.varying is not None:
            return self.varying
        bound = self.rows >= 0
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(bound.sum(axis=1))])
        return Constituents(starts, np.broadcast_to(np.array(items, np.int64), self.rows.shape)[bound], self.rows[bound])

    def sources(self) -> NDArray[np.int64]:
        """int64 (matches, positives): topic partition of every bound event."""
        return self.events.source[self.rows]

    def offsets(self) -> NDArray[np.int64]:
        """int64 (matches, positives): offset of every bound event."""
        return self.events.offset[self.rows]

    def total_order(self) -> NDArray[np.intp]:
        """Numbers of the matches sorted by time, then by their events in total order; sorting costs more than finding them."""
        if self.varying is not None:
            return self._total_order_of_varying(self.varying)
        sort_keys: list[NDArray[np.int64]] = []
        for place in range(self.rows.shape[1] - 1, -1, -1):
            row = self.rows[:, place]
            sort_keys += [self.events.offset[row], self.events.source[row], self.events.time[row]]
        return np.lexsort([*sort_keys, self.time])

    def _total_order_of_varying(self, bound: Constituents) -> NDArray[np.intp]:
        """Events get their rank in total order; shorter lists of ranks come before longer ones that begin with them."""
        events = self.events
        used, places = np.unique(bound.rows, return_inverse=True)
        ranks = np.empty(len(used), np.int64)
        ranks[np.lexsort([events.offset[used], events.source[used], events.time[used]])] = np.arange(1, len(used) + 1)
        lengths = np.diff(bound.starts)
        longest = int(lengths.max(initial=0))
        table = np.zeros((len(self), longest), np.int64)
        table[np.arange(longest) < lengths[:, None]] = ranks[places]
        return np.lexsort([*(table[:, k] for k in range(longest - 1, -1, -1)), self.time])
