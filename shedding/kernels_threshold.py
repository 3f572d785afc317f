"""The kernel of `shedding.threshold`."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from shedding.kernels import mixed

_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)


@njit(types.void(_FLOAT64, _UINT64, types.uint64, types.float64, types.uint64, types.boolean[:]), cache=True, nogil=True)
def keep_above(
    utilities: NDArray[np.float64],
    identity: NDArray[np.uint64],
    seed: np.uint64,
    threshold: float,
    tie_limit: np.uint64,
    kept: NDArray[np.bool_],
) -> None:
    """Marks utilities above the threshold, and of those at it the identities whose hash reaches the limit."""
    for k in range(len(utilities)):
        utility = utilities[k]
        kept[k] = utility > threshold or (utility == threshold and (mixed(seed, identity[k]) >> np.uint64(11)) >= tie_limit)
