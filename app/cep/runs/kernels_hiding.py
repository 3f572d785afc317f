"""Hides events from single runs: asked where run and event meet."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE
from app.cep.cells.kernels_memory import load
from app.cep.kernel import kernel
from app.cep.runs.arrays import (
    FIRST_P_RANK,
    FIRST_ROW,
    FIRST_TIME,
    ITEM,
    ROW,
    T_CELLS,
    T_HIDDEN,
    T_ITEMS,
    T_MET,
    T_NODES,
    T_SEED,
    T_SHAPE,
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.uint64(types.uint64, types.int64), counted=False)
def stirred(h, number):
    """A hash with one more number in it."""
    h = (h ^ types.uint64(number)) * types.uint64(0x9E3779B97F4A7C15)
    h ^= h >> types.uint64(32)
    h *= types.uint64(0xD6E8FEB86659FD93)
    return h ^ (h >> types.uint64(29))


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def hides(world, node, mask, row, time, partition_rank):
    """Whether an event is hidden from a run; notes that they met. Who they are decides, so a repeated batch hides the same."""
    hidden = table(world, T_HIDDEN)
    met = table(world, T_MET)
    nodes = table(world, T_NODES)
    bins = hidden.shape[1]
    at = mask * len(table(world, T_ITEMS)) + load(nodes, node, ITEM)
    since, window = time - load(nodes, node, FIRST_TIME), line(world, T_SHAPE)[WITHIN]
    if window < 0:
        since, window = partition_rank - load(nodes, node, FIRST_P_RANK), line(world, T_SHAPE)[WITHIN_EVENTS]
    place = min(max(0, since) * bins // window, bins - 1)
    met[at, place] += 1
    limit = load(hidden, at, place)
    if limit == 0:
        return False
    cells = table(world, T_CELLS)
    h = types.uint64(line(world, T_SEED)[0])
    for one in (row, load(nodes, node, FIRST_ROW), load(nodes, node, ROW)):
        h = stirred(stirred(h, load(cells, one, CELL_SOURCE)), load(cells, one, CELL_OFFSET))
    if np.int64(h >> types.uint64(11)) >= limit:
        return False
    met[at, bins + place] += 1
    return True
