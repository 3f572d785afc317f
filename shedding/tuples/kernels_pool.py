"""Compiled parts of reservoirs of many keys: every key has a stretch of shared tables, which the kernels of one reservoir see as their own.

A key begins with little room and gets twice as much when it needs it: tables follow the tuples that are held, not keys times memory.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel
from shedding.tuples.kernels import (
    ARRIVALS,
    HELD,
    MEMORY,
    ORDINAL,
    SEEN,
    TABLES,
    USED,
    Arrivals,
    Tables,
    best_of,
    expire,
    insert,
    pack,
    remove,
    replay,
)

Integers = NDArray[np.int64]

# blocks[key, ...]
ROW, RUN_ROW, SIZE, BLOCK_WIDTH = 0, 1, 2, 3
"""Where its rows begin in ``tuples`` (twice that in ``tree``) and in ``runs``, and how many tuples it has room for, a power of two."""

# taken[...]
ROWS, RUN_ROWS, TAKEN = 0, 1, 2
"""Rows of ``tuples`` and of ``runs`` that are given away."""


class Pool(NamedTuple):
    """Tables of all keys; see `shedding.tuples.kernels` for what is in them."""

    rules: Integers
    blocks: Integers
    taken: Integers
    state: Integers
    tuples: Integers
    runs: Integers
    tree: Integers
    touched: Integers


class Places(NamedTuple):
    """Of arrivals: their key and rank, and the least rank and the time of end that tuples in memory must lie behind when they come."""

    key: Integers
    rank: Integers
    oldest: Integers
    ended: Integers


_COLUMN, _TABLE = types.int64[::1], types.int64[:, ::1]
POOL = types.NamedTuple([_COLUMN, _TABLE, _COLUMN, _TABLE, _TABLE, _TABLE, _TABLE, _COLUMN], Pool)
PLACES = types.NamedUniTuple(_COLUMN, 4, Places)


@kernel(TABLES(POOL, types.int64))
def tables_of(pool, key):
    """The reservoir of one key, as views."""
    row, run, size = pool.blocks[key, ROW], pool.blocks[key, RUN_ROW], pool.blocks[key, SIZE]
    tuples, runs, tree = pool.tuples[row : row + size], pool.runs[run : run + size + 1], pool.tree[2 * row : 2 * (row + size)]
    return Tables(pool.rules, pool.state[key], tuples, runs, tree, pool.touched)


@kernel(types.boolean(POOL, types.int64))
def _grow(pool, key):
    """Moves a key to a block of twice the size; False: there is no room for it."""
    old, size = tables_of(pool, key), pool.blocks[key, SIZE]
    row, run = pool.taken[ROWS], pool.taken[RUN_ROWS]
    if row + 2 * size > len(pool.tuples) or run + 2 * size + 1 > len(pool.runs):
        return False
    pool.tuples[row : row + size] = old.tuples
    pool.runs[run : run + size + 1] = old.runs
    pool.taken[ROWS] += 2 * size
    pool.taken[RUN_ROWS] += 2 * size + 1
    pool.blocks[key, ROW], pool.blocks[key, RUN_ROW], pool.blocks[key, SIZE] = row, run, 2 * size
    pack(tables_of(pool, key))
    return True


@kernel(types.int64(POOL, PLACES, ARRIVALS, _COLUMN, types.int64))
def arrive_by_key(pool, places, arrivals, dropped, begin):
    """Takes arrivals in from ``begin`` on; ``dropped[k]``: rank of the tuple of its key that arrival ``k`` drove out, or -1.

    Returns how many are in; fewer than all when tables need more room.
    """
    for k in range(begin, len(places.key)):
        key = places.key[k]
        state = pool.state[key]
        if state[USED] == pool.blocks[key, SIZE]:
            if 2 * state[HELD] <= state[USED]:
                pack(tables_of(pool, key))
            elif not _grow(pool, key):
                return k
        tables = tables_of(pool, key)
        expire(tables, places.oldest[k], places.ended[k])
        state[SEEN] = places.rank[k]
        replay(tables, insert(tables, arrivals, k))
        dropped[k] = -1
        if state[HELD] > pool.rules[MEMORY]:
            p = best_of(tables, 1)
            dropped[k] = tables.tuples[p, ORDINAL]
            replay(tables, remove(tables, p))
    return len(places.key)


@kernel(types.void(POOL, types.int64, types.int64))
def pack_all(pool, oldest, ended):
    """Forgets what lies before the bounds, as the next arrival of each key will do, and moves what is left to the front."""
    for key in range(len(pool.state)):
        tables = tables_of(pool, key)
        expire(tables, oldest, ended)
        pack(tables)


__all__ = ["Arrivals", "Places", "Pool", "arrive_by_key", "pack_all"]
