"""The table of partitions: open addressing, one cache line per partition with its key and the tops of its stacks."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE, KEY, NEWEST


@kernel(types.int64(INTEGERS, TABLE, types.int64), counted=False)
def hash_key(keys, cells, row):
    """A hash of the key cells, not negative; only spreads over the slots."""
    h = types.uint64(0)
    for k in range(len(keys)):
        h = (h ^ types.uint64(cells[row, keys[k]])) * types.uint64(0x9E3779B97F4A7C15)
        h ^= h >> types.uint64(32)
        h *= types.uint64(0xD6E8FEB86659FD93)
        h ^= h >> types.uint64(29)
    return np.int64(h & types.uint64(0x7FFFFFFFFFFFFFFF))


@kernel(types.int64(TABLE, INTEGERS, TABLE, types.int64, types.int64, types.int64), counted=False)
def find_slot(slots, keys, cells, row, key_hash, low):
    """The slot of a key, or ``-1 - slot`` of where it may be entered: a free slot, or one whose partition has died."""
    last = slots.shape[0] - 1
    slot = key_hash & last
    dead = -1
    while True:
        newest = slots[slot, NEWEST]
        if newest == FREE:
            return -1 - (slot if dead < 0 else dead)
        same = True
        for k in range(len(keys)):
            if slots[slot, KEY + k] != cells[row, keys[k]]:
                same = False
                break
        if same:
            return slot
        if newest < low and dead < 0:
            dead = slot
        slot = (slot + 1) & last


@kernel(types.int64(TABLE, types.int64), counted=False)
def live_slots(slots, low):
    """How many partitions have an event that is alive."""
    count = 0
    for slot in range(len(slots)):
        count += slots[slot, NEWEST] >= low
    return count


@kernel(types.int64(INTEGERS, TABLE, TABLE, types.int64), counted=False)
def refill_slots(places, old, new, low):
    """Enters the live partitions of one slot table into an empty one; ``places`` = KEY .. KEY + keys. Returns how many."""
    last = new.shape[0] - 1
    count = 0
    for slot in range(len(old)):
        if old[slot, NEWEST] < low:
            continue
        target = hash_key(places, old, slot) & last
        while new[target, NEWEST] != FREE:
            target = (target + 1) & last
        for k in range(old.shape[1]):
            new[target, k] = old[slot, k]
        count += 1
    return count
