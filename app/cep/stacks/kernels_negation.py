"""Whether negated events prevent the events bound so far."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import FOREVER, NEVER
from app.cep.cells.kernels_memory import load
from app.cep.kernel import kernel
from app.cep.negation.kernels_parts import agree
from app.cep.predicates.kernels_machine import run_program
from app.cep.stacks.arrays import (
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
    OF_ITEM,
    POSITIVES,
    START_BARRIERS,
    START_BARRIERS_END,
    STATES_AT,
)
from app.cep.stacks.kernels_predicates import plainly
from app.cep.stacks.kernels_types import MACHINE, MEMORY, PLAN_TABLES


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
        if time >= before or (residual and not agree(plan.agreeing, cells, place, anchor, plan.shape[STATES_AT])):
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
