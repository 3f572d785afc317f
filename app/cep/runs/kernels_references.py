"""What stands in the slots of a program: the events that references read, aggregates as constants, and values kept per element."""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

import math

import numpy as np
from numba import types

from app.cep.cells.arrays import Scratch, Texts
from app.cep.kernel import kernel
from app.cep.predicates.kernels_values import arithmetic, cell_state, compare_values
from app.cep.predicates.opcodes import ABSENT, FLOAT, INTEGER, NULL, OP_ADD
from app.cep.runs.arrays import (
    ABSENT_ROW,
    ANCHOR,
    ARG_BACK,
    ARG_BINDING,
    ARG_RUNNING,
    ARGUMENTS,
    ARGUMENTS_END,
    AVG,
    CONSTANT,
    COUNT_OF,
    ELEMENT,
    FIXED,
    FRAME,
    FUNCTION,
    LAST,
    MAX,
    MIN,
    NUMBER,
    PLAIN,
    PRESENT_COUNT,
    PREVIOUS,
    REF_BINDING,
    REFERENCES,
    REFERENCES_END,
    REG_AT,
    REG_BINDING,
    REG_CELL,
    REG_FLOAT,
    REG_FUNCTION,
    REGISTER,
    ROW,
    RUNNING,
    SLOT,
    STATES_AT,
    SUM,
    T_ARGUMENTS,
    T_BOUND,
    T_CELLS,
    T_CONSTANTS,
    T_NODES,
    T_PREDICATES,
    T_REFERENCES,
    T_REGISTERS,
    T_SHAPE,
    T_TAGS,
    T_TEXT_DATA,
    T_TEXT_OFFSETS,
    T_VALUES,
)
from app.cep.runs.kernels_world import WORLD, line, octets, table

NO_I = -1
KNOWN, PENDING, NO_INSTANCE = 0, 1, 2


@kernel(types.int64(WORLD, types.int64, types.int64), counted=False)
def element(world, newest, number):
    """The node of a closure's element by its number, from the newest backwards; -1 if there is none."""
    nodes = table(world, T_NODES)
    node = newest
    while node >= 0 and nodes[node, ELEMENT] > number:
        node = nodes[node, PREVIOUS]
    return node if node >= 0 and nodes[node, ELEMENT] == number else -1


@kernel(types.void(WORLD, types.int64, types.int64))
def put_argument(world, k, target):
    """Writes the aggregate over the elements up to a node (-1: none) as a constant of its program."""
    constants = table(world, T_CONSTANTS)
    arguments = table(world, T_ARGUMENTS)
    nodes = table(world, T_NODES)
    place, function, at = arguments[k, CONSTANT], arguments[k, FUNCTION], arguments[k, REGISTER]
    if function == COUNT_OF:
        constants[place, 0] = INTEGER
        constants[place, 1] = nodes[target, ELEMENT] if target >= 0 else 0
    elif target < 0:
        constants[place, 0] = ABSENT
        constants[place, 1] = 0
    elif function == AVG:
        total, count = nodes[target, at + 1], nodes[target, at + 3]
        constants[place, 0] = nodes[target, at]
        if count > 0:
            constants[place, 0] = FLOAT
            number = np.empty(1, np.int64)
            number[0] = total
            value = number.view(np.float64)[0] if nodes[target, at] == FLOAT else np.float64(total)
            result = np.empty(1, np.float64)
            result[0] = value / count
            constants[place, 1] = result.view(np.int64)[0]
    else:
        constants[place, 0] = nodes[target, at]
        constants[place, 1] = nodes[target, at + 1]


