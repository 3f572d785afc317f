"""Takes the candidate events of a batch up into cells, with derived cells, own conditions checked and partition keys hashed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.kernels_columns import (
    filter_candidates,
    key_candidates,
    normalise_float_key,
    pick_candidates,
    put_cells,
    take_identity,
    take_states,
    take_values,
)
from app.cep.candidates.layout import Parts, Taking
from app.cep.cells.arrays import CELL_TYPE, STATES_PER_WORD, Candidates, Integers, as_input, machine_scratch
from app.cep.cells.texts import TextTable
from app.cep.predicates.kernels_machine import evaluate_rows
from app.cep.predicates.program import OCTETS, ProgramCell, TextCell, like_matches
from app.events.batch import ABSENT, Column, EventBatch
from app.events.types import Kind

_NO_ROWS = np.zeros((0, 0), np.int64)


class _Buffers(threading.local):
    """Room for the candidates of one chunk. All engines of a thread share it: it stays in the cache, and 1,000 queries need it once."""

    def __init__(self) -> None:
        self.rows = self.masks = self.hashes = np.empty(0, np.int64)
        self.flat = np.empty(0, np.int64)

    def reserve(self, candidates: int, width: int) -> None:
        """Makes room where there is less."""
        if len(self.rows) < candidates:
            self.rows, self.masks, self.hashes = (np.empty(candidates, np.int64) for _ in range(3))
        if len(self.flat) < candidates * width:
            self.flat = np.empty(candidates * width, np.int64)


_buffers = _Buffers()


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Candidates taken up at once.

    Attributes:
        rows: int64 (candidates,), their places in the batch.
        table: what the kernels read; valid until the next chunk is taken up.
        following: the event of the batch to go on with.
    """

    rows: Integers
    table: Candidates
    following: int


def pin_kinds(batch: EventBatch, attributes: Iterable[str], kinds: dict[str, Kind]) -> bool:
    """Pins the kinds of columns when they are first seen; cells of one column must mean the same in all batches.

    Args:
        batch: whose columns are looked at; an empty one tells nothing.
        attributes: that an engine reads.
        kinds: of columns seen so far, in-out.

    Returns:
        Whether a kind has become known.

    Raises:
        ValueError: a column has become one of another kind.
    """
    news = {}
    for name in attributes if len(batch) else ():
        column = batch.columns.get(name)
        if column is None:
            continue
        known = kinds.get(name)
        if known is None:
            news[name] = column.kind
        elif known.textual != column.kind.textual or (column.kind is Kind.FLOAT and known is not Kind.FLOAT):
            raise ValueError(f"column {name!r} was {known} and is now {column.kind}")
    kinds.update(news)
    return bool(news)


def take_up(batch: EventBatch, masks: Integers, start: int, size: int, parts: Parts) -> Chunk:
    """Takes up the next candidates of a batch.

    Args:
        batch: events in processing order.
        masks: int64 (events,), candidate items.
        start: the event to begin with.
        size: candidates at most.
        parts: of the engine.
    """
    width = parts.taking.width
    _buffers.reserve(size + 1, width)
    rows, picked = _buffers.rows[: size + 1], _buffers.masks[: size + 1]
    count, following = pick_candidates(masks, parts.taking.all_items, start, rows, picked)
    cells = _buffers.flat[: count * width].reshape(count, width)
    chunk = Chunk(rows[:count], Candidates(picked[:count], _buffers.hashes[:count], cells), following)
    if count:
        _fill(batch, chunk, parts)
    return chunk


def _fill(batch: EventBatch, chunk: Chunk, parts: Parts) -> None:
    taking, table = parts.taking, chunk.table
    cells = table.cells
    time, source, offset = (as_input(values, np.int64) for values in (batch.time, batch.source, batch.offset))
    take_identity(time, source, offset, chunk.rows, cells, taking.states_at)
    parts.texts.number_column(batch.type, chunk.rows, cells, CELL_TYPE)
    for name, cell in taking.attributes.items():
        _take_column(batch.columns.get(name), taking.kinds.get(name), cell, chunk, parts)
    for derived in taking.derived:
        _derive(derived, cells, parts)
    key_candidates(taking.keys, taking.agreeing, cells, taking.states_at, table.masks, table.hashes, taking.outside_mask)
    check_conditions(table, parts)


