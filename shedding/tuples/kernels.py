"""Compiled parts of the reservoir: a tournament that knows the tuple of least score, in O(log M) per arrival.

When a run is extended, rho- of all its tuples changes at once, but not their order among each other. So a node whose tuples are all of one run keeps
the least of each class, by length and tie, whatever the run's length; scores are worked out only where two runs meet, which is on the ways from
a run's first and last tuple to the root: two ways to walk, not a run to rescore.

Tables of int64. Positions are given to tuples in the order of arrival and only grow, until `pack` moves what is left to the front. Column numbers stand
here because they are compiled in, and numba looks at this file alone to tell whether its machine code is stale.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel

Integers = NDArray[np.int64]

# rules[...]: what does not change
MEMORY, COUNT, SPAN, GAP, VALUE_WEIGHT, INTERVAL_WEIGHT, RULES = 0, 1, 2, 3, 4, 5, 6
"""How many tuples memory holds; the window: so many tuples, and so much time (0: no such bound); the greatest gap inside a run; the weights of delta+ and
rho- in the score (`shedding.tuples.reservoir.Score`)."""

# state[...]: counters
HELD, USED, HEAD, TAIL, SEEN, RUN_COUNT, PREVIOUS, VALUE, STATE = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Tuples in memory; positions used; oldest and newest tuple (-1: none); arrivals so far; runs used; the position of the arrival before (-1: it was
dropped) and its value."""

# tuples[position, ...]
ORDINAL, START, END, RUN, JOINED, BEFORE, AFTER, LENGTH, TIE, TUPLE_WIDTH = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Rank among all arrivals; interval; its run (GONE: not in memory); 1 if the arrival before it is of the same run and in memory; neighbours in memory
(-1); what ranks it within its run and class: length (0 where rho- does not count), then the hash of its identity."""

# runs[run, ...]
RUN_START, RUN_END, FIRST, LAST, PIECES, RUN_WIDTH = 0, 1, 2, 3, 4, 5
"""Interval of the exact coalesced tuple as far as it is known; its oldest and newest tuple in memory (-1: none); pieces that dropping left of it."""

# tree[node, ...]: leaf of position p is node p + positions, children of n are 2 n and 2 n + 1
OWNER, BEST, TREE_WIDTH = 0, 1, 4
"""The run that all tuples under the node belong to, or MIXED, or GONE (no tuples); position of the first to drop: of mixed nodes one, of others one
for each class: alone, at an end, in the middle of its piece (-1: none)."""

GONE, MIXED = -1, -2
NEVER = -(1 << 62)


class Tables(NamedTuple):
    """Rules, state and tables; ``touched`` is scratch: nodes whose answer may have changed."""

    rules: Integers
    state: Integers
    tuples: Integers
    runs: Integers
    tree: Integers
    touched: Integers


class Arrivals(NamedTuple):
    """Tuples in the order of time: number of the value, interval, rank among equals."""

    value: Integers
    start: Integers
    end: Integers
    tie: Integers


TOUCHED = 5
"""Leaves that one removal can touch; an arrival touches three."""

_COLUMN, _TABLE = types.int64[::1], types.int64[:, ::1]
TABLES = types.NamedTuple([_COLUMN, _COLUMN, _TABLE, _TABLE, _TABLE, _COLUMN], Tables)
ARRIVALS = types.NamedUniTuple(_COLUMN, 4, Arrivals)


@kernel(types.int64(TABLES, types.int64), counted=False)
def class_of(m, p):
    """0: alone in its piece, 1: at an end, 2: in the middle."""
    after = m.tuples[p, AFTER]
    return m.tuples[p, JOINED] + (m.tuples[after, JOINED] if after >= 0 else 0)


@kernel(types.float64(TABLES, types.int64), counted=False)
def score_of(m, p):
    """delta+ and rho-, weighted: what dropping the tuple costs."""
    run = m.tuples[p, RUN]
    kind = class_of(m, p)
    delta = 1 if kind == 2 else (-1 if kind == 0 and m.runs[run, PIECES] > 1 else 0)
    extent = m.runs[run, RUN_END] - m.runs[run, RUN_START]
    rho = m.rules[INTERVAL_WEIGHT] * (m.tuples[p, LENGTH] / extent) if extent > 0 else 0.0
    return m.rules[VALUE_WEIGHT] * delta + rho


@kernel(types.int64(TABLES, types.int64, types.int64), counted=False)
def lesser(m, p, q):
    """The one to drop first of two tuples of any runs; -1 is none."""
    if p < 0 or q < 0:
        return max(p, q)
    mine, other = score_of(m, p), score_of(m, q)
    if mine != other:
        return p if mine < other else q
    if m.tuples[p, TIE] != m.tuples[q, TIE]:
        return p if m.tuples[p, TIE] < m.tuples[q, TIE] else q
    return min(p, q)


@kernel(types.int64(TABLES, types.int64), counted=False)
def best_of(m, node):
    """The one to drop first of the tuples under a node; -1: there are none."""
    if m.tree[node, OWNER] == GONE:
        return -1
    best = m.tree[node, BEST]
    if m.tree[node, OWNER] != MIXED:
        best = lesser(m, lesser(m, best, m.tree[node, BEST + 1]), m.tree[node, BEST + 2])
    return best


@kernel(types.void(TABLES, types.int64), counted=False)
def play(m, node):
    """Answers for a node from the answers of its children."""
    tree, left, right = m.tree, 2 * node, 2 * node + 1
    if tree[left, OWNER] == GONE or tree[right, OWNER] == GONE:
        one = right if tree[left, OWNER] == GONE else left
        for k in range(TREE_WIDTH):
            tree[node, k] = tree[one, k]
    elif tree[left, OWNER] != MIXED and tree[left, OWNER] == tree[right, OWNER]:
        tree[node, OWNER] = tree[left, OWNER]
        for k in range(BEST, TREE_WIDTH):
            p, q = tree[left, k], tree[right, k]
            if p < 0 or q < 0:
                tree[node, k] = max(p, q)
            elif m.tuples[p, LENGTH] != m.tuples[q, LENGTH]:
                tree[node, k] = p if m.tuples[p, LENGTH] < m.tuples[q, LENGTH] else q
            else:
                tree[node, k] = p if m.tuples[p, TIE] <= m.tuples[q, TIE] else q
    else:
        tree[node, OWNER] = MIXED
        tree[node, BEST] = lesser(m, best_of(m, left), best_of(m, right))


@kernel(types.void(TABLES, types.int64), counted=False)
def set_leaf(m, p):
    """What a leaf says of its tuple."""
    node = m.tree.shape[0] // 2 + p
    run = m.tuples[p, RUN]
    m.tree[node, OWNER] = run
    if run != GONE:
        for k in range(BEST, TREE_WIDTH):
            m.tree[node, k] = -1
        m.tree[node, BEST + class_of(m, p)] = p


@kernel(types.int64(TABLES, types.int64, types.int64), counted=False)
def touch(m, count, p):
    """Notes that the answer of this tuple's leaf changed, or of ways up from it; keeps the notes in order."""
    if p < 0:
        return count
    k = count
    while k > 0 and m.touched[k - 1] > p:
        k -= 1
    if k > 0 and m.touched[k - 1] == p:
        return count
    for i in range(count, k, -1):
        m.touched[i] = m.touched[i - 1]
    m.touched[k] = p
    return count + 1


