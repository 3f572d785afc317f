"""The runs of a partition meet an event: each goes on along every way that it can, and passes the event where its strategies allow it."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="assignment"

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import CELL_TIME, OUTSIDE
from app.cep.cells.kernels_memory import load
from app.cep.cells.kernels_types import CANDIDATES
from app.cep.kernel import kernel
from app.cep.partitions.arrays import NEWEST
from app.cep.partitions.kernels_slots import find_slot
from app.cep.runs.arrays import (
    ALLOWED,
    ASK_UNTIL,
    ASKED_MASK,
    ASKS,
    ASKS_END,
    CONTIGUOUS,
    CROSSINGS,
    DONE,
    EDGE_ITEM,
    EDGES,
    EDGES_END,
    END_OF_TIME,
    EVENT_WINDOW,
    EXPIRED,
    FIRST_TIME,
    FLAGS,
    FOLLOWED,
    GAP,
    HASH,
    ITEM_LIST,
    ITEM_WILD,
    LAST_TIME,
    LEFT,
    LIMIT_MATCHES,
    LIMIT_RUNS,
    LISTS,
    MATCHED,
    MATCHES,
    N_PRANK,
    N_ROW,
    N_SRANK,
    NEEDED,
    NEEDS_STATES,
    NEGATED,
    NEGATED_MASK,
    NEXT_RUN,
    NO_WINDOW,
    NODES,
    NODES_FULL,
    OCCUPIED,
    OLDER,
    OPEN,
    OPENER,
    PARTITION_WINDOW,
    POSITIVE_MASK,
    RANKS,
    REACHING,
    ROWS,
    S_COUNT,
    S_HEAD,
    S_LISTS,
    S_PRANK,
    S_RANK,
    S_SEEN,
    S_TIME,
    SLOTS_FULL,
    START_STATE,
    STATE,
    STATES_MISSING,
    STOPPED,
    STREAM_RANK,
    T_ASKS,
    T_CELLS,
    T_CROSSED,
    T_EDGES,
    T_EXPIRED,
    T_FOUND,
    T_HIDDEN,
    T_ITEMS,
    T_KEYS,
    T_NEGATED,
    T_NEGATIONS,
    T_NODES,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    T_STATES,
    T_UNTILS,
    T_WAITING,
    TARGET,
    TESTS,
    TESTS_END,
    TIMEOUTS,
    UNTIL_ASKED,
    WAITS,
    WILD_HEADS,
    WILD_LISTS,
    WINDOW_BASE,
    WINDOW_FIRST_OPEN,
    WINDOW_KIND,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_bind import bind
from app.cep.runs.kernels_hiding import hides
from app.cep.runs.kernels_meet import meet, meet_stopped, stops, take
from app.cep.runs.kernels_outside import note_reaching
from app.cep.runs.kernels_predicates import tests_hold
from app.cep.runs.kernels_windows import close_windows, closed_by_rank, end_waiting, open_windows, outlived, windows_of_event
from app.cep.runs.kernels_world import WORLD, line, table


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def begin(world, slot, start, mask, row, stream_rank, partition_rank, window_high):
    """Starts the runs that an event can begin from a state. A leading closure's UNTIL is asked from the first event on."""
    states = table(world, T_STATES)
    edges = table(world, T_EDGES)
    asks = table(world, T_ASKS)
    untils = table(world, T_UNTILS)
    state = line(world, T_STATE)
    for ask in range(states[start, ASKS], states[start, ASKS_END]):
        asked = untils[asks[ask, ASK_UNTIL], UNTIL_ASKED]
        if mask >> asked & 1 and stops(world, np.int64(-1), ask, row, stream_rank, partition_rank):
            if asks[ask, STOPPED] >= 0 and asks[ask, STOPPED] != start:
                begin(world, slot, asks[ask, STOPPED], mask, row, stream_rank, partition_rank, window_high)
            return
    for edge in range(states[start, EDGES], states[start, EDGES_END]):
        item = edges[edge, EDGE_ITEM]
        if not mask >> item & 1:
            continue
        bind(world, -1, item, row, stream_rank, partition_rank, state[EVENT_WINDOW], window_high)
        opened = states[edges[edge, TARGET], OPEN]
        if tests_hold(world, edges[edge, TESTS], edges[edge, TESTS_END], state[NODES], opened):
            take(world, slot, edge, -1)


