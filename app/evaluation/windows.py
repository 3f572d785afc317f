"""Explicit windows as pairs of an event and a window: for shedders that drop an event from some windows and leave it in others.

An operator that gets pairs runs the query without its windows, partitioned by the number of the window; its composite events are those of the windowed query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import thread_time

import numpy as np
from numpy.typing import NDArray

from app.bucket.matching import Found
from app.cep.cells.arrays import FOREVER
from app.cep.door import RunsEngine
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.evaluation.operator import Operator, Outcome
from app.events.batch import Column, EventBatch, take
from app.events.types import Kind
from app.features.events import candidate_items
from app.query.plan import ExplicitWindow, Ordered, Plan, Within
from app.query.planning.fingerprint import fingerprint
from shedding.candidates import JudgedEvents, JudgedInWindows
from shedding.identity import identities
from shedding.windows import count_windows, time_windows

WINDOW = "@window"
"""Column of the number of the window."""

LEAST_MS = 0.001
"""Between two events, on average: no stream is faster, and of a recording without time a window holds something."""


def window_events(plan: Plan, batch: EventBatch) -> float:
    """Events of a stream in a window of the query, the mean where the window is in time; all of them where it has none."""
    within = plan.within
    if within is None:
        return float(len(batch))
    return float(within.size) if within.unit == "events" else within.size / event_ms(batch)


def event_ms(batch: EventBatch) -> float:
    """Between two events, on average."""
    return max(LEAST_MS, float(np.ptp(batch.time)) / (len(batch) - 1)) if len(batch) > 1 else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class EventWindows:
    """Which events lie in which windows.

    Attributes:
        event: int64 (pairs,), rows of the recording, not falling.
        window: int64 (pairs,), number of the window; window n begins at n times the slide, or with row n.
        position: int32 (pairs,), events of the window before this one.
        size: float64 (pairs,), events in the window.
    """

    event: NDArray[np.int64]
    window: NDArray[np.int64]
    position: NDArray[np.int32]
    size: NDArray[np.float64]

    @staticmethod
    def of(window: ExplicitWindow, batch: EventBatch) -> EventWindows:
        """The windows of a query over a recording.

        Args:
            window: in time or in events of the whole stream.
            batch: in total order.

        Raises:
            ValueError: windows that events open, or that are counted per partition.
        """
        if window.slide is None or window.per_partition:
            raise ValueError("windows that events open, or that every partition has of its own, are not shed pair by pair")
        events = JudgedEvents(identities(batch.source, batch.offset), batch.time)
        pairs = time_windows(events, window.size, window.slide) if window.unit == "ms" else count_windows(events, window.size, window.slide)
        return EventWindows(pairs.event, pairs.window, pairs.position, pairs.size)

    @staticmethod
    def opened(within: Within, openers: NDArray[np.int64], batch: EventBatch) -> EventWindows:
        """The spans in which matches that begin with these events must lie, as windows; window n is that of row n.

        Args:
            within: of the query.
            openers: int64 (openers,), rows of the events that can begin a match, ascending.
            batch: in total order.
        """
        rows = np.arange(len(batch), dtype=np.int64)
        place = batch.time if within.unit == "ms" else rows
        last = np.searchsorted(openers, rows, side="right")
        first = np.minimum(np.searchsorted(place[openers], place - within.size, side="right"), last)
        counts = last - first
        event = np.repeat(rows, counts)
        begins = np.cumsum(counts) - counts
        number = openers[first[event] + np.arange(len(event)) - begins[event]]
        ends = np.searchsorted(place, place[number] + within.size)
        return EventWindows(event, number, (event - number).astype(np.int32), (ends - number).astype(np.float64))

    def __len__(self) -> int:
        return len(self.event)

    def judged(self, events: JudgedEvents) -> JudgedInWindows:
        """The pairs as shedders see them."""
        return JudgedInWindows(events, self.event, self.window, self.position, self.size)

    def weights(self, outcome: Outcome, weight: float) -> NDArray[np.float64]:
        """float64 (pairs,): sum of the weights of the window's composite events that the pair's event is part of."""
        least, width = int(self.window.min(initial=0)), int(np.ptp(self.window)) + 1 if len(self) else 1
        keys = self.event * width + (self.window - least)
        bound = outcome.rows * width + np.repeat(outcome.window - least, np.diff(outcome.starts))
        found = np.searchsorted(keys, bound)
        return np.bincount(found, minlength=len(self)).astype(np.float64) * weight

    def of_rows(self, rows: NDArray[np.int64]) -> EventWindows:
        """The pairs of these rows, which become rows of a recording of their own; positions and sizes still count all events.

        Args:
            rows: int64 (rows,), ascending.
        """
        place = np.searchsorted(rows, self.event)
        own = np.flatnonzero(rows[np.minimum(place, len(rows) - 1)] == self.event) if len(rows) else np.zeros(0, np.int64)
        return EventWindows(place[own], self.window[own], self.position[own], self.size[own])

    def between(self, start: int, stop: int) -> slice:
        """The pairs of rows ``start..stop`` of the recording."""
        first, last = np.searchsorted(self.event, [start, stop])
        return slice(int(first), int(last))


class WindowedOperator:
    """A query with explicit windows, fed with pairs.

    Args:
        plan: with an explicit window.
        batch: the recording, in total order.
        windows: of the recording.
    """

    def __init__(self, plan: Plan, batch: EventBatch, windows: EventWindows) -> None:
        self.windows, self._batch = windows, batch
        self._plain = Operator(plan, batch)
        self._operator = Operator(partitioned_by_window(plan), expanded(batch, windows, np.arange(len(windows))))

    def run(self, kept: NDArray[np.bool_] | None = None) -> Outcome:
        """The composite events when only some pairs (bool (pairs,), True = kept) are let through; rows are those of the recording."""
        return self._plain.outcome([one.matches for one in self.found(kept)])

    def work_s(self, kept: NDArray[np.bool_] | None = None) -> float:
        """See `Operator.work_s`."""
        return self._operator.work_s(kept)

    def found(self, kept: NDArray[np.bool_] | None = None) -> list[Found]:
        """The same as matches, whose events are those of the recording."""
        return [replace(one, matches=in_recording(one.matches, self._batch, self.windows)) for one in self._operator.found(kept)]


class OpenedOperator:
    """A query with ``within``, fed with pairs: every event that can begin a match opens a window, in which only this event begins one.

    Args:
        plan: a sequence for the runs evaluator, with ``within``.
        batch: the recording, in total order.

    Attributes:
        windows: of the recording.
        opening: bool (pairs,), the event is the one that opened the window. Who sheds events from windows cannot drop these: an operator before this one
            opens windows (pSPICE, III-A), and without its first event there would be no window.

    Raises:
        ValueError: the query has no ``within``, or may begin with several items.
    """

    def __init__(self, plan: Plan, batch: EventBatch) -> None:
        if plan.within is None or plan.runs is None or not isinstance(plan.runs.pattern, Ordered):
            raise ValueError(f"{plan.name}: only sequences with a window have windows to drop events from")
        of_row, first = candidate_items(plan, batch), np.uint64(1 << plan.positive[0].index)
        self.windows = windows = EventWindows.opened(plan.within, np.flatnonzero(of_row & first), batch)
        self.opening = windows.event == windows.window
        of_pair = of_row[windows.event]
        of_pair[~self.opening] &= ~first
        self._pairs = np.flatnonzero(of_pair)
        self._items = of_pair[self._pairs]
        self._plan = partitioned_by_window(plan)
        self._batch = expanded(batch, windows, self._pairs)
        self._operator = Operator(self._plan, self._batch)

    def run(self, kept: NDArray[np.bool_] | None = None) -> Outcome:
        """As `WindowedOperator.run`."""
        own, part, end = self._part(kept)
        found = self._operator.outcome([RunsEngine(self._plan).feed(part, self._items[own], end)[0]])
        pair = self._pairs[found.rows]
        return replace(found, rows=self.windows.event[pair], window=self.windows.window[pair[found.starts[:-1]]])

    def work_s(self, kept: NDArray[np.bool_] | None = None) -> float:
        """See `Operator.work_s`."""
        own, part, end = self._part(kept)
        engine, began = RunsEngine(self._plan), thread_time()
        engine.feed(part, self._items[own], end)
        return thread_time() - began

    def _part(self, kept: NDArray[np.bool_] | None) -> tuple[NDArray[np.int64], EventBatch, Watermarks]:
        """Which of the pairs that can be anything are left, these, and the end of time."""
        own = np.arange(len(self._pairs)) if kept is None else np.flatnonzero(kept[self._pairs])
        part = take(self._batch, own)
        return own, part, Watermarks(FOREVER, end_ms=int(part.time[-1]) if len(part) else 0)


def expanded(batch: EventBatch, windows: EventWindows, pairs: NDArray[np.int64]) -> EventBatch:
    """Pairs as events that carry the number of their window; a place of its own for every pair, and events of one window keep their order.

    Args:
        batch: the recording.
        windows: of the recording.
        pairs: int64 (pairs,), which of them, ascending.
    """
    part = take(batch, windows.event[pairs])
    columns = {**part.columns, WINDOW: Column(Kind.INTEGER, windows.window[pairs])}
    return EventBatch(part.time, np.zeros_like(pairs), pairs, part.type, columns)


def in_recording(matches: Matches, batch: EventBatch, windows: EventWindows) -> Matches:
    """Events of pairs become events of the recording again, and the window a number beside the match."""
    events, key = matches.events, dict(matches.key)
    row = windows.event[np.clip(events.offset, 0, len(windows) - 1)]  # places that no match refers to may hold anything
    return replace(
        matches,
        events=replace(events, source=batch.source[row], offset=batch.offset[row]),
        windows=key.pop(WINDOW).values.astype(np.int64),
        key=key,
    )


def partitioned_by_window(plan: Plan) -> Plan:
    """The query without its explicit window, for events that carry the number of theirs.

    Its length becomes ``within``: that rules nothing out that lies in one window, it says when a negated end is decided, and lets the engine forget windows that are over.
    """
    assert plan.runs is not None  # noqa: S101 - queries with windows have it
    window = plan.runs.window
    within = plan.within if window is None else Within(window.size, window.unit)
    inner = replace(
        plan,
        within=within,
        equivalence=(*plan.equivalence, WINDOW),
        columns=tuple(sorted({*plan.columns, WINDOW})),
        runs=replace(plan.runs, window=None),
        ranks="none",
    )
    return replace(inner, fingerprint=fingerprint(inner))
