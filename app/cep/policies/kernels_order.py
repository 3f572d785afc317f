"""The order of matches, and which of them begin behind the border that those told before have left (queries/README.md, *After a match*).

Rows number events in processing order, which inside a partition is the total order: matches of one partition are compared by rows.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="assignment"
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME
from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.kernel import kernel
from app.cep.policies.arrays import (
    ALREADY,
    BORDER_OFFSET,
    BORDER_ROW,
    BORDER_SOURCE,
    BORDER_TIME,
    CHANGED,
    FIRST_OF,
    LAST_OF,
    NEXT,
    RELUCTANT,
    SET,
    UNIT_ITEMS,
)


@kernel(types.boolean(INTEGERS, INTEGERS, INTEGERS, TABLE, types.int64, types.int64), counted=False)
def precedes(starts, items, rows, units, one, other):
    """Which of two matches with the same first and last event comes first: of each unit more elements (reluctant: fewer), then earlier ones, decide."""
    for unit in range(len(units)):
        mask = units[unit, UNIT_ITEMS]
        own, theirs = 0, 0
        for k in range(starts[one], starts[one + 1]):
            own += mask >> items[k] & 1
        for k in range(starts[other], starts[other + 1]):
            theirs += mask >> items[k] & 1
        if own != theirs:
            return (own < theirs) == (units[unit, RELUCTANT] != 0)
        j = starts[other]
        for k in range(starts[one], starts[one + 1]):
            if mask >> items[k] & 1:
                while not mask >> items[j] & 1:
                    j += 1
                if rows[k] != rows[j]:
                    return rows[k] < rows[j]
                j += 1
    return one < other


@kernel(types.void(INTEGERS, INTEGERS, INTEGERS, TABLE, INTEGERS, INTEGERS))
def order_ties(starts, items, rows, units, blocks, order):
    """Orders the matches of every block of ``order`` (in-out; ``blocks``: where each begins, and the end): a merge sort, stable."""
    merged = np.empty(len(order), np.int64)
    for block in range(len(blocks) - 1):
        first, stop = blocks[block], blocks[block + 1]
        width = 1
        while width < stop - first:
            for begin in range(first, stop, 2 * width):
                middle, end = min(begin + width, stop), min(begin + 2 * width, stop)
                left, right = begin, middle
                for at in range(begin, end):
                    if left < middle and (right == end or not precedes(starts, items, rows, units, order[right], order[left])):
                        merged[at] = order[left]
                        left += 1
                    else:
                        merged[at] = order[right]
                        right += 1
                for at in range(begin, end):
                    order[at] = merged[at]
            width *= 2


@kernel(types.void(INTEGERS, INTEGERS, INTEGERS, INTEGERS, INTEGERS, TABLE, TABLE, INTEGERS, types.boolean[::1]), counted=False)
def keep_behind_borders(order, groups, starts, items, rows, cells, borders, rule, kept):
    """Goes through matches in order: what begins at or before the border of its group is not kept, what is kept moves it.

    ``rule``: kind of the border, and the mask of the items that it is about. ``borders``: in-out.
    """
    how, mask = rule[0], rule[1]
    for place in range(len(order)):
        k = order[place]
        group, first, stop = groups[k], starts[k], starts[k + 1]
        row = rows[first]
        if borders[group, SET]:
            before = cells[row, CELL_TIME] - borders[group, BORDER_TIME]
            if borders[group, BORDER_ROW]:
                before = row + 1 - borders[group, BORDER_ROW]
            elif before == 0:
                before = cells[row, CELL_SOURCE] - borders[group, BORDER_SOURCE]
                if before == 0:
                    before = cells[row, CELL_OFFSET] - borders[group, BORDER_OFFSET]
            if before < 0 or (before == 0 and borders[group, ALREADY]):
                continue
        kept[k] = True
        target = np.int64(-1)
        if how == NEXT:
            target = first
        elif how == FIRST_OF or how == LAST_OF:
            for at in range(first, stop):
                if mask >> items[at] & 1 and (target < 0 or how == LAST_OF):
                    target = at
            if target >= 0 and rows[target] == row:
                target = np.int64(-1)
        else:
            target = stop - 1
        if target >= 0:
            own = rows[target]
            borders[group, BORDER_TIME], borders[group, BORDER_SOURCE] = cells[own, CELL_TIME], cells[own, CELL_SOURCE]
            borders[group, BORDER_OFFSET] = cells[own, CELL_OFFSET]
            borders[group, ALREADY] = np.int64(how != FIRST_OF and how != LAST_OF)
            borders[group, SET], borders[group, CHANGED], borders[group, BORDER_ROW] = 1, 1, own + 1
