"""What an engine finds: matches as columns."""

from __future__ import annotations

from collections.abc import Mapping
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
class Matches:
    """Matches of one feed, in the order in which they were found (by time of their last event, or of their window's end).

    Attributes:
        time: int64 (matches,), of the last event, or the end of the window for a negated end.
        rows: int64 (matches, positives), places in ``events``, by positive item in textual order.
        events: what ``rows`` refers to.
        fields: return field → column (matches,).
        key: equivalence attribute → column (matches,), sorted by attribute: the partition key.

    Partial matches that timed out are such a table too: their ``time`` is the end of their window, ``rows`` is -1 and fields are null
    where nothing is bound.
    """

    time: NDArray[np.int64]
    rows: NDArray[np.int64]
    events: EventTable
    fields: Mapping[str, Column]
    key: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.time)

    def sources(self) -> NDArray[np.int64]:
        """int64 (matches, positives): topic partition of every bound event."""
        return self.events.source[self.rows]

    def offsets(self) -> NDArray[np.int64]:
        """int64 (matches, positives): offset of every bound event."""
        return self.events.offset[self.rows]

    def total_order(self) -> NDArray[np.intp]:
        """Numbers of the matches sorted by time, then by their events in total order; sorting costs more than finding them."""
        sort_keys: list[NDArray[np.int64]] = []
        for place in range(self.rows.shape[1] - 1, -1, -1):
            row = self.rows[:, place]
            sort_keys += [self.events.offset[row], self.events.source[row], self.events.time[row]]
        return np.lexsort([*sort_keys, self.time])
