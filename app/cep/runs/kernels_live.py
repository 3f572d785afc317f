"""Looks at live runs from outside, and ends some: for shedders of partial matches."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from numba import types

from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE, NEWEST
from app.cep.runs.arrays import LEFT, NEXT_RUN, S_COUNT, S_HEAD, STATE, T_KEYS, T_NODES, T_SLOTS
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.int64(WORLD, TABLE))
def list_runs(world, listed):
    """Writes (node, slot) of every live run, partition by partition, newest first; returns how many."""
    base = 1 + len(line(world, T_KEYS))
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    count = 0
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        node = slots[slot, base + S_HEAD]
        while node >= 0:
            listed[count, 0], listed[count, 1] = node, slot
            count += 1
            node = nodes[node, NEXT_RUN]
    return count


@kernel(types.int64(WORLD, INTEGERS))
def end_runs(world, marks):
    """Ends the runs whose node is marked, as if they had never begun; matches that wait for their end stay. Returns how many."""
    base = 1 + len(line(world, T_KEYS))
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    ended = 0
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE:
            continue
        node = slots[slot, base + S_HEAD]
        before = -1
        while node >= 0:
            following = nodes[node, NEXT_RUN]
            if marks[node]:
                slots[slot, base + S_COUNT] -= 1
                nodes[node, STATE] = LEFT - nodes[node, STATE]
                ended += 1
                if before >= 0:
                    nodes[before, NEXT_RUN] = following
                else:
                    slots[slot, base + S_HEAD] = following
            else:
                before = node
            node = following
    return ended
