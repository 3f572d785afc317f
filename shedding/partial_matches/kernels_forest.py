"""Kernels that ask forests: of `shedding.partial_matches.stateful` and `branching`."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_ROWS = types.Array(types.float32, 2, "C", readonly=True)


@kernel(types.float64(_ROWS, types.int64, _INT32, _INT32, _FLOAT64, _INT32, types.int64, types.int64))
def mean_of(
    rows: NDArray[np.float32],
    row: int,
    feature: NDArray[np.int32],
    child: NDArray[np.int32],
    content: NDArray[np.float64],
    roots: NDArray[np.int32],
    begin: int,
    end: int,
) -> float:
    """The mean of the leaves of some trees for one row."""
    total = 0.0
    for tree in range(begin, end):
        node = roots[tree]
        while feature[node] >= 0:
            node = child[node] + (rows[row, feature[node]] > content[node])
        total += content[node]
    return total / (end - begin)


@kernel(types.void(_ROWS, _INT32, _INT32, _FLOAT64, _INT32, types.float64[::1]))
def mean_of_leaves(
    rows: NDArray[np.float32],
    feature: NDArray[np.int32],
    child: NDArray[np.int32],
    content: NDArray[np.float64],
    roots: NDArray[np.int32],
    found: NDArray[np.float64],
) -> None:
    """The mean of all trees' leaves for each row; nodes as in `shedding.events.gspice_trees.Trees`."""
    for k in range(rows.shape[0]):
        found[k] = mean_of(rows, k, feature, child, content, roots, 0, len(roots))


@kernel(types.void(_ROWS, _INT32, _INT32, _INT32, _FLOAT64, _INT32, _INT32, _FLOAT64, types.float64[::1]))
def just_worth(
    rows: NDArray[np.float32],
    kind: NDArray[np.int32],
    feature: NDArray[np.int32],
    child: NDArray[np.int32],
    content: NDArray[np.float64],
    roots: NDArray[np.int32],
    starts: NDArray[np.int32],
    prices: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Where rates, which fall with the price, meet it; as in `shedding.partial_matches.branching.BranchingOutlook`. The first price is 0."""
    kinds = (len(starts) - 1) // len(prices)
    for row in range(rows.shape[0]):
        found[row] = 0.0
        if kind[row] < 0:
            continue
        low, high = 0, len(prices)
        over, under = mean_of(rows, row, feature, child, content, roots, starts[kind[row]], starts[kind[row] + 1]), 0.0
        while high - low > 1:
            middle = (low + high) // 2
            place = middle * kinds + kind[row]
            rate = mean_of(rows, row, feature, child, content, roots, starts[place], starts[place + 1])
            if rate >= prices[middle]:
                low, over = middle, rate
            else:
                high, under = middle, rate
        if high == len(prices):
            found[row] = over
        else:
            above, below = over - prices[low], prices[high] - under
            found[row] = prices[low] + (prices[high] - prices[low]) * above / (above + below)
