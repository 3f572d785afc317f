"""Predicates and negations of runs: what stands in the slots of a program, and whether it holds."""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR1714  numba compiles no tuples of constants
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.arrays import Programs, Scratch, Texts
from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel
from app.cep.predicates.kernels_machine import arithmetic, cell_state, compare_values, run_program
from app.cep.predicates.opcodes import ABSENT, CELL_TIME, FLOAT, INTEGER, NULL, OP_ADD
from app.cep.runs.arrays import (
    ABSENT_ROW,
    ANCHOR,
    ARG_BACK,
    ARG_BINDING,
    ARG_RUNNING,
    ARGUMENTS,
    ARGUMENTS_END,
    AVG,
    C_LOWER,
    C_NEGATION,
    C_OLDER,
    C_UPPER,
    CODE,
    CODE_END,
    CONSTANT,
    COUNT_OF,
    COUNT_WINDOW,
    CROSSED,
    ELEMENT,
    EVERY,
    FIRST_P_RANK,
    FIRST_TIME,
    FIXED,
    FOR,
    FRAME,
    FUNCTION,
    ITEM_LIST,
    ITEM_WILD,
    LAST,
    MAX,
    MIN,
    N_PRANK,
    N_ROW,
    N_SRANK,
    NEWEST,
    NUMBER,
    O_RANK,
    O_TIME,
    OLDER,
    OPEN,
    OPENED_COUNT,
    OPENED_TIME,
    P_RANK,
    PART_CONTIGUOUS,
    PART_ITEM,
    PART_SLOT,
    PART_TESTS,
    PART_TESTS_END,
    PARTITION,
    PARTITION_WINDOW,
    PARTS,
    PARTS_END,
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
    S_LISTS,
    S_RANK,
    SLOT,
    STATE,
    STATES_AT,
    STRICT,
    SUM,
    T_ARGUMENTS,
    T_BOUND,
    T_CELLS,
    T_CODE,
    T_CONSTANTS,
    T_CROSSED,
    T_ITEMS,
    T_KEYS,
    T_NEGATED,
    T_NEGATIONS,
    T_NODES,
    T_PARTS,
    T_PREDICATES,
    T_REFERENCES,
    T_REGISTERS,
    T_SHAPE,
    T_SLOTS,
    T_STATE,
    T_STATES,
    T_TAGS,
    T_TESTS,
    T_TEXT_DATA,
    T_TEXT_OFFSETS,
    T_VALUES,
    T_WINDOWS,
    TEST_BINDING,
    TEST_MODE,
    TEST_OFFSET,
    TEST_PREDICATE,
    TIME_WINDOW,
    WILD_HEADS,
    WINDOW_BASE,
    WINDOW_KIND,
    WINDOW_SIZE,
    WINDOW_SLIDE,
    WITHIN,
    WITHIN_EVENTS,
)
from app.cep.runs.kernels_world import WORLD, line, octets, table