@kernel(types.void(WORLD, types.int64))
def share_matches(world, first):
    """Runs made by one event that bind the same as one that has matched have matched too: they do not time out."""
    nodes = table(world, T_NODES)
    stop = line(world, T_STATE)[NODES]
    matched = 0
    for node in range(first, stop):
        if nodes[node, FLAGS] & MATCHED:
            matched += 1
    if matched == 0:
        return
    size = 64
    while size < 4 * matched:
        size *= 2
    slots = np.full(size, -1, np.int64)
    for round_ in range(2):  # who has matched goes into a table of hashes, then all look themselves up
        for node in range(first, stop):
            if round_ == 0 and not nodes[node, FLAGS] & MATCHED:
                continue
            place = nodes[node, HASH] & (size - 1)
            while slots[place] >= 0 and nodes[slots[place], HASH] != nodes[node, HASH]:
                place = (place + 1) & (size - 1)
            if round_ == 0:
                slots[place] = node
            elif slots[place] >= 0:
                nodes[node, FLAGS] |= MATCHED


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def leave_outlived(world, slot, time, partition_rank, first_open):
    """Runs of a partition whose window is over leave before an event is met: they count for no limit, whether a sweep came before or not."""
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    base = 1 + len(line(world, T_KEYS))
    node, last = slots[slot, base + S_HEAD], np.int64(-1)
    while node >= 0:
        following = nodes[node, NEXT_RUN]
        if outlived(world, slot, node, time, partition_rank, first_open):
            slots[slot, base + S_COUNT] -= 1
            nodes[node, STATE] = LEFT - nodes[node, STATE]
            if node == slots[slot, S_SEEN]:
                slots[slot, S_SEEN] = last
            if last >= 0:
                nodes[last, NEXT_RUN] = following
            else:
                slots[slot, base + S_HEAD] = following
        else:
            last = node
        node = following


@kernel(
    types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False
)
def meet_all(world, slot, mask, row, time, stream_rank, partition_rank, window_high, fan):
    """All runs of a partition meet an event, then it starts new ones."""
    shape = line(world, T_SHAPE)
    states = table(world, T_STATES)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    state = line(world, T_STATE)
    base, low = 1 + len(keys), state[EVENT_WINDOW]
    if (slots[slot, base + S_COUNT] + 1) * fan > shape[LIMIT_RUNS]:
        leave_outlived(world, slot, time, partition_rank, low)
    node = slots[slot, base + S_HEAD]
    slots[slot, base + S_HEAD] = -1
    first, last, seen = np.int64(-1), np.int64(-1), slots[slot, S_SEEN]
    by_rank = shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW
    within = shape[WITHIN]
    timed = within >= 0 and shape[GAP] < 0 and shape[WINDOW_KIND] == NO_WINDOW and not by_rank
    before = state[NODES]
    hiding = mask != 0 and len(table(world, T_HIDDEN)) > 0
    while node >= 0:
        following = nodes[node, NEXT_RUN]
        # the usual run needs neither call: it is in its window, and nothing ends a closure of it
        alive = (timed and time - load(nodes, node, FIRST_TIME) < within) or not outlived(world, slot, node, time, partition_rank, low)
        if alive:
            if not (hiding and hides(world, node, mask, row, time, partition_rank)):
                own = load(nodes, node, STATE)
                if load(states, own, ASKS) == load(states, own, ASKS_END):
                    alive = meet_stopped(world, slot, node, mask, row, stream_rank, partition_rank)
                else:
                    alive = meet(world, slot, node, mask, row, stream_rank, partition_rank)
            if alive and by_rank:
                alive = not closed_by_rank(world, slot, node, time, partition_rank)
        if alive:
            if last >= 0:
                nodes[last, NEXT_RUN] = node
            else:
                first = node
            last = node
        else:
            slots[slot, base + S_COUNT] -= 1
            nodes[node, STATE] = LEFT - nodes[node, STATE]
            if node == seen:
                seen = last
        node = following
    slots[slot, S_SEEN] = seen
    start = shape[START_STATE]
    if mask & shape[POSITIVE_MASK] and window_high >= low:
        begin(world, slot, start, mask, row, stream_rank, partition_rank, window_high)
    if shape[TIMEOUTS]:
        share_matches(world, before)
    if by_rank:
        # new runs of a window of one event
        node = slots[slot, base + S_HEAD]
        kept = np.int64(-1)
        while node >= 0:
            following = nodes[node, NEXT_RUN]
            if closed_by_rank(world, slot, node, time, partition_rank):
                slots[slot, base + S_COUNT] -= 1
                nodes[node, STATE] = LEFT - nodes[node, STATE]
                if kept >= 0:
                    nodes[kept, NEXT_RUN] = following
                else:
                    slots[slot, base + S_HEAD] = following
            else:
                kept = node
            node = following
    if last >= 0:
        nodes[last, NEXT_RUN] = slots[slot, base + S_HEAD]
        slots[slot, base + S_HEAD] = first


