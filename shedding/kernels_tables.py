"""Kernels of gSPICE's utility table: open addressing, linear probing; 0 is an empty slot."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_UINT64_2D = types.Array(types.uint64, 2, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)


_TABLE = types.Array(types.uint64, 2, "C", readonly=True)


@kernel(types.int64(_TABLE, types.uint64))
def slot_of(table: NDArray[np.uint64], key: np.uint64) -> np.int64:
    """Where a key is or would be."""
    mask = np.uint64(len(table) - 1)
    slot = key & mask
    while table[slot, 0] != key and table[slot, 0] != 0:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@kernel(types.void(_UINT64, _UINT64, types.Array(types.uint64, 2, "C")))
def fill(keys: NDArray[np.uint64], contents: NDArray[np.uint64], table: NDArray[np.uint64]) -> None:
    """Enters keys and contents; the table has room and starts empty."""
    for k in range(len(keys)):
        key = max(keys[k], np.uint64(1))
        slot = slot_of(table, key)
        table[slot, 0] = key
        table[slot, 1] = contents[k]


@kernel(
    types.void(_INT32, _UINT64_2D, _TABLE, _FLOAT64, _TABLE, _FLOAT64, _FLOAT64, types.float64, types.float64[:], types.int64[:]),
)
def look_up(
    type_: NDArray[np.int32],
    keys: NDArray[np.uint64],
    whole: NDArray[np.uint64],
    whole_utilities: NDArray[np.float64],
    coarse: NDArray[np.uint64],
    coarse_utilities: NDArray[np.float64],
    type_utilities: NDArray[np.float64],
    unknown: float,
    utilities: NDArray[np.float64],
    found: NDArray[np.int64],
) -> None:
    """Utilities by key, else by type and attributes, else by type, else ``unknown``; 0 for types that no query names.

    Utilities of a table are its second column read as floats: a key and its utility lie side by side, as a large table costs one cache miss each.
    ``found`` counts how often it was which.
    """
    for k in range(len(type_)):
        own = type_[k]
        if own < 0:
            utilities[k] = 0.0
            continue
        if own >= len(type_utilities):
            utilities[k] = unknown
            found[3] += 1
            continue
        slot = slot_of(whole, max(keys[0, k], np.uint64(1)))
        if whole[slot, 0] != 0:
            utilities[k] = whole_utilities[slot]
            found[0] += 1
            continue
        slot = slot_of(coarse, max(keys[1, k], np.uint64(1)))
        if coarse[slot, 0] != 0:
            utilities[k] = coarse_utilities[slot]
            found[1] += 1
        else:
            utilities[k] = type_utilities[own]
            found[2] += 1