NO_I = -1
AFTER_TIME, BEFORE_TIME, LOW_RANK, HIGH_RANK, LAST_RANK = 0, 1, 2, 3, 4
"""LAST_RANK: of events outside partitions, which have no rank in them, the last rank in the stream that counts."""
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
        if (function == MIN and order == -1) or (function == MAX and order == 1):
            nodes[node, at], nodes[node, at + 1] = tag, cells[row, cell]


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


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64), counted=False)
def counts(world, part, entry, node, opened):
    """Whether a negated event satisfies all predicates that mention it, for a run; not if one waits for bindings of ``opened``."""
    bound = line(world, T_BOUND)
    tests = table(world, T_TESTS)
    parts = table(world, T_PARTS)
    negated = table(world, T_NEGATED)
    row = negated[entry, N_ROW]
    bound[parts[part, PART_SLOT]] = row
    for k in range(parts[part, PART_TESTS], parts[part, PART_TESTS_END]):
        predicate = tests[k, TEST_PREDICATE]
        if tests[k, TEST_MODE] == EVERY:
            if opened or not every_instance_holds(world, predicate, node, 0):
                return False
            continue
        answer = place_references(world, predicate, node, NO_I, opened)
        if answer == PENDING or (answer == KNOWN and not program_holds(world, predicate)):
            return False
    return True


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, INTEGERS), counted=False)
def in_scope(world, part, entry, lower, upper_row, scope):
    """Whether a negated event lies behind node ``lower``, before row ``upper_row`` and inside the scope (see `prevented`)."""
    shape = line(world, T_SHAPE)
    parts = table(world, T_PARTS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    negated = table(world, T_NEGATED)
    row = negated[entry, N_ROW]
    if (lower >= 0 and row <= nodes[lower, ROW]) or row >= upper_row:
        return False
    time = cells[row, CELL_TIME]
    if time <= scope[AFTER_TIME] or time >= scope[BEFORE_TIME]:
        return False
    by_partition = shape[WITHIN_EVENTS] >= 0 or shape[WINDOW_KIND] == PARTITION_WINDOW
    if by_partition and negated[entry, N_PRANK] < 0:
        if negated[entry, N_SRANK] > scope[LAST_RANK]:
            return False
    else:
        rank = negated[entry, N_PRANK] if by_partition else negated[entry, N_SRANK]
        if rank < scope[LOW_RANK] or rank >= scope[HIGH_RANK]:
            return False
    contiguous = parts[part, PART_CONTIGUOUS]
    if contiguous == STRICT:
        return lower >= 0 and negated[entry, N_SRANK] == nodes[lower, S_RANK] + 1
    if contiguous == PARTITION:
        return lower >= 0 and negated[entry, N_PRANK] == nodes[lower, P_RANK] + 1
    return True


@kernel(types.boolean(types.int64[:, ::1], types.int64[::1], types.int64))
def different(chosen, taken, part):
    """Whether every part can have an event of its own (as many events per part as there are parts are enough to know)."""
    count = len(taken)
    place = np.zeros(count, np.int64)
    while part >= 0:
        if part == count:
            return True
        moved = False
        while place[part] < count and chosen[part, place[part]] >= 0:
            row = chosen[part, place[part]]
            place[part] += 1
            free = True
            for k in range(part):
                free &= taken[k] != row
            if free:
                taken[part] = row
                moved = True
                break
        if moved:
            part += 1
            if part < count:
                place[part] = 0
        else:
            part -= 1
    return False


@kernel(types.boolean(WORLD, types.int64, types.int64), counted=False)
def agrees(world, row, node):
    """Whether a negated event outside partitions has the values of a run in the equivalence attributes that its type does have."""
    shape = line(world, T_SHAPE)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    for k in range(len(keys)):
        if cell_state(cells, row, keys[k], shape[STATES_AT]) != 2 and cells[row, keys[k]] != cells[nodes[node, ROW], keys[k]]:
            return False
    return True


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64, types.int64, types.int64, INTEGERS, types.int64))
def prevented(world, slot, negation, node, lower, upper_row, scope, opened):
    """Whether events of all parts of a negation, different ones, lie in its scope (a negated AND needs all of its parts).

    ``scope``: later than the first time, before the second; of at least the first rank, below the second. ``node``: the run it is asked for;
    ``opened``: bindings that it may still bind.
    """
    items = table(world, T_ITEMS)
    negations = table(world, T_NEGATIONS)
    parts = table(world, T_PARTS)
    keys = line(world, T_KEYS)
    nodes = table(world, T_NODES)
    slots = table(world, T_SLOTS)
    negated = table(world, T_NEGATED)
    state = line(world, T_STATE)
    first, stop = negations[negation, PARTS], negations[negation, PARTS_END]
    count = stop - first
    chosen = np.full((count, count), -1, np.int64)
    for part in range(first, stop):
        found = 0
        item = parts[part, PART_ITEM]
        for side in range(2):
            if side == 0:
                at = items[item, ITEM_LIST]
                entry = slots[slot, 1 + len(keys) + S_LISTS + at] if slot >= 0 else np.int64(-1)
            else:
                at = items[item, ITEM_WILD]
                entry = state[WILD_HEADS + at] if at >= 0 else np.int64(-1)
            while entry >= 0 and found < count:
                if lower >= 0 and negated[entry, N_ROW] <= nodes[lower, ROW]:
                    break
                if (
                    (side == 0 or agrees(world, negated[entry, N_ROW], node))
                    and in_scope(world, part, entry, lower, upper_row, scope)
                    and counts(world, part, entry, node, opened)
                ):
                    chosen[part - first, found] = negated[entry, N_ROW]
                    found += 1
                entry = negated[entry, OLDER]
        if found == 0:
            return False
    return count == 1 or different(chosen, np.full(count, -1, np.int64), 0)


