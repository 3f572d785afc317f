"""The tables of the chains kernels: a plan as integers, and the memory of an engine.

A partial match is one row of ``runs`` for as long as it lives: an event that lengthens it changes the row. What predicates will ask of its
events stands in registers of the row, so meeting it reads no other table. Its events are a list of nodes, newest first, which is only
followed for matches; rows of ``cells`` number stored events in processing order.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import types

from app.cep.cells.arrays import Integers
from app.cep.cells.kernels_types import INTEGERS, TABLE

# shape[...]: numbers of the plan
WITHIN, STATES_AT, RELEVANT, LIMIT_MATCHES, LIMIT_RUNS, POLICY, LONGEST, ORDERED, BORDER_EVENT, BORDER_ITSELF = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""WITHIN: 2**63 - 1 where there is none; RELEVANT: mask of the items; POLICY: column of a run where BEST_NODE stands, -1 where every match is
reported. Else a run reports one match: its first, or (LONGEST) its last when it ends; ORDERED: it waits until all runs that began earlier have
reported, and is dropped if it began at or before the border: BORDER_EVENT of the match reported last (a Python index), or (BORDER_ITSELF 0)
just before that."""
GAP, TIMEOUTS, EXTRA, WINDOW, WINDOW_SIZE, WINDOW_SLIDE, SPREAD = 10, 11, 12, 13, 14, 15, 16
"""GAP: 2**63 - 1 where there is none; EXTRA: column of a run where LAST_TIME stands, -1 where neither gap, window nor timeouts ask for it; WINDOW:
its kind; SPREAD: in how many windows an event can lie."""
ORIGIN, ORIGIN_SLOT, RANKED, LAST_RANK, STARTS, BAR, WAITING, WAIT_MS = 17, 18, 19, 20, 21, 22, 23, 24
"""ORIGIN: column of a run where BEGUN stands, -1 where neither ranks nor a negated start ask for it; ORIGIN_SLOT: of a slot, behind its key, where P_RANK
stands; RANKED: whether the window is so many events of the partition, LAST_RANK: that number less one; STARTS: mask of the items that may not come shortly before a
match, BAR: how shortly (ms, or events); WAITING: behind so many events a match waits (0: none does), WAIT_MS: so long, -1: until its window is over."""
CLOSING, CLOSING_FROM = 25, 26
"""CLOSING: the edge of an event that ends a closure and the match with it (-1: there is none), taken behind at least CLOSING_FROM events."""
SHAPE_SIZE = 27
NO_WINDOW, TIME_WINDOW, COUNT_WINDOW = 0, 1, 2

# edges[edge, ...]: edge k binds the k-th event (from 0), the last edge all further ones
ITEM, WAY, TESTS, TESTS_END, KEEPS, KEEPS_END, ACCEPTS, FINAL, ENDING, ENDING_END = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""ACCEPTS: a match may end here, if the tests ENDING hold; FINAL: nothing can come behind."""
KILLS, KILLS_END = 10, 11
"""Negated events that may not come while the edge's event is awaited."""
EDGE_WIDTH = 12
NEXT, STRICT, PARTITION = 0, 1, 2
"""WAY: the run passes an event that it cannot take, or ends with it."""

# tests[k, ...]: candidate's cell OPERATOR what a register (-1: another cell of the candidate) holds
MODE, OPERATOR, CELL, REGISTER, OTHER_CELL = 0, 1, 2, 3, 4
TEST_WIDTH = 5
INTEGERS_BOTH, FLOATS_BOTH = 0, 3
"""MODE: bits, which side is a float (`app.cep.predicates.opcodes.LEFT_FLOAT`)."""

# kills[k, ...]: a negated item, and what a candidate for it must pass to prevent all that the run could become
KILL_ITEM, KILL_TESTS, KILL_TESTS_END = 0, 1, 2
KILL_WIDTH = 3

# keeps[k, ...]: what the event just bound leaves in the registers
KEPT_REGISTER, KEPT_CELL = 0, 1

