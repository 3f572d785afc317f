"""Time passes: matches that waited are decided, and runs end whose window is over."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_SOURCE
from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE, NEWEST
from app.cep.partitions.kernels_slots import find_slot, hash_key
from app.cep.runs.arrays import (
    COUNT_WINDOW,
    END_OF_TIME,
    EXPIRED,
    GAP,
    LAST_TIME,
    LEFT,
    MATCHES,
    NEXT_RUN,
    NO_FOR,
    O_END,
    O_TIME,
    OPENED_COUNT,
    OPENED_TIME,
    PARTITION_WINDOW,
    ROW,
    S_COUNT,
    S_HEAD,
    S_SEEN,
    S_TIME,
    STATE,
    T_CELLS,
    T_EXPIRED,
    T_FOUND,
    T_KEYS,
    T_NODES,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
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
    WINDOW_FIRST_OPEN,
    WINDOW_HIGH,
    WINDOW_KIND,
    WINDOW_LOW,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WINDOWS,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_emit import emit, ends_hold
from app.cep.runs.kernels_windows import expire, outlived, windows_of_event
from app.cep.runs.kernels_world import WORLD, line, table
from app.cep.windows.kernels_bounds import watermark_of


@kernel(types.int64(WORLD, types.int64))
def slot_of(world, row):
    """The slot of a stored event's partition, or -1."""
    keys = line(world, T_KEYS)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    slot = find_slot(slots, keys, cells, row, hash_key(keys, cells, row), -END_OF_TIME)
    return max(slot, -1)


@kernel(types.boolean(WORLD, INTEGERS, INTEGERS, types.int64, types.int64))
def pass_waiting(world, sources, watermarks, default, final):
    """Matches whose negated end has come are emitted, if nothing prevents them; False: the output has no room for all of them."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    waiting = table(world, T_WAITING)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    if state[MATCHES] + state[WAITS] >= len(found):
        return False
    kept = 0
    for w in range(state[WAITS]):
        node, end, window = waiting[w, W_NODE], waiting[w, W_END], waiting[w, W_WINDOW]
        row = nodes[node, ROW]
        due = False
        by_rank = end == UNKNOWN_END or shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW
        if end == UNKNOWN_END and (shape[WINDOW_KIND] == COUNT_WINDOW or shape[WINDOW_KIND] == OPENED_COUNT):
            end = windows[window - state[WINDOW_BASE], O_END]
        if end == UNKNOWN_END and final:
            slot = slot_of(world, row)
            end = state[LAST_TIME]
            if slot >= 0 and (shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW):
                end = slots[slot, 1 + len(keys) + S_TIME]
        if end != UNKNOWN_END:
            end = max(end, waiting[w, W_LEAST])
            without_for = waiting[w, W_LEAST] == NO_FOR or waiting[w, W_LEAST] == -1
            due = (by_rank and without_for) or end <= watermark_of(sources, watermarks, default, cells[row, CELL_SOURCE])
        if not due:
            for column in range(waiting.shape[1]):
                waiting[kept, column] = waiting[w, column]
            kept += 1
        elif ends_hold(world, slot_of(world, row), node, window, waiting[w, W_STATE], waiting[w, W_RANK]):
            emit(world, node, end, window)
    state[WAITS] = kept
    return True


@kernel(types.int64(WORLD))
def count_runs(world):
    """Runs in all partitions."""
    keys = line(world, T_KEYS)
    slots = table(world, T_SLOTS)
    count = 0
    for slot in range(len(slots)):
        if slots[slot, NEWEST] != FREE:
            count += slots[slot, 1 + len(keys) + S_COUNT]
    return count


@kernel(types.void(WORLD))
def close_rest(world):
    """At the end of the input the last event closes count windows that are still open."""
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    for at in range(state[WINDOW_FIRST_OPEN] - state[WINDOW_BASE], state[WINDOWS] - state[WINDOW_BASE]):
        windows[at, O_END] = state[LAST_TIME]


@kernel(types.boolean(WORLD, INTEGERS, INTEGERS, types.int64, types.int64))
def pass_runs(world, sources, watermarks, default, final):
    """Runs whose window has closed by the watermark end, and time out; False: the output has no room for all that may."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    windows_table = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    expired = table(world, T_EXPIRED)
    base = 1 + len(keys)
    windows = windows_of_event(shape, state, state[WINDOW_BASE])
    if state[EXPIRED] + count_runs(world) * windows >= len(expired):
        return False
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        node = slots[slot, base + S_HEAD]
        before = np.int64(-1)
        while node >= 0:
            following = nodes[node, NEXT_RUN]
            now = min(watermark_of(sources, watermarks, default, cells[nodes[node, ROW], CELL_SOURCE]), END_OF_TIME)
            over = False
            if final and shape[GAP] < 0 and (shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW):
                expire(world, slot, node, END_OF_TIME, slots[slot, base + S_TIME])
                over = True
            elif final and (shape[WINDOW_KIND] == COUNT_WINDOW or shape[WINDOW_KIND] == OPENED_COUNT):
                close_rest(world)
                over = outlived(world, slot, node, now, 0, END_OF_TIME)
            elif shape[WINDOW_KIND] == TIME_WINDOW:
                over = outlived(world, slot, node, now, 0, (now - shape[WINDOW_SIZE]) // shape[WINDOW_SLIDE] + 1)
            elif shape[WINDOW_KIND] == OPENED_TIME:
                first_open = nodes[node, WINDOW_LOW]
                while (
                    first_open <= nodes[node, WINDOW_HIGH]
                    and windows_table[first_open - state[WINDOW_BASE], O_TIME] + shape[WINDOW_SIZE] <= now
                ):
                    first_open += 1
                over = outlived(world, slot, node, now, 0, first_open)
            elif shape[WINDOW_KIND] != PARTITION_WINDOW:
                # ranks end their runs when events come; here time does (a gap)
                over = outlived(world, slot, node, now, np.int64(-1), state[WINDOW_FIRST_OPEN])
            else:
                over = outlived(world, slot, node, now, np.int64(-1), np.int64(-1))
            if over:
                slots[slot, base + S_COUNT] -= 1
                nodes[node, STATE] = LEFT - nodes[node, STATE]
                if node == slots[slot, S_SEEN]:
                    slots[slot, S_SEEN] = before
                if before >= 0:
                    nodes[before, NEXT_RUN] = following
                else:
                    slots[slot, base + S_HEAD] = following
            else:
                before = node
            node = following
    return True
