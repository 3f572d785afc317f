"""Explicit windows as pairs of an event and a window: for shedders that drop an event from some windows and leave it in others.

An operator that gets pairs runs the query without its windows, partitioned by the number of the window; its composite events are those of the windowed query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.bucket.matching import Found
from app.cep.matches import Matches
from app.evaluation.operator import Operator, Outcome
from app.events.batch import Column, EventBatch, take
from app.events.types import Kind
from app.query.fingerprint import fingerprint
from app.query.plan import ExplicitWindow, Plan
from shedding.candidates import JudgedEvents, JudgedInWindows

WINDOW = "@window"
"""Column of the number of the window."""


@dataclass(frozen=True, slots=True, eq=False)
class EventWindows:
    """Which events lie in which windows.

    Attributes:
        event: int64 (pairs,), rows of the recording, not falling.
        window: int64 (pairs,), number of the window; window n begins at n times the slide.
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
        place = batch.time if window.unit == "ms" else np.arange(len(batch), dtype=np.int64)
        last = place // window.slide
        first = (place - window.size) // window.slide + 1
        if window.unit == "events":
            first = np.maximum(first, 0)  # counting begins with the stream
        counts = last - first + 1
        event = np.repeat(np.arange(len(batch), dtype=np.int64), counts)
        begins = np.cumsum(counts) - counts
        number = first[event] + np.arange(len(event)) - begins[event]
        order = np.argsort(number, kind="stable")
        _, sizes = np.unique(number, return_counts=True)
        starts = np.cumsum(sizes) - sizes
        position = np.empty(len(event), dtype=np.int32)
        position[order] = np.arange(len(event)) - np.repeat(starts, sizes)
        size = np.empty(len(event), dtype=np.float64)
        size[order] = np.repeat(sizes, sizes)
        return EventWindows(event, number, position, size)

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

    def between(self, start: int, stop: int) -> slice:
        """The pairs of rows ``start..stop`` of the recording."""
        first, last = np.searchsorted(self.event, [start, stop])
        return slice(int(first), int(last))


def windowed(plan: Plan) -> bool:
    """Whether the query has explicit windows that events can be dropped from one by one: sliding ones over the whole stream."""
    window = None if plan.runs is None else plan.runs.window
    return window is not None and window.slide is not None and not window.per_partition


def shed_window(plan: Plan) -> ExplicitWindow:
    """The windows in which events have positions, for shedders that go by these.

    The query's own where it has such; otherwise the stream is cut into pieces as long as ``within``, and an event has one position.

    Raises:
        ValueError: the query has neither windows nor ``within``.
    """
    window = None if plan.runs is None else plan.runs.window
    if window is not None and windowed(plan):
        return window
    size = window or plan.within
    if size is None:
        raise ValueError(f"{plan.name} has no window, so events have no position in one")
    return ExplicitWindow(size.size, size.unit, size.size)


class WindowedOperator:
    """A query with explicit windows, fed with pairs.

    Args:
        plan: with an explicit window.
        batch: the recording, in total order.
        windows: of the recording.
    """

    def __init__(self, plan: Plan, batch: EventBatch, windows: EventWindows) -> None:
        self.windows, self._batch = windows, batch
        number = Column(Kind.INTEGER, windows.window)
        pairs = take(batch, windows.event)
        # a place of its own for every pair; events of one window keep their order
        offset = np.arange(len(windows), dtype=np.int64)
        expanded = EventBatch(pairs.time, np.zeros_like(offset), offset, pairs.type, {**pairs.columns, WINDOW: number})
        self._operator = Operator(partitioned_by_window(plan), expanded)

    def run(self, kept: NDArray[np.bool_] | None = None) -> Outcome:
        """The composite events when only some pairs (bool (pairs,), True = kept) are let through; rows are those of the recording."""
        found = self._operator.run(kept)
        pair = found.rows[found.starts[:-1]]
        return replace(found, rows=self.windows.event[found.rows], window=self.windows.window[pair])

    def found(self, kept: NDArray[np.bool_] | None = None) -> list[Found]:
        """The same as matches, whose events are those of the recording."""
        return [replace(one, matches=self._named(one.matches)) for one in self._operator.found(kept)]

    def _named(self, matches: Matches) -> Matches:
        """Events of pairs become events of the recording again, and the window a number beside the match."""
        events, row = matches.events, self.windows.event[matches.events.offset]
        key = dict(matches.key)
        return replace(
            matches,
            events=replace(events, source=self._batch.source[row], offset=self._batch.offset[row]),
            windows=key.pop(WINDOW).values.astype(np.int64),
            key=key,
        )


def partitioned_by_window(plan: Plan) -> Plan:
    """The query without its explicit window, for events that carry the number of theirs."""
    assert plan.runs is not None  # noqa: S101 - queries with windows have it
    inner = replace(
        plan,
        equivalence=(*plan.equivalence, WINDOW),
        columns=tuple(sorted({*plan.columns, WINDOW})),
        runs=replace(plan.runs, window=None),
        ranks="none",
    )
    return replace(inner, fingerprint=fingerprint(inner))
