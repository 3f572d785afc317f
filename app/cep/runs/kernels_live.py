"""Looks at live runs from outside, and ends some: for shedders of partial matches."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import BECAME_FLOAT, CELL_OFFSET, CELL_SOURCE, CELL_TIME
from app.cep.cells.kernels_memory import as_float, load
from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE, NEWEST
from app.cep.predicates.kernels_values import cell_state
from app.cep.runs.arrays import (
    END_OF_TIME,
    ENDED,
    FIRST_P_RANK,
    FIRST_ROW,
    FIRST_TIME,
    FLAGS,
    ITEM,
    LEFT,
    LOOK_BEGUN,
    LOOK_ITEM,
    LOOK_LEFT,
    LOOK_NEWEST,
    LOOK_NODE,
    LOOKED,
    NEXT_RUN,
    PARENT,
    ROW,
    S_COUNT,
    S_HEAD,
    S_PRANK,
    S_SEEN,
    STATE,
    STATES_AT,
    T_CELLS,
    T_KEYS,
    T_NODES,
    T_SHAPE,
    T_SLOTS,
    TELL_ANY,
    TELL_CELL,
    TELL_FLOAT,
    TELL_FUNCTION,
    TELLS_AVERAGE,
    TELLS_COUNT,
    TELLS_FIRST,
    TELLS_LAST,
    TELLS_MAX,
    TELLS_MIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.int64(WORLD, types.int64, types.boolean), counted=False)
def first_run(world, slot, fresh):
    """Of a partition's list, or of its part that shedders have not looked at."""
    slots = table(world, T_SLOTS)
    seen = slots[slot, S_SEEN]
    if fresh and seen >= 0:
        return table(world, T_NODES)[seen, NEXT_RUN]
    return slots[slot, 1 + len(line(world, T_KEYS)) + S_HEAD]


@kernel(types.int64(WORLD, TABLE, TABLE, types.boolean))
def list_runs(world, looks, places, fresh):
    """What shedders ask of every live run, partition by partition, newest first; one look at its node and two at events. Returns how many.

    ``looks``: (LOOKS, runs), ``places``: (runs, 4), source and offset of its first and its newest event. ``fresh``: only those that were not listed so before, which are behind S_SEEN.
    """
    shape = line(world, T_SHAPE)
    base = 1 + len(line(world, T_KEYS))
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    within = shape[WITHIN_EVENTS]
    count = 0
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        node = first_run(world, slot, fresh)
        while node >= 0:
            if fresh:
                if nodes[node, FLAGS] & LOOKED:
                    node = nodes[node, NEXT_RUN]
                    continue
                nodes[node, FLAGS] |= LOOKED
            first, newest = load(nodes, node, FIRST_ROW), load(nodes, node, ROW)
            looks[LOOK_NODE, count], looks[LOOK_ITEM, count] = node, load(nodes, node, ITEM)
            looks[LOOK_BEGUN, count], looks[LOOK_NEWEST, count] = load(nodes, node, FIRST_TIME), load(cells, newest, CELL_TIME)
            left = END_OF_TIME
            if within >= 0:
                left = max(0, load(nodes, node, FIRST_P_RANK) + within - slots[slot, base + S_PRANK])
            looks[LOOK_LEFT, count] = left
            places[count, 0], places[count, 1] = load(cells, first, CELL_SOURCE), load(cells, first, CELL_OFFSET)
            places[count, 2], places[count, 3] = load(cells, newest, CELL_SOURCE), load(cells, newest, CELL_OFFSET)
            count += 1
            node = nodes[node, NEXT_RUN]
    return count


@kernel(types.int64(WORLD, INTEGERS, types.boolean))
def end_runs(world, leaving, fresh):
    """Ends the runs of some nodes, as if they had never begun; matches that wait for their end stay. Returns how many.

    ``fresh``: all that were listed so have been looked at now, and none of the others is to leave.
    """
    base = 1 + len(line(world, T_KEYS))
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    ended = 0
    for node in leaving:
        nodes[node, FLAGS] |= ENDED
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        node = first_run(world, slot, fresh)
        before = slots[slot, S_SEEN] if fresh else np.int64(-1)
        while node >= 0:
            following = nodes[node, NEXT_RUN]
            if nodes[node, FLAGS] & ENDED:
                slots[slot, base + S_COUNT] -= 1
                nodes[node, STATE] = LEFT - nodes[node, STATE]
                ended += 1
                if node == slots[slot, S_SEEN]:
                    slots[slot, S_SEEN] = before
                if before >= 0:
                    nodes[before, NEXT_RUN] = following
                else:
                    slots[slot, base + S_HEAD] = following
            else:
                before = node
            node = following
        if fresh:
            slots[slot, S_SEEN] = before
    return ended


@kernel(types.float64(TABLE, types.int64, types.int64, types.int64, types.int64), counted=False)
def number_at(cells, row, cell, is_float, states_at):
    """An event's number, NaN where it has none."""
    if cell < 0:
        return np.nan
    state = cell_state(cells, row, cell, states_at)
    present = state == 0
    if state == BECAME_FLOAT or (present and is_float):
        return as_float(load(cells, row, cell))
    return np.float64(load(cells, row, cell)) if present else np.nan


@kernel(types.float64(types.int64, types.float64, types.float64), counted=False)
def with_older(function, known, value):
    """What is told of several events, once an older one is known as well."""
    if function == TELLS_FIRST:
        return value
    if function == TELLS_LAST:
        return known
    if function == TELLS_MIN:
        return np.minimum(known, value)
    if function == TELLS_MAX:
        return np.maximum(known, value)
    return known + value


@kernel(types.void(WORLD, INTEGERS, TABLE, INTEGERS, INTEGERS, INTEGERS, types.float64[:, ::1]), counted=False)
def tell(world, found, asked, starts, numbers, counts, told):
    """What runs answer; see `app.cep.runs.live.told_of`. Bound events are met from the newest to the oldest one.

    ``asked``: (questions, TELLS), ``starts`` and ``numbers``: what is asked about the events of each item, ``counts``: (questions,) to work with, ``told``: (questions, runs).
    """
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    states_at = line(world, T_SHAPE)[STATES_AT]
    for k in range(len(found)):
        for q in range(len(asked)):
            counts[q], told[q, k] = 0, np.nan
            if asked[q, TELL_ANY]:
                row = load(nodes, found[k], FIRST_ROW if asked[q, TELL_FUNCTION] == TELLS_FIRST else ROW)
                told[q, k] = number_at(cells, row, asked[q, TELL_CELL], asked[q, TELL_FLOAT], states_at)
        node = found[k] if len(numbers) else np.int64(-1)
        while node >= 0:
            item, row = nodes[node, ITEM], nodes[node, ROW]
            for place in range(starts[item], starts[item + 1]):
                q = numbers[place]
                function, value = asked[q, TELL_FUNCTION], 1.0
                if function != TELLS_COUNT:
                    value = number_at(cells, row, asked[q, TELL_CELL], asked[q, TELL_FLOAT], states_at)
                told[q, k] = with_older(function, told[q, k], value) if counts[q] else value
                counts[q] += 1
            node = nodes[node, PARENT]
        for q in range(len(asked)):
            if asked[q, TELL_FUNCTION] == TELLS_AVERAGE:
                told[q, k] /= max(1, counts[q])
