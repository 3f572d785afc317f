"""The expression machine: evaluates one program (a condition or a value) for the events that are bound to items.

A program is rows ``[opcode, a, b, c]``; its stack lives in a scratch array. Values carry a tag, because null, absent and the
change from integer to float on overflow are only known when an event is looked at. The same machine serves conditions of items,
joins inside sequence construction and return fields, so a rule of queries/README.md, *Conditions*, stands in one place.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0124  numba compiles no tuples of constants; NaN is what differs from itself
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.arrays import STATES_PER_WORD
from app.cep.cells.kernels_memory import load
from app.cep.cells.kernels_types import INTEGERS, PROGRAMS, SCRATCH, TABLE, TEXTS
from app.cep.kernel import kernel
from app.cep.predicates.kernels_values import (
    among,
    arithmetic,
    between,
    call,
    compare_values,
    order_holds,
    worse,
    wrapped_difference,
    wrapped_sum,
)
from app.cep.predicates.opcodes import (
    ABSENT,
    FLOAT,
    INTEGER,
    NULL,
    OP_ADD,
    OP_AND,
    OP_BETWEEN,
    OP_COMPARE,
    OP_CONSTANT,
    OP_HAVERSINE,
    OP_IN,
    OP_IS_NULL,
    OP_LOAD,
    OP_MULTIPLY,
    OP_NOT,
    OP_OR,
    OP_REMAINDER,
    OP_SUBTRACT,
    OP_TO_FLOAT,
)


@njit(inline="always")
def run_program(programs, start, stop, cells, states_at, bound, texts, scratch):
    """Runs instructions ``start..stop``; the result stands at place 0 of the stack. Returns whether it is present and not zero.

    ``bound[item]`` is the row of ``cells`` of the event bound to the item. Inlined into the loops that run it: passing the tables to a
    function took longer (400 ns) than five instructions. Plain integers and floats are computed here, the rest by functions.
    """
    code, constants = programs.code, programs.constants
    tags, values = scratch.tags, scratch.values
    floats = values.view(np.float64)
    top = np.int64(-1)
    for at in range(start, stop):
        op, a, b, c = load(code, at, 0), load(code, at, 1), load(code, at, 2), load(code, at, 3)
        if op == OP_LOAD:
            top += 1
            row = bound[a]
            state = load(cells, row, states_at + b // STATES_PER_WORD) >> (2 * (b % STATES_PER_WORD)) & 3
            tags[top] = c if state == 0 else (NULL if state == 1 else (ABSENT if state == 2 else FLOAT))
            values[top] = load(cells, row, b)
        elif op == OP_CONSTANT:
            top += 1
            tags[top] = load(constants, a, 0)
            values[top] = load(constants, a, 1)
        elif op <= OP_REMAINDER:
            top -= 1
            left, right = values[top], values[top + 1]
            kinds = tags[top] << 2 | tags[top + 1]
            plain = False
            if op == OP_ADD:
                if kinds == INTEGER:
                    total = wrapped_sum(left, right)
                    plain = ((left ^ total) & (right ^ total)) >= 0
                    if plain:
                        values[top] = total
                elif kinds == FLOAT << 2 | FLOAT:
                    plain = True
                    floats[top] = floats[top] + floats[top + 1]
            elif op == OP_SUBTRACT:
                if kinds == INTEGER:
                    total = wrapped_difference(left, right)
                    plain = ((left ^ right) & (left ^ total)) >= 0
                    if plain:
                        values[top] = total
                elif kinds == FLOAT << 2 | FLOAT:
                    plain = True
                    floats[top] = floats[top] - floats[top + 1]
            elif op == OP_MULTIPLY and kinds == FLOAT << 2 | FLOAT:
                plain = True
                floats[top] = floats[top] * floats[top + 1]
            if not plain:
                arithmetic(scratch, top, op)
        elif op <= OP_HAVERSINE:
            top -= b - 1
            call(scratch, top, op, b)
        elif op == OP_TO_FLOAT:
            if tags[top] == INTEGER:
                tags[top] = FLOAT
                floats[top] = np.float64(values[top])
        elif op == OP_COMPARE:
            top -= 1
            kinds = tags[top] << 2 | tags[top + 1]
            if kinds == INTEGER and b == 0:
                order = np.int64(values[top] > values[top + 1]) - np.int64(values[top] < values[top + 1])
                truth = order_holds(a, order)
            elif kinds == FLOAT << 2 | FLOAT:
                x, y = floats[top], floats[top + 1]
                order = np.int64(2) if x != x or y != y else np.int64(x > y) - np.int64(x < y)
                truth = order_holds(a, order)
            else:
                missing = worse(tags[top], tags[top + 1])
                if missing == INTEGER:
                    truth = order_holds(a, compare_values(scratch, top, top + 1, texts, b))
                else:
                    truth = missing == ABSENT
            tags[top] = INTEGER
            values[top] = truth
        elif op == OP_NOT:
            values[top] = 1 - values[top]
        elif op == OP_AND:
            top -= b - 1
            for k in range(top + 1, top + b):
                values[top] &= values[k]
        elif op == OP_OR:
            top -= b - 1
            for k in range(top + 1, top + b):
                values[top] |= values[k]
        elif op == OP_BETWEEN:
            top -= 2
            between(scratch, top, texts, b, c)
        elif op == OP_IN:
            among(scratch, top, programs, a, b, c)
        elif op == OP_IS_NULL:
            truth = True if tags[top] == ABSENT else (tags[top] == NULL) != (c != 0)
            tags[top] = INTEGER
            values[top] = truth
    return tags[0] == INTEGER and values[0] != 0


@kernel(types.boolean(PROGRAMS, types.int64, types.int64, TABLE, types.int64, INTEGERS, TEXTS, SCRATCH))
def evaluate(programs, start, stop, cells, states_at, bound, texts, scratch):
    """As `run_program`, for the places where a call does not matter."""
    return run_program(programs, start, stop, cells, states_at, bound, texts, scratch)


@kernel(types.int64(PROGRAMS, types.int64, types.int64, TABLE, types.int64, TABLE, INTEGERS, TEXTS, SCRATCH, INTEGERS, types.uint8[::1]))
def evaluate_rows(programs, start, stop, cells, states_at, rows, place, texts, scratch, values, states):
    """A program for many assignments: ``rows[k, place[item]]`` is the row bound to the item; without columns in ``rows``, row ``k`` itself.

    Writes ``values`` (bits) and ``states`` (PRESENT, NULL, ABSENT, 3 = float where an integer was expected); returns the union of states.
    """
    bound = np.zeros(len(place), np.int64)
    seen = 0
    for k in range(len(values)):
        for item in range(len(place)):
            bound[item] = rows[k, place[item]] if rows.shape[1] > 0 and place[item] >= 0 else k
        run_program(programs, start, stop, cells, states_at, bound, texts, scratch)
        values[k] = scratch.values[0]
        tag = scratch.tags[0]
        states[k] = 0 if tag == INTEGER else (3 if tag == FLOAT else (1 if tag == NULL else 2))
        seen |= 1 << states[k]
    return seen
