"""Kernel of gSPICE's trees: pane and trees in one pass, no object per event."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel
from shedding.kernels_panes import pane_of

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_INT64 = types.Array(types.int64, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_FLOAT64_2D = types.Array(types.float64, 2, "A", readonly=True)


@kernel(
    types.void(
        *(_INT32, _INT64, types.int64, types.int64, types.int64, types.int64, _FLOAT64_2D, _FLOAT64),
        *(_INT32, _INT32, _FLOAT64, _INT32, types.float32[:], types.float64[:]),
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
    feature: NDArray[np.int32],
    child: NDArray[np.int32],
    content: NDArray[np.float64],
    roots: NDArray[np.int32],
    row: NDArray[np.float32],
    utilities: NDArray[np.float64],
) -> None:
    """The mean of the trees' leaves for the events from ``first``.

    ``row`` starts at 0: the type, the frequencies of ``known`` types in the pane, the attributes. A node asks whether its feature is at most its content, and goes
    to ``child`` or the node after it; a leaf has feature -1 and its content is the answer.
    """
    start = end = left = right = 0
    for k in range(first, len(type_)):
        start, end = pane_of(time, k, start, end, pane_events, pane_ms)
        while right < end:
            if 0 <= type_[right] < known:
                row[1 + type_[right]] += np.float32(1)
            right += 1
        while left < start:
            if 0 <= type_[left] < known:
                row[1 + type_[left]] -= np.float32(1)
            left += 1
        if type_[k] < 0:
            utilities[k - first] = 0.0
            continue
        row[0] = type_[k]
        for a in range(len(missing)):
            value = values[a, k - first]
            row[1 + known + a] = value if value == value else missing[a]  # noqa: PLR0124 - NaN
        total = 0.0
        for tree in range(len(roots)):
            node = roots[tree]
            while feature[node] >= 0:
                node = child[node] + (row[feature[node]] > content[node])
            total += content[node]
        utilities[k - first] = total / len(roots)
