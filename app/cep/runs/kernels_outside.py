"""Negated events outside partitions that a start asks for by their rank in a partition: how many of its events came before them.

Of those that agree with a partition, only the newest one before a match decides: it lies nearer to the match's last event than all others. So a partition
keeps how many of its events came before that one, and of the events themselves the newest of every key that they have is kept: partitions that are still to
come begin behind it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel
from app.cep.partitions.arrays import KEY
from app.cep.predicates.kernels_values import cell_state
from app.cep.runs.arrays import (
    ITEM_WILD,
    LISTS,
    N_ROW,
    N_SRANK,
    NEGATED,
    OLDER,
    PART_ITEM,
    PARTS,
    REACHED,
    S_LISTS,
    STATES_AT,
    T_CELLS,
    T_ITEMS,
    T_KEYS,
    T_NEGATED,
    T_NEGATIONS,
    T_PARTS,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    WILD_HEADS,
    WILD_LISTS,
)
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.int64(WORLD, types.int64, types.int64), counted=False)
def newest_agreeing(world, slot, number):
    """The newest entry of a list of events outside partitions that agrees with a partition's key, or -1."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    entry = line(world, T_STATE)[WILD_HEADS + number]
    while entry >= 0:
        row, agrees = negated[entry, N_ROW], True
        for k in range(len(keys)):
            if cells[row, keys[k]] != slots[slot, KEY + k] and cell_state(cells, row, keys[k], shape[STATES_AT]) == 0:
                agrees = False
        if agrees:
            return entry
        entry = negated[entry, OLDER]
    return np.int64(-1)


@kernel(types.void(WORLD, types.int64, types.int64, types.int64), counted=False)
def note_reaching(world, slot, stream_rank, partition_rank):
    """An event of a partition: what came outside partitions since the last one has as rank the number of events before it, which is this one's."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    seen = 1 + len(keys) + S_LISTS + shape[LISTS]
    for number in range(shape[WILD_LISTS]):
        entry = newest_agreeing(world, slot, number)
        if entry >= 0 and negated[entry, N_SRANK] > slots[slot, seen]:
            slots[slot, seen + 1 + number] = partition_rank
    slots[slot, seen] = stream_rank


@kernel(types.int64(WORLD, types.int64, types.int64), counted=False)
def reached(world, slot, negation):
    """What a crossing keeps in place of the node before it (C_LOWER), for a match that begins with the partition's last event."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    negations = table(world, T_NEGATIONS)
    parts = table(world, T_PARTS)
    keys = line(world, T_KEYS)
    slots = table(world, T_SLOTS)
    number = items[parts[negations[negation, PARTS], PART_ITEM], ITEM_WILD]
    rank = slots[slot, 1 + len(keys) + S_LISTS + shape[LISTS] + 1 + number] if number >= 0 else np.int64(-1)
    return REACHED - rank if rank >= 0 else np.int64(-1)


@kernel(types.boolean(WORLD, types.int64), counted=False)
def counted_since(world, slot):
    """Whether a partition had an event since the newest one outside partitions that agrees with it: forgotten, it would seem to have had none."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    seen = 1 + len(keys) + S_LISTS + shape[LISTS]
    for number in range(shape[WILD_LISTS]):
        entry = newest_agreeing(world, slot, number)
        if entry >= 0 and negated[entry, N_SRANK] <= slots[slot, seen]:
            return True
    return False


@kernel(types.void(WORLD, INTEGERS, INTEGERS))
def mark_newest(world, row_marks, negated_marks):
    """Marks the newest event outside partitions of every key, list by list."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    cells = table(world, T_CELLS)
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    size, states_at = 64, shape[STATES_AT]
    while size < 2 * state[NEGATED]:
        size *= 2
    for number in range(shape[WILD_LISTS]):
        newest = np.full(size, -1, np.int64)
        entry = state[WILD_HEADS + number]
        while entry >= 0:
            row = negated[entry, N_ROW]
            mixed = types.uint64(0)
            for k in range(len(keys)):
                present = cell_state(cells, row, keys[k], states_at) == 0
                mixed = (mixed ^ types.uint64(cells[row, keys[k]] if present else k)) * types.uint64(0x9E3779B97F4A7C15)
                mixed ^= mixed >> types.uint64(32)
            place = np.int64(mixed & types.uint64(size - 1))
            while newest[place] >= 0:
                other, same = newest[place], True
                for k in range(len(keys)):
                    own, theirs = cell_state(cells, row, keys[k], states_at), cell_state(cells, other, keys[k], states_at)
                    same &= own == theirs and (own != 0 or cells[row, keys[k]] == cells[other, keys[k]])
                if same:
                    break
                place = (place + 1) & (size - 1)
            if newest[place] < 0:
                newest[place] = row
                negated_marks[entry] = 1
                row_marks[row] = 1
            entry = negated[entry, OLDER]
