"""What the policies ask of runs that are alive, and of the beginnings of matches."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel
from app.cep.runs.arrays import (
    FIRST_ROW,
    HASH,
    NEXT_RUN,
    NO_WINDOW,
    PARENT,
    ROW,
    S_HEAD,
    T_KEYS,
    T_NODES,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    T_WAITING,
    W_NODE,
    W_WINDOW,
    WAITS,
    WINDOW_HIGH,
    WINDOW_KIND,
    WINDOW_LOW,
)
from app.cep.runs.kernels_time import slot_of
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.void(WORLD, INTEGERS, INTEGERS, INTEGERS, INTEGERS))
def oldest_alive(world, nodes_held, windows_held, oldest, same):
    """Per held match: first row of the oldest run (or waiting match) of its partition and window, and whether one has its own first row: a run (1), a waiting match (2)."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    base = 1 + len(keys)
    explicit = shape[WINDOW_KIND] != NO_WINDOW
    for k in range(len(nodes_held)):
        own, window = nodes[nodes_held[k], FIRST_ROW], windows_held[k]
        oldest[k], same[k] = 2**63 - 1, 0
        slot = slot_of(world, nodes[nodes_held[k], ROW])
        node = slots[slot, base + S_HEAD] if slot >= 0 else np.int64(-1)
        while node >= 0:
            if not explicit or nodes[node, WINDOW_LOW] <= window <= nodes[node, WINDOW_HIGH]:
                oldest[k] = min(oldest[k], nodes[node, FIRST_ROW])
                same[k] |= nodes[node, FIRST_ROW] == own
            node = nodes[node, NEXT_RUN]
        for w in range(state[WAITS]):
            node = waiting[w, W_NODE]
            if waiting[w, W_WINDOW] == window and slot_of(world, nodes[node, ROW]) == slot:
                oldest[k] = min(oldest[k], nodes[node, FIRST_ROW])
                same[k] |= 2 * np.int64(nodes[node, FIRST_ROW] == own)


@kernel(types.int64(WORLD, INTEGERS))
def count_beginnings(world, found):
    """How many proper beginnings matches have."""
    nodes = table(world, T_NODES)
    count = 0
    for k in range(len(found)):
        node = nodes[found[k], PARENT]
        while node >= 0:
            count += 1
            node = nodes[node, PARENT]
    return count


@kernel(types.void(WORLD, INTEGERS, INTEGERS, INTEGERS))
def list_beginnings(world, found, windows, hashes):
    """Hashes of all proper beginnings of matches, told apart by window."""
    nodes = table(world, T_NODES)
    at = 0
    for k in range(len(found)):
        node = nodes[found[k], PARENT]
        while node >= 0:
            hashes[at] = nodes[node, HASH] ^ (windows[k] * 0x9E3779B97F4A7C1)
            at += 1
            node = nodes[node, PARENT]
