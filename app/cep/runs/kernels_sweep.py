"""What nobody needs any more leaves the tables: what is needed is marked, numbered, and moved."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_TIME
from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE, NEWEST
from app.cep.runs.arrays import (
    C_LOWER,
    C_OLDER,
    C_UPPER,
    CROSSED,
    CROSSINGS,
    DEAD,
    EXPIRED,
    F_NODE,
    F_WINDOW,
    FIRST_ROW,
    FRAME,
    LISTS,
    MATCHES,
    N_PRANK,
    N_ROW,
    N_SRANK,
    NEGATED,
    NEXT_RUN,
    NO_WINDOW,
    NODE_WIDTH,
    NODES,
    O_ROW,
    OLDER,
    OPENED_TIME,
    PARENT,
    PARTITION_WINDOW,
    PREVIOUS,
    REACHING,
    REGISTERS,
    ROW,
    ROWS,
    S_HEAD,
    S_LISTS,
    S_PRANK,
    S_SEEN,
    STREAM_RANK,
    T_CELLS,
    T_CROSSED,
    T_EXPIRED,
    T_FOUND,
    T_KEYS,
    T_NEGATED,
    T_NODES,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    T_WAITING,
    T_WINDOWS,
    TIME_WINDOW,
    W_NODE,
    W_WINDOW,
    WAITS,
    WILD_HEADS,
    WILD_LISTS,
    WINDOW_BASE,
    WINDOW_KIND,
    WINDOW_LOW,
    WINDOW_SIZE,
    WINDOWS,
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_outside import counted_since
from app.cep.runs.kernels_time import slot_of
from app.cep.runs.kernels_world import WORDS, WORLD, line, table


@kernel(types.void(WORLD, INTEGERS, INTEGERS, INTEGERS, INTEGERS))
def mark(world, held, node_marks, row_marks, crossing_marks):
    """Marks what is still needed: runs, matches that wait or go out, their beginnings and events."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    crossed = table(world, T_CROSSED)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    expired = table(world, T_EXPIRED)
    base = 1 + len(keys)
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        node = slots[slot, base + S_HEAD]
        while node >= 0:
            node_marks[node] = 1
            node = nodes[node, NEXT_RUN]
    for w in range(state[WAITS]):
        node_marks[waiting[w, W_NODE]] = 1
    for k in range(state[MATCHES]):
        node_marks[found[k, F_NODE]] = 1
    for k in range(state[EXPIRED]):
        node_marks[expired[k, F_NODE]] = 1
    for k in range(len(held)):
        node_marks[held[k]] = 1
    for node in range(state[NODES] - 1, -1, -1):
        if not node_marks[node]:
            continue
        if nodes[node, PARENT] >= 0:
            node_marks[nodes[node, PARENT]] = 1
        if nodes[node, PREVIOUS] >= 0:
            node_marks[nodes[node, PREVIOUS]] = 1
        for k in range(shape[FRAME], shape[REGISTERS]):
            if nodes[node, k] >= 0:
                node_marks[nodes[node, k]] = 1
        row_marks[nodes[node, ROW]] = 1
        row_marks[nodes[node, FIRST_ROW]] = 1
        at = nodes[node, CROSSED]
        while at >= 0 and not crossing_marks[at]:
            crossing_marks[at] = 1
            if crossed[at, C_LOWER] >= 0:
                node_marks[crossed[at, C_LOWER]] = 1
            at = crossed[at, C_OLDER]


@kernel(types.int64(WORLD, types.int64, INTEGERS, types.int64))
def least_window(world, least, node_marks, count):
    """The first window that something marked lies in."""
    nodes = table(world, T_NODES)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    expired = table(world, T_EXPIRED)
    for node in range(count):
        if node_marks[node]:
            least = min(least, nodes[node, WINDOW_LOW])
    for w in range(state[WAITS]):
        least = min(least, waiting[w, W_WINDOW])
    for k in range(state[MATCHES]):
        least = min(least, found[k, F_WINDOW])
    for k in range(state[EXPIRED]):
        least = min(least, expired[k, F_WINDOW])
    return least


