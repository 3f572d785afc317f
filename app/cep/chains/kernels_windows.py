"""When a partial match runs out of window, and what goes out: matches, and partial ones that timed out. Inlined into the one loop."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit

from app.cep.cells.kernels_memory import load, store
from app.cep.chains.arrays import (
    CONDITION,
    COUNT_WINDOW,
    EXTRA,
    FIRST_TIME,
    FOUND_END,
    FOUND_LENGTH,
    FOUND_NODE,
    FOUND_WINDOW,
    GAP,
    LAST_TIME,
    LAST_WINDOW,
    LENGTH,
    MATCHED,
    MATCHES,
    NEWEST_NODE,
    NO_END,
    NO_WINDOW,
    RANKED,
    TIMEOUTS,
    WAIT_MS,
    WAITING,
    WINDOW,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WITHIN,
)


@njit(inline="always")
def put_match(extra, found, state, node, length, window, end):
    """Writes a match to the output, or (``end`` is not NO_END) a partial match that timed out; ``extra``: EXTRA of the shape, where it may be known."""
    store(found, state[MATCHES], FOUND_NODE, node)
    store(found, state[MATCHES], FOUND_LENGTH, length)
    if extra >= 0:
        store(found, state[MATCHES], FOUND_WINDOW, window)
        store(found, state[MATCHES], FOUND_END, end)
    state[MATCHES] += 1


@njit(inline="always")
def first_window(shape, time, rank):
    """The first window that is open at an event of this time and rank."""
    if shape[WINDOW] == NO_WINDOW:
        return np.int64(0)
    at = rank if shape[WINDOW] == COUNT_WINDOW else time
    first = (at - shape[WINDOW_SIZE]) // shape[WINDOW_SLIDE] + 1
    return max(first, np.int64(0)) if shape[WINDOW] == COUNT_WINDOW else first


@njit(inline="always")
def last_window(shape, time, rank):
    """The last window that an event lies in."""
    if shape[WINDOW] == NO_WINDOW:
        return np.int64(0)
    return (rank if shape[WINDOW] == COUNT_WINDOW else time) // shape[WINDOW_SLIDE]


@njit(inline="always")
def end_of_wait(shape, runs, run):
    """When a run that waits behind its last event is a match; NO_END where events of the partition say so."""
    if shape[RANKED]:
        end = np.int64(NO_END)
    elif shape[WAIT_MS] >= 0:
        end = load(runs, run, shape[EXTRA] + LAST_TIME) + shape[WAIT_MS]
    else:
        end = load(runs, run, FIRST_TIME) + shape[WITHIN]
    return end


@njit(inline="always")
def out_of_window(shape, runs, run, time, first_open):
    """Whether a run's window, or the gap behind its newest event, is over at a time; ``first_open``: the first explicit window that is not."""
    over, extra = time - load(runs, run, FIRST_TIME) >= shape[WITHIN], shape[EXTRA]
    if extra >= 0:
        over |= time - load(runs, run, extra + LAST_TIME) >= shape[GAP] or first_open > load(runs, run, extra + LAST_WINDOW)
        if shape[WAITING] and load(runs, run, LENGTH) == shape[WAITING]:
            over = time >= end_of_wait(shape, runs, run)
    return over


@njit(inline="always")
def time_out(shape, runs, found, state, run):
    """A run has run out of window: it is the match that waited for this, or (where timeouts are asked for) one unless a match ended with its newest event."""
    if shape[WAITING] and load(runs, run, LENGTH) == shape[WAITING]:
        put_match(shape[EXTRA], found, state, load(runs, run, NEWEST_NODE), load(runs, run, LENGTH), 0, end_of_wait(shape, runs, run))
    elif shape[TIMEOUTS] and not load(runs, run, shape[EXTRA] + CONDITION) & MATCHED:
        end = np.int64(NO_END)
        if shape[WITHIN] < NO_END:
            end = load(runs, run, FIRST_TIME) + shape[WITHIN]
        if shape[GAP] < NO_END:
            end = min(end, load(runs, run, shape[EXTRA] + LAST_TIME) + shape[GAP])
        put_match(shape[EXTRA], found, state, load(runs, run, NEWEST_NODE), load(runs, run, LENGTH), 0, end)


@njit(inline="always")
def close_by_rank(shape, runs, found, state, run, time):
    """The last event of a run's window has been met, at this time: it is the match that waited for this, or it times out."""
    length = load(runs, run, LENGTH)
    waited = shape[WAITING] and length == shape[WAITING]
    if waited or (shape[TIMEOUTS] and not load(runs, run, shape[EXTRA] + CONDITION) & MATCHED):
        put_match(shape[EXTRA], found, state, load(runs, run, NEWEST_NODE), length, 0, time)
