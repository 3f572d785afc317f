"""Compiled loops from the cells of bound events to columns."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import types

from app.cep.cells.arrays import STATES_PER_WORD
from app.cep.cells.kernels_memory import load, store
from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.kernel import kernel

GATHER_BLOCK = 1024
"""Matches gathered at once: 24 KB of rows for three items stay in the first-level cache."""


@kernel(types.int64(TABLE, TABLE, types.int64, types.int64, types.int64, INTEGERS, types.uint8[::1]))
def gather_cells(rows, cells, states_at, place, column, values, states):
    """One cell of the event at ``place`` of every match; returns the union of states (as bits 1 << state)."""
    seen = 0
    word = states_at + column // STATES_PER_WORD
    shift = 2 * (column % STATES_PER_WORD)
    for k in range(len(values)):
        row = rows[k, place]
        values[k] = cells[row, column]
        state = (cells[row, word] >> shift) & 3
        states[k] = state
        seen |= 1 << state
    return seen


@kernel(types.void(TABLE, TABLE, INTEGERS, INTEGERS, TABLE))
def gather_present(rows, cells, places, columns, values):
    """``values[f, k]`` = cell ``columns[f]`` of the event at ``places[f]`` of match ``k``, for columns whose cells are all present.

    In blocks, so that the rows of a block are read from memory once and not once per field.
    """
    count = values.shape[1]
    for begin in range(0, count, GATHER_BLOCK):
        end = min(begin + GATHER_BLOCK, count)
        for f in range(len(columns)):
            place, column = places[f], columns[f]
            for k in range(begin, end):
                store(values, f, k, load(cells, load(rows, k, place), column))
