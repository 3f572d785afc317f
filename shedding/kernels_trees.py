"""Kernel of gSPICE's trees: pane and trees in one pass, no object per event."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.forest import Forest
from shedding.kernel import kernel
from shedding.kernels_forest import FOREST, mean_of
from shedding.kernels_panes import pane_of

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_INT64 = types.Array(types.int64, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_FLOAT64_2D = types.Array(types.float64, 2, "A", readonly=True)


@kernel(
    types.void(
        *(_INT32, _INT64, types.int64, types.int64, types.int64, types.int64, _FLOAT64_2D, _FLOAT64),
        *(FOREST, types.float32[:, ::1], types.float64[:]),
    ),
)
def walk(
    type_: NDArray[np.int32],
    time: NDArray[np.int64],
    pane_events: int,
    pane_ms: int,
    first: int,
    known: int,
    values: NDArray[np.float64],
    missing: NDArray[np.float64],
    forest: Forest,
    row: NDArray[np.float32],
    utilities: NDArray[np.float64],
) -> None:
    """The mean of the trees' leaves for the events from ``first``; ``row``, float32 (1, features), starts at 0: the type, the frequencies of ``known`` types in the pane, the attributes."""
    start = end = left = right = 0
    for k in range(first, len(type_)):
        start, end = pane_of(time, k, start, end, pane_events, pane_ms)
        while right < end:
            if 0 <= type_[right] < known:
                row[0, 1 + type_[right]] += np.float32(1)
            right += 1
        while left < start:
            if 0 <= type_[left] < known:
                row[0, 1 + type_[left]] -= np.float32(1)
            left += 1
        if type_[k] < 0:
            utilities[k - first] = 0.0
            continue
        row[0, 0] = type_[k]
        for a in range(len(missing)):
            value = values[a, k - first]
            row[0, 1 + known + a] = value if value == value else missing[a]  # noqa: PLR0124 - NaN
        utilities[k - first] = mean_of(row, 0, forest, 0, len(forest.roots))
