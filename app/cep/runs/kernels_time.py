"""Time passes: matches with a negated end come true, partial matches time out, and what can have no future leaves the tables."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.arrays import FREE, NEWEST
from app.cep.kernel import kernel
from app.cep.kernels_machine import INTEGERS, TABLE
from app.cep.kernels_slots import find_slot, hash_key
from app.cep.opcodes import CELL_SOURCE, CELL_TIME
from app.cep.runs.arrays import (
    C_LOWER,
    C_OLDER,
    COUNT_WINDOW,
    CROSSED,
    CROSSINGS,
    EXPIRED,
    F_NODE,
    F_WINDOW,
    FIRST_ROW,
    FRAME,
    GAP,
    LAST_TIME,
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
    O_END,
    O_ROW,
    O_TIME,
    OLDER,
    OPENED_COUNT,
    OPENED_TIME,
    PARENT,
    PARTITION_WINDOW,
    PREVIOUS,
    REGISTERS,
    ROW,
    ROWS,
    RUN_MACHINE,
    RUN_MEMORY,
    RUN_TABLES,
    S_COUNT,
    S_HEAD,
    S_LISTS,
    S_PRANK,
    S_TIME,
    STATE,
    TIME_WINDOW,
    UNKNOWN_END,
    W_END,
    W_NODE,
    W_WINDOW,
    WAITS,
    WILD_HEADS,
    WILD_LISTS,
    WINDOW_BASE,
    WINDOW_FIRST_OPEN,
    WINDOW_HIGH,
    WINDOW_KIND,
    WINDOW_LOW,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WINDOWS,
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_runs import emit, ends_hold, expire, outlived

_LEFT = np.int64(-10)
_END_OF_TIME = np.int64(2**62)


@kernel(types.int64(RUN_TABLES, RUN_MEMORY, types.int64))
def slot_of(tables, memory, row):
    """The slot of a stored event's partition, or -1."""
    slot = find_slot(memory.slots, tables.keys, memory.cells, row, hash_key(tables.keys, memory.cells, row), np.int64(-(2**62)))
    return max(slot, -1)


@kernel(types.int64(INTEGERS, INTEGERS, types.int64, types.int64))
def watermark_of(sources, watermarks, default, source):
    """The watermark of a topic partition: its own, or the default where that is greater."""
    at = np.searchsorted(sources, source)
    if at < len(sources) and sources[at] == source:
        return max(default, watermarks[at])
    return default


@kernel(types.boolean(RUN_TABLES, RUN_MACHINE, RUN_MEMORY, INTEGERS, INTEGERS, types.int64, types.int64))
def pass_waiting(tables, machine, memory, sources, watermarks, default, final):
    """Matches whose negated end has come are emitted, if nothing prevents them; False: the output has no room for all of them."""
    state, waiting, shape = memory.state, memory.waiting, tables.shape
    if state[MATCHES] + state[WAITS] >= len(memory.found):
        return False
    kept = 0
    for w in range(state[WAITS]):
        node, end, window = waiting[w, W_NODE], waiting[w, W_END], waiting[w, W_WINDOW]
        row = memory.nodes[node, ROW]
        due = False
        by_rank = end == UNKNOWN_END or shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW
        if end == UNKNOWN_END and (shape[WINDOW_KIND] == COUNT_WINDOW or shape[WINDOW_KIND] == OPENED_COUNT):
            end = memory.windows[window - state[WINDOW_BASE], O_END]
        if end == UNKNOWN_END and final:
            slot = slot_of(tables, memory, row)
            end = state[LAST_TIME]
            if slot >= 0 and (shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW):
                end = memory.slots[slot, 1 + len(tables.keys) + S_TIME]
        if end != UNKNOWN_END:
            due = by_rank or end <= watermark_of(sources, watermarks, default, memory.cells[row, CELL_SOURCE])
        if not due:
            waiting[kept, W_NODE], waiting[kept, W_END], waiting[kept, W_WINDOW] = node, waiting[w, W_END], window
            kept += 1
        elif ends_hold(tables, machine, memory, slot_of(tables, memory, row), node, window):
            emit(memory, node, end, window)
    state[WAITS] = kept
    return True


