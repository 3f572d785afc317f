"""A run is a match: it goes out, or waits for the end of its window."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="assignment"
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_TIME, FOREVER
from app.cep.kernel import kernel
from app.cep.runs.arrays import (
    ALLOWED,
    COUNT_WINDOW,
    CROSS_NEGATION,
    CROSSED,
    ENDING,
    ENDING_END,
    ENDS,
    ENDS_END,
    EXPIRED,
    F_NODE,
    F_TIME,
    F_WINDOW,
    FIRST_TIME,
    FLAGS,
    GAP,
    LIMITED_MATCHES,
    MATCHED,
    MATCHES,
    NO_FOR,
    NO_WINDOW,
    O_END,
    O_TIME,
    OPENED_COUNT,
    OPENED_TIME,
    PARTITION_WINDOW,
    ROW,
    STATE,
    T_CELLS,
    T_CROSSES,
    T_EXPIRED,
    T_FOUND,
    T_NODES,
    T_SHAPE,
    T_STATE,
    T_STATES,
    T_WAITING,
    T_WINDOWS,
    TIME_WINDOW,
    UNKNOWN_END,
    W_END,
    W_LEAST,
    W_NODE,
    W_RANK,
    W_STATE,
    W_WINDOW,
    WAITS,
    WINDOW_BASE,
    WINDOW_HIGH,
    WINDOW_KIND,
    WINDOW_LOW,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_bind import bound_before
from app.cep.runs.kernels_negation import BEFORE_TIME, LAST_RANK, anywhere, crossings_prevent, end_of_for, end_scope, prevented
from app.cep.runs.kernels_predicates import tests_hold
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.int64(WORLD, types.int64, types.int64, types.int64), counted=False)
def window_end(world, node, window, waits):
    """When a match's or run's window ends, in ms; UNKNOWN_END where an event that is still to come says so, 2**63 - 1 for never."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    kind = shape[WINDOW_KIND]
    end = FOREVER
    if kind == TIME_WINDOW:
        end = window * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE]
    elif kind == OPENED_TIME:
        end = windows[window - state[WINDOW_BASE], O_TIME] + shape[WINDOW_SIZE]
    elif kind == COUNT_WINDOW or kind == OPENED_COUNT:
        end = windows[window - state[WINDOW_BASE], O_END]
    elif kind == PARTITION_WINDOW or shape[WITHIN_EVENTS] >= 0:
        end = UNKNOWN_END
    elif shape[WITHIN] >= 0:
        end = nodes[node, FIRST_TIME] + shape[WITHIN]
    if not waits and shape[GAP] >= 0:
        gap = cells[nodes[node, ROW], CELL_TIME] + shape[GAP]
        end = gap if end == UNKNOWN_END else min(end, gap)
    return end


@kernel(types.void(WORLD, types.int64, types.int64, types.int64), counted=False)
def emit(world, node, time, window):
    """Writes a match to the output."""
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    at = state[MATCHES]
    found[at, F_NODE], found[at, F_TIME], found[at, F_WINDOW] = node, time, window
    state[MATCHES] = at + 1


@kernel(types.void(WORLD, types.int64, types.int64, types.int64), counted=False)
def emit_timeout(world, node, time, window):
    """Writes a partial match that timed out."""
    state = line(world, T_STATE)
    expired = table(world, T_EXPIRED)
    at = state[EXPIRED]
    expired[at, F_NODE], expired[at, F_TIME], expired[at, F_WINDOW] = node, time, window
    state[EXPIRED] = at + 1


@kernel(types.void(WORLD, types.int64, types.int64), counted=False)
def accept(world, slot, node):
    """A match may end with this node: emits it, or lets it wait for a negated end."""
    shape = line(world, T_SHAPE)
    states = table(world, T_STATES)
    crosses = table(world, T_CROSSES)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    waiting = table(world, T_WAITING)
    state_table = line(world, T_STATE)
    state = nodes[node, STATE]
    if not tests_hold(world, states[state, ENDING], states[state, ENDING_END], node, 0):
        return
    nodes[node, FLAGS] |= MATCHED
    ends, ends_end = states[state, ENDS], states[state, ENDS_END]
    low, high = (nodes[node, WINDOW_LOW], nodes[node, WINDOW_HIGH]) if shape[WINDOW_KIND] != NO_WINDOW else (0, 0)
    time = cells[nodes[node, ROW], CELL_TIME]
    for window in range(low, high + 1):
        if nodes[node, CROSSED] >= 0 and crossings_prevent(world, slot, node, window):
            continue
        if state_table[ALLOWED] == 0:
            state_table[LIMITED_MATCHES] += 1
            continue
        state_table[ALLOWED] -= 1
        if ends == ends_end:
            emit(world, node, time, window)
            continue
        top = state_table[WAITS]
        end, least = np.int64(NO_FOR), np.int64(NO_FOR)
        for k in range(ends, ends_end):
            lasting = end_of_for(world, crosses[k, CROSS_NEGATION], node)
            if lasting != NO_FOR:
                least = max(least, lasting)
            else:
                end = window_end(world, node, window, 1)
        if end != UNKNOWN_END:
            end = max(end, least)
        waiting[top, W_NODE], waiting[top, W_END], waiting[top, W_WINDOW], waiting[top, W_LEAST] = node, end, window, least
        waiting[top, W_RANK], waiting[top, W_STATE] = FOREVER, state
        state_table[WAITS] = top + 1


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64))
def ends_hold(world, slot, node, window, state, decided):
    """Whether no negation at the end prevents a match that waited until its time. ``state``, ``decided``: W_STATE and W_RANK."""
    states = table(world, T_STATES)
    crosses = table(world, T_CROSSES)
    for k in range(states[state, ENDS], states[state, ENDS_END]):
        negation = crosses[k, CROSS_NEGATION]
        scope = end_scope(world, node, window)
        scope[LAST_RANK] = decided
        lasting = end_of_for(world, negation, node)
        if lasting != NO_FOR:
            scope = anywhere()
            scope[BEFORE_TIME] = lasting
        if prevented(world, slot, negation, node, bound_before(world, node, k), FOREVER, scope, 0):
            return False
    return True