@kernel(types.void(TABLES, types.int64), counted=False)
def replay(m, count):
    """Brings all nodes above the noted leaves up to date; ways that meet are walked once from there."""
    leaves = m.tree.shape[0] // 2
    for k in range(count):
        set_leaf(m, m.touched[k])
        m.touched[k] += leaves
    while count > 0 and m.touched[0] > 1:
        kept = 0
        for k in range(count):
            node = m.touched[k] >> 1
            if kept == 0 or m.touched[kept - 1] != node:
                m.touched[kept] = node
                kept += 1
                play(m, node)
        count = kept


@kernel(types.int64(TABLES, types.int64), counted=False)
def remove(m, p):
    """Takes a tuple out of memory; returns how many leaves are noted for `replay`."""
    tuples, state = m.tuples, m.state
    run, before, after = m.runs[tuples[p, RUN]], tuples[p, BEFORE], tuples[p, AFTER]
    kind = class_of(m, p)
    run[PIECES] += (kind == 2) - (kind == 0)
    if after >= 0:
        tuples[after, JOINED] = 0
        tuples[after, BEFORE] = before
    else:
        state[TAIL] = before
    if before >= 0:
        tuples[before, AFTER] = after
    else:
        state[HEAD] = after
    if run[FIRST] == p:
        run[FIRST] = after if run[LAST] != p else -1
    if run[LAST] == p:
        run[LAST] = before if run[FIRST] >= 0 else -1
    if state[PREVIOUS] == p:
        state[PREVIOUS] = -1
    tuples[p, RUN] = GONE
    state[HELD] -= 1
    count = 0
    for one in (p, before, after, run[FIRST], run[LAST]):
        count = touch(m, count, one)
    return count


