"""What shedders of events are asked about on a clock, batch by batch, and those that remember what was kept of a whole window, as buckets have them (`app.bucket.thinning`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.evaluation.shares import Asked, as_asked
from app.evaluation.windows import EventWindows
from shedding.candidates import JudgedEvents, JudgedInWindows, Mask, Predecessors
from shedding.chain_memory import ChainMemory
from shedding.interface import Ranking
from shedding.observations import Shape
from shedding.panes import Pane

_NOBODY = Predecessors()


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What may be dropped of each batch: events, or pairs of events and windows.

    Attributes:
        events: of the whole recording.
        windows: of the recording, for shedders that drop from windows.
        pane: what a model must know of an event's predecessors.
        taken: bool (events,), those that cost anything: what selection lets through; None: all.
        ratio: what a model is asked for so that a share of these goes.
    """

    events: JudgedEvents
    windows: EventWindows | None = None
    pane: Pane | None = None
    taken: Mask | None = None
    ratio: Asked = as_asked

    def between(self, start: int, stop: int) -> JudgedEvents | JudgedInWindows:
        """Those of some rows; views."""
        events = _cut(self.events, start, stop, self._before(start))
        if self.windows is None:
            return events
        own, windows = self.windows.between(start, stop), self.windows
        return JudgedInWindows(events, windows.event[own] - start, windows.window[own], windows.position[own], windows.size[own])

    def passing(self, start: int, stop: int, kept: Mask) -> float:
        """The share of those that cost anything that is kept."""
        if self.taken is not None:
            own = self.taken[start:stop]
            kept = kept[own if self.windows is None else own[self.windows.event[self.windows.between(start, stop)] - start]]
        return float(kept.mean()) if len(kept) else 1.0

    def _before(self, start: int) -> Predecessors:
        if self.pane is None or not start:
            return _NOBODY
        first = start - self.pane.events
        if not self.pane.events:
            first = int(np.searchsorted(self.events.time, self.events.time[start] - self.pane.time_ms))
        part = _cut(self.events, max(0, first), start, _NOBODY)
        return Predecessors(part.type, part.time, part.identity, part.items, part.key, part.values)


def _cut(events: JudgedEvents, start: int, stop: int, before: Predecessors) -> JudgedEvents:
    own = slice(start, stop)
    return JudgedEvents(
        *(events.identity[own], events.time[own], events.type[own], events.values[:, own], before),
        *(events.items[own], events.key[own], events.period_ms, events.staying),
    )


class Remembering:
    """Decides about a stream's batches in order, and about each event once; a gate by itself would decide again about the window before each batch.

    Args:
        shape: of the query's pattern.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape, self._memory = shape, ChainMemory(shape)

    def keep(self, gate: Ranking[JudgedEvents], events: JudgedEvents, start: int) -> Mask:
        """Which events of a batch stay, bool (events,).

        Args:
            gate: in force.
            events: of the batch, in total order.
            start: number of the first one in the stream.
        """
        by_rank = self._shape.by_rank
        place = np.arange(start, start + len(events), dtype=np.int64) if by_rank else np.ascontiguousarray(events.time)
        key = events.key if len(events.key) else np.ones(len(events), np.uint64)
        kept = self._memory.keep(events.items, key, place, gate.ranks(events), gate.threshold)
        if len(place):
            self._memory.pass_to(int(place[-1]))
        return kept

    def pass_by(self, events: JudgedEvents, stop: int) -> None:
        """All stay of a batch that nobody looked at: what comes may extend any of it.

        Args:
            events: of the whole stream.
            stop: number of the first one behind the batch.
        """
        self._memory.begin(stop if self._shape.by_rank else int(events.time[stop - 1]) + 1)
