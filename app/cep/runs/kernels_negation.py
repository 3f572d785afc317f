"""Whether negated events prevent a match: in which scope they are looked for, which of them count, and when that is decided."""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_TIME
from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel
from app.cep.negation.kernels_parts import agree, different
from app.cep.runs.arrays import (
    C_LOWER,
    C_NEGATION,
    C_OLDER,
    C_UPPER,
    COUNT_WINDOW,
    CROSSED,
    EVERY,
    FIRST_P_RANK,
    FIRST_TIME,
    FOR,
    ITEM_LIST,
    ITEM_WILD,
    N_PRANK,
    N_ROW,
    N_SRANK,
    NO_FOR,
    O_RANK,
    O_TIME,
    OLDER,
    OPEN,
    OPENED_COUNT,
    OPENED_TIME,
    P_RANK,
    PART_CONTIGUOUS,
    PART_ITEM,
    PART_SLOT,
    PART_TESTS,
    PART_TESTS_END,
    PARTITION,
    PARTITION_WINDOW,
    PARTS,
    PARTS_END,
    REACHED,
    ROW,
    S_LISTS,
    S_RANK,
    STATE,
    STATES_AT,
    STRICT,
    T_BOUND,
    T_CELLS,
    T_CROSSED,
    T_ITEMS,
    T_KEYS,
    T_NEGATED,
    T_NEGATIONS,
    T_NODES,
    T_PARTS,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    T_STATES,
    T_TESTS,
    T_WINDOWS,
    TEST_MODE,
    TEST_PREDICATE,
    TIME_WINDOW,
    WILD_HEADS,
    WINDOW_BASE,
    WINDOW_KIND,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_predicates import every_instance_holds, program_holds
from app.cep.runs.kernels_references import KNOWN, NO_I, PENDING, place_references
from app.cep.runs.kernels_world import WORLD, line, table

AFTER_TIME, BEFORE_TIME, LOW_RANK, HIGH_RANK, LAST_RANK = 0, 1, 2, 3, 4
"""LAST_RANK: of events outside partitions, which have no rank in them, the last rank in the stream that counts (-1: none does)."""


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def counts(world, part, entry, node, opened):
    """Whether a negated event satisfies all predicates that mention it, for a run; not if one waits for bindings of ``opened``."""
    bound = line(world, T_BOUND)
    tests = table(world, T_TESTS)
    parts = table(world, T_PARTS)
    negated = table(world, T_NEGATED)
    row = negated[entry, N_ROW]
    bound[parts[part, PART_SLOT]] = row
    for k in range(parts[part, PART_TESTS], parts[part, PART_TESTS_END]):
        predicate = tests[k, TEST_PREDICATE]
        if tests[k, TEST_MODE] == EVERY:
            if opened or not every_instance_holds(world, predicate, node, 0):
                return False
            continue
        answer = place_references(world, predicate, node, NO_I, opened)
        if answer == PENDING or (answer == KNOWN and not program_holds(world, predicate)):
            return False
    return True


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, INTEGERS), counted=False)
def in_scope(world, part, entry, lower, upper_row, scope):
    """Whether a negated event lies behind node ``lower``, before row ``upper_row`` and inside the scope (see `prevented`)."""
    shape = line(world, T_SHAPE)
    parts = table(world, T_PARTS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    negated = table(world, T_NEGATED)
    row = negated[entry, N_ROW]
    if (lower >= 0 and row <= nodes[lower, ROW]) or row >= upper_row:
        return False
    time = cells[row, CELL_TIME]
    if time <= scope[AFTER_TIME] or time >= scope[BEFORE_TIME]:
        return False
    by_partition = shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW
    if by_partition and negated[entry, N_PRANK] < 0:
        if negated[entry, N_SRANK] > scope[LAST_RANK]:
            return False
    else:
        rank = negated[entry, N_PRANK] if by_partition else negated[entry, N_SRANK]
        if rank < scope[LOW_RANK] or rank >= scope[HIGH_RANK]:
            return False
    contiguous = parts[part, PART_CONTIGUOUS]
    if contiguous == STRICT:
        return lower >= 0 and negated[entry, N_SRANK] == nodes[lower, S_RANK] + 1
    if contiguous == PARTITION:
        return lower >= 0 and negated[entry, N_PRANK] == nodes[lower, P_RANK] + 1
    return True


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, INTEGERS, types.int64))
def prevented(world, slot, negation, node, lower, upper_row, scope, opened):
    """Whether events of all parts of a negation, different ones, lie in its scope (a negated AND needs all of its parts).

    ``scope``: later than the first time, before the second; of at least the first rank, below the second. ``node``: the run it is asked for;
    ``opened``: bindings that it may still bind.
    """
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    negations = table(world, T_NEGATIONS)
    parts = table(world, T_PARTS)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    first, stop = negations[negation, PARTS], negations[negation, PARTS_END]
    count = stop - first
    chosen = np.full((count, count), -1, np.int64)
    for part in range(first, stop):
        found = 0
        item = parts[part, PART_ITEM]
        for side in range(2):
            if side == 0:
                at = items[item, ITEM_LIST]
                entry = slots[slot, 1 + len(keys) + S_LISTS + at] if slot >= 0 else np.int64(-1)
            else:
                at = items[item, ITEM_WILD]
                entry = state[WILD_HEADS + at] if at >= 0 and scope[LAST_RANK] >= 0 else np.int64(-1)
            while entry >= 0 and found < count:
                if lower >= 0 and negated[entry, N_ROW] <= nodes[lower, ROW]:
                    break
                if (
                    (side == 0 or agree(keys, cells, negated[entry, N_ROW], nodes[node, ROW], shape[STATES_AT]))
                    and in_scope(world, part, entry, lower, upper_row, scope)
                    and counts(world, part, entry, node, opened)
                ):
                    chosen[part - first, found] = negated[entry, N_ROW]
                    found += 1
                entry = negated[entry, OLDER]
        if found == 0:
            return False
    return count == 1 or different(chosen, np.full(count, -1, np.int64), 0)