@kernel(types.void(WORLD, INTEGERS, INTEGERS, INTEGERS, types.int64))
def mark_negated(world, node_marks, row_marks, negated_marks, now):
    """Marks negated events that some run, waiting match or later start may still ask for."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    least_row = state[ROWS]
    for node in range(state[NODES]):
        if node_marks[node]:
            least_row = min(least_row, nodes[node, FIRST_ROW])
    for k in range(state[NEGATED]):
        row = negated[k, N_ROW]
        keep = row >= least_row
        if not keep:
            if shape[WITHIN] >= 0:
                keep = cells[row, CELL_TIME] > now - shape[WITHIN]
            elif shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW:
                # outside partitions the newest ones stay, see `mark_newest`
                slot = slot_of(world, row) if negated[k, N_PRANK] >= 0 else np.int64(-1)
                keep = slot >= 0 and negated[k, N_PRANK] >= slots[slot, 1 + len(keys) + S_PRANK] - max(
                    shape[WITHIN_EVENTS], shape[WINDOW_SIZE]
                )
            elif shape[WINDOW_KIND] == TIME_WINDOW or shape[WINDOW_KIND] == OPENED_TIME:
                keep = cells[row, CELL_TIME] > now - shape[WINDOW_SIZE]
            elif shape[WINDOW_KIND] != NO_WINDOW:
                keep = negated[k, N_SRANK] >= state[STREAM_RANK] - shape[WINDOW_SIZE]
        if keep:
            negated_marks[k] = 1
            row_marks[row] = 1


@kernel(types.int64(INTEGERS, types.int64))
def number_marked(marks, count):
    """Replaces marks by new numbers, -1 where there is none; returns how many."""
    kept = 0
    for k in range(count):
        if marks[k]:
            marks[k] = kept
            kept += 1
        else:
            marks[k] = -1
    return kept


@kernel(types.int64(INTEGERS, types.int64))
def moved(numbers, number):
    """The new number; negative ones stay."""
    return numbers[number] if number >= 0 else number


@kernel(types.void(WORLD, WORLD, INTEGERS, INTEGERS, INTEGERS))
def move_nodes(world, new_world, node_numbers, row_numbers, crossing_numbers):
    """Copies the nodes that have a number."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    state = line(world, T_STATE)
    new_nodes = table(new_world, T_NODES)
    for node in range(state[NODES]):
        at = node_numbers[node]
        if at < 0:
            continue
        for k in range(shape[NODE_WIDTH]):
            new_nodes[at, k] = nodes[node, k]
        following = nodes[node, NEXT_RUN]
        new_nodes[at, NEXT_RUN] = node_numbers[following] if following >= 0 and node_numbers[following] >= 0 else -1
        new_nodes[at, PARENT] = moved(node_numbers, nodes[node, PARENT])
        new_nodes[at, PREVIOUS] = moved(node_numbers, nodes[node, PREVIOUS])
        new_nodes[at, ROW] = row_numbers[nodes[node, ROW]]
        new_nodes[at, FIRST_ROW] = row_numbers[nodes[node, FIRST_ROW]]
        new_nodes[at, CROSSED] = moved(crossing_numbers, nodes[node, CROSSED])
        for k in range(shape[FRAME], shape[REGISTERS]):
            new_nodes[at, k] = moved(node_numbers, nodes[node, k])


@kernel(types.void(WORLD, WORLD, INTEGERS))
def move_rows(world, new_world, row_numbers):
    """Copies the cells of the rows that have a number."""
    cells = table(world, T_CELLS)
    state = line(world, T_STATE)
    new_cells = table(new_world, T_CELLS)
    # the same table: no row has another number
    moves = world[WORDS * T_CELLS] != new_world[WORDS * T_CELLS]
    for row in range(state[ROWS] if moves else 0):
        at = row_numbers[row]
        if at >= 0:
            for k in range(cells.shape[1]):
                new_cells[at, k] = cells[row, k]


@kernel(types.void(WORLD, WORLD, INTEGERS, INTEGERS, INTEGERS))
def move_crossings(world, new_world, node_numbers, row_numbers, crossing_numbers):
    """Copies the crossings that have a number."""
    crossed = table(world, T_CROSSED)
    state = line(world, T_STATE)
    new_crossed = table(new_world, T_CROSSED)
    for k in range(state[CROSSINGS]):
        at = crossing_numbers[k]
        if at >= 0:
            for j in range(crossed.shape[1]):
                new_crossed[at, j] = crossed[k, j]
            new_crossed[at, C_OLDER] = moved(crossing_numbers, crossed[k, C_OLDER])
            new_crossed[at, C_LOWER] = moved(node_numbers, crossed[k, C_LOWER])
            new_crossed[at, C_UPPER] = row_numbers[crossed[k, C_UPPER]]


