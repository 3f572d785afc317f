"""Sequence construction: all matches that end with an event, by walking its stacks backwards; negations and predicates on the way.

**Source:** Wu, Diao, Rizvi: High-performance complex event processing over streams, SIGMOD 2006, section 4.1 (active instance stacks), and
predicates and windows pushed down as in 4.2. Deviation: a negation without predicates is a bar that stops the walk, not a filter behind it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0124  NaN is what differs from itself
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.arrays import (
    BARRIER,
    BARRIER_END,
    BASE,
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
    FOREVER,
    LEFT_CELL,
    LEFT_ITEM,
    MATCHES,
    MODE,
    MODE_DIFFERENCE,
    MODE_FLOATS,
    MODE_PROGRAM,
    NEVER,
    OF_ITEM,
    OPERATOR,
    POSITIVES,
    RESIDUAL,
    RIGHT_CELL,
    RIGHT_ITEM,
    STACK,
    START_BARRIERS,
    START_BARRIERS_END,
    STATES_AT,
    TEST,
    TEST_END,
    WINDOW_PUSHDOWN,
    WITHIN,
)
from app.cep.cells.kernels_memory import as_float, load, store
from app.cep.cells.kernels_types import MACHINE, MEMORY, OUTPUT, PLAN_TABLES, TABLE
from app.cep.kernel import kernel
from app.cep.predicates.kernels_machine import cell_state, evaluate, run_program
from app.cep.predicates.opcodes import STATES_PER_WORD

OUTCOMES = 0x643152
"""Per operator (= != < <= > >=) four bits: holds for less, equal, greater, not comparable."""


@kernel(types.int64(types.int64, types.int64), counted=False)
def window_bound(time, within):
    """Events at or before this time are out of the window that ends with an event at ``time``; far-off times do not wrap."""
    if within < 0 or time < NEVER + within:
        return NEVER
    return time - within


@kernel(types.int64(types.int64, types.int64), counted=False)
def deadline_of(time, within):
    """When the window that begins with an event at ``time`` is over."""
    return FOREVER if time > FOREVER - within else time + within


@njit(inline="always")
def compare_cells(mode, operator, limit, states_at, cells, left, left_cell, right, right_cell):
    """Whether two cells compare as a plain mode says: 1 they do, 0 they do not, 2 only the machine can tell."""
    verdict = np.int64(2)
    states = load(cells, left, states_at + left_cell // STATES_PER_WORD) >> (2 * (left_cell % STATES_PER_WORD))
    states |= load(cells, right, states_at + right_cell // STATES_PER_WORD) >> (2 * (right_cell % STATES_PER_WORD))
    if states & 3 == 0:
        a, b = load(cells, left, left_cell), load(cells, right, right_cell)
        order = 0
        if mode == MODE_FLOATS:
            x, y = as_float(a), as_float(b)
            order = (x > y) - (x < y) if x == x and y == y else 2
        elif mode == MODE_DIFFERENCE:
            difference = a - b
            order = (difference > limit) - (difference < limit) if ((a ^ b) & (a ^ difference)) >= 0 else 3
        else:
            order = (a > b) - (a < b)
        if order != 3:
            # bit order + 1 of the operators = != < <= > >= (2: not comparable, none holds)
            verdict = (OUTCOMES >> (4 * operator + order + 1)) & 1
    return verdict


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
        operator, limit = load(table, which, OPERATOR), load(table, which, CONSTANT)
        verdict = compare_cells(mode, operator, limit, states_at, cells, left, left_cell, right, right_cell)
    return verdict


@kernel(types.boolean(PLAN_TABLES, types.int64, MACHINE, TABLE), counted=False)
def predicate_holds(plan, which, machine, cells):
    """One join predicate for the events bound so far."""
    verdict = plainly(plan.predicates, which, plan.shape[STATES_AT], cells, machine.bound)
    if verdict != 2:
        return verdict == 1
    start, stop = plan.predicates[which, CODE], plan.predicates[which, CODE_END]
    return evaluate(machine.programs, start, stop, cells, plan.shape[STATES_AT], machine.bound, machine.texts, machine.scratch)


@kernel(types.boolean(PLAN_TABLES, TABLE, types.int64, types.int64), counted=False)
def keys_agree(plan, cells, row, other):
    """Whether two events have equal equivalence attributes, as far as both have them."""
    states_at = plan.shape[STATES_AT]
    for k in range(len(plan.agreeing)):
        cell = plan.agreeing[k]
        if cells[row, cell] != cells[other, cell]:
            if cell_state(cells, row, cell, states_at) == 0 and cell_state(cells, other, cell, states_at) == 0:
                return False
    return True


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
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


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, types.int64, types.int64), counted=False)
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


@kernel(types.boolean(PLAN_TABLES, MEMORY, types.int64, types.int64), counted=False)
def start_is_barred(plan, memory, first, bound_time):
    """Whether a negated start without predicates stands before ``first`` inside the window."""
    base = memory.state[BASE]
    for k in range(plan.shape[START_BARRIERS], plan.shape[START_BARRIERS_END]):
        row = memory.links[first, 1 + plan.barriers[k, 0]]
        if row >= base and memory.links[row - base, 0] > bound_time:
            return True
    return False


@kernel(types.boolean(PLAN_TABLES, MACHINE, MEMORY, OUTPUT, types.int64, types.int64), counted=False)
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
