"""Kernels of `shedding.panes` and `shedding.events.features`: one pass over the stream, constant work per event however long its pane is."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_INT64 = types.Array(types.int64, 1, "A", readonly=True)
_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_UINT64_2D = types.Array(types.uint64, 2, "C", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_FLOAT64_2D = types.Array(types.float64, 2, "A", readonly=True)
_PANE = (_INT32, _INT64, types.int64, types.int64)


@kernel(types.UniTuple(types.int64, 2)(_INT64, types.int64, types.int64, types.int64, types.int64, types.int64))
def pane_of(time: NDArray[np.int64], k: int, start: int, end: int, pane_events: int, pane_ms: int) -> tuple[int, int]:
    """First and one past the last event of the pane of event ``k``; ``start`` and ``end`` are those of an earlier event."""
    if pane_events > 0:
        return max(k - pane_events, 0), k
    now = time[k]
    while time[start] < now - pane_ms:
        start += 1
    while time[end] < now:
        end += 1
    return start, max(end, start)


@kernel(
    types.void(*_PANE, types.int64, types.int64[:], _UINT64_2D, _UINT64, _FLOAT64_2D, _FLOAT64_2D, _INT64, _UINT64, types.uint64[:, :]),
)
def event_keys(
    type_: NDArray[np.int32],
    time: NDArray[np.int64],
    pane_events: int,
    pane_ms: int,
    first: int,
    frequency: NDArray[np.int64],
    frequency_numbers: NDArray[np.uint64],
    type_numbers: NDArray[np.uint64],
    values: NDArray[np.float64],
    ranges: NDArray[np.float64],
    offsets: NDArray[np.int64],
    value_numbers: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    """Keys of (type, attributes, pane) in row 0 and of (type, attributes) in row 1, for the events from ``first``.

    ``frequency`` starts at 0. A type's numbers by frequency stand in a row of ``frequency_numbers``, the last for that and every higher one. ``ranges``: lowest value and
    ranges per unit of each attribute; its numbers begin at ``offsets``, the last one is for NaN.
    """
    known = len(frequency)
    most = frequency_numbers.shape[1] - 1
    pane_key = np.uint64(0)
    for k in range(known):
        pane_key ^= frequency_numbers[k, 0]
    start = end = left = right = 0
    for k in range(first, len(type_)):
        start, end = pane_of(time, k, start, end, pane_events, pane_ms)
        while right < end:
            entering = type_[right]
            right += 1
            if 0 <= entering < known:
                f = frequency[entering]
                frequency[entering] = f + 1
                pane_key ^= frequency_numbers[entering, min(f, most)] ^ frequency_numbers[entering, min(f + 1, most)]
        while left < start:
            leaving = type_[left]
            left += 1
            if 0 <= leaving < known:
                f = frequency[leaving]
                frequency[leaving] = f - 1
                pane_key ^= frequency_numbers[leaving, min(f, most)] ^ frequency_numbers[leaving, min(f - 1, most)]
        own = type_[k]
        if own < 0 or own >= known:
            continue
        key = type_numbers[own]
        for a in range(len(offsets) - 1):
            value = values[a, k - first]
            last = offsets[a + 1] - offsets[a] - 1
            if value == value:  # noqa: PLR0124 - not NaN
                place = (value - ranges[a, 0]) * ranges[a, 1]
                key ^= value_numbers[offsets[a] + (0 if place < 0 else (last - 1 if place >= last else np.int64(place)))]
            else:
                key ^= value_numbers[offsets[a] + last]
        keys[0, k - first] = key ^ pane_key
        keys[1, k - first] = key


@kernel(types.void(*_PANE, _INT64, types.int64[:], types.float32[:, :]))
def pane_frequencies(
    type_: NDArray[np.int32],
    time: NDArray[np.int64],
    pane_events: int,
    pane_ms: int,
    rows: NDArray[np.int64],
    frequency: NDArray[np.int64],
    frequencies: NDArray[np.float32],
) -> None:
    """How often each type stands in the panes of some events (``rows``, rising). ``frequency`` starts at 0."""
    start = end = left = right = 0
    for number in range(len(rows)):
        start, end = pane_of(time, rows[number], start, end, pane_events, pane_ms)
        while right < end:
            if 0 <= type_[right] < len(frequency):
                frequency[type_[right]] += 1
            right += 1
        while left < start:
            if 0 <= type_[left] < len(frequency):
                frequency[type_[left]] -= 1
            left += 1
        for k in range(len(frequency)):
            frequencies[number, k] = frequency[k]
