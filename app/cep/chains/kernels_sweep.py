"""Time passes: partial matches run out of window, and what nobody needs any more leaves the tables."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.arrays import FREE as FREE_SLOT
from app.cep.arrays import NEWEST
from app.cep.chains.arrays import (
    COUNT,
    FIRST_TIME,
    FOUND_NODE,
    FREE,
    HEAD,
    MATCHES,
    MEMORY,
    NEWEST_NODE,
    NEXT_RUN,
    NO_ROW,
    NODES,
    PARENT,
    ROW,
    ROWS,
)
from app.cep.kernel import kernel
from app.cep.kernels_machine import INTEGERS, TABLE
from app.cep.opcodes import CELL_SOURCE


@kernel(types.int64(MEMORY, types.int64, types.int64, INTEGERS, INTEGERS, types.int64, INTEGERS))
def end_runs(memory, base, within, sources, watermarks, default, marks):
    """Ends the runs whose window has closed by the watermark of their newest event's source, and those with a mark; returns how many live.

    ``base``: where the columns of a slot behind the key begin; ``marks``: by run, or empty.
    """
    runs, nodes, cells, slots, state = memory.runs, memory.nodes, memory.cells, memory.slots, memory.state
    alive = 0
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE_SLOT:
            continue
        run, before = slots[slot, base + HEAD], np.int64(-1)
        while run >= 0:
            following, node = runs[run, NEXT_RUN], runs[run, NEWEST_NODE]
            now = default
            for k in range(len(sources)):
                if sources[k] == cells[nodes[node, ROW], CELL_SOURCE]:
                    now = max(now, watermarks[k])
            if now - runs[run, FIRST_TIME] >= within or (len(marks) > 0 and marks[run] != 0):
                slots[slot, base + COUNT] -= 1
                runs[run, NEXT_RUN] = state[FREE]
                state[FREE] = run
                if before >= 0:
                    runs[before, NEXT_RUN] = following
                else:
                    slots[slot, base + HEAD] = following
            else:
                alive += 1
                before = run
            run = following
    return alive


@kernel(types.int64(MEMORY, types.int64, TABLE))
def list_runs(memory, base, listed):
    """Writes (run, slot) of every live run, partition by partition, newest first; returns how many."""
    runs, slots = memory.runs, memory.slots
    count = 0
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE_SLOT:
            continue
        run = slots[slot, base + HEAD]
        while run >= 0:
            listed[count, 0], listed[count, 1] = run, slot
            count += 1
            run = runs[run, NEXT_RUN]
    return count


@kernel(types.void(MEMORY, TABLE, TABLE, types.int64, INTEGERS, INTEGERS))
def sweep(memory, new_cells, listed, count, node_numbers, row_numbers):
    """Keeps the events of the ``count`` runs listed and of matches found: nodes move up in their table, cells to ``new_cells`` (or theirs).

    ``node_numbers``, ``row_numbers``: zeros, room for the numbers of nodes and rows.
    """
    runs, nodes, cells, found, state = memory.runs, memory.nodes, memory.cells, memory.found, memory.state
    for k in range(count + state[MATCHES]):
        node = runs[listed[k, 0], NEWEST_NODE] if k < count else found[k - count, FOUND_NODE]
        while node >= 0 and node_numbers[node] == 0:
            node_numbers[node] = 1
            row_numbers[nodes[node, ROW]] = 1
            node = nodes[node, PARENT]
    row_numbers[NO_ROW] = 1
    kept = 0
    for row in range(state[ROWS]):
        if row_numbers[row]:
            for j in range(cells.shape[1]):
                new_cells[kept, j] = cells[row, j]
            row_numbers[row] = kept
            kept += 1
    state[ROWS] = kept
    kept = 0
    for node in range(state[NODES]):
        if node_numbers[node]:
            parent = nodes[node, PARENT]
            nodes[kept, PARENT] = node_numbers[parent] if parent >= 0 else -1
            nodes[kept, ROW] = row_numbers[nodes[node, ROW]]
            node_numbers[node] = kept
            kept += 1
    state[NODES] = kept
    for k in range(count):
        runs[listed[k, 0], NEWEST_NODE] = node_numbers[runs[listed[k, 0], NEWEST_NODE]]
    for k in range(state[MATCHES]):
        found[k, FOUND_NODE] = node_numbers[found[k, FOUND_NODE]]
