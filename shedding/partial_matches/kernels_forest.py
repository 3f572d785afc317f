"""The kernel of `shedding.partial_matches.stateful`."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_ROWS = types.Array(types.float32, 2, "C", readonly=True)


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
        total = 0.0
        for root in roots:
            node = root
            while feature[node] >= 0:
                node = child[node] + (rows[k, feature[node]] > content[node])
            total += content[node]
        found[k] = total / len(roots)