@kernel(types.int64(RUN_TABLES, RUN_MEMORY))
def count_runs(tables, memory):
    """Runs in all partitions."""
    count = 0
    for slot in range(len(memory.slots)):
        if memory.slots[slot, NEWEST] != FREE:
            count += memory.slots[slot, 1 + len(tables.keys) + S_COUNT]
    return count


@kernel(types.void(RUN_MEMORY))
def close_rest(memory):
    """At the end of the input the last event closes count windows that are still open."""
    state, windows = memory.state, memory.windows
    for at in range(state[WINDOW_FIRST_OPEN] - state[WINDOW_BASE], state[WINDOWS] - state[WINDOW_BASE]):
        windows[at, O_END] = state[LAST_TIME]


@kernel(types.boolean(RUN_TABLES, RUN_MACHINE, RUN_MEMORY, INTEGERS, INTEGERS, types.int64, types.int64))
def pass_runs(tables, machine, memory, sources, watermarks, default, final):
    """Runs whose window has closed by the watermark end, and time out; False: the output has no room for all that may."""
    nodes, slots, state, shape = memory.nodes, memory.slots, memory.state, tables.shape
    base = 1 + len(tables.keys)
    windows = 1
    if shape[WINDOW_KIND] == OPENED_TIME or shape[WINDOW_KIND] == OPENED_COUNT:
        windows = state[WINDOWS] - state[WINDOW_BASE] + 1
    elif shape[WINDOW_KIND] != NO_WINDOW:
        windows = shape[WINDOW_SIZE] // shape[WINDOW_SLIDE] + 1
    if state[EXPIRED] + count_runs(tables, memory) * windows >= len(memory.expired):
        return False
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        node = slots[slot, base + S_HEAD]
        before = np.int64(-1)
        while node >= 0:
            following = nodes[node, NEXT_RUN]
            now = min(watermark_of(sources, watermarks, default, memory.cells[nodes[node, ROW], CELL_SOURCE]), _END_OF_TIME)
            over = False
            if final and shape[GAP] < 0 and (shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW):
                expire(tables, machine, memory, slot, node, _END_OF_TIME, slots[slot, base + S_TIME])
                over = True
            elif final and (shape[WINDOW_KIND] == COUNT_WINDOW or shape[WINDOW_KIND] == OPENED_COUNT):
                close_rest(memory)
                over = outlived(tables, machine, memory, slot, node, now, 0, _END_OF_TIME)
            elif shape[WINDOW_KIND] == TIME_WINDOW:
                over = outlived(tables, machine, memory, slot, node, now, 0, (now - shape[WINDOW_SIZE]) // shape[WINDOW_SLIDE] + 1)
            elif shape[WINDOW_KIND] == OPENED_TIME:
                first_open = nodes[node, WINDOW_LOW]
                while (
                    first_open <= nodes[node, WINDOW_HIGH]
                    and memory.windows[first_open - state[WINDOW_BASE], O_TIME] + shape[WINDOW_SIZE] <= now
                ):
                    first_open += 1
                over = outlived(tables, machine, memory, slot, node, now, 0, first_open)
            elif shape[WINDOW_KIND] != PARTITION_WINDOW:
                # ranks end their runs when events come; here time does (a gap)
                over = outlived(tables, machine, memory, slot, node, now, np.int64(-1), state[WINDOW_FIRST_OPEN])
            else:
                over = outlived(tables, machine, memory, slot, node, now, np.int64(-1), np.int64(-1))
            if over:
                slots[slot, base + S_COUNT] -= 1
                nodes[node, STATE] = _LEFT - nodes[node, STATE]
                if before >= 0:
                    nodes[before, NEXT_RUN] = following
                else:
                    slots[slot, base + S_HEAD] = following
            else:
                before = node
            node = following
    return True


@kernel(types.void(RUN_TABLES, RUN_MEMORY, INTEGERS, INTEGERS, INTEGERS, INTEGERS))
def mark(tables, memory, held, node_marks, row_marks, crossing_marks):
    """Marks what is still needed: runs, matches that wait or go out, their beginnings and events."""
    nodes, state, shape = memory.nodes, memory.state, tables.shape
    base = 1 + len(tables.keys)
    for slot in range(len(memory.slots)):
        if memory.slots[slot, NEWEST] == FREE:
            continue
        node = memory.slots[slot, base + S_HEAD]
        while node >= 0:
            node_marks[node] = 1
            node = nodes[node, NEXT_RUN]
    for w in range(state[WAITS]):
        node_marks[memory.waiting[w, W_NODE]] = 1
    for k in range(state[MATCHES]):
        node_marks[memory.found[k, F_NODE]] = 1
    for k in range(state[EXPIRED]):
        node_marks[memory.expired[k, F_NODE]] = 1
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
            if memory.crossed[at, C_LOWER] >= 0:
                node_marks[memory.crossed[at, C_LOWER]] = 1
            at = memory.crossed[at, C_OLDER]


@kernel(types.int64(RUN_TABLES, RUN_MEMORY, types.int64, INTEGERS, types.int64))
def least_window(tables, memory, least, node_marks, count):
    """The first window that something marked lies in."""
    for node in range(count):
        if node_marks[node]:
            least = min(least, memory.nodes[node, WINDOW_LOW])
    for w in range(memory.state[WAITS]):
        least = min(least, memory.waiting[w, W_WINDOW])
    for k in range(memory.state[MATCHES]):
        least = min(least, memory.found[k, F_WINDOW])
    for k in range(memory.state[EXPIRED]):
        least = min(least, memory.expired[k, F_WINDOW])
    return least


@kernel(types.void(RUN_TABLES, RUN_MEMORY, INTEGERS, INTEGERS, INTEGERS, types.int64))
def mark_negated(tables, memory, node_marks, row_marks, negated_marks, now):
    """Marks negated events that some run, waiting match or later start may still ask for."""
    nodes, cells, state, shape = memory.nodes, memory.cells, memory.state, tables.shape
    least_row = state[ROWS]
    for node in range(state[NODES]):
        if node_marks[node]:
            least_row = min(least_row, nodes[node, FIRST_ROW])
    for k in range(state[NEGATED]):
        row = memory.negated[k, N_ROW]
        keep = row >= least_row
        if not keep:
            if shape[WITHIN] >= 0:
                keep = cells[row, CELL_TIME] > now - shape[WITHIN]
            elif shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW:
                slot = slot_of(tables, memory, row)
                rank = memory.slots[slot, 1 + len(tables.keys) + S_PRANK] if slot >= 0 else 0
                keep = memory.negated[k, N_PRANK] >= rank - max(shape[WITHIN_EVENTS], shape[WINDOW_SIZE])
            elif shape[WINDOW_KIND] == TIME_WINDOW or shape[WINDOW_KIND] == OPENED_TIME:
                keep = cells[row, CELL_TIME] > now - shape[WINDOW_SIZE]
            elif shape[WINDOW_KIND] != NO_WINDOW:
                keep = memory.negated[k, N_SRANK] >= state[7] - shape[WINDOW_SIZE]
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


@kernel(types.void(RUN_TABLES, RUN_MEMORY, RUN_MEMORY, INTEGERS, INTEGERS, INTEGERS, INTEGERS, types.int64))
def move(tables, old, new, node_numbers, row_numbers, crossing_numbers, negated_numbers, window_base):
    """Copies what has a number into new tables; slots, waiting matches and output are renumbered in place (``new`` has the same arrays)."""
    shape, state = tables.shape, old.state
    base = 1 + len(tables.keys)
    for node in range(state[NODES]):
        at = node_numbers[node]
        if at < 0:
            continue
        for k in range(shape[NODE_WIDTH]):
            new.nodes[at, k] = old.nodes[node, k]
        following = old.nodes[node, NEXT_RUN]
        new.nodes[at, NEXT_RUN] = node_numbers[following] if following >= 0 and node_numbers[following] >= 0 else -1
        new.nodes[at, PARENT] = moved(node_numbers, old.nodes[node, PARENT])
        new.nodes[at, PREVIOUS] = moved(node_numbers, old.nodes[node, PREVIOUS])
        new.nodes[at, ROW] = row_numbers[old.nodes[node, ROW]]
        new.nodes[at, FIRST_ROW] = row_numbers[old.nodes[node, FIRST_ROW]]
        new.nodes[at, CROSSED] = moved(crossing_numbers, old.nodes[node, CROSSED])
        for k in range(shape[FRAME], shape[REGISTERS]):
            new.nodes[at, k] = moved(node_numbers, old.nodes[node, k])
    for row in range(state[ROWS]):
        at = row_numbers[row]
        if at >= 0:
            for k in range(old.cells.shape[1]):
                new.cells[at, k] = old.cells[row, k]
    for k in range(state[CROSSINGS]):
        at = crossing_numbers[k]
        if at >= 0:
            for j in range(old.crossed.shape[1]):
                new.crossed[at, j] = old.crossed[k, j]
            new.crossed[at, C_OLDER] = moved(crossing_numbers, old.crossed[k, C_OLDER])
            new.crossed[at, C_LOWER] = moved(node_numbers, old.crossed[k, C_LOWER])
            new.crossed[at, 3] = row_numbers[old.crossed[k, 3]]
    for k in range(state[NEGATED]):
        at = negated_numbers[k]
        if at >= 0:
            new.negated[at, N_ROW] = row_numbers[old.negated[k, N_ROW]]
            new.negated[at, N_SRANK], new.negated[at, N_PRANK] = old.negated[k, N_SRANK], old.negated[k, N_PRANK]
            older = old.negated[k, OLDER]
            while older >= 0 and negated_numbers[older] < 0:
                older = old.negated[older, OLDER]
            new.negated[at, OLDER] = moved(negated_numbers, older)
    for slot in range(len(old.slots)):
        if old.slots[slot, NEWEST] == FREE:
            continue
        old.slots[slot, base + S_HEAD] = moved(node_numbers, old.slots[slot, base + S_HEAD])
        for j in range(shape[LISTS]):
            at = old.slots[slot, base + S_LISTS + j]
            while at >= 0 and negated_numbers[at] < 0:
                at = old.negated[at, OLDER]
            old.slots[slot, base + S_LISTS + j] = moved(negated_numbers, at)
    for j in range(shape[WILD_LISTS]):
        at = state[WILD_HEADS + j]
        while at >= 0 and negated_numbers[at] < 0:
            at = old.negated[at, OLDER]
        state[WILD_HEADS + j] = moved(negated_numbers, at)
    for w in range(state[WAITS]):
        old.waiting[w, W_NODE] = node_numbers[old.waiting[w, W_NODE]]
    for k in range(state[MATCHES]):
        old.found[k, F_NODE] = node_numbers[old.found[k, F_NODE]]
    for k in range(state[EXPIRED]):
        old.expired[k, F_NODE] = node_numbers[old.expired[k, F_NODE]]
    shift = window_base - state[WINDOW_BASE]
    for k in range(shift, state[WINDOWS] - state[WINDOW_BASE]):
        for j in range(old.windows.shape[1]):
            old.windows[k - shift, j] = old.windows[k, j]
        row = old.windows[k - shift, O_ROW]
        old.windows[k - shift, O_ROW] = row_numbers[row] if row >= 0 and row < state[ROWS] else -1
    state[WINDOW_BASE] = window_base


@kernel(types.void(RUN_TABLES, TABLE))
def mark_slots(tables, slots):
    """Slots without runs and negated events are dead (their place NEWEST becomes -5); those whose ranks number windows never die."""
    base = 1 + len(tables.keys)
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE or tables.shape[WINDOW_KIND] == PARTITION_WINDOW:
            continue
        alive = slots[slot, base + S_HEAD] >= 0
        for j in range(tables.shape[LISTS]):
            alive |= slots[slot, base + S_LISTS + j] >= 0
        if not alive:
            slots[slot, NEWEST] = -5
