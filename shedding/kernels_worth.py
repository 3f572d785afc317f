"""Kernels of `shedding.events.prefix`: what events are worth, in one pass; a batch may be some ten events, for which sixty steps over arrays took longer than matching them."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from shedding.kernel import kernel
from shedding.kernels import mixed
from shedding.kernels_forest import FOREST, mean_of

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_VALUES = types.Array(types.float64, 2, "A", readonly=True)
_KNOWN = (_UINT64, _INT32, _FLOAT64, FOREST, _FLOAT64)

MOST_ITEMS = 48
"""Items of a pattern; with an event's type they make one 64-bit number."""
_ITEMS = np.uint64((1 << MOST_ITEMS) - 1)
_RANGE = float(1 << 53)
_PARTS = 16
BELOW_ONE = 1.0 - 2.0**-40
"""1, 2 or 3 more than it is still below 2, 3 or 4."""
CLASSES = 4
"""Of events, see `shedding.kernels_prefix.keep_chains`."""
STAYS = float(CLASSES)
"""Rank of an event that reaches every threshold, whatever its class is."""


@njit(inline="always")
def group_of(items, type_):
    """Items (48 of them) and type (the lowest 16 bits) as one number."""
    return (items & _ITEMS) | (np.uint64(type_) << np.uint64(MOST_ITEMS))


@kernel(types.void(_UINT64, _INT32, types.uint64[::1]))
def groups_of(items, types_, found):
    """`group_of` each event."""
    for k in range(len(items)):
        found[k] = group_of(items[k], types_[k])


@njit(inline="always")
def chance_of(identity, seed):
    """In [0, 1), from the identity and the seed."""
    return np.float64(mixed(mixed(np.uint64(0), identity), np.uint64(seed)) >> np.uint64(11)) / _RANGE


@njit(inline="always")
def lot_of(identity, key, seed, by_partition):
    """The same; where it goes by partitions, these are drawn first."""
    own = chance_of(identity, seed)
    return (np.floor(_PARTS * chance_of(key, seed)) + own) / _PARTS if by_partition else own


@njit(inline="always")
def worth_per_saved(items, type_, values, k, groups, order, missing, forest, saved, row):
    """What the ``k``-th event is worth by what the tree says, over how many events need not be kept when it goes. Inlined, as all of these are: handing over eight arrays takes as long as all of it.

    Args:
        items: that it can be, as bits.
        type_: its type.
        values: float64 (attributes, events).
        k: which of the events.
        groups: see `shedding.events.prefix.Worth`.
        order: likewise.
        missing: likewise.
        forest: likewise.
        saved: float64 (1 + items,), how many go with an event of each item, of several the fewest; behind them, how many with one that can be no item.
        row: float32 (1, 1 + attributes), for what the tree is asked.
    """
    group = group_of(items, type_)
    at = min(np.searchsorted(groups, group), len(groups) - 1)
    row[0, 0] = order[at] if groups[at] == group else 0
    for a in range(len(missing)):
        value = values[a, k]
        row[0, 1 + a] = missing[a] if np.isnan(value) else value
    least = saved[len(saved) - 1]
    for item in range(len(saved) - 1):
        if items & (np.uint64(1) << np.uint64(item)):
            least = min(least, saved[item])
    return mean_of(row, 0, forest, 0, len(forest.roots)) / least


@kernel(types.void(_UINT64, _INT32, _VALUES, *_KNOWN, types.float64[::1]))
def densities(items, types_, values, groups, order, missing, forest, saved, found):
    """`worth_per_saved` of each event."""
    row = np.empty((1, 1 + len(missing)), np.float32)
    for k in range(len(items)):
        found[k] = worth_per_saved(items[k], types_[k], values, k, groups, order, missing, forest, saved, row)


@kernel(
    types.void(
        *(_UINT64, _UINT64, _UINT64, _INT32, _VALUES, *_KNOWN, _FLOAT64, _FLOAT64),
        *(types.int64, types.boolean, types.float64, types.int64, types.float64[::1]),
    )
)
def rank_events(
    identity,
    key,
    items,
    types_,
    values,
    groups,
    order,
    missing,
    forest,
    saved,
    utility,
    cumulative,
    seed,
    by_partition,
    thinned,
    staying,
    ranks,
):
    """Where each event lies among all that can be some item, by worth per event saved, [0, 1); ties by lot.

    Args:
        identity: uint64 (events,).
        key: uint64 (events,), or empty.
        items: uint64 (events,), that they can be, as bits.
        types_: int32 (events,).
        values: float64 (attributes, events).
        groups: see `worth_per_saved`.
        order: likewise.
        missing: likewise.
        forest: likewise.
        saved: likewise.
        utility: see `shedding.threshold.UtilityShares`.
        cumulative: likewise.
        seed: of the lots.
        by_partition: whether equal worth is told apart by partitions first.
        thinned: share of events that have rank 0, by a lot that knows nothing of the first.
        staying: items, as bits, whose events have rank `STAYS`.
        ranks: out.
    """
    row = np.empty((1, 1 + len(missing)), np.float32)
    by_partition = by_partition and len(key) > 0
    for k in range(len(identity)):
        if items[k] & np.uint64(staying):
            ranks[k] = STAYS
            continue
        own = key[k] if by_partition else np.uint64(0)
        if thinned > 0 and lot_of(identity[k], own, seed + 1, by_partition) < thinned:
            ranks[k] = 0.0
            continue
        lot = lot_of(identity[k], own, seed, by_partition)
        if items[k] == 0:
            ranks[k] = min(lot, BELOW_ONE)
            continue
        density = worth_per_saved(items[k], types_[k], values, k, groups, order, missing, forest, saved, row)
        at = np.searchsorted(utility, density)
        low = cumulative[at - 1] if at else 0.0
        if at < len(utility) and utility[at] == density:
            low += (cumulative[at] - low) * lot
        ranks[k] = min(low, BELOW_ONE)