@kernel(types.void(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def note_negated(world, slot, mask, row, stream_rank, partition_rank):
    """Puts an event on the lists of the negated items that it can be: its partition's, or (slot -1) those outside partitions."""
    shape = line(world, T_SHAPE)
    items = table(world, T_ITEMS)
    keys = line(world, T_KEYS)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    for item in range(len(items)):
        if not (shape[NEGATED_MASK] & mask) >> item & 1:
            continue
        top = state[NEGATED]
        negated[top, N_ROW], negated[top, N_SRANK], negated[top, N_PRANK] = row, stream_rank, partition_rank
        if slot >= 0:
            column = 1 + len(keys) + S_LISTS + items[item, ITEM_LIST]
            negated[top, OLDER] = slots[slot, column]
            slots[slot, column] = top
        else:
            head = WILD_HEADS + items[item, ITEM_WILD]
            negated[top, OLDER] = state[head]
            state[head] = top
        state[NEGATED] = top + 1


@kernel(types.boolean(WORLD, types.int64, types.int64), counted=False)
def has_room(world, slot, fan):
    """Whether the tables have room for whatever the next event of a partition can do; how much it needs stands in the state otherwise."""
    shape = line(world, T_SHAPE)
    negations = table(world, T_NEGATIONS)
    keys = line(world, T_KEYS)
    nodes_table = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    crossed = table(world, T_CROSSED)
    waiting = table(world, T_WAITING)
    state = line(world, T_STATE)
    found = table(world, T_FOUND)
    expired = table(world, T_EXPIRED)
    runs = slots[slot, 1 + len(keys) + S_COUNT] if slot >= 0 else 0
    windows = windows_of_event(shape, state, state[WINDOW_FIRST_OPEN])
    nodes = (runs + 1) * fan + 1
    # a run that has slept times out in every window that it was in, also in those that are over
    needed = nodes * windows + (runs * windows_of_event(shape, state, state[WINDOW_BASE]) if shape[TIMEOUTS] else 0)
    state[NEEDED] = needed
    return (
        state[NODES] + nodes < len(nodes_table)
        and state[CROSSINGS] + nodes * len(negations) < len(crossed)
        and state[WAITS] + nodes * windows < len(waiting)
        and state[MATCHES] + nodes * windows < len(found)
        and state[EXPIRED] + needed < len(expired)
    )


@kernel(types.UniTuple(types.int64, 2)(WORLD, CANDIDATES, types.int64, types.int64, types.int64), counted=False)
def advance(world, candidates, first, stop, fan):
    """Events ``first..stop`` of a chunk in processing order. Returns where it stopped, and why.

    The caller makes sure that rows, negated events and windows have room for the chunk.
    """
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    slots = table(world, T_SLOTS)
    state = line(world, T_STATE)
    base = 1 + len(keys)
    relevant = shape[POSITIVE_MASK] | shape[NEGATED_MASK] | shape[ASKED_MASK]
    for k in range(first, stop):
        mask, time = candidates.masks[k] & relevant, candidates.cells[k, CELL_TIME]
        opener = shape[OPENER] >= 0 and (candidates.masks[k] >> shape[OPENER]) & 1 != 0
        inside = candidates.hashes[k] != OUTSIDE and candidates.masks[k] != 0
        slot = np.int64(-1)
        if inside and (mask or shape[RANKS] == 1 or shape[CONTIGUOUS]):
            slot = find_slot(slots, keys, candidates.cells, k, candidates.hashes[k], -END_OF_TIME)
            counted = shape[WINDOW_KIND] == PARTITION_WINDOW or shape[REACHING]
            if slot < 0 and (mask & (shape[POSITIVE_MASK] | shape[NEGATED_MASK]) or counted):
                if 2 * (state[OCCUPIED] + 1) > len(slots):
                    return k, SLOTS_FULL
                slot = -1 - slot
                for j in range(len(keys)):
                    slots[slot, 1 + j] = candidates.cells[k, keys[j]]
                slots[slot, NEWEST] = 0
                slots[slot, base + S_HEAD] = -1
                slots[slot, base + S_COUNT] = slots[slot, base + S_PRANK] = 0
                slots[slot, S_SEEN] = -1
                for j in range(shape[LISTS]):
                    slots[slot, base + S_LISTS + j] = -1
                for j in range(shape[REACHING] * (1 + shape[WILD_LISTS])):
                    slots[slot, base + S_LISTS + shape[LISTS] + j] = -1
                state[OCCUPIED] += 1
        if not has_room(world, slot, fan):
            return k, NODES_FULL
        if state[NEEDS_STATES]:
            return k, STATES_MISSING
        stream_rank = state[STREAM_RANK]
        state[STREAM_RANK] += 1
        state[LAST_TIME] = max(state[LAST_TIME], time)
        if shape[CONTIGUOUS] and shape[TIMEOUTS]:
            newest = state[NODES] - 1
            while newest >= 0 and nodes[newest, S_RANK] == stream_rank - 1:
                nodes[newest, FOLLOWED] = time
                newest -= 1
        row = state[ROWS]
        if mask or opener:
            for j in range(candidates.cells.shape[1]):
                cells[row, j] = candidates.cells[k, j]
            state[ROWS] += 1
        window_high = open_windows(world, candidates.masks[k], row, time, stream_rank)
        if slot >= 0:
            partition_rank = slots[slot, base + S_PRANK]
            slots[slot, base + S_PRANK] += 1
            slots[slot, base + S_TIME] = time
            if shape[REACHING]:
                note_reaching(world, slot, stream_rank, partition_rank)
            if shape[WINDOW_KIND] == PARTITION_WINDOW:
                state[EVENT_WINDOW] = max(0, (partition_rank - shape[WINDOW_SIZE]) // shape[WINDOW_SLIDE] + 1)
                window_high = partition_rank // shape[WINDOW_SLIDE]
            if mask & shape[NEGATED_MASK]:
                note_negated(world, slot, mask, row, stream_rank, partition_rank)
            state[ALLOWED] = shape[LIMIT_MATCHES]
            if slots[slot, base + S_HEAD] >= 0 or mask & shape[POSITIVE_MASK]:
                meet_all(world, slot, mask, row, time, stream_rank, partition_rank, window_high, fan)
            if shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW:
                end_waiting(world, candidates.cells, k, time, partition_rank)
        elif not inside and mask & shape[NEGATED_MASK]:
            note_negated(world, np.int64(-1), mask, row, stream_rank, np.int64(-1))
        close_windows(world, time, stream_rank)
    if state[NEEDS_STATES]:
        return stop, STATES_MISSING
    return stop, DONE
