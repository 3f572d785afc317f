"""Takes the candidate events of a batch up into cells, with derived cells, own conditions checked and partition keys hashed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.cep.arrays import Candidates, as_input
from app.cep.kernels_columns import (
    filter_candidates,
    key_candidates,
    normalise_float_key,
    pick_candidates,
    put_cells,
    take_identity,
    take_states,
    take_values,
)
from app.cep.kernels_machine import Scratch, evaluate_rows
from app.cep.layout import Layout
from app.cep.opcodes import CELL_TYPE, STATES_PER_WORD
from app.cep.program import ProgramCell, TextCell, like_matches
from app.cep.texts import TextTable
from app.events.batch import ABSENT, Column, EventBatch
from app.events.types import Kind

_NO_ROWS = np.zeros((0, 0), np.int64)


class CandidateTable:
    """Buffers for the candidates of one chunk, used again and again so that they stay in the cache.

    Args:
        chunk: candidates at once.
    """

    def __init__(self, chunk: int) -> None:
        self._rows = np.empty(chunk + 1, np.int64)
        self._masks = np.empty(chunk + 1, np.int64)
        self._hashes = np.empty(chunk + 1, np.int64)
        self._cells = np.empty((0, 0), np.int64)

    def arrays(self, count: int) -> Candidates:
        """What the kernels read."""
        return Candidates(self._masks[:count], self._hashes[:count], self._cells[:count])

    def take(
        self, batch: EventBatch, masks: NDArray[np.int64], wanted: int, start: int, layout: Layout, texts: TextTable, spotted: set[int]
    ) -> tuple[int, int]:
        """Takes up the next candidates from event ``start`` on; returns how many, and the event to go on with."""
        count, following = pick_candidates(masks, wanted, start, self._rows, self._masks)
        if self._cells.shape[1] != layout.width:
            self._cells = np.empty((len(self._rows), layout.width), np.int64)
        if count:
            self._fill(batch, count, layout, texts, spotted)
        return count, following

    def _fill(self, batch: EventBatch, count: int, layout: Layout, texts: TextTable, spotted: set[int]) -> None:
        rows, cells = self._rows[:count], self._cells[:count]
        time, source, offset = (as_input(values, np.int64) for values in (batch.time, batch.source, batch.offset))
        take_identity(time, source, offset, rows, cells, layout.states_at)
        texts.number_column(batch.type, rows, cells, CELL_TYPE)
        for name, cell in layout.attributes.items():
            self._take(batch.columns.get(name), name, cell, rows, cells, layout, texts, spotted)
        for derived in layout.derived:
            self._derive(derived, cells, layout, texts, spotted)
        tables = layout.tables
        key_candidates(tables.keys, tables.agreeing, cells, layout.states_at, self._masks[:count], self._hashes[:count], layout.outside_mask)
        self._check(cells, count, layout, texts)

    @staticmethod
    def _take(
        column: Column | None,
        name: str,
        cell: int,
        rows: NDArray[np.int64],
        cells: NDArray[np.int64],
        layout: Layout,
        texts: TextTable,
        spotted: set[int],
    ) -> None:
        if column is None:
            spotted.add(cell)
            cells[:, cell] = 0
            cells[:, layout.states_at + cell // STATES_PER_WORD] |= ABSENT << 2 * (cell % STATES_PER_WORD)
            return
        if column.kind.textual:
            texts.number_column(column, rows, cells, cell)
        else:
            as_float = layout.kinds.get(name) is Kind.FLOAT
            values = as_input(column.values, np.float64 if as_float else np.int64)
            take_values(values.view(np.int64), rows, cells, cell)
        if column.state is not None:
            spotted.add(cell)
            take_states(as_input(column.state, np.uint8), rows, cells, cell, layout.states_at)
        if layout.kinds.get(name) is Kind.FLOAT and cell in layout.tables.agreeing:
            normalise_float_key(cells, len(rows), cell, layout.states_at)

    @staticmethod
    def _derive(derived: TextCell | ProgramCell, cells: NDArray[np.int64], layout: Layout, texts: TextTable, spotted: set[int]) -> None:
        if isinstance(derived, TextCell):
            values = _text_values(derived, np.ascontiguousarray(cells[:, derived.source]), texts)
            shift = 2 * (derived.source % STATES_PER_WORD)
            states = (cells[:, layout.states_at + derived.source // STATES_PER_WORD] >> shift & 3).astype(np.uint8)
        else:
            values, states = np.empty(len(cells), np.int64), np.empty(len(cells), np.uint8)
            place = np.zeros(len(layout.place_of_item), np.int64)
            depth = derived.stop - derived.start + 2
            scratch = Scratch(np.zeros(depth, np.int64), np.zeros(depth, np.int64))
            evaluate_rows(
                layout.programs, derived.start, derived.stop, cells, layout.states_at, _NO_ROWS, place, texts.arrays(), scratch, values, states
            )
        if states.any():
            spotted.add(derived.column)
        put_cells(values, states, cells, derived.column, layout.states_at)

    def _check(self, cells: NDArray[np.int64], count: int, layout: Layout, texts: TextTable) -> None:
        if not layout.local:
            return
        bound = np.zeros(len(layout.place_of_item), np.int64)
        depth = len(layout.programs.code) + 2
        scratch = Scratch(np.zeros(depth, np.int64), np.zeros(depth, np.int64))
        for item, first, stop in layout.local:
            filter_candidates(
                layout.programs, first, stop, item, cells, layout.states_at, bound, texts.arrays(), scratch, self._masks[:count]
            )


def _text_values(derived: TextCell, numbers: NDArray[np.int64], texts: TextTable) -> NDArray[np.int64]:
    """The function of every text, called once per distinct text."""
    pattern = derived.pattern
    if pattern is not None:
        return texts.computed(f"like {pattern}", lambda text: int(like_matches(pattern, text)), numbers)
    if derived.function == "length":
        return texts.computed("length", len, numbers)
    change = str.lower if derived.function == "lower" else str.upper
    return texts.computed(derived.function, lambda text: texts.number(change(text).encode()), numbers)
