"""The windows of a query in which events have positions, for shedders that go by these."""

from __future__ import annotations

from app.query.plan import ExplicitWindow, Plan
from shedding.candidates import JudgedEvents, JudgedInWindows
from shedding.windows import elapsed_windows


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


def without_counting(plan: Plan, events: JudgedEvents) -> JudgedInWindows:
    """The same windows for whoever does not see all events of the stream: positions by time.

    Raises:
        ValueError: the windows are in events.
    """
    window = shed_window(plan)
    if window.unit != "ms" or window.slide is None:
        raise ValueError(f"{plan.name} has windows in events, which only whoever counts all events of the stream can tell")
    return elapsed_windows(events, window.size, window.slide)
