"""Tuples come in: they end or replace the one before them, lengthen a run or begin one."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.coalesce.arrays import (
    AFTER,
    ALIVE,
    BEFORE,
    BLOCK,
    CELLS,
    CURRENT,
    CURRENT_TUPLE,
    DURATION,
    END,
    FIRST,
    GAP,
    GONE,
    HELD,
    KEY,
    KEYS,
    LAST,
    LIVE,
    LIVE_RUNS,
    NEVER,
    NEWEST,
    NEXT,
    OFFSET,
    OPEN,
    PAST,
    PLACE,
    RANGE,
    RANK,
    RUN,
    RUNS,
    SEEN,
    SHOWN,
    SHOWN_END,
    SHOWN_START,
    SLIDE,
    SOURCE,
    START,
    TOUCHES,
    TUPLES,
    TYPE,
    UNTIL,
    UNTIL_BEFORE,
    VALUES,
)
from app.coalesce.kernel import inlined


@inlined
def rouse(memory, run):
    """The run is to be looked at in the next window, if it is not over: a key may come back behind the gap."""
    if memory.runs[run, ALIVE]:
        memory.wakes[run] = memory.blocks[run // BLOCK] = NEVER


@inlined
def hash_cells(table, row, first, seed):
    """A hash of the cells from ``first`` on, not negative; only spreads over the places."""
    h = types.uint64(seed)
    for k in range(first, table.shape[1]):
        h = (h ^ types.uint64(table[row, k])) * types.uint64(0x9E3779B97F4A7C15)
        h ^= h >> types.uint64(32)
        h *= types.uint64(0xD6E8FEB86659FD93)
        h ^= h >> types.uint64(29)
    return np.int64(h & types.uint64(0x7FFFFFFFFFFFFFFF))


@inlined
def same_cells(table, row, first, cells, k):
    """Whether the cells of a row from ``first`` on are those of row k of ``cells``."""
    for j in range(cells.shape[1]):
        if table[row, first + j] != cells[k, j]:
            return False
    return True


@inlined
def _key_of(memory, cells, k):
    """The key with these cells, new or known."""
    places, keys = memory.key_places, memory.keys
    last = len(places) - 1
    place = hash_cells(cells, k, 0, 0) & last
    while places[place] != 0:
        if same_cells(keys, places[place] - 1, CELLS, cells, k):
            return places[place] - 1
        place = (place + 1) & last
    row = memory.state[KEYS]
    memory.state[KEYS] += 1
    keys[row, SEEN], keys[row, CURRENT], keys[row, CURRENT_TUPLE], keys[row, HELD] = NEVER, -1, -1, 0
    for j in range(cells.shape[1]):
        keys[row, CELLS + j] = cells[k, j]
    places[place] = row + 1
    return row


@inlined
def _run_of(memory, key, cells, k, start, gap):
    """The run that a tuple lengthens, or a new one in place of one that is too long ago."""
    places, runs = memory.run_places, memory.runs
    last = len(places) - 1
    place = hash_cells(cells, k, 0, key + 1) & last
    while places[place] != 0:
        row = places[place] - 1
        if runs[row, KEY] == key and same_cells(runs, row, VALUES, cells, k):
            if runs[row, ALIVE] and runs[row, UNTIL] + gap >= start:
                return row
            break
        place = (place + 1) & last
    row = memory.state[RUNS]
    memory.state[RUNS] += 1
    memory.state[LIVE_RUNS] += 1
    runs[row, KEY], runs[row, FIRST], runs[row, NEWEST], runs[row, ALIVE] = key, -1, -1, 1
    runs[row, UNTIL] = runs[row, UNTIL_BEFORE] = memory.wakes[row] = NEVER
    runs[row, SHOWN], runs[row, SHOWN_START], runs[row, SHOWN_END] = 0, 0, 0
    for j in range(cells.shape[1]):
        runs[row, VALUES + j] = cells[k, j]
    places[place] = row + 1
    return row


@inlined
def drop_oldest(memory, run):
    """Takes a run's oldest tuple out of the table."""
    tuples, runs, keys = memory.tuples, memory.runs, memory.keys
    row = runs[run, FIRST]
    key, after = runs[run, KEY], tuples[row, AFTER]
    tuples[row, RUN] = GONE
    runs[run, FIRST] = after
    if after < 0:
        runs[run, NEWEST] = -1
    else:
        tuples[after, BEFORE] = -1
        tuples[after, PAST] = tuples[row, END]
    keys[key, HELD] -= 1
    if keys[key, CURRENT_TUPLE] == row:
        keys[key, CURRENT_TUPLE] = -1
    memory.state[LIVE] -= 1


@inlined
def _take_back(memory, key):
    """The last tuple of the key was replaced at its own time: it is valid nowhere."""
    tuples, runs, keys = memory.tuples, memory.runs, memory.keys
    run, row = keys[key, CURRENT], keys[key, CURRENT_TUPLE]
    runs[run, UNTIL] = runs[run, UNTIL_BEFORE]
    if row < 0:
        return
    before = tuples[row, BEFORE]
    runs[run, NEWEST] = before
    if before < 0:
        runs[run, FIRST] = -1
    else:
        tuples[before, AFTER] = -1
    tuples[row, RUN] = GONE
    keys[key, HELD] -= 1
    memory.state[LIVE] -= 1