# runs[run, ...]; registers behind
NEXT_RUN, NEWEST_NODE, FIRST_TIME, LENGTH, RANK, STATES, REGISTERS = 0, 1, 2, 3, 4, 5, 6
"""RANK: of its newest event in the stream; STATES: of the registers' cells, two bits each."""
# where only one match of a run is reported, from POLICY on:
BEST_NODE, BEST_LENGTH, FIRST_RANK = 0, 1, 2
POLICY_WIDTH = 3
"""That match (length 0: none yet); rank of the run's first event."""
# where a gap, a window or timeouts ask for it, from EXTRA on:
LAST_TIME, LAST_WINDOW, CONDITION = 0, 1, 2
EXTRA_WIDTH = 3
"""Time of its newest event; the last window that its first one lies in; MATCHED: a match ended with its newest event, DOOMED: a negated event came."""
MATCHED, DOOMED = 1, 2
# where ranks or a negated start ask for it, from ORIGIN on:
BEGUN, BARRED = 0, 1
ORIGIN_WIDTH = 2
"""Rank in the partition of the run's first event; time (with RANKED the rank) of the newest event before it that may not come shortly before a match."""
NEVER = -(2**62)
"""BARRED where there was none: time can be counted from it."""
NOBODY = 63
"""Item of an edge that no event takes: there a match waits."""

# nodes[node, ...]
PARENT, ROW, NODE_RANK = 0, 1, 2
"""NODE_RANK: rank of the event in the stream, only where matches are reported in order."""

# slots[slot, ...]: a mark (in place of `app.cep.partitions.arrays.NEWEST`), the key, then from 1 + keys on:
USED = 0
HEAD, COUNT, HELD, HELD_COUNT, HELD_LEAST, BORDER = 0, 1, 2, 3, 4, 5
"""First run of the partition, how many there are; where matches are reported in order, the first of those that wait with their match, how many
there are, the least rank at which one of them began (2**63 - 1: none waits), and the rank up to which no match may begin."""
SLOT_WIDTH, ORDERED_SLOT_WIDTH = 2, 6
P_RANK, NEWEST_BAR, P_TIME = 0, 1, 2
ORIGIN_SLOT_WIDTH = 3
"""From ORIGIN_SLOT on: how many events of the partition there were, what BARRED is in a run that begins now, and the time of the last one."""

# found[k, ...]: matches: their newest node, how many events; with EXTRA also the window, and when a partial match timed out
FOUND_NODE, FOUND_LENGTH, FOUND_WINDOW, FOUND_END = 0, 1, 2, 3
NO_END = 2**63 - 1
"""FOUND_END of a match."""

# anchors[k, ...]: events that return fields read, see `app.query.planning.chain_values.Event`
ANCHOR_NUMBER, ANCHOR_LOWEST = 0, 1
FIRST, LAST = 0, 1
"""The first two anchors."""
NO_ROW = 0
"""Row whose cells are all absent."""

SUM, AVG, MIN, MAX = 0, 1, 2, 3
"""Aggregates of return fields."""

# state[...]: counters
ROWS, NODES, RUNS, FREE, MATCHES, OCCUPIED, STREAM_RANK, LIMITED_MATCHES, LIMITED_RUNS, NEEDED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""RUNS: rows of the table in use or free; FREE: first free one (-1); NEEDED: how many nodes the next event may make."""
STATE_SIZE = 10

DONE, FULL, SLOTS_FULL = 0, 1, 2
"""Why `advance` stopped."""


class ChainTables(NamedTuple):
    """A plan; columns as named above."""

    shape: Integers
    edges: Integers
    tests: Integers
    kills: Integers
    keeps: Integers
    keys: Integers


class ChainMemory(NamedTuple):
    """What an engine remembers; columns as named above. ``found`` is the output of a feed."""

    runs: Integers
    nodes: Integers
    cells: Integers
    slots: Integers
    found: Integers
    state: Integers


TABLES = types.NamedTuple([INTEGERS, TABLE, TABLE, TABLE, TABLE, INTEGERS], ChainTables)
MEMORY = types.NamedTuple([TABLE, TABLE, TABLE, TABLE, TABLE, INTEGERS], ChainMemory)
