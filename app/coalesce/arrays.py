"""The tables that kernels share: a query as integers, arriving tuples, the state of a coalescer, and what it emits.

Three tables of int64, each appended to and swept as a whole; a row that is gone is only marked:

* ``tuples``: those that passed ``where`` and can still be in a window, in total order; chained within their run.
* ``runs``: equal tuples of one key that touch, overlap, or lie at most the gap apart: what becomes one coalesced tuple. A new equal tuple
  can only lengthen a run at its end, so a run is never split and two runs never join.
* ``keys``: with the last tuple of each, which the next one ends, or replaces where the times are equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# rules[...]: the query as numbers
DURATION, GAP, RANGE, SLIDE, COUNTED, CHANGES, TEST, LOW, HIGH, RULES = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""How long a tuple is valid (-1: until the next of its key), the greatest gap; the window, and whether it counts tuples; whether only changes
are emitted; the test of intervals with the length or the two bounds it compares with; RULES: how many there are."""
RULE_NAMES = ("duration", "gap", "range", "slide", "counted", "changes", "test", "low", "high")
NO_TEST, SHORTER, AT_MOST, LONGER, AT_LEAST, OVERLAPS, CONTAINS, DURING = 0, 1, 2, 3, 4, 5, 6, 7

# state[...]: counters
TUPLES, RUNS, KEYS, LIVE, LIVE_RUNS, RANK, ORDINAL, NEXT, LAST, FOUND, MEMBERS, EVALUATED, STATE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
"""Rows of the tables in use; tuples and runs alive; tuples seen; the last count window; the next time window's t; time of the last tuple;
emitted in this feed: coalesced tuples, merged tuples in them, and windows evaluated; STATE: how many there are."""

# tuples[row, ...]
START, END, RUN, AFTER, BEFORE, PLACE, TOUCHES, SOURCE, OFFSET, TYPE, PAST, TUPLE_WIDTH = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
"""The interval (END is OPEN for the last tuple of its key), its run (GONE: dead), neighbours in the run (-1), rank in the input, whether it
touches the tuple before it in the run; what identifies the event; where the tuple before it ended that has left the window (NEVER: none)."""

# runs[row, ...]
KEY, FIRST, NEWEST, UNTIL, UNTIL_BEFORE, SHOWN, SHOWN_START, SHOWN_END, ALIVE, VALUES = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Its key, its oldest and newest tuple in the table (-1), where it ends (also when that tuple is gone), where it ended without its newest
tuple; whether it qualified in the last window, and its interval there; from VALUES on: mask of nulls, cells of the values."""

# keys[row, ...]
SEEN, CURRENT, CURRENT_TUPLE, HELD, CELLS = 0, 1, 2, 3, 4
"""Time of its last tuple; that one's run and row (-1: it failed ``where``, or has ended; or its row is gone); how many tuples it has in the
table; from CELLS on: mask of nulls, cells of the key."""

# found[row, ...]
FOUND_TIME, FOUND_WINDOW, FOUND_START, FOUND_END, CUT_START, CUT_END, FOUND_RUN, FOUND_MEMBERS, FOUND_WIDTH = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""FOUND_MEMBERS: how many merged tuples stand in ``members`` by then."""

GONE = -1
OPEN = 1 << 62
"""END of a tuple that lasts until the next one of its key. A gap can be added without leaving 64 bit."""
NEVER = -(1 << 62)
DEAD = (1 << 63) - 1
"""In ``wakes``: the run is no more."""
BLOCK = 64
"""Runs that are passed over together while all of them sleep."""
DONE, FULL, CROWDED = 0, 1, 2
"""Answers of kernels: done; go on with more room for output; go on with more room in the tables."""


class Memory(NamedTuple):
    """The state of a coalescer; columns as named above. Hash tables hold row numbers plus one.

    ``wakes``: per run the time before which no window can tell anything new of it. Looking at every run in every window, the benchmark with
    100,000 keys was three times slower. ``blocks``: the same of every `BLOCK` runs, or earlier: of a count window over 200,000 keys of which 100
    have tuples in it, reading every run's took 20 times as long (60 ms and 3 ms for 1,000 tuples).
    """

    tuples: Integers
    runs: Integers
    wakes: Integers
    keys: Integers
    run_places: Integers
    key_places: Integers
    state: Integers
    blocks: Integers


class Output(NamedTuple):
    """What a feed found, and the tuples that were merged (rows of ``tuples``)."""

    found: Integers
    members: Integers


class Arrivals(NamedTuple):
    """Tuples of a batch in total order; ``identity``: source, offset, type; ``keys`` and ``values``: mask of nulls, cells."""

    time: Integers
    passes: Integers
    identity: Integers
    keys: Integers
    values: Integers


COLUMN, TABLE, INT = types.int64[::1], types.int64[:, ::1], types.int64
MEMORY = types.NamedTuple([TABLE, TABLE, COLUMN, TABLE, COLUMN, COLUMN, COLUMN, COLUMN], Memory)
OUTPUT = types.NamedTuple([TABLE, COLUMN], Output)
ARRIVALS = types.NamedTuple([COLUMN, COLUMN, TABLE, TABLE, TABLE], Arrivals)