@kernel(types.void(TABLES), counted=False)
def pack(m):
    """Moves tuples and runs to the first positions and plays the whole tournament: once in as many arrivals as it takes, so O(1) each."""
    tuples, runs, state = m.tuples, m.runs, m.state
    current, used, p, run, latest = state[RUN_COUNT] - 1, 0, state[HEAD], -1, -1
    for position in range(state[USED]):
        if tuples[position, RUN] == GONE:
            continue
        p = position
        if tuples[p, RUN] != latest:
            latest = tuples[p, RUN]
            run += 1
            for k in range(RUN_WIDTH):
                runs[run, k] = runs[latest, k]
            runs[run, FIRST] = used
        runs[run, LAST] = used
        if state[PREVIOUS] == p:
            state[PREVIOUS] = used
        for k in range(TUPLE_WIDTH):
            tuples[used, k] = tuples[p, k]
        tuples[used, RUN], tuples[used, BEFORE], tuples[used, AFTER] = run, used - 1, used + 1
        used += 1
    if current >= 0 and latest != current:  # the newest run may have no tuples left, and may still be extended
        run += 1
        for k in range(RUN_WIDTH):
            runs[run, k] = runs[current, k]
    state[RUN_COUNT], state[USED], state[TAIL] = run + 1, used, used - 1
    state[HEAD] = 0 if used > 0 else -1
    if used > 0:
        tuples[used - 1, AFTER] = -1
    leaves = m.tree.shape[0] // 2
    for position in range(used, leaves):
        tuples[position, RUN] = GONE
    for position in range(leaves):
        set_leaf(m, position)
    for node in range(leaves - 1, 0, -1):
        play(m, node)


@kernel(types.int64(TABLES, ARRIVALS, types.int64), counted=False)
def insert(m, arrivals, k):
    """Takes an arrival into memory, as the newest tuple of its run; returns how many leaves are noted for `replay`."""
    tuples, state, p, number = m.tuples, m.state, m.state[USED], m.state[RUN_COUNT] - 1
    if number < 0 or arrivals.value[k] != state[VALUE] or arrivals.start[k] > m.runs[number, RUN_END] + m.rules[GAP]:
        number += 1
        state[RUN_COUNT] += 1
        state[PREVIOUS] = -1
        m.runs[number, RUN_START], m.runs[number, RUN_END] = arrivals.start[k], arrivals.end[k]
        m.runs[number, FIRST], m.runs[number, LAST], m.runs[number, PIECES] = -1, -1, 0
    run = m.runs[number]
    run[RUN_END] = max(run[RUN_END], arrivals.end[k])
    joined = state[PREVIOUS] >= 0
    tuples[p, ORDINAL], tuples[p, START], tuples[p, END] = state[SEEN], arrivals.start[k], arrivals.end[k]
    tuples[p, RUN], tuples[p, JOINED], tuples[p, BEFORE], tuples[p, AFTER] = number, joined, state[TAIL], -1
    tuples[p, LENGTH] = arrivals.end[k] - arrivals.start[k] if m.rules[INTERVAL_WEIGHT] else 0
    tuples[p, TIE] = arrivals.tie[k]
    if state[TAIL] >= 0:
        tuples[state[TAIL], AFTER] = p
    else:
        state[HEAD] = p
    if run[FIRST] < 0:
        run[FIRST] = p
    run[LAST] = p
    run[PIECES] += not joined
    count = touch(m, touch(m, touch(m, 0, run[FIRST]), state[PREVIOUS]), p)
    state[TAIL], state[PREVIOUS], state[VALUE] = p, p, arrivals.value[k]
    state[HELD] += 1
    state[USED] += 1
    return count


@kernel(types.void(TABLES, types.int64, types.int64), counted=False)
def expire(m, ordinal, time):
    """Forgets the tuples that arrived before that rank or ended by that time; what is known of their runs begins behind them."""
    while m.state[HEAD] >= 0:
        p = m.state[HEAD]
        if m.tuples[p, ORDINAL] >= ordinal and m.tuples[p, END] > time:
            break
        run, after = m.runs[m.tuples[p, RUN]], m.tuples[p, AFTER]
        next_start = m.tuples[after, START] if run[LAST] != p else run[RUN_END]
        run[RUN_START] = min(m.tuples[p, END], next_start)
        replay(m, remove(m, p))


@kernel(types.void(TABLES, ARRIVALS, types.int64[::1]), counted=False)
def arrive(m, arrivals, dropped):
    """Takes arrivals in one after the other; ``dropped[k]``: rank of the tuple that arrival ``k`` drove out, or -1."""
    for k in range(arrivals.value.shape[0]):
        if m.state[USED] == m.tuples.shape[0]:
            pack(m)
        ordinal = m.state[SEEN] + 1 - m.rules[COUNT] if m.rules[COUNT] > 0 else 0
        expire(m, ordinal, arrivals.start[k] - m.rules[SPAN] if m.rules[SPAN] > 0 else NEVER)
        replay(m, insert(m, arrivals, k))
        m.state[SEEN] += 1
        dropped[k] = -1
        if m.state[HELD] > m.rules[MEMORY]:
            p = best_of(m, 1)
            dropped[k] = m.tuples[p, ORDINAL]
            replay(m, remove(m, p))


@kernel(types.void(TABLES, types.int64, types.int64[::1]), counted=False)
def drop(m, count, dropped):
    """Drives out so many tuples one after the other; ``dropped``: their ranks."""
    for k in range(count):
        p = best_of(m, 1)
        dropped[k] = m.tuples[p, ORDINAL]
        replay(m, remove(m, p))
