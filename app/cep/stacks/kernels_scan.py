"""Sequence scan: the loop over candidate events that pushes them onto stacks and starts sequence construction.

**Source:** Wu, Diao, Rizvi: High-performance complex event processing over streams, SIGMOD 2006, section 4.2 (partitioned active instance
stacks; windows pushed down). Deviations: one scan for any sequence, the plan is data; stacks are chains of row numbers that die by the row
number of the oldest live event, so nothing is ever unlinked.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_TIME, FOREVER, NEVER, OUTSIDE
from app.cep.cells.kernels_memory import load, prefetch, store, trailing_zeros
from app.cep.cells.kernels_types import CANDIDATES, TABLE
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE, KEY, NEWEST, VACANT
from app.cep.partitions.kernels_slots import find_slot
from app.cep.stacks.arrays import (
    BARRIER,
    BARRIER_END,
    BASE,
    CHAIN,
    DONE,
    EXPIRY,
    ITEM_NEEDS,
    ITEM_PLACE,
    ITEM_STACK,
    ITEM_WILD_STACK,
    LOW,
    MATCHES,
    OCCUPIED,
    OF_ITEM,
    OPENING,
    OUTPUT_FULL,
    PENDING_FULL,
    POSITIVES,
    PUSHED,
    ROWS,
    SLOT_STACKS,
    SLOTS_FULL,
    STACKS,
    WILD_HEADS,
    WINDOW_PUSHDOWN,
    WITHIN,
)
from app.cep.stacks.kernels_construction import construct
from app.cep.stacks.kernels_types import MACHINE, MEMORY, OUTPUT, PLAN_TABLES
from app.cep.stacks.kernels_windows import await_deadline, awaited, close_window
from app.cep.windows.kernels_bounds import window_bound

PREFETCH = 12
"""How many candidates ahead a partition's slot is asked for: about the time of one trip to memory."""


@kernel(types.void(PLAN_TABLES, MEMORY, TABLE, types.int64, types.int64, types.int64), counted=False)
def keep_outside(plan, memory, fresh, i, mask, row):
    """Stores candidate ``i``, a negated event that belongs to no partition, on the stacks that all partitions see."""
    state, links, cells = memory.state, memory.links, memory.cells
    at = row - state[BASE]
    slot_stacks, stacks, chain, expiry = plan.shape[SLOT_STACKS], plan.shape[STACKS], plan.shape[CHAIN], plan.shape[EXPIRY]
    links[at, 0] = fresh[i, CELL_TIME]
    for k in range(slot_stacks):
        links[at, 1 + k] = -1
    for k in range(slot_stacks, stacks):
        links[at, 1 + k] = state[WILD_HEADS + k - slot_stacks]
    if chain >= 0:
        links[at, chain] = -1
    if expiry >= 0:
        links[at, expiry] = 0
    for item in range(len(plan.items)):
        if (mask >> item) & 1 and plan.items[item, ITEM_WILD_STACK] >= 0:
            state[WILD_HEADS + plan.items[item, ITEM_WILD_STACK] - slot_stacks] = row
            state[PUSHED] += 1
    for k in range(cells.shape[1]):
        cells[at, k] = fresh[i, k]


