"""The partial matches of a partition meet an event: one loop, no calls between kernels.

Their order, and so which of them a limit keeps, is that of `app.cep.runs.kernels_scan`: those that passed the last event, then the one that
began with it, then those that took it, the last one first.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.arrays import CELL_TIME, OUTSIDE
from app.cep.cells.kernels_memory import load, prefetch, store
from app.cep.cells.kernels_types import CANDIDATES, INTEGERS
from app.cep.chains.arrays import (
    ACCEPTS,
    BAR,
    BARRED,
    BEGUN,
    BEST_LENGTH,
    BEST_NODE,
    BORDER,
    BORDER_EVENT,
    BORDER_ITSELF,
    CLOSING,
    CLOSING_FROM,
    CONDITION,
    COUNT,
    DONE,
    DOOMED,
    ENDING,
    ENDING_END,
    EXTRA,
    FINAL,
    FIRST_RANK,
    FIRST_TIME,
    FREE,
    FULL,
    HEAD,
    HELD,
    HELD_COUNT,
    HELD_LEAST,
    ITEM,
    KEEPS,
    KEEPS_END,
    LAST_RANK,
    LAST_TIME,
    LAST_WINDOW,
    LENGTH,
    LIMIT_MATCHES,
    LIMIT_RUNS,
    LIMITED_MATCHES,
    LIMITED_RUNS,
    LONGEST,
    MATCHED,
    MATCHES,
    MEMORY,
    NEEDED,
    NEVER,
    NEWEST_BAR,
    NEWEST_NODE,
    NEXT,
    NEXT_RUN,
    NO_END,
    NODE_RANK,
    NODES,
    OCCUPIED,
    ORDERED,
    ORIGIN,
    ORIGIN_SLOT,
    P_RANK,
    P_TIME,
    PARENT,
    POLICY,
    RANK,
    RANKED,
    RELEVANT,
    ROW,
    ROWS,
    RUNS,
    SLOTS_FULL,
    SPREAD,
    STARTS,
    STATES,
    STATES_AT,
    STREAM_RANK,
    STRICT,
    TABLES,
    TESTS,
    TESTS_END,
    TIMEOUTS,
    USED,
    WAITING,
    WAY,
    WITHIN,
)
from app.cep.chains.kernels_predicates import is_killed, keep_values, tests_hold
from app.cep.chains.kernels_windows import close_by_rank, first_window, last_window, out_of_window, put_match, time_out
from app.cep.kernel import kernel
from app.cep.partitions.arrays import FREE as FREE_SLOT
from app.cep.partitions.arrays import NEWEST
from app.cep.partitions.kernels_slots import find_slot

_AHEAD = 8
"""Events between asking the memory for a partition and reading it."""


@njit(inline="always")
def retire(shape, extra, runs, slots, found, state, slot, base, run):
    """A run has ended: it reports its match if it has one to report still, or waits until it may, and is free then."""
    policy = shape[POLICY]
    has_match = policy >= 0 and load(runs, run, policy + BEST_LENGTH) > 0
    if has_match and shape[ORDERED]:
        store(runs, run, NEXT_RUN, load(slots, slot, base + HELD))
        store(slots, slot, base + HELD, run)
        slots[slot, base + HELD_COUNT] += 1
        slots[slot, base + HELD_LEAST] = min(slots[slot, base + HELD_LEAST], load(runs, run, policy + FIRST_RANK))
    else:
        if has_match:
            put_match(extra, found, state, load(runs, run, policy + BEST_NODE), load(runs, run, policy + BEST_LENGTH), 0, NO_END)
        store(runs, run, NEXT_RUN, state[FREE])
        state[FREE] = run


@njit(inline="always")
def let_go(runs, slots, state, slot, base, run, before, following):
    """Takes a run from the list of those that wait; it is free then."""
    if before >= 0:
        store(runs, before, NEXT_RUN, following)
    else:
        slots[slot, base + HELD] = following
    slots[slot, base + HELD_COUNT] -= 1
    store(runs, run, NEXT_RUN, state[FREE])
    state[FREE] = run


@kernel(types.void(INTEGERS, MEMORY, types.int64, types.int64), counted=False)
def report_in_order(shape, memory, slot, base):
    """Reports the matches that wait in a partition, in the order of their first events, as far as no live run began earlier."""
    runs, nodes, slots, state, policy = memory.runs, memory.nodes, memory.slots, memory.state, shape[POLICY]
    oldest = np.int64(2**63 - 1)
    run = slots[slot, base + HEAD]
    while run >= 0:
        oldest = min(oldest, load(runs, run, policy + FIRST_RANK))
        run = load(runs, run, NEXT_RUN)
    while slots[slot, base + HELD_LEAST] < oldest:
        # one look at all that wait: what began at or before the border goes, the one that began first is reported
        run, before, chosen, before_chosen = slots[slot, base + HELD], np.int64(-1), np.int64(-1), np.int64(-1)
        least, border = np.int64(2**63 - 1), slots[slot, base + BORDER]
        while run >= 0:
            following, began = load(runs, run, NEXT_RUN), load(runs, run, policy + FIRST_RANK)
            if began <= border:
                let_go(runs, slots, state, slot, base, run, before, following)
            else:
                if began < least:
                    least, chosen, before_chosen = began, run, before
                before = run
            run = following
        slots[slot, base + HELD_LEAST] = least
        if least < oldest:
            node, length = load(runs, chosen, policy + BEST_NODE), load(runs, chosen, policy + BEST_LENGTH)
            put_match(shape[EXTRA], memory.found, state, node, length, 0, NO_END)
            for _ in range(length - 1 - shape[BORDER_EVENT] if shape[BORDER_EVENT] >= 0 else 0):
                node = load(nodes, node, PARENT)
            slots[slot, base + BORDER] = load(nodes, node, NODE_RANK) - (1 - shape[BORDER_ITSELF])
            let_go(runs, slots, state, slot, base, chosen, before_chosen, load(runs, chosen, NEXT_RUN))


@kernel(types.int64(INTEGERS, MEMORY, types.int64, types.int64, types.int64, types.int64), counted=False)
def leave_outlived(shape, memory, slot, base, time, first_open):
    """Runs of a partition whose window is over leave before an event is met: they count for no limit, whether a sweep came before or not. Returns how many are left."""
    runs, slots, state = memory.runs, memory.slots, memory.state
    run, before, count = slots[slot, base + HEAD], np.int64(-1), slots[slot, base + COUNT]
    while run >= 0:
        following = runs[run, NEXT_RUN]
        if out_of_window(shape, runs, run, time, first_open):
            time_out(shape, runs, memory.found, state, run)
            if before >= 0:
                runs[before, NEXT_RUN] = following
            else:
                slots[slot, base + HEAD] = following
            retire(shape, shape[EXTRA], runs, slots, memory.found, state, slot, base, run)
            count -= 1
        else:
            before = run
        run = following
    return count


@njit(inline="always")
def _advance(tables, memory, candidates, first, stop, marked):
    """See `advance`. ``marked`` is a constant: without it the compiler leaves out all that a plain chain does not ask, which took 8 % of its time."""
    shape, edges, tests, keeps, keys = tables.shape, tables.edges, tables.tests, tables.keeps, tables.keys
    runs, nodes, slots, found, state = memory.runs, memory.nodes, memory.slots, memory.found, memory.state
    cells, states_at, policy, ordered = candidates.cells, shape[STATES_AT], shape[POLICY], shape[ORDERED] != 0
    base, begins, last_slot = 1 + len(keys), edges[0, ITEM], len(slots) - 1
    kills = marked and len(tables.kills) > 0
    extra, closing = (shape[EXTRA], shape[CLOSING]) if marked else (np.int64(-1), np.int64(-1))
    within, spread = shape[WITHIN], shape[SPREAD] if marked else np.int64(1)
    last_edge = len(edges) - 1 - np.int64(closing >= 0)
    origin, waiting = (shape[ORIGIN], shape[WAITING]) if marked else (np.int64(-1), np.int64(0))
    marks = base + shape[ORIGIN_SLOT]
    opens = np.int64(1) << begins | shape[STARTS]
    top, row, why = state[NODES], state[ROWS], DONE
    k = first
    while k < stop:
        time, rank = cells[k, CELL_TIME], state[STREAM_RANK]
        mask = candidates.masks[k] & shape[RELEVANT]
        slot = np.int64(-1)
        if k + _AHEAD < stop:
            prefetch(slots, candidates.hashes[k + _AHEAD] & last_slot, 0)
        if candidates.masks[k] != 0 and candidates.hashes[k] != OUTSIDE:
            slot = find_slot(slots, keys, cells, k, candidates.hashes[k], FREE_SLOT)
            if slot < 0 and mask & opens:
                if 2 * (state[OCCUPIED] + 1) > len(slots):
                    why = SLOTS_FULL
                    break
                slot = -1 - slot
                slots[slot, NEWEST] = USED
                for j in range(len(keys)):
                    slots[slot, 1 + j] = cells[k, keys[j]]
                slots[slot, base + HEAD], slots[slot, base + COUNT] = -1, 0
                if ordered:
                    slots[slot, base + HELD], slots[slot, base + HELD_COUNT], slots[slot, base + BORDER] = -1, 0, -1
                    slots[slot, base + HELD_LEAST] = 2**63 - 1
                if origin >= 0:
                    slots[slot, marks + P_RANK], slots[slot, marks + NEWEST_BAR] = 0, NEVER
                state[OCCUPIED] += 1
        if slot < 0:
            state[STREAM_RANK] += 1
            k += 1
            continue
        count = load(slots, slot, base + COUNT)
        most = count + 1 + (load(slots, slot, base + HELD_COUNT) if ordered else 0)
        if top + most > len(nodes) or state[MATCHES] + most * spread > len(found) or (state[FREE] < 0 and state[RUNS] == len(runs)):
            state[NEEDED] = most * spread
            why = FULL
            break
        before, allowed = top, shape[LIMIT_MATCHES]
        first_open, last_open = np.int64(0), np.int64(0)
        if marked:
            first_open, last_open = first_window(shape, time, rank), last_window(shape, time, rank)
        ended = False
        if count >= shape[LIMIT_RUNS]:
            count = leave_outlived(shape, memory, slot, base, time, first_open)
            ended = True
        run, fresh = load(slots, slot, base + HEAD), mask >> begins & 1 != 0
        head, kept, last_kept = np.int64(-1), np.int64(-1), np.int64(-1)
        begun = load(slots, slot, marks + P_RANK) if origin >= 0 else np.int64(0)
        here = begun if shape[RANKED] else time
        while run >= 0 or fresh:
            if run < 0:
                # the run that the event begins meets it last, without an event yet
                fresh = False
                run = state[FREE]
                if run >= 0:
                    state[FREE] = load(runs, run, NEXT_RUN)
                else:
                    run = state[RUNS]
                    state[RUNS] += 1
                store(runs, run, NEXT_RUN, np.int64(-1))
                store(runs, run, NEWEST_NODE, np.int64(-1))
                store(runs, run, FIRST_TIME, time)
                store(runs, run, LENGTH, np.int64(0))
                store(runs, run, STATES, np.int64(0))
                if policy >= 0:
                    store(runs, run, policy + BEST_LENGTH, np.int64(0))
                    store(runs, run, policy + FIRST_RANK, rank)
                if extra >= 0:
                    store(runs, run, extra + LAST_TIME, time)
                    store(runs, run, extra + LAST_WINDOW, last_open)
                    store(runs, run, extra + CONDITION, np.int64(0))
                if origin >= 0:
                    store(runs, run, origin + BEGUN, begun)
                    store(runs, run, origin + BARRED, load(slots, slot, marks + NEWEST_BAR))
                count += 1
            following, length = load(runs, run, NEXT_RUN), load(runs, run, LENGTH)
            edge = min(length, last_edge)
            if closing >= 0 and length >= shape[CLOSING_FROM] and mask >> load(edges, closing, ITEM) & 1:
                edge = closing
            way = load(edges, edge, WAY)
            takes = False
            if marked:
                ends = out_of_window(shape, runs, run, time, first_open)
                if ends:
                    time_out(shape, runs, found, state, run)
            else:
                ends = time - load(runs, run, FIRST_TIME) >= within
            if not ends and mask >> load(edges, edge, ITEM) & 1 and (way != STRICT or load(runs, run, RANK) + 1 == rank):
                takes = tests_hold(tests, load(edges, edge, TESTS), load(edges, edge, TESTS_END), cells, k, states_at, runs, run)
            if takes and extra >= 0 and load(runs, run, extra + CONDITION) & DOOMED:
                takes, ends = False, True
            elif kills and not takes and not ends and is_killed(tables, edge, mask, cells, k, runs, run):
                # where it may time out it lives on: what it awaits has not come
                if shape[TIMEOUTS]:
                    store(runs, run, extra + CONDITION, load(runs, run, extra + CONDITION) | DOOMED)
                else:
                    ends = True
            if takes:
                matched = False
                store(nodes, top, PARENT, load(runs, run, NEWEST_NODE))
                store(nodes, top, ROW, row)
                if ordered:
                    store(nodes, top, NODE_RANK, rank)
                ends = load(edges, edge, FINAL) != 0
                if not ends and count - np.int64(length == 0) >= shape[LIMIT_RUNS]:
                    state[LIMITED_RUNS] += 1
                    ends = True
                if load(edges, edge, ACCEPTS) and tests_hold(
                    tests, load(edges, edge, ENDING), load(edges, edge, ENDING_END), cells, k, states_at, runs, run
                ):
                    matched = True
                    last_told = load(runs, run, extra + LAST_WINDOW) if extra >= 0 else first_open
                    if origin >= 0 and here - load(runs, run, origin + BARRED) < shape[BAR]:
                        last_told = first_open - 1
                        ends |= waiting != 0
                    for window in range(first_open, 1 + last_told):
                        if allowed == 0:
                            state[LIMITED_MATCHES] += 1
                            ends |= waiting != 0
                        elif waiting:
                            allowed -= 1
                        elif policy < 0:
                            allowed -= 1
                            put_match(extra, found, state, top, length + 1, window, NO_END)
                        else:
                            allowed -= 1
                            store(runs, run, policy + BEST_NODE, top)
                            store(runs, run, policy + BEST_LENGTH, length + 1)
                            ends |= shape[LONGEST] == 0
                store(runs, run, NEWEST_NODE, top)
                store(runs, run, LENGTH, length + 1)
                store(runs, run, RANK, rank)
                if extra >= 0:
                    store(runs, run, extra + LAST_TIME, time)
                    store(runs, run, extra + CONDITION, np.int64(matched) * MATCHED)
                keep_values(keeps, load(edges, edge, KEEPS), load(edges, edge, KEEPS_END), cells, k, states_at, runs, run)
                top += 1
            elif way != NEXT:
                ends = True
            if origin >= 0 and shape[RANKED] and not ends and begun - load(runs, run, origin + BEGUN) >= shape[LAST_RANK]:
                close_by_rank(shape, runs, found, state, run, time)
                ends = True
            if ends:
                retire(shape, extra, runs, slots, found, state, slot, base, run)
                ended = True
                count -= 1
            elif takes:
                store(runs, run, NEXT_RUN, head)
                head = run
            else:
                if last_kept >= 0:
                    store(runs, last_kept, NEXT_RUN, run)
                else:
                    kept = run
                last_kept = run
            run = following
        if last_kept >= 0:
            store(runs, last_kept, NEXT_RUN, head)
            head = kept
        store(slots, slot, base + HEAD, head)
        store(slots, slot, base + COUNT, count)
        if origin >= 0:
            store(slots, slot, marks + P_RANK, begun + 1)
            store(slots, slot, marks + P_TIME, time)
            if mask & shape[STARTS]:
                store(slots, slot, marks + NEWEST_BAR, here)
        if ordered and ended:
            report_in_order(shape, memory, slot, base)
        if top > before:
            # somebody bound the event
            for j in range(cells.shape[1]):
                store(memory.cells, row, j, load(cells, k, j))
            row += 1
        state[STREAM_RANK] += 1
        k += 1
    state[NODES], state[ROWS] = top, row
    return k, why


@kernel(types.UniTuple(types.int64, 2)(TABLES, MEMORY, CANDIDATES, types.int64, types.int64), counted=False)
def advance(tables, memory, candidates, first, stop):
    """Events ``first..stop`` of a chunk in processing order; returns where it stopped, and why. There is room for the rows of a chunk."""
    return _advance(tables, memory, candidates, first, stop, True)


@kernel(types.UniTuple(types.int64, 2)(TABLES, MEMORY, CANDIDATES, types.int64, types.int64), counted=False)
def advance_plain(tables, memory, candidates, first, stop):
    """The same for a chain without gap, windows, timeouts, negations, ranks, and without an item behind a closure."""
    return _advance(tables, memory, candidates, first, stop, False)
