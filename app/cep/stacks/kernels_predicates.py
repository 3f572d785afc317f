"""Join predicates of the events bound so far: compared plainly, or by the machine."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.kernels_memory import load
from app.cep.cells.kernels_types import TABLE
from app.cep.kernel import kernel
from app.cep.predicates.kernels_compare import compare_cells
from app.cep.predicates.kernels_machine import evaluate
from app.cep.predicates.opcodes import MODE_PROGRAM
from app.cep.stacks.arrays import CODE, CODE_END, CONSTANT, LEFT_CELL, LEFT_ITEM, MODE, OPERATOR, RIGHT_CELL, RIGHT_ITEM, STATES_AT
from app.cep.stacks.kernels_types import MACHINE, PLAN_TABLES


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
