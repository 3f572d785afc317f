"""Sequence construction: all matches that end with an event, by walking its stacks backwards; negations and predicates on the way.

**Source:** Wu, Diao, Rizvi: High-performance complex event processing over streams, SIGMOD 2006, section 4.1 (active instance stacks), and
predicates and windows pushed down as in 4.2. Deviation: a negation without predicates is a bar that stops the walk, not a filter behind it.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import NEVER
from app.cep.cells.kernels_memory import load, store
from app.cep.kernel import kernel
from app.cep.negation.kernels_parts import agree
from app.cep.predicates.kernels_machine import run_program
from app.cep.stacks.arrays import (
    BARRIER,
    BARRIER_END,
    BASE,
    CHECK,
    CHECK_END,
    CODE,
    CODE_END,
    MATCHES,
    OF_ITEM,
    POSITIVES,
    RESIDUAL,
    STACK,
    START_BARRIERS,
    START_BARRIERS_END,
    STATES_AT,
    TEST,
    TEST_END,
    WINDOW_PUSHDOWN,
    WITHIN,
)
from app.cep.stacks.kernels_negation import start_is_barred, unprevented
from app.cep.stacks.kernels_predicates import plainly, predicate_holds
from app.cep.stacks.kernels_types import MACHINE, MEMORY, OUTPUT, PLAN_TABLES
from app.cep.windows.kernels_bounds import window_bound


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
        if residual and not agree(plan.agreeing, cells, at, newest, plan.shape[STATES_AT]):
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
