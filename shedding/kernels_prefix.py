"""Kernels of `shedding.events.prefix`: which events can still extend something that was kept."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel
from shedding.kernels import mixed

_INT64 = types.Array(types.int64, 1, "A", readonly=True)
_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_EVER = -(2**62)


@kernel(types.int64(types.uint64[:], types.uint64))
def slot_of(keys: NDArray[np.uint64], key: np.uint64) -> int:
    """The slot of a key in a table of a power of two of slots that never fills; 0 stands for no key, so keys are made odd before."""
    mask = np.uint64(len(keys) - 1)
    at = mixed(np.uint64(0), key) & mask
    while keys[at] != 0 and keys[at] != key:
        at = (at + np.uint64(1)) & mask
    keys[at] = key
    return int(at)


@kernel(
    types.void(_UINT64, _UINT64, _INT64, _FLOAT64, _INT64, types.int64, types.int64, types.float64, types.int64, types.boolean[:]),
)
def keep_chains(
    items: NDArray[np.uint64],
    key: NDArray[np.uint64],
    place: NDArray[np.int64],
    rank: NDArray[np.float64],
    needs: NDArray[np.int64],
    negated: int,
    window: int,
    threshold: float,
    first: int,
    kept: NDArray[np.bool_],
) -> None:
    """Decides event by event, in order.

    An event's *class* is 0 when it can be no item, or only items whose preceding items were never kept in its window; 2 when it ends something that
    was kept (a negated item); else 1. It stays when class plus ``rank`` (in [0, 1)) reaches the threshold. Classes only fall when more was dropped
    before, so what is dropped at a threshold is dropped at every higher one.

    Args:
        items: bit i: the event can be item i.
        key: partition of each event.
        place: what windows are measured in: ms, or events.
        rank: of each event's worth.
        needs: by item, the item that must have been kept before it; -1: none.
        negated: items that must not come, as bits.
        window: greatest difference of places is below this.
        threshold: 0 to 3.
        first: events before this one are over: they are decided again, but not told.
        kept: out, of the events from ``first`` on.
    """
    size = 2
    while size < 2 * len(items) + 2:
        size *= 2
    keys = np.zeros(size, np.uint64)
    begun = np.full((size, len(needs)), _EVER, np.int64)
    for k in range(len(items)):
        wanted = items[k]
        level = 0
        slot = 0
        alive = np.uint64(0)
        if wanted != 0:
            slot = slot_of(keys, key[k] | np.uint64(1))
            for item in range(len(needs)):
                bit = np.uint64(1) << np.uint64(item)
                if wanted & bit and (needs[item] < 0 or place[k] - begun[slot, needs[item]] < window):
                    alive |= bit
            if alive:
                level = 2 if alive & np.uint64(negated) else 1
        stays = level + rank[k] >= threshold
        if k >= first:
            kept[k - first] = stays
        if stays and alive:
            for item in range(len(needs) - 1, -1, -1):
                if alive & (np.uint64(1) << np.uint64(item)):
                    begin = place[k] if needs[item] < 0 else begun[slot, needs[item]]
                    begun[slot, item] = max(begun[slot, item], begin)
