"""Kernels of gSPICE's utility table: open addressing, linear probing; 0 is an empty slot."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_UINT64_2D = types.Array(types.uint64, 2, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)


@njit(types.int64(_UINT64, types.uint64), cache=True, nogil=True)
def slot_of(slots: NDArray[np.uint64], key: np.uint64) -> np.int64:
    """Where a key is or would be."""
    mask = np.uint64(len(slots) - 1)
    slot = key & mask
    while slots[slot] != key and slots[slot] != 0:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@njit(types.void(_UINT64, _FLOAT64, types.uint64[:], types.float64[:]), cache=True, nogil=True)
def fill(keys: NDArray[np.uint64], utilities: NDArray[np.float64], slots: NDArray[np.uint64], slot_utilities: NDArray[np.float64]) -> None:
    """Enters utilities; the table has room and starts empty."""
    for k in range(len(keys)):
        key = max(keys[k], np.uint64(1))
        slot = slot_of(slots, key)
        slots[slot] = key
        slot_utilities[slot] = utilities[k]


@njit(
    types.void(_INT32, _UINT64_2D, _UINT64, _FLOAT64, _FLOAT64, types.float64, types.float64[:], types.int64[:]),
    cache=True,
    nogil=True,
)
def look_up(
    type_: NDArray[np.int32],
    keys: NDArray[np.uint64],
    slots: NDArray[np.uint64],
    slot_utilities: NDArray[np.float64],
    type_utilities: NDArray[np.float64],
    unknown: float,
    utilities: NDArray[np.float64],
    found: NDArray[np.int64],
) -> None:
    """Utilities by key, else by type and attributes, else by type, else ``unknown``; 0 for types that no query names.

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
        slot = slot_of(slots, max(keys[0, k], np.uint64(1)))
        level = 0
        if slots[slot] == 0:
            slot = slot_of(slots, max(keys[1, k], np.uint64(1)))
            level = 1
        if slots[slot] == 0:
            utilities[k] = type_utilities[own]
            found[2] += 1
        else:
            utilities[k] = slot_utilities[slot]
            found[level] += 1
