"""A run takes an event: its child, and the negations that it crosses."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="assignment"

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME, FOREVER
from app.cep.cells.kernels_memory import as_float, load, store
from app.cep.kernel import kernel
from app.cep.predicates.kernels_values import cell_state
from app.cep.runs.arrays import (
    BESIDE,
    BESIDE_ALL,
    BESIDE_END,
    BESIDE_ITEMS,
    C_LOWER,
    C_NEGATION,
    C_OLDER,
    C_UPPER,
    CLOSED,
    CROSS_NEGATION,
    CROSS_NOW,
    CROSSED,
    CROSSES,
    CROSSES_END,
    CROSSINGS,
    ELEMENT,
    ENTERED,
    FIRST_P_RANK,
    FIRST_ROW,
    FIRST_TIME,
    FIXED_AT,
    FIXED_BINDING,
    FIXED_NUMBER,
    FLAGS,
    FOLLOWED,
    FRAME,
    HASH,
    ITEM,
    ITEM_BINDING,
    ITEM_DIFFERENT,
    ITEM_FLOATS,
    ITEM_LABEL,
    NEXT_RUN,
    NODE_WIDTH,
    NODES,
    P_RANK,
    PARENT,
    PREVIOUS,
    REACHING,
    REGISTERS,
    ROW,
    S_RANK,
    STATES_AT,
    T_BESIDE,
    T_CELLS,
    T_CROSSED,
    T_CROSSES,
    T_EDGES,
    T_FIXED,
    T_ITEMS,
    T_NODES,
    T_SHAPE,
    T_STATE,
    WINDOW_HIGH,
    WINDOW_LOW,
)
from app.cep.runs.kernels_negation import anywhere, prevented
from app.cep.runs.kernels_outside import reached
from app.cep.runs.kernels_references import fill_registers
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def bind(world, parent, item, row, stream_rank, partition_rank, window_low, window_high):
    """Writes the node at the top: ``row`` bound to ``item`` after ``parent`` (-1: the first). It counts once the top is moved on."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    fixed = table(world, T_FIXED)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    state = line(world, T_STATE)
    node = state[NODES]
    frame, registers, width = shape[FRAME], shape[REGISTERS], shape[NODE_WIDTH]
    binding = items[item, ITEM_BINDING]
    time = cells[row, CELL_TIME]
    if parent >= 0:
        for k in range(FIRST_TIME, registers):
            store(nodes, node, k, load(nodes, parent, k))
        nodes[node, FLAGS] = 0
    else:
        for k in range(frame, registers):
            nodes[node, k] = -1
        nodes[node, FIRST_TIME], nodes[node, FIRST_ROW], nodes[node, FIRST_P_RANK] = time, row, partition_rank
        nodes[node, FLAGS], nodes[node, HASH], nodes[node, CROSSED], nodes[node, CLOSED] = 0, 1, -1, 0
        nodes[node, WINDOW_LOW], nodes[node, WINDOW_HIGH] = window_low, window_high
    nodes[node, NEXT_RUN], nodes[node, FOLLOWED], nodes[node, ENTERED] = -1, FOREVER, 0
    nodes[node, PARENT], nodes[node, ROW], nodes[node, ITEM] = parent, row, item
    nodes[node, S_RANK], nodes[node, P_RANK] = stream_rank, partition_rank
    previous = nodes[node, frame + binding]
    nodes[node, PREVIOUS] = previous
    nodes[node, ELEMENT] = nodes[previous, ELEMENT] + 1 if previous >= 0 else 1
    nodes[node, frame + binding] = node
    for k in range(len(fixed)):
        if fixed[k, FIXED_BINDING] == binding and fixed[k, FIXED_NUMBER] == nodes[node, ELEMENT]:
            nodes[node, fixed[k, FIXED_AT]] = node
    h = types.uint64(nodes[node, HASH])
    h = (h ^ types.uint64(items[item, ITEM_LABEL] + 1)) * types.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> types.uint64(29)) ^ types.uint64(cells[row, CELL_SOURCE] + 1)) * types.uint64(0xD6E8FEB86659FD93)
    h = (h ^ (h >> types.uint64(32)) ^ types.uint64(cells[row, CELL_OFFSET] + 1)) * types.uint64(0x9E3779B97F4A7C15)
    nodes[node, HASH] = np.int64(h ^ (h >> types.uint64(29)))
    if registers < width:
        fill_registers(world, node, binding)


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def differs(world, node, item, count, row):
    """Whether an event differs from the ``count`` elements bound last, in the cell that the block asks (a null one differs from nothing)."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    states_at = shape[STATES_AT]
    cell = items[item, ITEM_DIFFERENT]
    element = nodes[node, shape[FRAME] + items[item, ITEM_BINDING]]
    own = cell_state(cells, row, cell, states_at)
    for _ in range(count):
        other = nodes[element, ROW]
        state = cell_state(cells, other, cell, states_at)
        if own != 2 and state != 2:
            if own == 1 or state == 1:
                return False
            one, two = cells[row, cell], cells[other, cell]
            if items[item, ITEM_FLOATS]:
                # as everywhere: 0.0 is -0.0, and what is no number differs from nothing
                x, y = as_float(one), as_float(two)
                if not (x < y or x > y):
                    return False
            elif one == two:
                return False
        element = nodes[element, PREVIOUS]
    return True


@kernel(types.int64(WORLD, types.int64, types.int64))
def bound_before(world, node, cross):
    """The last node before a negation: events of other operands of an AND around it do not count."""
    crosses = table(world, T_CROSSES)
    beside = table(world, T_BESIDE)
    nodes = table(world, T_NODES)
    first, stop = crosses[cross, BESIDE], crosses[cross, BESIDE_END]
    if first == stop:
        return node
    over = np.zeros(stop - first, np.bool_)
    while node >= 0:
        skip = False
        for k in range(first, stop):
            skip |= not over[k - first] and (beside[k, BESIDE_ITEMS] >> nodes[node, ITEM]) & 1 != 0
        if not skip:
            return node
        for k in range(first, stop):
            over[k - first] |= (nodes[node, ENTERED] >> beside[k, BESIDE_ALL]) & 1 != 0
        node = nodes[node, PARENT]
    return node


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64))
def cross(world, slot, edge, parent, node):
    """Negations that end with the event of a new node: decided now where they can be (False: prevented), else noted."""
    shape = line(world, T_SHAPE)
    edges = table(world, T_EDGES)
    crosses = table(world, T_CROSSES)
    nodes = table(world, T_NODES)
    crossed = table(world, T_CROSSED)
    state = line(world, T_STATE)
    for k in range(edges[edge, CROSSES], edges[edge, CROSSES_END]):
        lower = bound_before(world, parent, k)
        upper = nodes[node, ROW]
        negation = crosses[k, CROSS_NEGATION]
        if lower < 0 and shape[REACHING]:
            lower = reached(world, slot, negation)
        if lower >= 0 and crosses[k, CROSS_NOW]:
            if prevented(world, slot, negation, node, lower, upper, anywhere(), 0):
                return False
            continue
        top = state[CROSSINGS]
        crossed[top, C_OLDER] = nodes[node, CROSSED]
        crossed[top, C_NEGATION], crossed[top, C_LOWER], crossed[top, C_UPPER] = negation, lower, upper
        nodes[node, CROSSED] = top
        state[CROSSINGS] = top + 1
    return True
