"""What a partial match asks of an event: whether it fits, whether it is a negated one that ends it, and what is kept of it. Inlined into the one loop."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit

from app.cep.cells.kernels_memory import as_float, load, store
from app.cep.chains.arrays import (
    CELL,
    FLOATS_BOTH,
    INTEGERS_BOTH,
    KEPT_CELL,
    KEPT_REGISTER,
    KILL_ITEM,
    KILL_TESTS,
    KILL_TESTS_END,
    KILLS,
    KILLS_END,
    MODE,
    OPERATOR,
    OTHER_CELL,
    REGISTER,
    REGISTERS,
    STATES,
    STATES_AT,
)
from app.cep.predicates.kernels_compare import outcome, state_of, unusual_outcome


@njit(inline="always")
def tests_hold(tests, first, stop, cells, row, states_at, runs, run):
    """Whether a candidate passes the tests of an edge against a run (-1: none, where tests read the candidate only)."""
    verdict = np.int64(1)
    for k in range(first, stop):
        cell, register = load(tests, k, CELL), load(tests, k, REGISTER)
        mode, operator = load(tests, k, MODE), load(tests, k, OPERATOR)
        left, state = load(cells, row, cell), state_of(cells, row, cell, states_at)
        right, other = np.int64(0), np.int64(0)
        if register >= 0:
            right, other = load(runs, run, REGISTERS + register), (load(runs, run, STATES) >> (2 * register)) & 3
        else:
            own = load(tests, k, OTHER_CELL)
            right, other = load(cells, row, own), state_of(cells, row, own, states_at)
        if state | other == 0 and mode == FLOATS_BOTH:
            x, y = as_float(left), as_float(right)
            order = (x > y) - (x < y) if x == x and y == y else 2  # noqa: PLR0124
            verdict = outcome(operator, order)
        elif state | other == 0 and mode == INTEGERS_BOTH:
            verdict = outcome(operator, np.int64(left > right) - np.int64(left < right))
        else:
            verdict = unusual_outcome(mode, operator, left, state, right, other)
        if verdict == 0:
            break
    return verdict != 0


@njit(inline="always")
def keep_values(keeps, first, stop, cells, row, states_at, runs, run):
    """Leaves what later tests read of the event just bound in the registers of a run."""
    states = load(runs, run, STATES)
    for k in range(first, stop):
        register, cell = load(keeps, k, KEPT_REGISTER), load(keeps, k, KEPT_CELL)
        store(runs, run, REGISTERS + register, load(cells, row, cell))
        shift = 2 * register
        states = states & ~(np.int64(3) << shift) | state_of(cells, row, cell, states_at) << shift
    store(runs, run, STATES, states)


@njit(inline="always")
def is_killed(tables, edge, mask, cells, row, runs, run):
    """Whether a candidate is a negated event that may not come before the edge's event."""
    kills, killed = tables.kills, False
    for k in range(load(tables.edges, edge, KILLS), load(tables.edges, edge, KILLS_END)):
        if mask >> load(kills, k, KILL_ITEM) & 1 and not killed:
            first, stop = load(kills, k, KILL_TESTS), load(kills, k, KILL_TESTS_END)
            killed = tests_hold(tables.tests, first, stop, cells, row, tables.shape[STATES_AT], runs, run)
    return killed
