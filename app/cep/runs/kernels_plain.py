"""The short way of predicates and fields that compare or return cells of bound events: nothing is bound, no program runs.

A run meets ten events for one that it takes. Binding an event to ask its predicates of the machine took 200 ns, this takes about 20.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

import numpy as np
from numba import njit, types

from app.cep.cells.kernels_memory import load
from app.cep.kernel import kernel
from app.cep.predicates.kernels_compare import compare_cells
from app.cep.predicates.opcodes import MODE_PROGRAM
from app.cep.runs.arrays import (
    ANCHOR,
    BINDINGS,
    COMPARED_AS,
    COMPARED_BY,
    ELEMENT,
    EVERY,
    FIXED,
    FIXED_NUMBER,
    FRAME,
    LAST,
    LEFT_CELL,
    LEFT_REFERENCE,
    NUMBER,
    ONE_CELL,
    PLAIN,
    PREVIOUS,
    REF_BINDING,
    RIGHT_CELL,
    RIGHT_REFERENCE,
    ROW,
    STATES_AT,
    T_CELLS,
    T_FIXED,
    T_NODES,
    T_PREDICATES,
    T_REFERENCES,
    T_SHAPE,
    T_TESTS,
    TEST_MODE,
    TEST_OFFSET,
    TEST_PREDICATE,
)
from app.cep.runs.kernels_references import element
from app.cep.runs.kernels_world import WORLD, line, table

UNBOUND, NO_INSTANCE = -1, -2
FAILS, HOLDS, ASK = 0, 1, 2
"""Of the tests of an edge: one fails; all hold; the machine must be asked."""


@njit(inline="always")
def row_after(world, shape, references, nodes, reference, node, binding, row, offset):
    """The row that a reference would read if the event in ``row`` were bound next; ``offset``: of the newest ``i``, see `TEST_OFFSET`."""
    own, anchor, number = load(references, reference, REF_BINDING), load(references, reference, ANCHOR), load(references, reference, NUMBER)
    frame = shape[FRAME]
    newest = load(nodes, node, frame + own)
    answer = np.int64(UNBOUND)
    if anchor == PLAIN:
        if own == binding:
            answer = row
        elif newest >= 0:
            answer = load(nodes, newest, ROW)
    elif anchor == FIXED:
        known = load(nodes, node, number)
        if known >= 0:
            answer = load(nodes, known, ROW)
        elif own == binding:
            wanted = table(world, T_FIXED)[number - frame - shape[BINDINGS], FIXED_NUMBER]
            if wanted == (load(nodes, newest, ELEMENT) + 1 if newest >= 0 else 1):
                answer = row
    elif anchor != LAST:
        before = load(nodes, node, frame + binding)
        wanted = (load(nodes, before, ELEMENT) + 1 if before >= 0 else 1) + offset - number
        if own == binding and number == offset:
            answer = row
        elif own == binding and number == offset + 1 and before >= 0:
            answer = load(nodes, before, ROW)
        else:
            target = element(world, newest, wanted) if wanted > 0 else np.int64(-1)
            answer = load(nodes, target, ROW) if target >= 0 else np.int64(NO_INSTANCE)
    return answer


@kernel(types.int64(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64), counted=False)
def plain_tests(world, first, stop, node, binding, row):
    """FAILS, HOLDS or ASK for the tests of an edge, if a run took the event in ``row`` for ``binding``."""
    shape = line(world, T_SHAPE)
    tests = table(world, T_TESTS)
    predicates = table(world, T_PREDICATES)
    references = table(world, T_REFERENCES)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    answer = HOLDS
    for k in range(first, stop):
        predicate = load(tests, k, TEST_PREDICATE)
        mode = load(predicates, predicate, COMPARED_AS)
        if load(tests, k, TEST_MODE) == EVERY or mode == MODE_PROGRAM or mode == ONE_CELL:
            answer = ASK
            continue
        offset = load(tests, k, TEST_OFFSET)
        left = row_after(world, shape, references, nodes, load(predicates, predicate, LEFT_REFERENCE), node, binding, row, offset)
        right = row_after(world, shape, references, nodes, load(predicates, predicate, RIGHT_REFERENCE), node, binding, row, offset)
        if left == UNBOUND or right == UNBOUND:
            answer = ASK
            continue
        if left == NO_INSTANCE or right == NO_INSTANCE:
            continue
        left_cell, right_cell = load(predicates, predicate, LEFT_CELL), load(predicates, predicate, RIGHT_CELL)
        operator = load(predicates, predicate, COMPARED_BY)
        verdict = compare_cells(mode, operator, 0, shape[STATES_AT], cells, left, left_cell, right, right_cell)
        if verdict == FAILS:
            return FAILS
        if verdict == ASK:
            answer = ASK
    return answer


@kernel(types.int64(WORLD, types.int64, types.int64), counted=False)
def bound_node(world, reference, node):
    """The node that a reference of a finished match reads, or -1."""
    shape = line(world, T_SHAPE)
    references = table(world, T_REFERENCES)
    nodes = table(world, T_NODES)
    anchor, number = references[reference, ANCHOR], references[reference, NUMBER]
    if anchor == FIXED:
        return nodes[node, number]
    newest = nodes[node, shape[FRAME] + references[reference, REF_BINDING]]
    if anchor == LAST:
        while newest >= 0 and number > 0:
            newest = nodes[newest, PREVIOUS]
            number -= 1
    return newest