def _take_column(column: Column | None, kind: Kind | None, cell: int, chunk: Chunk, parts: Parts) -> None:
    rows, cells, states_at = chunk.rows, chunk.table.cells, parts.taking.states_at
    if column is None:
        parts.store.spotted.add(cell)
        cells[:, cell] = 0
        cells[:, states_at + cell // STATES_PER_WORD] |= ABSENT << 2 * (cell % STATES_PER_WORD)
        return
    if column.kind.textual:
        parts.texts.number_column(column, rows, cells, cell)
    else:
        values = as_input(column.values, np.float64 if kind is Kind.FLOAT else np.int64)
        take_values(values.view(np.int64), rows, cells, cell)
    if column.state is not None:
        parts.store.spotted.add(cell)
        take_states(as_input(column.state, np.uint8), rows, cells, cell, states_at)
    if kind is Kind.FLOAT and cell in parts.taking.agreeing:
        normalise_float_key(cells, len(rows), cell, states_at)


def _derive(derived: TextCell | ProgramCell, cells: Integers, parts: Parts) -> None:
    taking = parts.taking
    if isinstance(derived, TextCell):
        values = _text_values(derived, np.ascontiguousarray(cells[:, derived.source]), parts.texts)
        shift = 2 * (derived.source % STATES_PER_WORD)
        states = (cells[:, taking.states_at + derived.source // STATES_PER_WORD] >> shift & 3).astype(np.uint8)
    else:
        values, states = np.empty(len(cells), np.int64), np.empty(len(cells), np.uint8)
        program = (taking.programs, derived.start, derived.stop)
        scratch, texts = machine_scratch(derived.stop - derived.start), parts.texts.arrays()
        evaluate_rows(*program, cells, taking.states_at, _NO_ROWS, taking.place_of_item, texts, scratch, values, states)
    if states.any():
        parts.store.spotted.add(derived.column)
    put_cells(values, states, cells, derived.column, taking.states_at)


def without_key(cells: Integers, taking: Taking) -> NDArray[np.bool_]:
    """Bool (candidates,): one of the partition's attributes is null or absent."""
    lacks = np.zeros(len(cells), np.bool_)
    for cell in taking.agreeing.tolist():
        lacks |= cells[:, taking.states_at + cell // STATES_PER_WORD] >> 2 * (cell % STATES_PER_WORD) & 3 != 0
    return lacks


def check_conditions(table: Candidates, parts: Parts) -> None:
    """Takes items from candidates that do not satisfy what is asked of them alone."""
    taking = parts.taking
    for item, start, stop in taking.local:
        bound, scratch = np.zeros(len(taking.place_of_item), np.int64), machine_scratch(stop - start)
        program = (taking.programs, start, stop)
        filter_candidates(*program, item, table.cells, taking.states_at, bound, parts.texts.arrays(), scratch, table.masks)


def _text_values(derived: TextCell, numbers: Integers, texts: TextTable) -> Integers:
    """The function of every text, called once per distinct text."""
    pattern = derived.pattern
    if pattern is not None:
        return texts.computed(f"like {pattern}", lambda text: int(like_matches(pattern, _decoded(text))), numbers)
    if derived.function == OCTETS:
        return texts.computed(OCTETS, len, numbers)
    if derived.function == "length":
        return texts.computed("length", lambda text: len(_decoded(text)), numbers)
    change = str.lower if derived.function == "lower" else str.upper
    return texts.computed(derived.function, lambda text: texts.number(change(_decoded(text)).encode()), numbers)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
