"""What goes out: fields, lists and bound events of matches, read off their chains of nodes."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import types

from app.cep.kernel import kernel
from app.cep.kernels_machine import INTEGERS, cell_state, run_program
from app.cep.opcodes import FLOAT, INTEGER, NULL
from app.cep.runs.arrays import (
    CODE,
    CODE_END,
    ELEMENT,
    FRAME,
    ITEM,
    PARENT,
    PREVIOUS,
    ROW,
    RUN_MACHINE,
    RUN_MEMORY,
    RUN_TABLES,
    STATES_AT,
)
from app.cep.runs.kernels_tests import NO_I, place_references


@kernel(types.int64(RUN_TABLES, RUN_MACHINE, RUN_MEMORY, types.int64, INTEGERS, INTEGERS, types.uint8[::1]))
def field_values(tables, machine, memory, predicate, found, values, states):
    """A return field of every match; states as `evaluate_rows` has them. Returns their union."""
    start, stop = tables.predicates[predicate, CODE], tables.predicates[predicate, CODE_END]
    seen = 0
    for k in range(len(found)):
        place_references(tables, machine, memory, predicate, found[k], NO_I, 0)
        run_program(machine.programs, start, stop, memory.cells, tables.shape[STATES_AT], machine.bound, machine.texts, machine.scratch)
        values[k] = machine.scratch.values[0]
        tag = machine.scratch.tags[0]
        states[k] = 0 if tag == INTEGER else (3 if tag == FLOAT else (1 if tag == NULL else 2))
        seen |= 1 << states[k]
    return seen


@kernel(types.void(RUN_TABLES, RUN_MEMORY, types.int64, INTEGERS, INTEGERS))
def list_starts(tables, memory, binding, found, starts):
    """Where the list of every match begins: as many elements as the closure bound."""
    starts[0] = 0
    for k in range(len(found)):
        newest = memory.nodes[found[k], tables.shape[FRAME] + binding]
        starts[k + 1] = starts[k] + (memory.nodes[newest, ELEMENT] if newest >= 0 else 0)


@kernel(types.int64(RUN_TABLES, RUN_MEMORY, types.int64, types.int64, INTEGERS, INTEGERS, INTEGERS, types.uint8[::1]))
def list_values(tables, memory, binding, cell, found, starts, values, states):
    """The elements of a closure's attribute, match by match."""
    seen = 0
    for k in range(len(found)):
        node = memory.nodes[found[k], tables.shape[FRAME] + binding]
        place = starts[k + 1] - 1
        while node >= 0:
            row = memory.nodes[node, ROW]
            values[place] = memory.cells[row, cell]
            states[place] = cell_state(memory.cells, row, cell, tables.shape[STATES_AT])
            seen |= 1 << states[place]
            place -= 1
            node = memory.nodes[node, PREVIOUS]
    return seen


@kernel(types.void(RUN_MEMORY, INTEGERS, INTEGERS))
def chain_starts(memory, found, starts):
    """Where the bound events of every match begin."""
    starts[0] = 0
    for k in range(len(found)):
        count = 0
        node = found[k]
        while node >= 0:
            count += 1
            node = memory.nodes[node, PARENT]
        starts[k + 1] = starts[k] + count


@kernel(types.void(RUN_MEMORY, INTEGERS, INTEGERS, INTEGERS, INTEGERS))
def chain_events(memory, found, starts, items, rows):
    """The bound events of every match in total order."""
    for k in range(len(found)):
        node, place = found[k], starts[k + 1] - 1
        while node >= 0:
            items[place], rows[place] = memory.nodes[node, ITEM], memory.nodes[node, ROW]
            place -= 1
            node = memory.nodes[node, PARENT]


@kernel(types.void(RUN_MEMORY, INTEGERS, types.int64, types.int64, INTEGERS, types.uint8[::1]))
def key_values(memory, found, cell, states_at, values, states):
    """An equivalence attribute of every match."""
    for k in range(len(found)):
        row = memory.nodes[found[k], ROW]
        values[k] = memory.cells[row, cell]
        states[k] = cell_state(memory.cells, row, cell, states_at)
