"""Kernels of `shedding.threshold`."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel
from shedding.kernels import mixed

_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)


@kernel(
    types.void(_FLOAT64, _UINT64, types.Array(types.int32, 1, "A", readonly=True), types.uint64, _FLOAT64, _UINT64, types.boolean[:]),
)
def keep_above(
    utilities: NDArray[np.float64],
    identity: NDArray[np.uint64],
    part: NDArray[np.int32],
    seed: np.uint64,
    thresholds: NDArray[np.float64],
    tie_limits: NDArray[np.uint64],
    kept: NDArray[np.bool_],
) -> None:
    """Marks utilities above their part's threshold, and of those at it the identities whose hash reaches the limit. No parts: the first of them."""
    for k in range(len(utilities)):
        utility = utilities[k]
        p = part[k] if len(part) > 0 else 0
        kept[k] = utility > thresholds[p] or (utility == thresholds[p] and (mixed(seed, identity[k]) >> np.uint64(11)) >= tie_limits[p])
