"""Predecessor panes: what stood in the input stream just before an event.

The pane of an event holds its strict predecessors, shed or not. A batch brings along what its first events need to know of earlier batches
(`Predecessors`), so panes are a pure function of what they are given: state in, state out.

Source: gSPICE (2023), II-B.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shedding.candidates import JudgedEvents, Predecessors


@dataclass(frozen=True, slots=True)
class Pane:
    """The length of panes, in events or in time.

    Attributes:
        events: the last so many events; 0 for panes in time.
        time_ms: the events of the last so many milliseconds, without those of the very same moment; 0 for panes in events.

    Raises:
        ValueError: not exactly one of them is given.
    """

    events: int = 0
    time_ms: int = 0

    def __post_init__(self) -> None:
        if (self.events > 0) == (self.time_ms > 0) or min(self.events, self.time_ms) < 0:
            raise ValueError("a pane has a length in events or in milliseconds")


def carried(before: Predecessors, events: JudgedEvents, panes: Iterable[Pane]) -> Predecessors:
    """What the next batch must know.

    Args:
        before: what this batch knew.
        events: all events of this batch, shed or not.
        panes: the panes that the next batch will ask for.

    Returns:
        The newest events, as few as the longest pane allows; new arrays.

    >>> batch = JudgedEvents(np.zeros(3, np.uint64), np.array([1, 2, 3]), np.array([0, 1, 2], np.int32))
    >>> carried(Predecessors(), batch, [Pane(events=2)]).type.tolist()
    [1, 2]
    """
    types, times, *more = (
        np.concatenate([getattr(before, name), getattr(events, name)]) for name in ("type", "time", "identity", "items", "key")
    )
    last = len(types)
    starts = (
        [max(0, last - one.events) if one.events else int(np.searchsorted(times, times[-1] - one.time_ms)) for one in panes] if last else []
    )
    start = min(starts, default=last)
    identity, items, key = (part[start:].copy() if len(part) == last else part[:0] for part in more)
    values = np.concatenate([before.values, events.values], axis=1) if before.values.shape[0] == events.values.shape[0] else events.values
    values = values[:, start - last :].copy() if last > start else values[:, :0]
    return Predecessors(types[start:].copy(), times[start:].copy(), identity, items, key, values)
