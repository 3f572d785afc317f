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
EVER = -(2**62)
"""Before all places."""


@kernel(types.int64(types.uint64[:], types.uint64))
def slot_of(keys: NDArray[np.uint64], key: np.uint64) -> int:
    """The slot of a key in a table of a power of two of slots that never fills; 0 stands for no key, so keys are made odd before."""
    mask = np.uint64(len(keys) - 1)
    at = mixed(np.uint64(0), key) & mask
    while keys[at] != 0 and keys[at] != key:
        at = (at + np.uint64(1)) & mask
    keys[at] = key
    return int(at)


@kernel(types.void(types.uint64[:], types.int64[:, :], _UINT64, types.Array(types.int64, 2, "A", readonly=True)))
def put_in(keys: NDArray[np.uint64], begun: NDArray[np.int64], some: NDArray[np.uint64], theirs: NDArray[np.int64]) -> None:
    """Writes these keys and their rows into a table that has room for them.

    Args:
        keys: out, uint64 (slots,).
        begun: out, int64 (slots, items).
        some: uint64 (keys,), odd.
        theirs: int64 (keys, items).
    """
    for k in range(len(some)):
        begun[slot_of(keys, some[k])] = theirs[k]


@kernel(types.Tuple((types.uint64, types.boolean))(types.int64[:], types.uint64, _INT64, types.uint64, types.int64, types.boolean))
def standing(
    begun: NDArray[np.int64],
    wanted: np.uint64,
    needs: NDArray[np.int64],
    negated: np.uint64,
    over: int,
    unknown: bool,  # noqa: FBT001 - kernels take no keywords
) -> tuple[np.uint64, bool]:
    """Which of its items an event can be by what was kept, as bits, and whether it would complete what is over without the engine's knowing.

    Args:
        begun: int64 (2 * items,), of its partition, see `keep_chains`.
        wanted: items that it can be by itself.
        needs: see `keep_chains`.
        negated: see `keep_chains`.
        over: what began there or before is part of no window any more.
        unknown: whether nobody knows what was kept in its window.
    """
    alive, forbidden, count = np.uint64(0), False, len(needs)
    for item in range(count):
        bit, before = np.uint64(1) << np.uint64(item), needs[item]
        if not wanted & bit:
            continue
        if before < 0 or unknown or begun[before] > over:
            alive |= bit
        if before >= 0 and not negated & bit and begun[count + before] > over:
            forbidden = True
    return alive, forbidden


@kernel(
    types.void(types.int64[:], types.int64[:], types.uint64, types.uint64, _INT64, types.uint64, types.int64, types.boolean, types.boolean)
)
def remember(
    begun: NDArray[np.int64],
    begins: NDArray[np.int64],
    wanted: np.uint64,
    alive: np.uint64,
    needs: NDArray[np.int64],
    ending: np.uint64,
    place: int,
    unknown: bool,  # noqa: FBT001
    stays: bool,  # noqa: FBT001
) -> None:
    """What an event ends, and, if it stays, what it extends: by what was there before it, since it does not extend itself, and what it ends it may extend as another item.

    Args:
        begun: in-out, int64 (2 * items,), of its partition, see `keep_chains`.
        begins: int64 (items,), for what is worked out in between.
        wanted: items that the event can be by itself.
        alive: those that it can be by what was kept.
        needs: see `keep_chains`.
        ending: see `keep_chains`.
        place: of the event.
        unknown: whether nobody knows what was kept in its window.
        stays: whether it was kept.
    """
    count = len(needs)
    for item in range(count):
        begins[item] = place if needs[item] < 0 else begun[needs[item]]
    for item in range(count):
        bit, before = np.uint64(1) << np.uint64(item), needs[item]
        if not wanted & ending & bit:
            continue
        if stays:
            begun[count + before] = EVER
        elif alive & bit:
            begun[count + before] = max(begun[count + before], place if unknown else begun[before])
        begun[before] = EVER
    if stays:
        for item in range(count):
            if alive & (np.uint64(1) << np.uint64(item)):
                begun[item] = max(begun[item], begins[item])


@kernel(
    types.void(
        types.uint64[:],
        types.int64[:, :],
        _UINT64,
        _UINT64,
        _INT64,
        _FLOAT64,
        _INT64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.float64,
        types.boolean[:],
    ),
)
def keep_chains(
    keys: NDArray[np.uint64],
    begun: NDArray[np.int64],
    items: NDArray[np.uint64],
    key: NDArray[np.uint64],
    place: NDArray[np.int64],
    rank: NDArray[np.float64],
    needs: NDArray[np.int64],
    negated: int,
    ending: int,
    window: int,
    known_from: int,
    threshold: float,
    kept: NDArray[np.bool_],
) -> None:
    """Decides event by event, in order.

    An event's *class* is 0 when it can be no item, or only items whose preceding items were never kept in its window; 1 when all that it does is to end
    what was kept, and it is known what that is; 2 when it extends what was kept; 3 when it ends something, and only the engine knows what. It stays when class
    plus ``rank`` (in [0, 1)) reaches the threshold. What an event of an ``ending`` item ends is over whether that event stays or not, so what follows has class 0.
    Classes only fall when more was dropped before, so what is dropped at a threshold is dropped at every higher one.
    Where it did not stay the engine does not know that something is over. What would follow there is *forbidden*, and goes whatever the threshold is: until a window later, or an event of that item stays.

    Args:
        keys: in-out, uint64 (slots,), table of partitions; at most half of it is used, with all of these events.
        begun: in-out, int64 (slots, 2 * items), place where the newest chain of kept events up to this item began; behind them, that of the newest chain that is over, which the engine does not know.
        items: bit i: the event can be item i.
        key: partition of each event; 0: it belongs to all of them.
        place: what windows are measured in: ms, or events.
        rank: of each event's worth.
        needs: by item, the item that must have been kept before it; -1: none.
        negated: items that must not come, as bits.
        ending: of them, those with which it is certain what is over.
        window: greatest difference of places is below this.
        known_from: nobody knows what was kept before this place.
        threshold: 0 to 4.
        kept: out.
    """
    begins, forbids, ends = np.empty(len(needs), np.int64), np.uint64(negated), np.uint64(ending)
    for k in range(len(items)):
        wanted, unknown = items[k], place[k] - window < known_from
        if wanted == 0 or key[k] == 0:  # without a partition it forbids something in some of them
            kept[k] = (0 if wanted == 0 else 3) + rank[k] >= threshold
            continue
        slot = slot_of(keys, key[k] | np.uint64(1))
        alive, forbidden = standing(begun[slot], wanted, needs, forbids, place[k] - window, unknown)
        level = 0
        if alive & forbids & ~ends:
            level = 3
        elif alive & ~forbids:
            level = 2
        elif alive:
            level = 1
        kept[k] = not forbidden and level + rank[k] >= threshold
        remember(begun[slot], begins, wanted, alive, needs, ends, place[k], unknown, kept[k])
