"""The kernel of `shedding.partial_matches.selection`."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import types

from shedding.kernel import kernel

_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_TIES = types.Array(types.uint64, 1, "C", readonly=True)


@kernel(types.int64(_FLOATS, _TIES, types.int64, types.int64))
def compared(utilities, ties, one, other):
    """-1: a candidate is dropped sooner than another one, 1: later, 0: nothing tells them apart."""
    if utilities[one] != utilities[other]:
        return -1 if utilities[one] < utilities[other] else 1
    if ties[one] != ties[other]:
        return -1 if ties[one] < ties[other] else 1
    return 0


@kernel(types.void(_FLOATS, _TIES, types.int64, types.int64[::1], types.boolean[::1]))
def drop_least(utilities, ties, count, order, kept):
    """Unmarks the ``count`` candidates that go first (at least one). ``order``: to work with, as long as there are candidates.

    Selection by Hoare with the middle of three as pivot, and by Dijkstra in three parts, since partial matches of the same first and newest event are often equal in all.
    """
    for k in range(len(order)):
        order[k] = k
    low, high = 0, len(order) - 1
    while low < high:
        middle = (low + high) // 2
        if compared(utilities, ties, order[middle], order[low]) < 0:
            order[middle], order[low] = order[low], order[middle]
        if compared(utilities, ties, order[high], order[low]) < 0:
            order[high], order[low] = order[low], order[high]
        if compared(utilities, ties, order[high], order[middle]) < 0:
            order[high], order[middle] = order[middle], order[high]
        pivot, k = order[middle], low
        below, above = low, high  # before the one those that go sooner, behind the other those that go later
        while k <= above:
            told = compared(utilities, ties, order[k], pivot)
            if told < 0:
                order[k], order[below] = order[below], order[k]
                below, k = below + 1, k + 1
            elif told > 0:
                order[k], order[above] = order[above], order[k]
                above -= 1
            else:
                k += 1
        if count - 1 < below:
            high = below - 1
        elif count - 1 > above:
            low = above + 1
        else:
            break
    for k in range(count):
        kept[order[k]] = False
