"""The compiled heart: sequence scan over partitioned active instance stacks, sequence construction, negation, waiting matches.

**Source:** Wu, Diao, Rizvi: High-performance complex event processing over streams, SIGMOD 2006, sections 4.1 (active instance stacks) and
4.2 (partitioned stacks, windows and predicates pushed down). Deviations: negations that need no predicate are bars inside construction
instead of a filter behind it; stacks are chains of row numbers that die by the row number of the oldest live event.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0124  NaN is what differs from itself
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.arrays import (
    BARRIER,
    BARRIER_END,
    BASE,
    CANDIDATES,
    CHAIN,
    CHECK,
    CHECK_END,
    CHECK_ITEM,
    CHECK_KIND,
    CHECK_PLACE,
    CHECK_RESIDUAL,
    CHECK_STACK,
    CHECK_START,
    CHECK_TEST,
    CHECK_TEST_END,
    CODE,
    CODE_END,
    CONSTANT,
    DONE,
    END_BARRIERS,
    END_BARRIERS_END,
    END_CHECKS,
    END_CHECKS_END,
    FOREVER,
    FREE,
    ITEM_NEEDS,
    ITEM_PLACE,
    ITEM_STACK,
    ITEM_WILD_STACK,
    KEY,
    LEFT_CELL,
    LEFT_ITEM,
    LOW,
    MACHINE,
    MATCHES,
    MEMORY,
    MODE,
    MODE_DIFFERENCE,
    MODE_FLOATS,
    MODE_PROGRAM,
    NEVER,
    NEWEST,
    OCCUPIED,
    OF_ITEM,
    OPENING,
    OPERATOR,
    OUTPUT,
    OUTPUT_FULL,
    OUTSIDE,
    PENDING_FREE,
    PENDING_FULL,
    PENDING_LIVE,
    PENDING_TOP,
    PLAN_TABLES,
    POSITIVES,
    PUSHED,
    RESIDUAL,
    RIGHT_CELL,
    RIGHT_ITEM,
    ROWS,
    SLOT_STACKS,
    SLOTS_FULL,
    STACK,
    STACKS,
    START_BARRIERS,
    START_BARRIERS_END,
    STATES_AT,
    TEST,
    TEST_END,
    VACANT,
    WILD_HEADS,
    WINDOW_PUSHDOWN,
    WITHIN,
)
from app.cep.kernels_machine import INTEGERS, TABLE, cell_state, evaluate, run_program
from app.cep.kernels_memory import as_float, load, prefetch, store, trailing_zeros
from app.cep.opcodes import CELL_SOURCE, CELL_TIME, STATES_PER_WORD

PREFETCH = 12
"""How many candidates ahead a partition's slot is asked for: about the time of one trip to memory."""
OUTCOMES = 0x643152
"""Per operator (= != < <= > >=) four bits: holds for less, equal, greater, not comparable."""


@njit(types.int64(types.int64, types.int64), cache=True, nogil=True)
def window_bound(time, within):
    """Events at or before this time are out of the window that ends with an event at ``time``; far-off times do not wrap."""
    if within < 0 or time < NEVER + within:
        return NEVER
    return time - within


@njit(types.int64(types.int64, types.int64), cache=True, nogil=True)
def deadline_of(time, within):
    """When the window that begins with an event at ``time`` is over."""
    return FOREVER if time > FOREVER - within else time + within


@njit(types.int64(INTEGERS, TABLE, types.int64), cache=True, nogil=True)
def hash_key(keys, cells, row):
    """A hash of the key cells, not negative; only spreads over the slots."""
    h = types.uint64(0)
    for k in range(len(keys)):
        h = (h ^ types.uint64(cells[row, keys[k]])) * types.uint64(0x9E3779B97F4A7C15)
        h ^= h >> types.uint64(32)
        h *= types.uint64(0xD6E8FEB86659FD93)
        h ^= h >> types.uint64(29)
    return np.int64(h & types.uint64(0x7FFFFFFFFFFFFFFF))


