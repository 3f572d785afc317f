"""Comparisons of two values that need no program: what all ways of matching ask most."""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0124  NaN is what differs from itself
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.arrays import BECAME_FLOAT, STATES_PER_WORD
from app.cep.cells.kernels_memory import as_float, load
from app.cep.kernel import kernel
from app.cep.predicates.kernels_values import compare_mixed, wrapped_difference
from app.cep.predicates.opcodes import ABSENT, LEFT_FLOAT, MODE_DIFFERENCE, MODE_FLOATS, NULL, OUTCOMES, RIGHT_FLOAT


@njit(inline="always")
def outcome(operator, order):
    """Whether an operator holds (0 or 1) where the left value is less (-1), equal (0), greater (1) or not comparable (2)."""
    return (OUTCOMES >> (4 * operator + order + 1)) & 1


@njit(inline="always")
def compare_cells(mode, operator, limit, states_at, cells, left, left_cell, right, right_cell):
    """Whether two cells compare as a plain mode says: 1 they do, 0 they do not, 2 only the machine can tell."""
    verdict = np.int64(2)
    states = load(cells, left, states_at + left_cell // STATES_PER_WORD) >> (2 * (left_cell % STATES_PER_WORD))
    states |= load(cells, right, states_at + right_cell // STATES_PER_WORD) >> (2 * (right_cell % STATES_PER_WORD))
    if states & 3 == 0:
        a, b = load(cells, left, left_cell), load(cells, right, right_cell)
        order = 0
        if mode == MODE_FLOATS:
            x, y = as_float(a), as_float(b)
            order = (x > y) - (x < y) if x == x and y == y else 2
        elif mode == MODE_DIFFERENCE:
            difference = wrapped_difference(a, b)
            order = (difference > limit) - (difference < limit) if ((a ^ b) & (a ^ difference)) >= 0 else 3
        else:
            order = (a > b) - (a < b)
        if order != 3:
            # bit order + 1 of the operators = != < <= > >= (2: not comparable, none holds)
            verdict = outcome(operator, order)
    return verdict


@kernel(types.int64(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def unusual_outcome(mode, operator, left, left_state, right, right_state):
    """Whether two cells compare where not both are plainly present, or one is an integer and the other a float."""
    if left_state == ABSENT - 1 or right_state == ABSENT - 1:
        return 1
    if left_state == NULL - 1 or right_state == NULL - 1:
        return 0
    left_float = mode & LEFT_FLOAT != 0 or left_state == BECAME_FLOAT
    right_float = mode & RIGHT_FLOAT != 0 or right_state == BECAME_FLOAT
    x, y = as_float(left), as_float(right)
    order = np.int64(2)
    if left_float and right_float:
        if x == x and y == y:
            order = (x > y) - (x < y)
    elif left_float:
        if x == x:
            order = -compare_mixed(right, x)
    elif right_float:
        if y == y:
            order = compare_mixed(left, y)
    else:
        order = (left > right) - (left < right)
    return outcome(operator, order)


@njit(inline="always")
def state_of(cells, row, cell, states_at):
    """The state of a cell, see `app.cep.predicates.kernels_values.cell_state`."""
    return (load(cells, row, states_at + cell // STATES_PER_WORD) >> (2 * (cell % STATES_PER_WORD))) & 3