@kernel(INTEGERS())
def anywhere():
    """A scope without bounds."""
    scope = np.empty(5, np.int64)
    scope[AFTER_TIME] = scope[LOW_RANK] = -(2**63)
    scope[BEFORE_TIME] = scope[HIGH_RANK] = scope[LAST_RANK] = 2**63 - 1
    return scope


@kernel(INTEGERS(WORLD, types.int64, types.int64))
def start_scope(world, node, window):
    """How far a negated start reaches back: from the last event, or to the begin of the explicit window."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    scope = anywhere()
    kind = shape[WINDOW_KIND]
    if shape[WITHIN] >= 0:
        scope[AFTER_TIME] = cells[nodes[node, ROW], CELL_TIME] - shape[WITHIN]
    elif shape[WITHIN_EVENTS] >= 0:
        scope[LOW_RANK] = nodes[node, P_RANK] - shape[WITHIN_EVENTS] + 1
        scope[LAST_RANK] = -1  # of those outside partitions the crossing knows the newest
    elif kind == TIME_WINDOW:
        scope[AFTER_TIME] = window * shape[WINDOW_SLIDE] - 1
    elif kind == COUNT_WINDOW or kind == PARTITION_WINDOW:
        scope[LOW_RANK] = window * shape[WINDOW_SLIDE]
    elif kind == OPENED_TIME or kind == OPENED_COUNT:
        scope[LOW_RANK] = windows[window - state[WINDOW_BASE], O_RANK]
    return scope


@kernel(INTEGERS(WORLD, types.int64, types.int64))
def end_scope(world, node, window):
    """How far a negated end reaches."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    scope = anywhere()
    kind = shape[WINDOW_KIND]
    if shape[WITHIN] >= 0:
        scope[BEFORE_TIME] = nodes[node, FIRST_TIME] + shape[WITHIN]
    elif shape[WITHIN_EVENTS] >= 0:
        scope[HIGH_RANK] = nodes[node, FIRST_P_RANK] + shape[WITHIN_EVENTS]
    elif kind == TIME_WINDOW:
        scope[BEFORE_TIME] = window * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE]
    elif kind == COUNT_WINDOW or kind == PARTITION_WINDOW:
        scope[HIGH_RANK] = window * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE]
    elif kind == OPENED_COUNT:
        scope[HIGH_RANK] = windows[window - state[WINDOW_BASE], O_RANK] + shape[WINDOW_SIZE]
    elif kind == OPENED_TIME:
        scope[BEFORE_TIME] = windows[window - state[WINDOW_BASE], O_TIME] + shape[WINDOW_SIZE]
    return scope


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64))
def crossings_prevent(world, slot, node, window):
    """Whether a negation before or between the events of a finished match, not decided so far, prevents it (in a window)."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    crossed = table(world, T_CROSSED)
    at = nodes[node, CROSSED]
    while at >= 0:
        lower = crossed[at, C_LOWER]
        if lower <= REACHED and nodes[node, P_RANK] - (REACHED - lower) < shape[WITHIN_EVENTS]:
            return True
        scope = start_scope(world, node, window) if lower < 0 else anywhere()
        if prevented(world, slot, crossed[at, C_NEGATION], node, lower, crossed[at, C_UPPER], scope, 0):
            return True
        at = crossed[at, C_OLDER]
    return False


@kernel(types.int64(WORLD, types.int64, types.int64), counted=False)
def end_of_for(world, negation, node):
    """When a ``FOR`` ends; NO_FOR without."""
    negations = table(world, T_NEGATIONS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    lasting = negations[negation, FOR]
    return cells[nodes[node, ROW], CELL_TIME] + lasting if lasting >= 0 else np.int64(NO_FOR)


@kernel(types.boolean(WORLD, types.int64, types.int64))
def already_prevented(world, slot, node):
    """Whether the events bound so far violate a negation between them, as far as that is decided."""
    states = table(world, T_STATES)
    nodes = table(world, T_NODES)
    crossed = table(world, T_CROSSED)
    state = nodes[node, STATE]
    if state < 0:
        return False
    opened = states[state, OPEN]
    at = nodes[node, CROSSED]
    while at >= 0:
        lower = crossed[at, C_LOWER]
        if lower >= 0 and prevented(world, slot, crossed[at, C_NEGATION], node, lower, crossed[at, C_UPPER], anywhere(), opened):
            return True
        at = crossed[at, C_OLDER]
    return False
