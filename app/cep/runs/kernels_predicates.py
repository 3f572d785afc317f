"""Whether predicates hold for a run: by the machine, instance by instance."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import Programs, Scratch, Texts
from app.cep.kernel import kernel
from app.cep.predicates.kernels_machine import run_program
from app.cep.runs.arrays import (
    ANCHOR,
    ARG_BACK,
    ARG_BINDING,
    ARG_RUNNING,
    ARGUMENTS,
    ARGUMENTS_END,
    CODE,
    CODE_END,
    ELEMENT,
    EVERY,
    FRAME,
    NEWEST,
    NUMBER,
    REF_BINDING,
    REFERENCES,
    REFERENCES_END,
    RUNNING,
    STATES_AT,
    T_ARGUMENTS,
    T_BOUND,
    T_CELLS,
    T_CODE,
    T_CONSTANTS,
    T_NODES,
    T_PREDICATES,
    T_REFERENCES,
    T_SHAPE,
    T_TAGS,
    T_TESTS,
    T_TEXT_DATA,
    T_TEXT_OFFSETS,
    T_VALUES,
    TEST_BINDING,
    TEST_MODE,
    TEST_OFFSET,
    TEST_PREDICATE,
)
from app.cep.runs.kernels_references import KNOWN, NO_I, PENDING, place_references
from app.cep.runs.kernels_world import WORLD, line, octets, table


@kernel(types.boolean(WORLD, types.int64), counted=False)
def program_holds(world, predicate):
    """Whether the predicate's program holds for the rows in the slots."""
    scratch = Scratch(line(world, T_TAGS), line(world, T_VALUES))
    bound = line(world, T_BOUND)
    shape = line(world, T_SHAPE)
    predicates = table(world, T_PREDICATES)
    cells = table(world, T_CELLS)
    start, stop = predicates[predicate, CODE], predicates[predicate, CODE_END]
    return run_program(
        Programs(table(world, T_CODE), table(world, T_CONSTANTS)),
        start,
        stop,
        cells,
        shape[STATES_AT],
        bound,
        Texts(octets(world, T_TEXT_DATA), line(world, T_TEXT_OFFSETS)),
        scratch,
    )


@kernel(types.int64(WORLD, types.int64), counted=False)
def longest_back(world, predicate):
    """How far back of ``i`` a predicate reads at most."""
    predicates = table(world, T_PREDICATES)
    references = table(world, T_REFERENCES)
    arguments = table(world, T_ARGUMENTS)
    most = 0
    for k in range(predicates[predicate, REFERENCES], predicates[predicate, REFERENCES_END]):
        if references[k, ANCHOR] == RUNNING:
            most = max(most, references[k, NUMBER])
    for k in range(predicates[predicate, ARGUMENTS], predicates[predicate, ARGUMENTS_END]):
        most = max(most, arguments[k, ARG_BACK])
    return most


@kernel(types.int64(WORLD, types.int64, types.int64), counted=False)
def longest_closure(world, predicate, node):
    """Elements of the longest closure that a predicate reads by ``i``."""
    shape = line(world, T_SHAPE)
    predicates = table(world, T_PREDICATES)
    references = table(world, T_REFERENCES)
    arguments = table(world, T_ARGUMENTS)
    nodes = table(world, T_NODES)
    most = 0
    frame = shape[FRAME]
    for k in range(predicates[predicate, REFERENCES], predicates[predicate, REFERENCES_END]):
        if references[k, ANCHOR] == RUNNING:
            newest = nodes[node, frame + references[k, REF_BINDING]]
            most = max(most, nodes[newest, ELEMENT] if newest >= 0 else 0)
    for k in range(predicates[predicate, ARGUMENTS], predicates[predicate, ARGUMENTS_END]):
        if arguments[k, ARG_RUNNING]:
            newest = nodes[node, frame + arguments[k, ARG_BINDING]]
            most = max(most, nodes[newest, ELEMENT] if newest >= 0 else 0)
    return most


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64), counted=False)
def every_instance_holds(world, predicate, node, opened):
    """Whether the predicate holds for every ``i`` for which all its references exist."""
    i = np.int64(1)
    most = longest_back(world, predicate) + longest_closure(world, predicate, node)
    while True:
        answer = place_references(world, predicate, node, i, opened)
        if answer == PENDING:
            return True
        if answer == KNOWN:
            if not program_holds(world, predicate):
                return False
        elif i > most:
            # the first instances may read elements before the first; behind the last element there are none
            return True
        i += 1


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def tests_hold(world, first, stop, node, opened):
    """Whether all tests of an edge, or of an end, hold for a node that is bound tentatively."""
    shape = line(world, T_SHAPE)
    tests = table(world, T_TESTS)
    nodes = table(world, T_NODES)
    frame = shape[FRAME]
    for k in range(first, stop):
        predicate, mode = tests[k, TEST_PREDICATE], tests[k, TEST_MODE]
        if mode == EVERY:
            if not every_instance_holds(world, predicate, node, opened):
                return False
            continue
        i = np.int64(NO_I)
        if mode == NEWEST:
            i = nodes[nodes[node, frame + tests[k, TEST_BINDING]], ELEMENT] + tests[k, TEST_OFFSET]
        if place_references(world, predicate, node, i, opened) == KNOWN and not program_holds(world, predicate):
            return False
    return True