@kernel(types.void(WORLD, WORLD, INTEGERS, INTEGERS))
def move_negated(world, new_world, row_numbers, negated_numbers):
    """Copies the negated events that have a number."""
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    new_negated = table(new_world, T_NEGATED)
    for k in range(state[NEGATED]):
        at = negated_numbers[k]
        if at >= 0:
            new_negated[at, N_ROW] = row_numbers[negated[k, N_ROW]]
            new_negated[at, N_SRANK], new_negated[at, N_PRANK] = negated[k, N_SRANK], negated[k, N_PRANK]
            older = negated[k, OLDER]
            while older >= 0 and negated_numbers[older] < 0:
                older = negated[older, OLDER]
            new_negated[at, OLDER] = moved(negated_numbers, older)


@kernel(types.void(WORLD, INTEGERS, INTEGERS))
def renumber_slots(world, node_numbers, negated_numbers):
    """New numbers of newest runs and negated events, of partitions and outside them."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    base = 1 + len(keys)
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        slots[slot, base + S_HEAD] = moved(node_numbers, slots[slot, base + S_HEAD])
        slots[slot, S_SEEN] = moved(node_numbers, slots[slot, S_SEEN])
        for j in range(shape[LISTS]):
            at = slots[slot, base + S_LISTS + j]
            while at >= 0 and negated_numbers[at] < 0:
                at = negated[at, OLDER]
            slots[slot, base + S_LISTS + j] = moved(negated_numbers, at)
    for j in range(shape[WILD_LISTS]):
        at = state[WILD_HEADS + j]
        while at >= 0 and negated_numbers[at] < 0:
            at = negated[at, OLDER]
        state[WILD_HEADS + j] = moved(negated_numbers, at)


@kernel(types.void(WORLD, INTEGERS, INTEGERS, types.int64))
def renumber_waiting(world, node_numbers, row_numbers, window_base):
    """New numbers in matches that wait or go out, and in the windows that are still of interest."""
    waiting = table(world, T_WAITING)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    expired = table(world, T_EXPIRED)
    for w in range(state[WAITS]):
        waiting[w, W_NODE] = node_numbers[waiting[w, W_NODE]]
    for k in range(state[MATCHES]):
        found[k, F_NODE] = node_numbers[found[k, F_NODE]]
    for k in range(state[EXPIRED]):
        expired[k, F_NODE] = node_numbers[expired[k, F_NODE]]
    shift = window_base - state[WINDOW_BASE]
    for k in range(shift, state[WINDOWS] - state[WINDOW_BASE]):
        for j in range(windows.shape[1]):
            windows[k - shift, j] = windows[k, j]
        row = windows[k - shift, O_ROW]
        windows[k - shift, O_ROW] = row_numbers[row] if row >= 0 and row < state[ROWS] else -1
    state[WINDOW_BASE] = window_base


@kernel(types.void(WORLD, WORLD, INTEGERS, INTEGERS, INTEGERS, INTEGERS, types.int64))
def move(world, new_world, node_numbers, row_numbers, crossing_numbers, negated_numbers, window_base):
    """Copies what has a number into new tables; slots, waiting matches and output are renumbered in place."""
    move_nodes(world, new_world, node_numbers, row_numbers, crossing_numbers)
    move_rows(world, new_world, row_numbers)
    move_crossings(world, new_world, node_numbers, row_numbers, crossing_numbers)
    move_negated(world, new_world, row_numbers, negated_numbers)
    renumber_slots(world, node_numbers, negated_numbers)
    renumber_waiting(world, node_numbers, row_numbers, window_base)


@kernel(types.void(WORLD))
def mark_slots(world):
    """Slots without runs, negated events and matches that wait are dead (NEWEST becomes DEAD); those whose ranks number windows never die.

    A match that waits for ranks, or at the end of the input for its partition's last time, asks the slot.
    """
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    base = 1 + len(keys)
    waited_for = np.zeros(len(slots), np.bool_)
    for w in range(state[WAITS]):
        slot = slot_of(world, nodes[waiting[w, W_NODE], ROW])
        if slot >= 0:
            waited_for[slot] = True
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE or shape[WINDOW_KIND] == PARTITION_WINDOW:
            continue
        alive = waited_for[slot] or slots[slot, base + S_HEAD] >= 0
        for j in range(shape[LISTS]):
            alive |= slots[slot, base + S_LISTS + j] >= 0
        if not alive and not (shape[REACHING] and counted_since(world, slot)):
            slots[slot, NEWEST] = DEAD
