"""What is dead is swept out of the tables, and hash tables are filled again."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.coalesce.arrays import (
    AFTER,
    ALIVE,
    BEFORE,
    CELLS,
    COLUMN,
    CURRENT,
    CURRENT_TUPLE,
    FIRST,
    GONE,
    INT,
    KEY,
    KEYS,
    LAST,
    LIVE_RUNS,
    MEMORY,
    NEWEST,
    NEXT,
    RUN,
    RUNS,
    TUPLES,
    UNTIL,
    VALUES,
)
from app.coalesce.kernel import kernel
from app.coalesce.kernels_tuples import hash_cells, wake


@kernel(types.void(MEMORY, MEMORY, INT))
def sweep(old, new, gap):
    """Moves what is alive to new tables, but does not enter it in their hash tables. Runs without tuples die once nothing can lengthen them."""
    tuples, runs, keys = old.tuples, old.runs, old.keys
    new_keys = np.full(len(keys), -1, np.int64)
    new_runs = np.full(len(runs), -1, np.int64)
    new_tuples = np.full(len(tuples), -1, np.int64)
    new.state[:] = old.state
    live = 0
    for run in range(old.state[RUNS]):
        if runs[run, ALIVE] and (runs[run, FIRST] >= 0 or runs[run, UNTIL] + gap >= old.state[LAST]):
            new_keys[runs[run, KEY]] = 0
            new_runs[run] = live
            new.runs[live] = runs[run]
            new.wakes[live] = old.wakes[run]
            live += 1
    new.state[RUNS] = new.state[LIVE_RUNS] = live
    live = 0
    for key in range(old.state[KEYS]):
        if new_keys[key] == 0:
            new_keys[key] = live
            new.keys[live] = keys[key]
            live += 1
    new.state[KEYS] = live
    live = 0
    for row in range(old.state[TUPLES]):
        if tuples[row, RUN] != GONE:
            new_tuples[row] = live
            new.tuples[live] = tuples[row]
            live += 1
    new.state[TUPLES] = live
    for row in range(live):
        new.tuples[row, RUN] = new_runs[new.tuples[row, RUN]]
        for column in (AFTER, BEFORE):
            if new.tuples[row, column] >= 0:
                new.tuples[row, column] = new_tuples[new.tuples[row, column]]
    for run in range(new.state[RUNS]):
        new.runs[run, KEY] = new_keys[new.runs[run, KEY]]
        for column in (FIRST, NEWEST):
            if new.runs[run, column] >= 0:
                new.runs[run, column] = new_tuples[new.runs[run, column]]
    for key in range(new.state[KEYS]):
        if new.keys[key, CURRENT] >= 0:
            new.keys[key, CURRENT] = new_runs[new.keys[key, CURRENT]]
        if new.keys[key, CURRENT_TUPLE] >= 0:
            new.keys[key, CURRENT_TUPLE] = new_tuples[new.keys[key, CURRENT_TUPLE]]


@kernel(types.void(COLUMN, MEMORY))
def wake_all(rules, memory):
    """All runs are to be looked at in the next window; what was shown of those that sleep is written down."""
    for run in range(memory.state[RUNS]):
        wake(rules, memory, run, memory.state[NEXT])


@kernel(types.void(MEMORY))
def enter_places(memory):
    """Fills empty hash tables. Of equal runs only the one that ends last can be lengthened."""
    last = len(memory.key_places) - 1
    for key in range(memory.state[KEYS]):
        place = hash_cells(memory.keys, key, CELLS, 0) & last
        while memory.key_places[place] != 0:
            place = (place + 1) & last
        memory.key_places[place] = key + 1
    last = len(memory.run_places) - 1
    for run in range(memory.state[RUNS]):
        place = hash_cells(memory.runs, run, VALUES, memory.runs[run, KEY] + 1) & last
        while memory.run_places[place] != 0:
            other = memory.run_places[place] - 1
            same = memory.runs[other, KEY] == memory.runs[run, KEY]
            for j in range(VALUES, memory.runs.shape[1]):
                same = same and memory.runs[other, j] == memory.runs[run, j]
            if same:
                break
            place = (place + 1) & last
        known = memory.run_places[place] - 1
        if known < 0 or memory.runs[known, UNTIL] <= memory.runs[run, UNTIL]:
            memory.run_places[place] = run + 1
