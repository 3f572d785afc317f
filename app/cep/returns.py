"""Builds the columns of matches: plain attributes are gathered, everything else runs as a program over the matches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.cep.arrays import BASE, ROWS, Integers, Output
from app.cep.kernels_columns import gather_cells
from app.cep.kernels_machine import Scratch, evaluate_rows
from app.cep.layout import FieldSource, Layout
from app.cep.matches import EventTable, Matches
from app.cep.opcodes import BECAME_FLOAT, CELL_OFFSET, CELL_SOURCE, CELL_TIME, CELL_TYPE
from app.cep.store import Store
from app.cep.texts import TextTable
from app.events.batch import NULL, Column, Dictionary
from app.events.types import Kind
from app.query.plan import Plan

_ALL_PRESENT = 1


def matches_of(output: Output, count: int, store: Store, layout: Layout, texts: TextTable, plan: Plan) -> Matches:
    """The first ``count`` matches of an output as columns."""
    rows, time = output.rows[:count], output.time[:count]
    if 2 * count + 1024 < len(output.time):  # do not keep a large buffer alive for a few matches
        rows, time = rows.copy(), time.copy()
    stored = int(store.state[ROWS] - store.state[BASE])
    cells = store.cells[:stored]
    dictionary = texts.dictionary()
    types = Column(Kind.STRING, cells[:, CELL_TYPE].astype(np.int32) if count else np.zeros(0, np.int32), None, dictionary)
    events = EventTable(cells[:, CELL_TIME], cells[:, CELL_SOURCE], cells[:, CELL_OFFSET], types)
    fields = {field.name: _field(field, rows, store.cells, layout, texts, dictionary) for field in layout.fields}
    last = rows.shape[1] - 1
    key = {}
    for name in sorted(plan.equivalence):
        source = FieldSource(name, layout.kinds.get(name, Kind.INTEGER), last, layout.attributes[name], 0, 0)
        key[name] = _field(source, rows, store.cells, layout, texts, dictionary)
    return Matches(time, rows, events, fields, key)


def _field(field: FieldSource, rows: Integers, cells: Integers, layout: Layout, texts: TextTable, dictionary: Dictionary) -> Column:
    values, states = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint8)
    if field.cell >= 0:
        seen = gather_cells(rows, cells, layout.states_at, field.place, field.cell, values, states)
    else:
        depth = field.stop - field.start + 2
        scratch = Scratch(np.zeros(depth, np.int64), np.zeros(depth, np.int64))
        seen = evaluate_rows(
            layout.programs, field.start, field.stop, cells, layout.states_at, rows, layout.place_of_item, texts.arrays(), scratch, values, states
        )
    return _column(field, values, states, seen, dictionary)


def _column(field: FieldSource, values: Integers, states: NDArray[np.uint8], seen: int, dictionary: Dictionary) -> Column:
    """A field's values as a column; an absent attribute is null in a composite event."""
    became_float = seen >> BECAME_FLOAT & 1
    if field.kind.textual:
        return Column(field.kind, values.astype(np.int32), _missing(states, seen), dictionary)
    if field.kind is Kind.FLOAT:
        return Column(Kind.FLOAT, values.view(np.float64), _missing(states, seen))
    if became_float:
        # an integer left 64 bit: the column of this feed is one of floats
        floats = np.where(states == BECAME_FLOAT, values.view(np.float64), values.astype(np.float64))
        return Column(Kind.FLOAT, floats, _missing(states, seen))
    return Column(field.kind, values, _missing(states, seen))


def _missing(states: NDArray[np.uint8], seen: int) -> NDArray[np.uint8] | None:
    if seen & ~(_ALL_PRESENT | 1 << BECAME_FLOAT) == 0:
        return None
    return np.where((states != 0) & (states != BECAME_FLOAT), NULL, 0).astype(np.uint8)


