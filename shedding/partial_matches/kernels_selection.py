"""The kernel of `shedding.partial_matches.selection`."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import types

from shedding.kernel import kernel

_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_TIES = types.Array(types.uint64, 1, "C", readonly=True)


@kernel(types.boolean(_FLOATS, _TIES, types.int64, types.int64))
def goes_before(utilities, ties, one, other):
    """Whether a candidate is dropped sooner than another one."""
    if utilities[one] != utilities[other]:
        return utilities[one] < utilities[other]
    return ties[one] < ties[other]


@kernel(types.void(_FLOATS, _TIES, types.int64, types.int64[::1], types.boolean[::1]))
def drop_least(utilities, ties, count, order, kept):
    """Marks all but the ``count`` candidates that go first (at least one): Hoare's selection, the pivot being the middle one of three. ``order``: to work with, as long as there are candidates."""
    for k in range(len(order)):
        order[k], kept[k] = k, True
    low, high = 0, len(order) - 1
    while low < high:
        middle = (low + high) // 2
        if goes_before(utilities, ties, order[middle], order[low]):
            order[middle], order[low] = order[low], order[middle]
        if goes_before(utilities, ties, order[high], order[low]):
            order[high], order[low] = order[low], order[high]
        if goes_before(utilities, ties, order[middle], order[high]):
            order[middle], order[high] = order[high], order[middle]
        pivot, place = order[high], low
        for k in range(low, high):
            if goes_before(utilities, ties, order[k], pivot):
                order[k], order[place] = order[place], order[k]
                place += 1
        order[high], order[place] = order[place], pivot
        if place == count - 1:
            break
        if place < count:
            low = place + 1
        else:
            high = place - 1
    for k in range(count):
        kept[order[k]] = False
