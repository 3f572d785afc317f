"""Which windows an event lies in, for whole streams: pairs of an event and a window, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedEvents, JudgedInWindows, Mask


def count_windows(events: JudgedEvents, size: int, slide: int) -> JudgedInWindows:
    """Windows of so many events, a new one after every ``slide`` events.

    >>> pairs = count_windows(JudgedEvents(np.zeros(5, np.uint64)), size=4, slide=2)
    >>> pairs.event.tolist(), pairs.window.tolist(), pairs.position.tolist()
    ([0, 1, 2, 2, 3, 3, 4, 4], [0, 0, 0, 1, 0, 1, 1, 2], [0, 1, 2, 0, 3, 1, 2, 0])
    """
    rank = np.arange(len(events))
    event, window = _expanded(np.maximum(-((size - 1 - rank) // slide), 0), rank // slide)
    return JudgedInWindows(events, event, window, (event - window * slide).astype(np.int32), np.full(len(event), float(size)))


def time_windows(events: JudgedEvents, size_ms: int, slide_ms: int, predicted: float | None = None) -> JudgedInWindows:
    """Windows of a duration; window k begins at k times ``slide_ms`` since the epoch.

    Args:
        events: in order of time.
        size_ms: length of a window.
        slide_ms: from the start of one to the start of the next.
        predicted: events that a window is thought to have while it is open; without it the number that it comes to have.
    """
    event, window = _expanded((events.time - size_ms) // slide_ms + 1, events.time // slide_ms)
    starts = np.searchsorted(events.time, window * slide_ms)
    counts = np.searchsorted(events.time, window * slide_ms + size_ms) - starts
    sizes = counts.astype(np.float64) if predicted is None else np.full(len(event), float(predicted))
    return JudgedInWindows(events, event, window, (event - starts).astype(np.int32), sizes)


def elapsed_windows(events: JudgedEvents, size_ms: int, slide_ms: int, parts: int = 10_000) -> JudgedInWindows:
    """The same for whoever does not see the whole stream: an event's position is the part of its window that has gone by, not events that were counted.

    Args:
        events: in any order.
        size_ms: length of a window.
        slide_ms: from the start of one to the start of the next.
        parts: of a window.

    >>> pairs = elapsed_windows(JudgedEvents(np.zeros(2, np.uint64), np.array([5, 17])), size_ms=10, slide_ms=5, parts=100)
    >>> pairs.event.tolist(), pairs.window.tolist(), pairs.position.tolist()
    ([0, 0, 1, 1], [0, 1, 2, 3], [50, 0, 70, 20])
    """
    event, window = _expanded((events.time - size_ms) // slide_ms + 1, events.time // slide_ms)
    position = (events.time[event] - window * slide_ms) * parts // size_ms
    return JudgedInWindows(events, event, window, position.astype(np.int32), np.full(len(event), float(parts)))


def kept_anywhere(pairs: JudgedInWindows, kept: Mask) -> Mask:
    """The events that stay in one of their windows, or that have none: the others can be dropped altogether.

    Args:
        pairs: pairs of events and windows.
        kept: bool (pairs,), a gate's answer.

    Returns:
        bool (events,), True = keep.
    """
    stays = np.ones(len(pairs.events), dtype=np.bool_)
    stays[pairs.event] = False
    stays[pairs.event[kept]] = True
    return stays


def _expanded(first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Event and window of all pairs, by event."""
    counts = np.maximum(last - first + 1, 0)
    event = np.repeat(np.arange(len(first)), counts)
    within = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
    return event, first[event] + within