@kernel(INTEGERS())
def anywhere():
    """A scope without bounds."""
    scope = np.empty(5, np.int64)
    scope[AFTER_TIME] = scope[LOW_RANK] = -(2**63)
    scope[BEFORE_TIME] = scope[HIGH_RANK] = scope[LAST_RANK] = 2**63 - 1
    return scope


@kernel(INTEGERS(WORLD, types.int64, types.int64))
def start_scope(world, node, window):
    """How far a negated start reaches back: from the last event, or to the begin of the explicit window."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    scope = anywhere()
    kind = shape[WINDOW_KIND]
    if shape[WITHIN] >= 0:
        scope[AFTER_TIME] = cells[nodes[node, ROW], CELL_TIME] - shape[WITHIN]
    elif shape[WITHIN_EVENTS] >= 0:
        scope[LOW_RANK] = nodes[node, P_RANK] - shape[WITHIN_EVENTS] + 1
    elif kind == TIME_WINDOW:
        scope[AFTER_TIME] = window * shape[WINDOW_SLIDE] - 1
    elif kind == COUNT_WINDOW or kind == PARTITION_WINDOW:
        scope[LOW_RANK] = window * shape[WINDOW_SLIDE]
    elif kind == OPENED_TIME or kind == OPENED_COUNT:
        scope[LOW_RANK] = windows[window - state[WINDOW_BASE], O_RANK]
    return scope


@kernel(INTEGERS(WORLD, types.int64, types.int64))
def end_scope(world, node, window):
    """How far a negated end reaches."""
    shape = line(world, T_SHAPE)
    nodes = table(world, T_NODES)
    windows = table(world, T_WINDOWS)
    state = line(world, T_STATE)
    scope = anywhere()
    kind = shape[WINDOW_KIND]
    if shape[WITHIN] >= 0:
        scope[BEFORE_TIME] = nodes[node, FIRST_TIME] + shape[WITHIN]
    elif shape[WITHIN_EVENTS] >= 0:
        scope[HIGH_RANK] = nodes[node, FIRST_P_RANK] + shape[WITHIN_EVENTS]
    elif kind == TIME_WINDOW:
        scope[BEFORE_TIME] = window * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE]
    elif kind == COUNT_WINDOW or kind == PARTITION_WINDOW:
        scope[HIGH_RANK] = window * shape[WINDOW_SLIDE] + shape[WINDOW_SIZE]
    elif kind == OPENED_COUNT:
        scope[HIGH_RANK] = windows[window - state[WINDOW_BASE], O_RANK] + shape[WINDOW_SIZE]
    elif kind == OPENED_TIME:
        scope[BEFORE_TIME] = windows[window - state[WINDOW_BASE], O_TIME] + shape[WINDOW_SIZE]
    return scope


@kernel(types.boolean(WORLD, types.int64, types.int64, types.int64))
def crossings_prevent(world, slot, node, window):
    """Whether a negation before or between the events of a finished match, not decided so far, prevents it (in a window)."""
    nodes = table(world, T_NODES)
    crossed = table(world, T_CROSSED)
    at = nodes[node, CROSSED]
    while at >= 0:
        lower = crossed[at, C_LOWER]
        scope = start_scope(world, node, window) if lower < 0 else anywhere()
        if prevented(world, slot, crossed[at, C_NEGATION], node, lower, crossed[at, C_UPPER], scope, 0):
            return True
        at = crossed[at, C_OLDER]
    return False


@kernel(types.int64(WORLD, types.int64, types.int64), counted=False)
def end_of_for(world, negation, node):
    """When a ``FOR`` ends; -1 without."""
    negations = table(world, T_NEGATIONS)
    nodes = table(world, T_NODES)
    cells = table(world, T_CELLS)
    lasting = negations[negation, FOR]
    return cells[nodes[node, ROW], CELL_TIME] + lasting if lasting >= 0 else -1


@kernel(types.boolean(WORLD, types.int64, types.int64))
def already_prevented(world, slot, node):
    """Whether the events bound so far violate a negation between them, as far as that is decided."""
    states = table(world, T_STATES)
    nodes = table(world, T_NODES)
    crossed = table(world, T_CROSSED)
    state = nodes[node, STATE]
    if state < 0:
        return False
    opened = states[state, OPEN]
    at = nodes[node, CROSSED]
    while at >= 0:
        lower = crossed[at, C_LOWER]
        if lower >= 0 and prevented(world, slot, crossed[at, C_NEGATION], node, lower, crossed[at, C_UPPER], anywhere(), opened):
            return True
        at = crossed[at, C_OLDER]
    return False
