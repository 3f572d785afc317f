"""Tables of partitions: how large, and where in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.cep.partitions.arrays import FREE, KEY, NEWEST

CACHE_LINE = 64


def key_places(keys: int) -> NDArray[np.int64]:
    """Where the key of so many cells stands in a slot."""
    return np.arange(KEY, KEY + keys, dtype=np.int64)


def slots_for(live: int) -> int:
    """How many slots so many partitions get: an eighth to a quarter will be full."""
    capacity = 64
    while capacity < 4 * live + 64:
        capacity *= 2
    return capacity


def empty_slots(capacity: int, width: int) -> NDArray[np.int64]:
    """An empty partition table whose rows do not straddle cache lines: numpy aligns large arrays to 16 bytes only."""
    raw = np.empty(capacity * width + CACHE_LINE // 8, np.int64)
    skip = (-raw.ctypes.data % CACHE_LINE) // 8
    slots = raw[skip : skip + capacity * width].reshape(capacity, width)
    slots[:, NEWEST] = FREE
    return slots
