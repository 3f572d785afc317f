"""Compiled loops between columns and cells: taking candidates up, their partition keys."""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0124  NaN is what differs from itself
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME, OUTSIDE, STATES_PER_WORD
from app.cep.cells.kernels_types import INTEGERS, PROGRAMS, SCRATCH, TABLE, TEXTS
from app.cep.kernel import kernel
from app.cep.predicates.kernels_machine import run_program
from app.cep.predicates.kernels_values import cell_state
from app.cep.predicates.opcodes import ABSENT, NULL

_INTEGERS_IN = types.Array(types.int64, 1, "C", readonly=True)
_STATES_IN = types.Array(types.uint8, 1, "C", readonly=True)
_STATE_NULL, _STATE_ABSENT = NULL - 1, ABSENT - 1


@kernel(types.int64(_INTEGERS_IN, types.int64, types.int64))
def count_candidates(items, wanted, start):
    """How many events from ``start`` on can be an item of the plan."""
    count = 0
    for mask in items[start:]:
        count += mask & wanted != 0
    return count


@kernel(types.UniTuple(types.int64, 2)(_INTEGERS_IN, types.int64, types.int64, INTEGERS, INTEGERS))
def pick_candidates(items, wanted, start, rows, masks):
    """The next candidates from event ``start`` on, until ``rows`` is full; returns how many, and the event to go on with."""
    count = 0
    row = start
    room = len(rows) - 1
    while row < len(items) and count < room:
        # no branch: with 15 % candidates a mispredicted one per candidate costs more than the write
        mask = items[row] & wanted
        rows[count] = row
        masks[count] = mask
        count += mask != 0
        row += 1
    return count, row


@kernel(types.void(_INTEGERS_IN, _INTEGERS_IN, _INTEGERS_IN, INTEGERS, TABLE, types.int64))
def take_identity(time, source, offset, rows, cells, states_at):
    """Time, source and offset of the candidates; all cells count as present."""
    for k in range(len(rows)):
        row = rows[k]
        cells[k, CELL_TIME] = time[row]
        cells[k, CELL_SOURCE] = source[row]
        cells[k, CELL_OFFSET] = offset[row]
        for word in range(states_at, cells.shape[1]):
            cells[k, word] = 0


@kernel(types.void(_INTEGERS_IN, INTEGERS, TABLE, types.int64))
def take_values(values, rows, cells, column):
    """Integers, or floats as their bits."""
    for k in range(len(rows)):
        cells[k, column] = values[rows[k]]


@kernel(types.void(_STATES_IN, INTEGERS, TABLE, types.int64, types.int64))
def take_states(states, rows, cells, column, states_at):
    """States of a column that are not all present."""
    word = states_at + column // STATES_PER_WORD
    shift = 2 * (column % STATES_PER_WORD)
    for k in range(len(rows)):
        cells[k, word] |= np.int64(states[rows[k]]) << shift


@kernel(types.void(INTEGERS, types.uint8[::1], TABLE, types.int64, types.int64))
def put_cells(values, states, cells, column, states_at):
    """Computed values and states, one per candidate."""
    word = states_at + column // STATES_PER_WORD
    shift = 2 * (column % STATES_PER_WORD)
    for k in range(len(values)):
        cells[k, column] = values[k]
        cells[k, word] |= np.int64(states[k]) << shift


@kernel(types.void(TABLE, types.int64, types.int64, types.int64))
def normalise_float_key(cells, count, column, states_at):
    """One bit pattern per equal value: -0.0 becomes 0.0; NaN equals nothing, so it counts as null."""
    floats = cells.view(np.float64)
    word = states_at + column // STATES_PER_WORD
    shift = 2 * (column % STATES_PER_WORD)
    for k in range(count):
        number = floats[k, column]
        if number == 0.0:
            cells[k, column] = 0
        elif number != number and cell_state(cells, k, column, states_at) == 0:
            cells[k, word] |= np.int64(_STATE_NULL) << shift


@kernel(types.void(INTEGERS, INTEGERS, TABLE, types.int64, INTEGERS, INTEGERS, types.int64))
def key_candidates(keys, agreeing, cells, states_at, masks, hashes, outside_mask):
    """Hashes of the partition keys. A null key: no candidate of anything; an absent one: only of negated items, outside partitions."""
    for k in range(len(masks)):
        outside = False
        for j in range(len(agreeing)):
            state = cell_state(cells, k, agreeing[j], states_at)
            if state == _STATE_NULL:
                masks[k] = 0
            outside |= state == _STATE_ABSENT
        if outside:
            masks[k] &= outside_mask
            hashes[k] = OUTSIDE
            continue
        h = types.uint64(0)
        for j in range(len(keys)):
            h = (h ^ types.uint64(cells[k, keys[j]])) * types.uint64(0x9E3779B97F4A7C15)
            h ^= h >> types.uint64(32)
            h *= types.uint64(0xD6E8FEB86659FD93)
            h ^= h >> types.uint64(29)
        hashes[k] = np.int64(h & types.uint64(0x7FFFFFFFFFFFFFFF))


@kernel(types.void(PROGRAMS, types.int64, types.int64, types.int64, TABLE, types.int64, INTEGERS, TEXTS, SCRATCH, INTEGERS))
def filter_candidates(programs, start, stop, item, cells, states_at, bound, texts, scratch, masks):
    """Takes the item's bit from candidates that do not satisfy one of its conditions."""
    bit = np.int64(1) << item
    for k in range(len(masks)):
        if masks[k] & bit:
            bound[item] = k
            if not run_program(programs, start, stop, cells, states_at, bound, texts, scratch):
                masks[k] &= ~bit