@kernel(types.int64(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def place_references(world, predicate, node, i, opened):
    """Puts rows into the slots and aggregates into the constants of a predicate; KNOWN, PENDING or NO_INSTANCE.

    ``opened``: bindings that may still bind.
    """
    bound = line(world, T_BOUND)
    shape = line(world, T_SHAPE)
    predicates = table(world, T_PREDICATES)
    references = table(world, T_REFERENCES)
    arguments = table(world, T_ARGUMENTS)
    nodes = table(world, T_NODES)
    frame = shape[FRAME]
    for k in range(predicates[predicate, REFERENCES], predicates[predicate, REFERENCES_END]):
        binding, anchor = references[k, REF_BINDING], references[k, ANCHOR]
        newest = nodes[node, frame + binding]
        if anchor == PLAIN:
            target = newest
        elif anchor == FIXED:
            target = nodes[node, references[k, NUMBER]]
        elif anchor == LAST:
            if opened >> binding & 1:
                return PENDING
            target = np.int64(-1) if newest < 0 else element(world, newest, nodes[newest, ELEMENT] - references[k, NUMBER])
        else:
            wanted = i - references[k, NUMBER]
            target = element(world, newest, wanted) if wanted > 0 else np.int64(-1)
            if target < 0 and anchor == RUNNING:
                return NO_INSTANCE
        if target < 0:
            if opened >> binding & 1:
                return PENDING
            bound[references[k, SLOT]] = ABSENT_ROW
        else:
            bound[references[k, SLOT]] = nodes[target, ROW]
    for k in range(predicates[predicate, ARGUMENTS], predicates[predicate, ARGUMENTS_END]):
        binding = arguments[k, ARG_BINDING]
        target = nodes[node, frame + binding]
        if arguments[k, ARG_RUNNING]:
            wanted = i - arguments[k, ARG_BACK]
            target = element(world, target, wanted) if wanted > 0 else np.int64(-1)
            if target < 0 and arguments[k, ARG_RUNNING] == RUNNING:
                return NO_INSTANCE
        elif opened >> binding & 1:
            return PENDING
        put_argument(world, k, target)
    return KNOWN


@kernel(types.void(WORLD, types.int64, types.int64), counted=False)
def fill_registers(world, node, binding):
    """The running values of the element that a node is: those of the element before it, and its own."""
    scratch = Scratch(line(world, T_TAGS), line(world, T_VALUES))
    shape = line(world, T_SHAPE)
    registers = table(world, T_REGISTERS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    row, previous, states_at = nodes[node, ROW], nodes[node, PREVIOUS], shape[STATES_AT]
    for k in range(len(registers)):
        if registers[k, REG_BINDING] != binding:
            continue
        at, function, cell = registers[k, REG_AT], registers[k, REG_FUNCTION], registers[k, REG_CELL]
        state = cell_state(cells, row, cell, states_at)
        present = state == 0 or state == 3
        if function == PRESENT_COUNT:
            nodes[node, at] = INTEGER
            nodes[node, at + 1] = (nodes[previous, at + 1] if previous >= 0 else 0) + present
            continue
        nodes[node, at] = nodes[previous, at] if previous >= 0 else ABSENT
        nodes[node, at + 1] = nodes[previous, at + 1] if previous >= 0 else 0
        if not present:
            # of elements that all lack the attribute the aggregate is absent, else null
            if state == 1 and nodes[node, at] == ABSENT:
                nodes[node, at] = NULL
            continue
        tag = FLOAT if registers[k, REG_FLOAT] or state == 3 else INTEGER
        if nodes[node, at] == NULL or nodes[node, at] == ABSENT:
            nodes[node, at] = tag
            nodes[node, at + 1] = cells[row, cell]
            continue
        scratch.tags[0], scratch.values[0] = nodes[node, at], nodes[node, at + 1]
        scratch.tags[1], scratch.values[1] = tag, cells[row, cell]
        if function == SUM:
            arithmetic(scratch, 0, OP_ADD)
            nodes[node, at], nodes[node, at + 1] = scratch.tags[0], scratch.values[0]
            continue
        order = compare_values(scratch, 1, 0, Texts(octets(world, T_TEXT_DATA), line(world, T_TEXT_OFFSETS)), 0)
        if order == 2:  # one of them is NaN, and the extreme stays so
            scratch.values.view(np.float64)[0] = math.nan
            nodes[node, at], nodes[node, at + 1] = FLOAT, scratch.values[0]
        elif (function == MIN and order == -1) or (function == MAX and order == 1):
            nodes[node, at], nodes[node, at + 1] = tag, cells[row, cell]