@njit(types.int64(TABLE, INTEGERS, TABLE, types.int64, types.int64, types.int64), cache=True, nogil=True)
def find_slot(slots, keys, cells, row, key_hash, low):
    """The slot of a key, or ``-1 - slot`` of where it may be entered: a free slot, or one whose partition has died."""
    last = slots.shape[0] - 1
    slot = key_hash & last
    dead = -1
    while True:
        newest = slots[slot, NEWEST]
        if newest == FREE:
            return -1 - (slot if dead < 0 else dead)
        same = True
        for k in range(len(keys)):
            if slots[slot, KEY + k] != cells[row, keys[k]]:
                same = False
                break
        if same:
            return slot
        if newest < low and dead < 0:
            dead = slot
        slot = (slot + 1) & last


@njit(inline="always")
def plainly(table, which, states_at, cells, bound):
    """A predicate of the plain modes: 1 it holds, 0 it does not, 2 only the machine can tell.

    Inlined where pairs of events are tried: a call with all tables as arguments cost 200 ns, this costs about 3.
    """
    mode = load(table, which, MODE)
    verdict = np.int64(2)
    if mode != MODE_PROGRAM:
        left, right = bound[load(table, which, LEFT_ITEM)], bound[load(table, which, RIGHT_ITEM)]
        left_cell, right_cell = load(table, which, LEFT_CELL), load(table, which, RIGHT_CELL)
        states = load(cells, left, states_at + left_cell // STATES_PER_WORD) >> (2 * (left_cell % STATES_PER_WORD))
        states |= load(cells, right, states_at + right_cell // STATES_PER_WORD) >> (2 * (right_cell % STATES_PER_WORD))
        if states & 3 == 0:
            operator = load(table, which, OPERATOR)
            a, b = load(cells, left, left_cell), load(cells, right, right_cell)
            order = 0
            if mode == MODE_FLOATS:
                x, y = as_float(a), as_float(b)
                order = (x > y) - (x < y) if x == x and y == y else 2
            elif mode == MODE_DIFFERENCE:
                difference = a - b
                limit = load(table, which, CONSTANT)
                order = (difference > limit) - (difference < limit) if ((a ^ b) & (a ^ difference)) >= 0 else 3
            else:
                order = (a > b) - (a < b)
            if order != 3:
                # bit order + 1 of the operators = != < <= > >= (2: not comparable, none holds)
                verdict = (OUTCOMES >> (4 * operator + order + 1)) & 1
    return verdict


@njit(types.boolean(PLAN_TABLES, types.int64, MACHINE, TABLE), cache=True, nogil=True)
def predicate_holds(plan, which, machine, cells):
    """One join predicate for the events bound so far."""
    verdict = plainly(plan.predicates, which, plan.shape[STATES_AT], cells, machine.bound)
    if verdict != 2:
        return verdict == 1
    start, stop = plan.predicates[which, CODE], plan.predicates[which, CODE_END]
    return evaluate(machine.programs, start, stop, cells, plan.shape[STATES_AT], machine.bound, machine.texts, machine.scratch)


@njit(types.boolean(PLAN_TABLES, TABLE, types.int64, types.int64), cache=True, nogil=True)
def keys_agree(plan, cells, row, other):
    """Whether two events have equal equivalence attributes, as far as both have them."""
    states_at = plan.shape[STATES_AT]
    for k in range(len(plan.agreeing)):
        cell = plan.agreeing[k]
        if cells[row, cell] != cells[other, cell]:
            if cell_state(cells, row, cell, states_at) == 0 and cell_state(cells, other, cell, states_at) == 0:
                return False
    return True


@njit(types.boolean(PLAN_TABLES, MACHINE, MEMORY, types.int64, types.int64, types.int64, types.int64, types.int64), cache=True, nogil=True)
def negated_event_exists(plan, machine, memory, check, newest, after, earliest, before):
    """Whether an event on the chain from ``newest``, in rows > ``after``, with ``earliest < time < before``, satisfies the check's predicates."""
    links, cells, checks, predicates = memory.links, memory.cells, plan.checks, plan.predicates
    base, states_at = memory.state[BASE], plan.shape[STATES_AT]
    stack, item = 1 + checks[check, CHECK_STACK], checks[check, CHECK_ITEM]
    residual = checks[check, CHECK_RESIDUAL] != 0
    first_test, last_test = checks[check, CHECK_TEST], checks[check, CHECK_TEST_END]
    bound = machine.bound
    anchor = bound[plan.positives[plan.shape[POSITIVES] - 1, OF_ITEM]]
    row = newest
    while row > after and row >= base:
        place = row - base
        time = load(links, place, 0)
        if time <= earliest:
            return False
        row = load(links, place, stack)
        if time >= before or (residual and not keys_agree(plan, cells, place, anchor)):
            continue
        bound[item] = place
        holds = np.int64(1)
        for which in range(first_test, last_test):
            holds = plainly(predicates, which, states_at, cells, bound)
            if holds == 2:
                begin, end = load(predicates, which, CODE), load(predicates, which, CODE_END)
                holds = np.int64(run_program(machine.programs, begin, end, cells, states_at, bound, machine.texts, machine.scratch))
            if holds == 0:
                break
        if holds == 1:
            return True
    return False


@njit(types.boolean(PLAN_TABLES, MACHINE, MEMORY, types.int64, types.int64), cache=True, nogil=True)
def unprevented(plan, machine, memory, place, bound_time):
    """Whether no negated event prevents the events bound at ``place`` and behind it, as far as that is decided once ``place`` is bound."""
    positives = plan.positives
    base = memory.state[BASE]
    for check in range(positives[place, CHECK], positives[place, CHECK_END]):
        stack = 1 + plan.checks[check, CHECK_STACK]
        if plan.checks[check, CHECK_KIND] == CHECK_START:
            first = machine.bound[positives[0, OF_ITEM]]
            if negated_event_exists(plan, machine, memory, check, memory.links[first, stack], np.int64(-1), bound_time, FOREVER):
                return False
        else:
            left = plan.checks[check, CHECK_PLACE]
            after = machine.bound[positives[left, OF_ITEM]] + base
            right = machine.bound[positives[left + 1, OF_ITEM]]
            if negated_event_exists(plan, machine, memory, check, memory.links[right, stack], after, np.int64(NEVER), FOREVER):
                return False
    return True


@njit(types.boolean(PLAN_TABLES, MEMORY, types.int64, types.int64), cache=True, nogil=True)
def start_is_barred(plan, memory, first, bound_time):
    """Whether a negated start without predicates stands before ``first`` inside the window."""
    base = memory.state[BASE]
    for k in range(plan.shape[START_BARRIERS], plan.shape[START_BARRIERS_END]):
        row = memory.links[first, 1 + plan.barriers[k, 0]]
        if row >= base and memory.links[row - base, 0] > bound_time:
            return True
    return False


@njit(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64, types.int64), cache=True, nogil=True)
def construct(plan, machine, memory, output, newest, oldest):
    """Sequence construction: all matches whose last event is at ``newest``, appended to the output. False: no room, nothing appended.

    ``oldest`` is the lowest row that can be in the window.
    """
    links, cells, state = memory.links, memory.cells, memory.state
    positives, barriers, predicates, shape = plan.positives, plan.barriers, plan.predicates, plan.shape
    base, states_at = state[BASE], shape[STATES_AT]
    last = shape[POSITIVES] - 1
    time = load(links, newest, 0)
    window = window_bound(time, shape[WITHIN])
    bound_time = window if shape[WINDOW_PUSHDOWN] else np.int64(NEVER)
    bound, cursor, floor, chosen = machine.bound, machine.cursor, machine.floor, machine.chosen
    rows, times, capacity = output.rows, output.time, len(output.time)
    count = state[MATCHES]
    bound[positives[last, OF_ITEM]] = newest
    chosen[last] = newest
    if last == 0:
        constant = True  # only a predicate that mentions no event at all is decided here
        for which in range(positives[0, TEST], positives[0, TEST_END]):
            constant = constant and predicate_holds(plan, which, machine, cells)
        if constant and unprevented(plan, machine, memory, 0, window) and not start_is_barred(plan, memory, newest, window):
            if count >= capacity:
                return False
            store(rows, count, 0, newest)
            times[count] = time
            state[MATCHES] = count + 1
        return True
    residual = shape[RESIDUAL] != 0
    start_barred = shape[START_BARRIERS] < shape[START_BARRIERS_END]
    tested = load(positives, 0, TEST) < load(positives, 0, TEST_END) or load(positives, 0, CHECK) < load(positives, 0, CHECK_END)
    plain = not tested and not start_barred and not residual and shape[WINDOW_PUSHDOWN] == 1
    first_stack = 1 + load(positives, 0, STACK)
    place = last - 1
    at = newest
    enter = True
    while True:
        stack = 1 + load(positives, place, STACK)
        if enter:  # begin with the newest event before the one just bound; stop behind the newest event of every negation between them
            enter = False
            cursor[place] = load(links, at, stack)
            lowest = oldest
            for k in range(load(positives, place, BARRIER), load(positives, place, BARRIER_END)):
                lowest = max(lowest, load(links, at, 1 + load(barriers, k, 0)))
            floor[place] = lowest
        row = cursor[place]
        lowest = floor[place]
        if place == 0 and plain:
            # the innermost loop: no test is left, every older event in the window is a match
            while row >= lowest:
                at = row - base
                if load(links, at, 0) <= bound_time:
                    break
                if count >= capacity:
                    return False
                store(rows, count, 0, at)
                for k in range(1, last + 1):
                    store(rows, count, k, chosen[k])
                times[count] = time
                count += 1
                row = load(links, at, first_stack)
            row = np.int64(-1)
        if row < lowest or load(links, row - base, 0) <= bound_time:
            place += 1
            if place == last:
                break
            continue
        at = row - base
        cursor[place] = load(links, at, stack)
        if residual and not keys_agree(plan, cells, at, newest):
            continue
        bound[load(positives, place, OF_ITEM)] = at
        chosen[place] = at
        holds = np.int64(1)
        for which in range(load(positives, place, TEST), load(positives, place, TEST_END)):
            holds = plainly(predicates, which, states_at, cells, bound)
            if holds == 2:
                begin, end = load(predicates, which, CODE), load(predicates, which, CODE_END)
                holds = np.int64(run_program(machine.programs, begin, end, cells, states_at, bound, machine.texts, machine.scratch))
            if holds == 0:
                break
        if holds == 0:
            continue
        if load(positives, place, CHECK) < load(positives, place, CHECK_END):
            if not unprevented(plan, machine, memory, place, window):
                continue
        if place > 0:
            place -= 1
            enter = True
            continue
        if load(links, at, 0) <= window or (start_barred and start_is_barred(plan, memory, at, window)):
            continue
        if count >= capacity:
            return False
        for k in range(last + 1):
            store(rows, count, k, chosen[k])
        times[count] = time
        count += 1
    state[MATCHES] = count
    return True


@njit(types.boolean(PLAN_TABLES, MEMORY, OUTPUT, types.int64), cache=True, nogil=True)
def await_deadline(plan, memory, output, since):
    """Moves the matches ``since`` .. in the output to the chains of their first events, where they wait for the end of the window."""
    state, pending = memory.state, memory.pending
    count = state[MATCHES] - since
    free = len(pending) - state[PENDING_LIVE]
    if count > free:
        state[MATCHES] = since
        return False
    chain = plan.shape[CHAIN]
    for k in range(since, since + count):
        entry = state[PENDING_FREE]
        if entry >= 0:
            state[PENDING_FREE] = pending[entry, 0]
        else:
            entry = state[PENDING_TOP]
            state[PENDING_TOP] = entry + 1
        first = output.rows[k, 0]
        pending[entry, 0] = memory.links[first, chain]
        memory.links[first, chain] = entry
        for place in range(plan.shape[POSITIVES]):
            pending[entry, 1 + place] = output.rows[k, place] + state[BASE]
    state[PENDING_LIVE] += count
    state[MATCHES] = since
    return True


@njit(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), cache=True, nogil=True)
def release(plan, machine, memory, output, first):
    """Decides the matches that wait at ``first``, whose window is over: those without a negated event behind them go to the output.

    False: no room; the rest stays on the chain and the call may be repeated.
    """
    links, state, pending = memory.links, memory.state, memory.pending
    chain = plan.shape[CHAIN]
    base = state[BASE]
    last = plan.shape[POSITIVES] - 1
    deadline = deadline_of(links[first, 0], plan.shape[WITHIN])
    key_hash = hash_key(plan.keys, memory.cells, first)
    slot = find_slot(memory.slots, plan.keys, memory.cells, first, key_hash, state[LOW])
    heads = KEY + len(plan.keys)
    barred = np.int64(-1)
    for k in range(plan.shape[END_BARRIERS], plan.shape[END_BARRIERS_END]):
        stack = plan.barriers[k, 0]
        if stack < plan.shape[SLOT_STACKS]:
            row = memory.slots[slot, heads + stack] if slot >= 0 else np.int64(-1)
        else:
            row = state[WILD_HEADS + stack - plan.shape[SLOT_STACKS]]
        while row > barred and row >= base and links[row - base, 0] >= deadline:
            row = links[row - base, 1 + stack]
        barred = max(barred, row)
    entry = links[first, chain]
    while entry >= 0:
        keep = pending[entry, 1 + last] >= barred
        if keep and plan.shape[END_CHECKS] < plan.shape[END_CHECKS_END]:
            for place in range(last + 1):
                machine.bound[plan.positives[place, OF_ITEM]] = pending[entry, 1 + place] - base
            for check in range(plan.shape[END_CHECKS], plan.shape[END_CHECKS_END]):
                stack = plan.checks[check, CHECK_STACK]
                if stack < plan.shape[SLOT_STACKS]:
                    newest = memory.slots[slot, heads + stack] if slot >= 0 else np.int64(-1)
                else:
                    newest = state[WILD_HEADS + stack - plan.shape[SLOT_STACKS]]
                if negated_event_exists(plan, machine, memory, check, newest, pending[entry, 1 + last], np.int64(NEVER), deadline):
                    keep = False
                    break
        if keep:
            count = state[MATCHES]
            if count >= len(output.time):
                links[first, chain] = entry
                return False
            for place in range(last + 1):
                output.rows[count, place] = pending[entry, 1 + place] - base
            output.time[count] = deadline
            state[MATCHES] = count + 1
        following = pending[entry, 0]
        pending[entry, 0] = state[PENDING_FREE]
        state[PENDING_FREE] = entry
        state[PENDING_LIVE] -= 1
        entry = following
    links[first, chain] = -1
    return True


