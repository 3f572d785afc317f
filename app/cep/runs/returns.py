"""Builds the columns of the matches that runs found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.cep.arrays import Integers
from app.cep.matches import Constituents, EventTable, Lists, Matches
from app.cep.opcodes import CELL_OFFSET, CELL_SOURCE, CELL_TIME, CELL_TYPE
from app.cep.returns import typed_column
from app.cep.runs import arrays as at
from app.cep.runs.arrays import RunMachine, RunTables, world_of
from app.cep.runs.kernels_returns import chain_events, chain_starts, field_values, key_values, list_starts, list_values
from app.cep.runs.layout import RunField, RunLayout
from app.cep.runs.store import RunStore
from app.cep.texts import TextTable
from app.events.batch import Column
from app.events.types import Kind


@dataclass(frozen=True, slots=True)
class RunParts:
    """What the steps after matching share."""

    layout: RunLayout
    tables: RunTables
    machine: RunMachine
    texts: TextTable
    store: RunStore

    def world(self) -> Integers:
        """The tables as they stand now."""
        return world_of(self.tables, self.machine, self.store.memory())


def chains(world: Integers, nodes: Integers) -> Constituents:
    """The bound events of matches that end with some nodes, in total order."""
    starts = np.zeros(len(nodes) + 1, np.int64)
    chain_starts(world, nodes, starts)
    items, rows = np.empty(int(starts[-1]), np.int64), np.empty(int(starts[-1]), np.int64)
    chain_events(world, nodes, starts, items, rows)
    return Constituents(starts, items, rows)


def matches_of(parts: RunParts, found: Integers) -> Matches:
    """Matches (or timeouts) as columns.

    Args:
        parts: of the engine.
        found: int64 (matches, 3): node, time, window.
    """
    memory, layout, world = parts.store.memory(), parts.layout, parts.world()
    nodes = np.ascontiguousarray(found[:, at.F_NODE])
    cells = memory.cells[: parts.store.state[at.ROWS]] if len(nodes) else memory.cells[:0].copy()
    types = Column(Kind.STRING, cells[:, CELL_TYPE], None, parts.texts.dictionary())
    events = EventTable(cells[:, CELL_TIME], cells[:, CELL_SOURCE], cells[:, CELL_OFFSET], types)
    fields = {field.name: _field(parts, world, field, nodes) for field in layout.fields}
    key = {}
    for name, kind, cell in layout.taking.key:
        values, states = np.empty(len(nodes), np.int64), np.zeros(len(nodes), np.uint8)
        key_values(world, nodes, cell, layout.taking.states_at, values, states)
        key[name] = typed_column(kind, parts.texts, values, states, 1)
    kind = parts.tables.shape[at.WINDOW_KIND]
    windows: Integers | None = None
    if kind != at.NO_WINDOW:
        windows = found[:, at.F_WINDOW].copy()
        if kind in (at.OPENED_TIME, at.OPENED_COUNT):
            windows = memory.windows[windows - parts.store.state[at.WINDOW_BASE], at.O_ROW]
    empty = np.zeros((len(nodes), 0), np.int64)
    return Matches(found[:, at.F_TIME].copy(), empty, events, fields, key, chains(world, nodes), windows)


def _field(parts: RunParts, world: Integers, field: RunField, nodes: Integers) -> Column | Lists:
    if field.predicate >= 0:
        values, states = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.uint8)
        seen = field_values(world, field.predicate, nodes, values, states)
        return typed_column(field.kind, parts.texts, values, states, seen)
    starts = np.zeros(len(nodes) + 1, np.int64)
    if field.binding < 0:
        return Lists(Column(field.kind, np.zeros(0, np.int64), None), starts)
    list_starts(world, field.binding, nodes, starts)
    values, states = np.empty(int(starts[-1]), np.int64), np.empty(int(starts[-1]), np.uint8)
    seen = list_values(world, field.binding, field.cell, nodes, starts, values, states)
    return Lists(typed_column(field.kind, parts.texts, values, states, seen), starts)
