"""The events that matches bind, read off their nodes."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np
from numba import types

from app.cep.cells.arrays import BECAME_FLOAT
from app.cep.cells.kernels_memory import load
from app.cep.cells.kernels_types import INTEGERS, SCRATCH, TABLE, TEXTS
from app.cep.chains.arrays import ANCHOR_LOWEST, ANCHOR_NUMBER, AVG, FOUND_LENGTH, FOUND_NODE, MIN, NO_ROW, PARENT, ROW
from app.cep.kernel import kernel
from app.cep.predicates.kernels_values import arithmetic, cell_state, compare_values
from app.cep.predicates.opcodes import ABSENT, FLOAT, INTEGER, NULL, OP_ADD


@kernel(types.void(TABLE, TABLE, INTEGERS, types.int64, TABLE, INTEGERS, INTEGERS, INTEGERS, TABLE), counted=False)
def list_bound(nodes, found, order, closed, anchors, starts, items, rows, anchored):
    """Items and rows of every match in total order from ``starts`` on, and the rows of its anchors.

    ``order``: items of the chain; the last one stands for all further events, or (``closed`` 1) for the last event and the one before it for these.
    """
    last = len(order) - 1 - closed
    for k in range(len(starts) - 1):
        node, length, start = load(found, k, FOUND_NODE), load(found, k, FOUND_LENGTH), starts[k]
        starts[k + 1] = start + length
        for at in range(length - 1, -1, -1):
            items[start + at], rows[start + at] = order[min(at, last)], load(nodes, node, ROW)
            node = load(nodes, node, PARENT)
        if closed:
            items[start + length - 1] = order[last + 1]
        for j in range(len(anchors)):
            number = load(anchors, j, ANCHOR_NUMBER)
            at = number if number >= 0 else length + number
            there = load(anchors, j, ANCHOR_LOWEST) <= at < length
            anchored[k, j] = rows[start + at] if there else NO_ROW


@kernel(
    types.int64(*[types.int64] * 6, INTEGERS, INTEGERS, INTEGERS, TABLE, TEXTS, SCRATCH, INTEGERS, types.uint8[::1]),
)
def fold(function, is_float, to_float, cell, states_at, skipped, starts, stops, rows, cells, texts, scratch, values, states):
    """An aggregate over a cell of the events of every match from ``starts`` and the first ``skipped`` ones to ``stops``; returns the union of the states written.

    What is not present is left out; where nothing is left it is null.
    """
    seen = 0
    for k in range(len(starts) - 1):
        scratch.tags[0], scratch.values[0], count = NULL, 0, 0
        for at in range(starts[k] + skipped, stops[k]):
            state = cell_state(cells, rows[at], cell, states_at)
            if state == NULL - 1 and scratch.tags[0] == ABSENT:
                scratch.tags[0] = NULL
            if state == NULL - 1 or state == ABSENT - 1:
                continue
            count += 1
            scratch.tags[1], scratch.values[1] = FLOAT if is_float or state == BECAME_FLOAT else INTEGER, cells[rows[at], cell]
            if count > 1 and function <= AVG:
                arithmetic(scratch, 0, OP_ADD)
                continue
            order = 0 if count == 1 else compare_values(scratch, 1, 0, texts, 0)
            if count == 1 or order == (-1 if function == MIN else 1):
                scratch.tags[0], scratch.values[0] = scratch.tags[1], scratch.values[1]
            elif order == 2:  # one of them is NaN, and the extreme stays so
                scratch.tags[0] = FLOAT
                scratch.values.view(np.float64)[0] = math.nan
        tag = scratch.tags[0]
        if count > 0 and (function == AVG or (to_float and tag == INTEGER)):
            numbers = scratch.values.view(np.float64)
            total = np.float64(scratch.values[0]) if tag == INTEGER else numbers[0]
            numbers[0], tag = (total / count if function == AVG else total), FLOAT
        values[k] = scratch.values[0]
        states[k] = 0 if tag == INTEGER else (BECAME_FLOAT if tag == FLOAT else NULL - 1)
        seen |= 1 << states[k]
    return seen