@njit(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64), cache=True, nogil=True)
def pass_time(plan, machine, memory, output, time):
    """Moves the oldest live row on, as all events before ``time`` have been processed; waiting matches of dying rows are released."""
    state, links = memory.state, memory.links
    within = plan.shape[WITHIN]
    if within < 0:
        return True
    bound_time = window_bound(time, within)
    chain = plan.shape[CHAIN]
    low, rows, base = state[LOW], state[ROWS], state[BASE]
    while low < rows and links[low - base, 0] <= bound_time:
        if chain >= 0 and links[low - base, chain] >= 0:
            state[LOW] = low
            if not release(plan, machine, memory, output, low - base):
                return False
        low += 1
    state[LOW] = low
    return True


@njit(types.int64(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, INTEGERS, INTEGERS, types.int64, types.int64), cache=True, nogil=True)
def pass_watermarks(plan, machine, memory, output, sources, watermarks, default, horizon):
    """As `pass_time`, where every source has its own watermark (at least ``default``, at most ``horizon`` counts).

    Rows die in order, so one of a slow source holds up the memory of those behind it, but never a release.
    """
    state, links = memory.state, memory.links
    within = plan.shape[WITHIN]
    if within < 0:
        return DONE
    chain = plan.shape[CHAIN]
    rows, base = state[ROWS], state[BASE]
    dying = True
    for row in range(state[LOW], rows):
        at = row - base
        waits = chain >= 0 and links[at, chain] >= 0
        if not dying and not waits:
            continue
        watermark = default
        for k in range(len(sources)):
            if sources[k] == memory.cells[at, CELL_SOURCE]:
                watermark = max(watermark, watermarks[k])
        over = links[at, 0] <= window_bound(min(watermark, horizon), within)
        if over and waits and not release(plan, machine, memory, output, at):
            return OUTPUT_FULL
        dying = dying and over
        if dying:
            state[LOW] = row + 1
        elif state[PENDING_LIVE] == 0:
            break
    return DONE


