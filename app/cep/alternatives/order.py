"""The order in which the runs evaluator finds matches, for matches that stacks found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import FOREVER, Integers


def order_of_runs(rows: Integers) -> NDArray[np.intp] | None:
    """Numbers of one alternative's matches in the order in which runs find them; None where they stand in it.

    A run stands behind those whose newest event came earlier; of runs that one event made, the last one made stands first. So by the event before the last one
    matches ascend, by the one before that they descend, and so on; stacks walk backwards from the last event, so that by all of them they descend. Groups of
    matches that have their last events in common are turned round, shorter ends first: that is two passes over the matches for every item, where sorting is twenty.

    Args:
        rows: int64 (matches, items), as stacks give them.

    >>> order_of_runs(np.array([[1, 2, 9], [0, 2, 9], [0, 1, 9]])).tolist()
    [2, 0, 1]
    """
    count, items = rows.shape
    if items == 1 or count < 2:
        return None
    fresh = np.zeros(count, np.bool_)
    fresh[0] = True
    bounds, sign = np.zeros(count, np.int64), 1
    for item in range(items - 1, 0, -1):
        fresh[1:] |= rows[1:, item] != rows[:-1, item]
        starts = np.flatnonzero(fresh)
        stops = np.append(starts[1:], count)
        # what is turned round stands at the sum of its group's bounds, less where it stood; the bounds of groups inside it are turned round with it
        bounds += sign * np.repeat(starts + stops - 1, stops - starts)
        sign = -sign
    place = bounds + sign * np.arange(count)
    order = np.empty(count, np.intp)
    order[place] = np.arange(count)
    return order


def merged_order(rows: Sequence[Integers], arrived: Sequence[Integers]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Numbers of several alternatives' matches, which stand one after the other, in the order in which runs find them.

    Where a match has begun with what another one has before it, it counts as if something had come before that never comes: runs begin behind those that go on.

    Args:
        rows: by alternative, int64 (matches, items).
        arrived: by alternative and row, when the event came.

    Returns:
        The order; bool (matches,), in that order, which matches bind the very same events as the one before.
    """
    most = max(own.shape[1] for own in rows)
    keys = []
    for before in range(most):
        sign = -1 if before % 2 == 0 and before > 0 else 1
        parts = [
            came[own[:, own.shape[1] - 1 - before]] if before < own.shape[1] else np.full(len(own), FOREVER)
            for own, came in zip(rows, arrived, strict=True)
        ]
        keys.append(sign * np.concatenate(parts))
    order = np.lexsort(keys[::-1])  # stable: of the very same events the earlier alternative's stands first
    same = np.ones(len(order), np.bool_)
    same[:1] = False
    for key in keys:
        same[1:] &= key[order[1:]] == key[order[:-1]]
    return order, same
