"""When runs run out of window, and which explicit windows open and close with an event."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="assignment"
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

from numba import types

from app.cep.cells.arrays import CELL_TIME, FOREVER
from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel
from app.cep.runs.arrays import (
    CONTIGUOUS,
    COUNT_WINDOW,
    CROSSED,
    EVENT_WINDOW,
    FINAL,
    FIRST_P_RANK,
    FIRST_TIME,
    FLAGS,
    FOLLOWED,
    GAP,
    MATCHED,
    NO_WINDOW,
    O_END,
    O_RANK,
    O_ROW,
    O_TIME,
    OPENED_COUNT,
    OPENED_TIME,
    OPENER,
    PARTITION_WINDOW,
    ROW,
    S_RANK,
    STATE,
    STREAM_RANK,
    T_CELLS,
    T_KEYS,
    T_NODES,
    T_SHAPE,
    T_STATE,
    T_STATES,
    T_WAITING,
    T_WINDOWS,
    TIME_WINDOW,
    TIMEOUTS,
    UNKNOWN_END,
    W_END,
    W_LEAST,
    W_NODE,
    W_RANK,
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
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_emit import emit_timeout, window_end
from app.cep.runs.kernels_meet import has_way
from app.cep.runs.kernels_negation import already_prevented
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def expire(world, slot, node, upto, rank_end):
    """A run's windows close: all before window ``upto`` (without explicit windows: the run's). It times out in each, unless it has matched.

    ``rank_end``: the time at which ranks closed it, or UNKNOWN_END.
    """
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    if not shape[TIMEOUTS] or nodes[node, FLAGS] & MATCHED:
        return
    states = table(world, T_STATES)
    cells = table(world, T_CELLS)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    if nodes[node, CROSSED] >= 0 and already_prevented(world, slot, node):
        return
    explicit = shape[WINDOW_KIND] != NO_WINDOW
    low = nodes[node, WINDOW_LOW] if explicit else 0
    high = min(nodes[node, WINDOW_HIGH] + 1, upto) if explicit else 1
    # without any way it was no contiguity that ended it, but an UNTIL
    lasting = not shape[CONTIGUOUS] or states[nodes[node, STATE], FINAL] != 0 or has_way(world, node, 1)
    counted = shape[WINDOW_KIND] == COUNT_WINDOW or shape[WINDOW_KIND] == OPENED_COUNT
    followed = nodes[node, FOLLOWED]
    gap_over = shape[GAP] >= 0 and followed >= cells[nodes[node, ROW], CELL_TIME] + shape[GAP]
    for window in range(low, high):
        end = rank_end if rank_end != UNKNOWN_END else window_end(world, node, window, 0)
        # ended by the next event of the stream, if that came before the window closed
        if counted:
            over = gap_over or nodes[node, S_RANK] + 1 >= windows[window - state[WINDOW_BASE], O_RANK] + shape[WINDOW_SIZE]
        else:
            over = rank_end == UNKNOWN_END and followed >= end
        if lasting or followed == FOREVER or over:
            emit_timeout(world, node, end, window)


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def outlived(world, slot, node, time, partition_rank, first_open):
    """Whether a run's window has closed before an event; windows that have closed are timed out and left behind."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    if shape[WINDOW_KIND] != NO_WINDOW and first_open > nodes[node, WINDOW_LOW]:
        expire(world, slot, node, first_open, UNKNOWN_END)
        nodes[node, WINDOW_LOW] = first_open
        if first_open > nodes[node, WINDOW_HIGH]:
            return True
    if shape[WITHIN_EVENTS] >= 0 and partition_rank - nodes[node, FIRST_P_RANK] >= shape[WITHIN_EVENTS]:
        return True
    over = shape[WITHIN] >= 0 and time - nodes[node, FIRST_TIME] >= shape[WITHIN]
    over |= shape[GAP] >= 0 and time - cells[nodes[node, ROW], CELL_TIME] >= shape[GAP]
    if over:
        expire(world, slot, node, FOREVER, UNKNOWN_END)
    return over


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def closed_by_rank(world, slot, node, time, partition_rank):
    """Whether the event just met was the last one of a run's window in events of its partition; it times out then, at the event's time."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    if shape[WITHIN_EVENTS] >= 0:
        if partition_rank - nodes[node, FIRST_P_RANK] != shape[WITHIN_EVENTS] - 1:
            return False
        expire(world, slot, node, 0, time)
        return True
    if shape[WINDOW_KIND] != PARTITION_WINDOW:
        return False
    first_open = (partition_rank + 1 - shape[WINDOW_SIZE]) // shape[WINDOW_SLIDE] + 1
    if first_open > nodes[node, WINDOW_LOW]:
        expire(world, slot, node, first_open, time)
        nodes[node, WINDOW_LOW] = first_open
    return nodes[node, WINDOW_LOW] > nodes[node, WINDOW_HIGH]


@kernel(types.int64(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def open_windows(world, mask, row, time, stream_rank):
    """Windows that an event opens, and the first that is still open at it (into the state); returns the last one that it lies in."""
    shape = line(world, T_SHAPE)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    kind, size, slide = shape[WINDOW_KIND], shape[WINDOW_SIZE], shape[WINDOW_SLIDE]
    state[EVENT_WINDOW] = 0
    if kind == TIME_WINDOW:
        state[EVENT_WINDOW] = (time - size) // slide + 1
        return time // slide
    if kind == COUNT_WINDOW:
        opens = stream_rank % slide == 0
    elif kind == OPENED_TIME or kind == OPENED_COUNT:
        opens = (mask >> shape[OPENER]) & 1 != 0
    else:
        return 0
    if opens:
        at = state[WINDOWS] - state[WINDOW_BASE]
        windows[at, O_ROW], windows[at, O_RANK], windows[at, O_TIME], windows[at, O_END] = row, stream_rank, time, UNKNOWN_END
        state[WINDOWS] += 1
    if kind == OPENED_TIME:
        while state[WINDOW_FIRST_OPEN] < state[WINDOWS] and time - windows[state[WINDOW_FIRST_OPEN] - state[WINDOW_BASE], O_TIME] >= size:
            state[WINDOW_FIRST_OPEN] += 1
    state[EVENT_WINDOW] = state[WINDOW_FIRST_OPEN]
    return state[WINDOWS] - 1


@kernel(types.void(WORLD, types.int64, types.int64), counted=False)
def close_windows(world, time, stream_rank):
    """Count windows whose last event this was get their time."""
    shape = line(world, T_SHAPE)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    if shape[WINDOW_KIND] != COUNT_WINDOW and shape[WINDOW_KIND] != OPENED_COUNT:
        return
    while state[WINDOW_FIRST_OPEN] < state[WINDOWS]:
        at = state[WINDOW_FIRST_OPEN] - state[WINDOW_BASE]
        if stream_rank < windows[at, O_RANK] + shape[WINDOW_SIZE] - 1:
            return
        windows[at, O_END] = time
        state[WINDOW_FIRST_OPEN] += 1


@kernel(types.void(WORLD, types.int64[:, ::1], types.int64, types.int64, types.int64), counted=False)
def end_waiting(world, cells, k, time, partition_rank):
    """Matches that wait for the end of a window in events of this partition, whose last event this is, get their time."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells_table = table(world, T_CELLS)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    for w in range(state[WAITS]):
        if waiting[w, W_END] != UNKNOWN_END:
            continue
        node = waiting[w, W_NODE]
        if shape[WITHIN_EVENTS] >= 0:
            last = nodes[node, FIRST_P_RANK] + shape[WITHIN_EVENTS] - 1
        else:
            last = waiting[w, W_WINDOW] * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE] - 1
        same = partition_rank == last
        for j in range(len(keys)):
            same &= cells_table[nodes[node, ROW], keys[j]] == cells[k, keys[j]]
        if same:
            waiting[w, W_END] = max(time, waiting[w, W_LEAST])
            waiting[w, W_RANK] = state[STREAM_RANK] - 1


@kernel(types.int64(INTEGERS, INTEGERS, types.int64), counted=False)
def windows_of_event(shape, state, oldest):
    """In how many windows an event can lie at most; ``oldest``: the first one that counts, of those that events open."""
    if shape[WINDOW_KIND] == OPENED_TIME or shape[WINDOW_KIND] == OPENED_COUNT:
        return state[WINDOWS] - oldest + 1
    if shape[WINDOW_KIND] != NO_WINDOW:
        return shape[WINDOW_SIZE] // shape[WINDOW_SLIDE] + 1
    return 1
