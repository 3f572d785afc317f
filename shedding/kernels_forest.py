"""Kernels that walk forests."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from shedding.forest import Forest
from shedding.kernel import kernel

_NODES = types.uint32[::1]
FOREST = types.NamedTuple([_NODES, _NODES, types.float64[::1], types.float64[::1], _NODES, _NODES], Forest)
ROWS = types.Array(types.float32, 2, "C", readonly=True)


@kernel(types.float64(ROWS, types.int64, FOREST, types.int64, types.int64))
def mean_of(rows, row, forest, begin, end):
    """The mean of the leaves of some trees for one row."""
    total = 0.0
    for tree in range(begin, end):
        node = np.uint64(forest.roots[tree])
        for _ in range(forest.depth[tree]):
            node = np.uint64(forest.child[node]) + np.uint64(rows[row, np.uint64(forest.feature[node])] > forest.threshold[node])
        total += forest.value[node]
    return total / (end - begin)


@kernel(types.void(ROWS, FOREST, types.float64[::1]))
def mean_of_leaves(rows, forest, found):
    """The mean of all trees' leaves for each row."""
    for row in range(len(rows)):
        found[row] = mean_of(rows, row, forest, 0, len(forest.roots))
