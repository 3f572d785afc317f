"""Return fields as columns: plain attributes are gathered, everything else runs as a program over the matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import Parts
from app.cep.cells.arrays import BECAME_FLOAT, CELL_OFFSET, CELL_SOURCE, CELL_TIME, CELL_TYPE, Integers, machine_scratch
from app.cep.cells.texts import TextTable
from app.cep.matches import EventTable
from app.cep.predicates.kernels_machine import evaluate_rows
from app.cep.returns.kernels_gather import gather_cells, gather_present
from app.events.batch import NULL, Column, Dictionary
from app.events.pages import PAGES
from app.events.types import Kind

_ALL_PRESENT = 1
FEW_TEXTS = 256
"""Below this, sharing the engine's texts costs readers less than looking up which occur."""


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where a return field comes from: a cell of one bound event (``cell >= 0``), or a program."""

    name: str
    kind: Kind
    place: int
    cell: int
    start: int
    stop: int


def event_table(cells: Integers, texts: TextTable) -> EventTable:
    """Rows of cells as what matches refer to."""
    types = Column(Kind.STRING, cells[:, CELL_TYPE], None, texts.dictionary())
    return EventTable(cells[:, CELL_TIME], cells[:, CELL_SOURCE], cells[:, CELL_OFFSET], types)


def typed_column(kind: Kind, texts: TextTable, values: Integers, states: NDArray[np.uint8], seen: int) -> Column:
    """A field's values as a column; an absent attribute is null in a composite event.

    Args:
        kind: of the field.
        texts: of the engine.
        values: int64 (matches,), floats as their bits, texts as their number.
        states: uint8 (matches,), see `evaluate_rows`; not read where ``seen`` says that all are present.
        seen: union of the states, as bits ``1 << state``.
    """
    if kind.textual:
        return _text_column(kind, texts, values, _missing(states, seen))
    if kind is Kind.FLOAT:
        return Column(Kind.FLOAT, values.view(np.float64), _missing(states, seen))
    if seen >> BECAME_FLOAT & 1:
        # an integer left 64 bit: the column of this feed is one of floats
        floats = np.where(states == BECAME_FLOAT, values.view(np.float64), values.astype(np.float64))
        return Column(Kind.FLOAT, floats, _missing(states, seen))
    return Column(kind, values, _missing(states, seen))


def _text_column(kind: Kind, texts: TextTable, numbers: Integers, state: NDArray[np.uint8] | None) -> Column:
    """Codes into all texts of the engine, or into those that occur where they are few: readers pay per entry."""
    if len(texts) <= FEW_TEXTS or 4 * len(numbers) > len(texts):
        return Column(kind, numbers.astype(np.int32), state, texts.dictionary())
    if state is not None:
        numbers = np.where(state == 0, numbers, 0)
    occurring, codes = np.unique(numbers, return_inverse=True)
    return Column(kind, codes.astype(np.int32), state, Dictionary.of([texts.text(number) for number in occurring.tolist()]))


class Columns:
    """Columns of the matches at ``rows``."""

    def __init__(self, rows: Integers, parts: Parts, cells: Integers | None = None) -> None:
        self._rows, self._taking, self._texts = rows, parts.taking, parts.texts
        self._cells = parts.store.cells if cells is None else cells
        self._always_present = set(range(parts.taking.states_at)) - parts.store.spotted if cells is None else set()

    def of(self, fields: Sequence[FieldSource]) -> list[Column]:
        """One per field; those that are nothing but cells that have always been present are gathered in one go."""
        if not len(self._rows):
            nothing = np.zeros(0, np.int64)
            return [typed_column(field.kind, self._texts, nothing, np.zeros(0, np.uint8), _ALL_PRESENT) for field in fields]
        plain = [k for k, field in enumerate(fields) if field.cell >= 0 and field.cell in self._always_present]
        places = np.array([fields[k].place for k in plain], np.int64)
        cells = np.array([fields[k].cell for k in plain], np.int64)
        values = PAGES.empty(len(plain), len(self._rows))
        gather_present(self._rows, self._cells, places, cells, values)
        gathered = dict(zip(plain, values, strict=True))
        return [self._column(field, gathered.get(k)) for k, field in enumerate(fields)]

    def _column(self, field: FieldSource, gathered: Integers | None) -> Column:
        if gathered is not None:
            return typed_column(field.kind, self._texts, gathered, np.zeros(0, np.uint8), _ALL_PRESENT)
        taking, cells, rows = self._taking, self._cells, self._rows
        values, states = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint8)
        if field.cell >= 0:
            seen = gather_cells(rows, cells, taking.states_at, field.place, field.cell, values, states)
        else:
            scratch = machine_scratch(field.stop - field.start)
            texts, places = self._texts.arrays(), taking.place_of_item
            program = (taking.programs, field.start, field.stop)
            seen = evaluate_rows(*program, cells, taking.states_at, rows, places, texts, scratch, values, states)
        return typed_column(field.kind, self._texts, values, states, seen)


def _missing(states: NDArray[np.uint8], seen: int) -> NDArray[np.uint8] | None:
    if seen & ~(_ALL_PRESENT | 1 << BECAME_FLOAT) == 0:
        return None
    return np.where((states != 0) & (states != BECAME_FLOAT), NULL, 0).astype(np.uint8)