@njit(types.void(PLAN_TABLES, MEMORY, TABLE, types.int64, types.int64, types.int64), cache=True, nogil=True)
def keep_outside(plan, memory, fresh, i, mask, row):
    """Stores candidate ``i``, a negated event that belongs to no partition, on the stacks that all partitions see."""
    state, links, cells = memory.state, memory.links, memory.cells
    at = row - state[BASE]
    slot_stacks, stacks, chain = plan.shape[SLOT_STACKS], plan.shape[STACKS], plan.shape[CHAIN]
    links[at, 0] = fresh[i, CELL_TIME]
    for k in range(slot_stacks):
        links[at, 1 + k] = -1
    for k in range(slot_stacks, stacks):
        links[at, 1 + k] = state[WILD_HEADS + k - slot_stacks]
    if chain >= 0:
        links[at, chain] = -1
    for item in range(len(plan.items)):
        if (mask >> item) & 1 and plan.items[item, ITEM_WILD_STACK] >= 0:
            state[WILD_HEADS + plan.items[item, ITEM_WILD_STACK] - slot_stacks] = row
            state[PUSHED] += 1
    for k in range(cells.shape[1]):
        cells[at, k] = fresh[i, k]


@njit(
    types.UniTuple(types.int64, 2)(PLAN_TABLES, MACHINE, CANDIDATES, MEMORY, OUTPUT, types.int64, types.int64, types.int64),
    cache=True,
    nogil=True,
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
    chain, within, opening = shape[CHAIN], shape[WITHIN], shape[OPENING]
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
                if chain >= 0 and load(links, low - base, chain) >= 0:
                    state[LOW] = low
                    state[ROWS] = row
                    if not release(plan, machine, memory, output, low - base):
                        return i, OUTPUT_FULL
                low += 1
                oldest_time = load(links, low - base, 0) if low < row else np.int64(FOREVER)
        at = row - base
        if hashes[i] == OUTSIDE:
            keep_outside(plan, memory, fresh, i, mask, row)
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


@njit(types.int64(TABLE, types.int64), cache=True, nogil=True)
def live_slots(slots, low):
    """How many partitions have an event that is alive."""
    count = 0
    for slot in range(len(slots)):
        count += slots[slot, NEWEST] >= low
    return count


@njit(types.int64(INTEGERS, TABLE, TABLE, types.int64), cache=True, nogil=True)
def refill_slots(places, old, new, low):
    """Enters the live partitions of one slot table into an empty one; ``places`` = KEY .. KEY + keys. Returns how many."""
    last = new.shape[0] - 1
    count = 0
    for slot in range(len(old)):
        if old[slot, NEWEST] < low:
            continue
        target = hash_key(places, old, slot) & last
        while new[target, NEWEST] != FREE:
            target = (target + 1) & last
        for k in range(old.shape[1]):
            new[target, k] = old[slot, k]
        count += 1
    return count