@inlined
def wake(rules, memory, run, now):
    """`rouse`, where memory is bounded.

    While it slept only cut bounds moved. It may be cut short next, so what was shown of it in the last window before
    ``now`` is written down.
    """
    tuples, runs, t = memory.tuples, memory.runs, (now - 1) // rules[SLIDE] * rules[SLIDE]
    newest = runs[run, NEWEST]
    if memory.wakes[run] != NEVER and runs[run, SHOWN]:
        while newest >= 0 and tuples[newest, START] >= t:
            newest = tuples[newest, BEFORE]
        if newest >= 0:
            runs[run, SHOWN_START] = max(tuples[runs[run, FIRST], START], t - rules[RANGE])
            runs[run, SHOWN_END] = min(tuples[newest, END], t)
    rouse(memory, run)


@inlined
def arrive(rules, memory, arrivals, k, bounded):
    """One tuple: it ends or replaces the one before it; if it passed ``where``, it lengthens a run or begins one."""
    tuples, runs, keys, state = memory.tuples, memory.runs, memory.keys, memory.state
    start = arrivals.time[k]
    key = _key_of(memory, arrivals.keys, k)
    if keys[key, CURRENT] >= 0:
        if bounded:
            wake(rules, memory, keys[key, CURRENT], start)
        rouse(memory, keys[key, CURRENT])
        if keys[key, SEEN] == start:
            _take_back(memory, key)
        elif rules[DURATION] < 0:
            runs[keys[key, CURRENT], UNTIL] = start
            if keys[key, CURRENT_TUPLE] >= 0:
                tuples[keys[key, CURRENT_TUPLE], END] = start
        keys[key, CURRENT] = keys[key, CURRENT_TUPLE] = -1
    keys[key, SEEN] = state[LAST] = start
    state[RANK] += 1
    if not arrivals.passes[k]:
        return
    run = _run_of(memory, key, arrivals.values, k, start, rules[GAP])
    if bounded:
        wake(rules, memory, run, start)
    row, before = state[TUPLES], runs[run, NEWEST]
    state[TUPLES] += 1
    if state[LIVE] == 0:
        state[NEXT] = max(state[NEXT], (start // rules[SLIDE] + 1) * rules[SLIDE])
    state[LIVE] += 1
    end = OPEN if rules[DURATION] < 0 else start + rules[DURATION]
    tuples[row, START], tuples[row, END], tuples[row, RUN], tuples[row, AFTER], tuples[row, BEFORE] = start, end, run, -1, before
    tuples[row, PLACE], tuples[row, TOUCHES] = state[RANK], runs[run, UNTIL] >= start
    tuples[row, SOURCE], tuples[row, OFFSET], tuples[row, TYPE] = arrivals.identity[k, 0], arrivals.identity[k, 1], arrivals.identity[k, 2]
    tuples[row, PAST] = runs[run, UNTIL] if before < 0 else NEVER
    if before < 0:
        runs[run, FIRST] = row
    else:
        tuples[before, AFTER] = row
    runs[run, NEWEST] = row
    runs[run, UNTIL_BEFORE] = runs[run, UNTIL]
    runs[run, UNTIL] = end
    rouse(memory, run)
    keys[key, CURRENT], keys[key, CURRENT_TUPLE] = run, row
    keys[key, HELD] += 1


@inlined
def _split(memory, run, after):
    """The part of a run from that tuple on becomes a run of its own, the one that can be lengthened; what was shown was both."""
    tuples, runs, keys, places = memory.tuples, memory.runs, memory.keys, memory.run_places
    new, key, before = memory.state[RUNS], runs[run, KEY], tuples[after, BEFORE]
    memory.state[RUNS] += 1
    memory.state[LIVE_RUNS] += 1
    for j in range(runs.shape[1]):
        runs[new, j] = runs[run, j]
    runs[new, FIRST], runs[run, NEWEST], runs[run, UNTIL] = after, before, tuples[before, END]
    rouse(memory, new)
    tuples[before, AFTER] = tuples[after, BEFORE] = -1
    row = after
    while row >= 0:
        tuples[row, RUN] = new
        row = tuples[row, AFTER]
    if keys[key, CURRENT] == run:
        keys[key, CURRENT] = new
    last = len(places) - 1
    place = hash_cells(runs, run, VALUES, key + 1) & last
    while places[place] != 0:
        if places[place] == run + 1:
            places[place] = new + 1
            break
        place = (place + 1) & last


@inlined
def drop_tuple(rules, memory, rank, now):
    """Memory is bounded: the tuple of that rank goes. It is not the last one of its key. There must be room for a run."""
    tuples, runs = memory.tuples, memory.runs
    row, high = 0, memory.state[TUPLES]
    while row < high:  # rows stand in the order of ranks
        middle = (row + high) // 2
        if tuples[middle, PLACE] < rank:
            row = middle + 1
        else:
            high = middle
    if row == memory.state[TUPLES] or tuples[row, PLACE] != rank or tuples[row, RUN] == GONE:
        return
    run, before, after = tuples[row, RUN], tuples[row, BEFORE], tuples[row, AFTER]
    past = tuples[row, PAST] if before < 0 else tuples[before, END]
    wake(rules, memory, run, now)
    tuples[row, RUN] = GONE
    memory.keys[runs[run, KEY], HELD] -= 1
    memory.state[LIVE] -= 1
    if before < 0:
        runs[run, FIRST] = after
    else:
        tuples[before, AFTER] = after
    if after < 0:
        runs[run, NEWEST], runs[run, UNTIL] = before, past
        return
    start = tuples[after, START]
    tuples[after, BEFORE], tuples[after, TOUCHES] = before, past >= start
    if before < 0:
        tuples[after, PAST] = past
    if tuples[after, AFTER] < 0:
        runs[run, UNTIL_BEFORE] = past
    if before >= 0 and past + rules[GAP] < start:
        if tuples[after, AFTER] < 0:
            runs[run, UNTIL_BEFORE] = NEVER
        _split(memory, run, after)
