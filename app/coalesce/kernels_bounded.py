"""Tuples whose interval is known: what bounded memory is told of. The last tuple of a key is still open, and not counted."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

from numba import types

from app.coalesce.arrays import ARRIVALS, COLUMN, COUNTED, DURATION, INT, NEVER, RANGE, TABLE, Integers
from app.coalesce.kernel import inlined, kernel
from app.coalesce.kernels_tuples import hash_cells, same_cells

# open[row, ...]
TIME, PASSES, ORDER, FROM, AT, STRETCH, OPEN_CELLS = 0, 1, 2, 3, 4, 5, 6
"""The last tuple of a key: its time, whether it passed ``where``, its rank in the input, its place (source, offset); how many stretches of
equal tuples went to memory (-1: none yet). From OPEN_CELLS on: its values, the values of the last tuple that went to memory, the key."""

KEY_OF, VALUE_OF, START_OF, END_OF, RANK_OF, SOURCE_OF, OFFSET_OF, OLDEST_OF, ENDED_OF, BY, FINISHED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""Columns of ``finished``; BY: the arrival that ended the tuple."""


class Open(NamedTuple):
    """The last tuples of all keys; ``places`` is a hash table of row numbers plus one; ``used``: how many rows are in use."""

    table: Integers
    places: Integers
    used: Integers


OPEN = types.NamedTuple([TABLE, COLUMN, COLUMN], Open)


@kernel(types.void(OPEN, INT))
def enter_rows(last, first):
    """Fills an empty hash table; ``first``: where the keys' cells begin."""
    mask = len(last.places) - 1
    for row in range(last.used[0]):
        place = hash_cells(last.table, row, first, 0) & mask
        while last.places[place] != 0:
            place = (place + 1) & mask
        last.places[place] = row + 1


@inlined
def _row_of(last, keys, k):
    """The row of a key, new or known."""
    mask, first = len(last.places) - 1, last.table.shape[1] - keys.shape[1]
    place = hash_cells(keys, k, 0, 0) & mask
    while last.places[place] != 0:
        if same_cells(last.table, last.places[place] - 1, first, keys, k):
            return last.places[place] - 1
        place = (place + 1) & mask
    row = last.used[0]
    last.used[0] += 1
    last.places[place] = row + 1
    last.table[row, STRETCH] = -1
    for j in range(keys.shape[1]):
        last.table[row, first + j] = keys[k, j]
    return row


@kernel(INT(COLUMN, OPEN, ARRIVALS, INT, TABLE))
def finish(rules, last, arrivals, rank, finished):
    """Lists the tuples that arrivals end, those that can still be in a window; returns how many.

    ``rank``: of the arrival before the first. There must be room for every arrival's key.
    """
    table, count, width = last.table, 0, arrivals.values.shape[1]
    for k in range(len(arrivals.time)):
        row, start = _row_of(last, arrivals.keys, k), arrivals.time[k]
        rank += 1
        oldest = rank - rules[RANGE] + 1 if rules[COUNTED] else NEVER
        ended = NEVER if rules[COUNTED] else start - rules[RANGE]
        known = table[row, ORDER] > 0
        end = start if rules[DURATION] < 0 else table[row, TIME] + rules[DURATION]
        if known and table[row, PASSES] and table[row, TIME] < start and table[row, ORDER] >= oldest and end > ended:
            same = table[row, STRETCH] >= 0
            for j in range(OPEN_CELLS, OPEN_CELLS + width):
                same = same and table[row, j] == table[row, j + width]
                table[row, j + width] = table[row, j]
            if not same:
                table[row, STRETCH] += 1
            finished[count, KEY_OF], finished[count, VALUE_OF] = row, table[row, STRETCH]
            finished[count, START_OF], finished[count, END_OF] = table[row, TIME], end
            finished[count, RANK_OF], finished[count, BY] = table[row, ORDER], k
            finished[count, SOURCE_OF], finished[count, OFFSET_OF] = table[row, FROM], table[row, AT]
            finished[count, OLDEST_OF], finished[count, ENDED_OF] = oldest, ended
            count += 1
        table[row, TIME], table[row, PASSES], table[row, ORDER] = start, arrivals.passes[k], rank
        table[row, FROM], table[row, AT] = arrivals.identity[k, 0], arrivals.identity[k, 1]
        for j in range(width):
            table[row, OPEN_CELLS + j] = arrivals.values[k, j]
            if not known:
                table[row, OPEN_CELLS + width + j] = arrivals.values[k, j]
    return count
