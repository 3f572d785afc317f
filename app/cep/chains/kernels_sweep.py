"""Time passes: partial matches run out of window, and what nobody needs any more leaves the tables."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_SOURCE
from app.cep.cells.kernels_types import INTEGERS, TABLE
from app.cep.chains.arrays import (
    BEST_LENGTH,
    BEST_NODE,
    COUNT,
    EXTRA,
    FOUND_NODE,
    HEAD,
    HELD,
    MATCHES,
    MEMORY,
    NEWEST_NODE,
    NEXT_RUN,
    NO_ROW,
    NODES,
    ORDERED,
    ORIGIN_SLOT,
    P_TIME,
    PARENT,
    POLICY,
    RANKED,
    ROW,
    ROWS,
    STREAM_RANK,
)
from app.cep.chains.kernels_chains import report_in_order, retire
from app.cep.chains.kernels_windows import close_by_rank, first_window, out_of_window, time_out
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE as FREE_SLOT
from app.cep.partitions.arrays import NEWEST
from app.cep.windows.kernels_bounds import watermark_of


@kernel(types.int64(INTEGERS, MEMORY, types.int64, INTEGERS, INTEGERS, types.int64, types.int64))
def end_runs(shape, memory, base, sources, watermarks, default, final):
    """Ends the runs whose window has closed by the watermark of their newest event's source, or (final) all; returns how many live.

    ``base``: where the columns of a slot behind the key begin. Where runs report when they end, or time out, the output has room for all.
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
            if len(sources) > 0:  # most have one watermark: no look at the event, which is far off
                now = watermark_of(sources, watermarks, default, cells[nodes[node, ROW], CELL_SOURCE])
            over = out_of_window(shape, runs, run, now, first_window(shape, now, state[STREAM_RANK]))
            if over:
                time_out(shape, runs, memory.found, state, run)
            elif final and shape[RANKED]:
                close_by_rank(shape, runs, memory.found, state, run, slots[slot, base + shape[ORIGIN_SLOT] + P_TIME])
            if over or final:
                slots[slot, base + COUNT] -= 1
                if before >= 0:
                    runs[before, NEXT_RUN] = following
                else:
                    slots[slot, base + HEAD] = following
                retire(shape, shape[EXTRA], runs, slots, memory.found, state, slot, base, run)
            else:
                alive += 1
                before = run
            run = following
        if shape[ORDERED] and slots[slot, base + HELD] >= 0:
            report_in_order(shape, memory, slot, base)
    return alive


@kernel(types.int64(MEMORY, types.int64, TABLE))
def list_runs(memory, head, listed):
    """Writes (run, slot) of every run on the lists that begin in a column of the slots, partition by partition; returns how many."""
    runs, slots = memory.runs, memory.slots
    count = 0
    for slot in range(len(slots)):
        if slots[slot, NEWEST] == FREE_SLOT:
            continue
        run = slots[slot, head]
        while run >= 0:
            listed[count, 0], listed[count, 1] = run, slot
            count += 1
            run = runs[run, NEXT_RUN]
    return count


@kernel(types.void(INTEGERS, MEMORY, TABLE, TABLE, INTEGERS, INTEGERS))
def sweep(shape, memory, new_cells, listed, node_numbers, row_numbers):
    """Keeps the events of the runs listed and of matches found: nodes move up in their table, cells to ``new_cells`` (or theirs).

    ``node_numbers``, ``row_numbers``: zeros, room for the numbers of nodes and rows.
    """
    runs, nodes, cells, found, state = memory.runs, memory.nodes, memory.cells, memory.found, memory.state
    count, policy = len(listed), shape[POLICY]
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
            for j in range(nodes.shape[1]):
                nodes[kept, j] = nodes[node, j]
            nodes[kept, PARENT] = node_numbers[parent] if parent >= 0 else -1
            nodes[kept, ROW] = row_numbers[nodes[kept, ROW]]
            node_numbers[node] = kept
            kept += 1
    state[NODES] = kept
    for k in range(count):
        run = listed[k, 0]
        runs[run, NEWEST_NODE] = node_numbers[runs[run, NEWEST_NODE]]
        if policy >= 0 and runs[run, policy + BEST_LENGTH] > 0:
            runs[run, policy + BEST_NODE] = node_numbers[runs[run, policy + BEST_NODE]]
    for k in range(state[MATCHES]):
        found[k, FOUND_NODE] = node_numbers[found[k, FOUND_NODE]]