@kernel(
    types.UniTuple(types.int64, 2)(PLAN_TABLES, MACHINE, CANDIDATES, MEMORY, OUTPUT, types.int64, types.int64, types.int64), counted=False
)
def advance(plan, machine, candidates, memory, output, first, stop, watermark):
    """Sequence scan: candidates ``first .. stop`` enter the stacks; those of the last item start sequence construction.

    ``watermark``: while times do not fall and are not above it, rows die as time passes; NEVER: rows die between calls only.
    Returns where it stopped (an event is processed wholly or not at all) and why.
    """
    state, links, cells, slots = memory.state, memory.links, memory.cells, memory.slots
    masks, hashes, fresh = candidates.masks, candidates.hashes, candidates.cells
    items, keys, shape = plan.items, plan.keys, plan.shape
    last = shape[POSITIVES] - 1
    stacks, slot_stacks = shape[STACKS], shape[SLOT_STACKS]
    chain, expiry, within, opening = shape[CHAIN], shape[EXPIRY], shape[WITHIN], shape[OPENING]
    first_bit = np.int64(1) << plan.positives[0, OF_ITEM]
    key_count = len(keys)
    key_cell = keys[0] if key_count else np.int64(0)
    heads = KEY + key_count
    width = cells.shape[1]
    pushdown = shape[WINDOW_PUSHDOWN] == 1
    last_slot = slots.shape[0] - 1
    base, row, low = state[BASE], state[ROWS], state[LOW]
    # in order: rows die as time passes, so that "alive" and "in the window" are one comparison of row numbers
    in_order = watermark != NEVER and within >= 0
    oldest_time = load(links, low - base, 0) if low < row else np.int64(FOREVER)
    for i in range(first, stop):
        ahead = i + PREFETCH
        if ahead < stop:
            prefetch(slots, hashes[ahead] & last_slot, 0)
        mask = masks[i]
        if mask == 0:
            continue
        time = load(fresh, i, CELL_TIME)
        exact = in_order and time <= watermark
        if in_order:
            bound_time = window_bound(min(time, watermark), within)
            while oldest_time <= bound_time and low < row:
                if awaited(links, low - base, chain, expiry):
                    state[LOW] = low
                    state[ROWS] = row
                    if not close_window(plan, machine, memory, output, low - base):
                        return i, OUTPUT_FULL
                low += 1
                oldest_time = load(links, low - base, 0) if low < row else np.int64(FOREVER)
        at = row - base
        if hashes[i] == OUTSIDE:
            keep_outside(plan, memory, fresh, i, mask, row)
            if low == row:
                oldest_time = time
            row += 1
            continue
        # the partition's slot: the key's own, or where it may be entered (free, or of a partition that has died)
        slot = hashes[i] & last_slot
        vacant = np.int64(-1)
        found = False
        if key_count == 1:
            key = load(fresh, i, key_cell)
            while True:
                newest = load(slots, slot, NEWEST)
                if newest == FREE:
                    break
                if load(slots, slot, KEY) == key:
                    found = True
                    break
                if newest < low and vacant < 0:
                    vacant = slot
                slot = (slot + 1) & last_slot
        else:
            slot = find_slot(slots, keys, fresh, i, hashes[i], low)
            found = slot >= 0
            if not found:
                slot = -1 - slot
        if not found:
            if mask & opening == 0:
                continue  # nothing it could continue or prevent has begun in this partition
            if vacant >= 0:
                slot = vacant
            if load(slots, slot, NEWEST) == FREE:
                if 2 * state[OCCUPIED] >= slots.shape[0]:
                    state[LOW] = low
                    state[ROWS] = row
                    return i, SLOTS_FULL
                state[OCCUPIED] += 1
            for k in range(key_count):
                store(slots, slot, KEY + k, load(fresh, i, keys[k]))
            for k in range(slot_stacks):
                store(slots, slot, heads + k, -1)
            store(slots, slot, NEWEST, VACANT)
        # which items are worth it: the stack before them has an event in the window (and behind the newest negated one)
        useful = np.int64(0)
        completes = False
        left = mask
        while left != 0:
            item = trailing_zeros(left)
            left &= left - 1
            needed = load(items, item, ITEM_NEEDS)
            if needed >= 0:
                top = load(slots, slot, heads + needed)
                if pushdown:
                    if top < low or (not exact and load(links, top - base, 0) <= window_bound(time, within)):
                        continue
                elif top < base:
                    continue
                place = load(items, item, ITEM_PLACE)
                if place > 0:
                    barred = False
                    for k in range(load(plan.positives, place - 1, BARRIER), load(plan.positives, place - 1, BARRIER_END)):
                        stack = load(plan.barriers, k, 0)
                        newest = load(slots, slot, heads + stack) if stack < slot_stacks else state[WILD_HEADS + stack - slot_stacks]
                        barred = barred or newest > top
                    if barred:
                        continue
            if load(items, item, ITEM_STACK) >= 0:
                useful |= np.int64(1) << item
            completes = completes or load(items, item, ITEM_PLACE) == last
        if useful == 0 and not completes:
            continue
        store(links, at, 0, time)
        for k in range(slot_stacks):
            store(links, at, 1 + k, load(slots, slot, heads + k))
        for k in range(slot_stacks, stacks):
            store(links, at, 1 + k, state[WILD_HEADS + k - slot_stacks])
        if chain >= 0:
            store(links, at, chain, -1)
        if expiry >= 0:
            store(links, at, expiry, np.int64(useful & first_bit != 0))
        for k in range(width):
            store(cells, at, k, load(fresh, i, k))
        if completes:
            before = state[MATCHES]
            state[LOW] = low
            state[ROWS] = row
            if not construct(plan, machine, memory, output, at, low if pushdown else base):
                return i, OUTPUT_FULL
            if state[MATCHES] == before:
                completes = False
            elif chain >= 0 and not await_deadline(plan, memory, output, before):
                return i, PENDING_FULL
            if useful == 0 and not completes:
                continue
        while useful != 0:
            item = trailing_zeros(useful)
            useful &= useful - 1
            store(slots, slot, heads + load(items, item, ITEM_STACK), row)
            state[PUSHED] += 1
        store(slots, slot, NEWEST, row)
        if low == row:
            oldest_time = time
        row += 1
    state[LOW] = low
    state[ROWS] = row
    return stop, DONE
