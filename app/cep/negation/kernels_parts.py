"""Negated events that belong to no partition, and negations of several parts."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.kernel import kernel
from app.cep.predicates.kernels_values import cell_state


@kernel(types.boolean(INTEGERS, TABLE, types.int64, types.int64, types.int64), counted=False)
def agree(agreeing, cells, row, other, states_at):
    """Whether two events have equal equivalence attributes, as far as both have them."""
    for k in range(len(agreeing)):
        cell = agreeing[k]
        if cells[row, cell] != cells[other, cell]:
            if cell_state(cells, row, cell, states_at) == 0 and cell_state(cells, other, cell, states_at) == 0:
                return False
    return True


@kernel(types.boolean(types.int64[:, ::1], types.int64[::1], types.int64))
def different(chosen, taken, part):
    """Whether every part can have an event of its own (as many events per part as there are parts are enough to know)."""
    count = len(taken)
    place = np.zeros(count, np.int64)
    while part >= 0:
        if part == count:
            return True
        moved = False
        while place[part] < count and chosen[part, place[part]] >= 0:
            row = chosen[part, place[part]]
            place[part] += 1
            free = True
            for k in range(part):
                free &= taken[k] != row
            if free:
                taken[part] = row
                moved = True
                break
        if moved:
            part += 1
            if part < count:
                place[part] = 0
        else:
            part -= 1
    return False
