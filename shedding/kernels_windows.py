"""Kernels of the shedders that know types and positions: eSPICE and the baselines."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel
from shedding.kernels import mixed

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_INT64 = types.Array(types.int64, 1, "A", readonly=True)
_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)


@kernel(
    types.void(
        *(_INT32, _INT64, _INT32, _FLOAT64, types.float64, types.int64, types.Array(types.float64, 2, "C", readonly=True)),
        *(types.float64, types.int64, types.float64[:], types.int32[:]),
    ),
)
def by_position(
    type_: NDArray[np.int32],
    event: NDArray[np.int64],
    position: NDArray[np.int32],
    size: NDArray[np.float64],
    length: float,
    bin_: int,
    table: NDArray[np.float64],
    unknown: float,
    parts: int,
    utilities: NDArray[np.float64],
    part: NDArray[np.int32],
) -> None:
    """Utility by type and scaled position, and the part of its window that a pair lies in. ``length``: positions that the table stands for."""
    last_bin = table.shape[1] - 1
    for k in range(len(event)):
        own = type_[event[k]]
        window = max(size[k], 1.0)
        part[k] = min(np.int32(position[k] * parts / window), np.int32(parts - 1))
        if own < 0:
            utilities[k] = 0.0
        elif own >= table.shape[0]:
            utilities[k] = unknown
        elif window >= length:
            utilities[k] = table[own, min(np.int64(position[k] * length / window) // bin_, last_bin)]
        else:
            low = np.int64(position[k] * length / window)
            high = max(low, np.int64(np.ceil((position[k] + 1) * length / window)) - 1)
            total = 0.0
            for cell in range(low, high + 1):
                total += table[own, min(cell // bin_, last_bin)]
            utilities[k] = total / (high + 1 - low)


@kernel(types.void(_UINT64, _INT32, _UINT64, types.uint64, types.boolean[:]))
def keep_by_type(
    identity: NDArray[np.uint64], type_: NDArray[np.int32], limits: NDArray[np.uint64], seed: np.uint64, kept: NDArray[np.bool_]
) -> None:
    """Marks identities whose hash reaches the limit of their type; the last limit is for types that are not known."""
    known = len(limits) - 1
    for k in range(len(identity)):
        own = type_[k]
        kept[k] = (mixed(seed, identity[k]) >> np.uint64(11)) >= limits[own if 0 <= own < known else known]
