"""States taken apart by partition, and put together again: what it takes to move partitions from one engine to another.

Partitions know nothing of each other, so a state is the sum of its partitions, and of the negated events that belong to none and that every engine
holds. Here is what the evaluators have in common; each has a module ``regroup`` of its own with ``merged`` and ``parted``.

Rows of the new state stand in total order, which every engine's do inside a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.cep.candidates.layout import Taking, text_cells
from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME, CELL_TYPE, STATES_PER_WORD, Integers
from app.cep.cells.known import Known
from app.cep.cells.texts import TextTable, renumber_cells
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.state import ArrayFormat, Header, kept, unpack
from app.errors import SnapshotError
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Plan

Owner = Callable[[EventBatch], Integers]
"""Per event the number of the part to which it goes by its partition key; `EVERYWHERE`: it belongs to no partition."""
EVERYWHERE = -1
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Opened:
    """A state that is to be moved: its header, its arrays (texts by the numbers of `Union.texts`)."""

    header: Header
    arrays: dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Union:
    """Several states of one plan, with one numbering of texts.

    Attributes:
        known: the kinds of columns that any of the states has seen, and the texts.
        states: those that hold something.
    """

    known: Known
    states: tuple[Opened, ...]


def opened(written: ArrayFormat, plan: Plan, states: Sequence[Buffer], constants: Iterable[bytes]) -> Union:
    """Opens states of one plan; their cells are still to be renumbered (`renumbered`), since only a layout says which are texts.

    Args:
        written: by which engine.
        plan: theirs.
        states: at least one.
        constants: the texts that the plan's engines pin.

    Raises:
        SnapshotError: one is no state of the plan by that engine, or they speak of columns of different kinds.
    """
    known = Known.of(plan, constants)
    found = []
    for data in states:
        header, arrays = unpack(written, data)
        header.require(plan.fingerprint, partitioned=True)
        for name, kind in header.kinds.items():
            if known.kinds.setdefault(name, kind) is not kind:
                raise SnapshotError(f"query {plan.name}: its buckets hold {name} as {known.kinds[name].value} and as {kind.value}")
        found.append(Opened(header, dict(arrays)))
    return Union(known, tuple(found))


def packed(written: ArrayFormat, plan: Plan, union: Union, arrays: Arrays) -> Buffer:
    """The arrays, with the texts that they speak of, as one state of the plan."""
    return b"".join(kept(written, plan.fingerprint, union.known, arrays))


def renumbered(union: Union, taking: Taking, first_key: int) -> None:
    """Gives the texts in cells and partition tables the numbers of the union.

    Args:
        union: changed in place.
        taking: how the plan's candidates are taken up, for the union's kinds.
        first_key: where the key begins in a slot.

    Raises:
        SnapshotError: a state was laid out otherwise.
    """
    columns = text_cells(taking)
    for state in union.states:
        arrays = state.arrays
        if arrays["cells"].shape[1] != taking.width:
            raise SnapshotError("states of one query are laid out in different ways")
        numbers = arrays["text_numbers"] = numbers_in(union.known.texts, arrays)
        for name in ("cells", "slots"):
            arrays[name] = arrays[name].copy()
        renumber_cells(arrays["cells"], columns, numbers)
        for k, cell in enumerate(taking.keys.tolist()):
            if cell in columns:
                arrays["slots"][:, first_key + k] = numbers[arrays["slots"][:, first_key + k]]


def numbers_in(texts: TextTable, arrays: Arrays) -> Integers:
    """By a state's number of a text, its number in a table, new or known."""
    count = len(arrays["text_offsets"]) - 1
    numbers = np.zeros((max(count, 1), 1), np.int64)
    dictionary = Dictionary(np.array(arrays["text_data"], np.uint8), np.array(arrays["text_offsets"], np.int64))
    column = Column(Kind.STRING, np.arange(count, dtype=np.int32), None, dictionary)
    texts.number_column(column, np.arange(count, dtype=np.int64), numbers[:count], 0)
    return np.ascontiguousarray(numbers[:, 0])


def events_in(cells: Integers, taking: Taking, dictionary: Dictionary) -> EventBatch:
    """Rows of cells as the events that they were, with the attributes that the plan names."""
    columns = {
        name: _column(cells, cell, taking, taking.kinds[name], dictionary)
        for name, cell in taking.attributes.items()
        if name in taking.kinds
    }
    time, source, offset = (np.ascontiguousarray(cells[:, cell]) for cell in (CELL_TIME, CELL_SOURCE, CELL_OFFSET))
    return EventBatch(time, source, offset, _column(cells, CELL_TYPE, taking, Kind.STRING, dictionary), columns)


def _column(cells: Integers, cell: int, taking: Taking, kind: Kind, dictionary: Dictionary) -> Column:
    states = (cells[:, taking.states_at + cell // STATES_PER_WORD] >> 2 * (cell % STATES_PER_WORD) & 3).astype(np.uint8)
    return _as_column(np.ascontiguousarray(cells[:, cell]), kind, states if states.any() else None, dictionary)


def _as_column(values: Integers, kind: Kind, state: NDArray[np.uint8] | None, dictionary: Dictionary) -> Column:
    if kind.textual:
        codes = values if state is None else np.where(state == 0, values, 0)
        return Column(kind, codes.astype(np.int32), state, dictionary)
    return Column(kind, values.view(np.float64) if kind is Kind.FLOAT else values, state)


def partitions_in(slots: Integers, taking: Taking, first_key: int, dictionary: Dictionary) -> EventBatch:
    """Every slot as an event that has the partition's key and nothing else."""
    none = np.zeros(len(slots), np.int64)
    columns = {
        name: _as_column(np.ascontiguousarray(slots[:, first_key + k]), kind, None, dictionary)
        for k, (name, kind, _) in enumerate(taking.key)
    }
    return EventBatch(none, none, none, Column(Kind.STRING, none.astype(np.int32), None, dictionary), columns)


def in_total_order(cells: Sequence[Integers]) -> tuple[list[Integers], int]:
    """Numbers rows of several tables in total order; what several hold (the same event) gets one number.

    Returns:
        Per table the new number of every row; how many there are.
    """
    if sum(len(rows) > 0 for rows in cells) <= 1:  # composite events of one time have an order of their own, and are all in one bucket
        return [np.arange(len(rows)) for rows in cells], max(map(len, cells), default=0)
    every = np.concatenate([rows[:, [CELL_TIME, CELL_SOURCE, CELL_OFFSET]] for rows in cells])
    order = np.lexsort((every[:, 2], every[:, 1], every[:, 0]))
    ordered = every[order]
    fresh = np.ones(len(every), np.bool_)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(every), np.int64)
    numbers[order] = np.cumsum(fresh) - 1
    bounds = np.cumsum([len(rows) for rows in cells])[:-1]
    return list(np.split(numbers, bounds)), int(np.count_nonzero(fresh))


def numbered(kept: NDArray[np.bool_]) -> Integers:
    """New numbers of what is kept, -1 of the rest.

    >>> numbered(np.array([True, False, True])).tolist()
    [0, -1, 1]
    """
    return np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int64)


def moved(numbers: Integers, pointers: Integers) -> Integers:
    """Pointers to rows that have new numbers; negative ones stay."""
    return np.where(pointers >= 0, numbers[np.maximum(pointers, 0)], pointers) if len(numbers) else pointers.copy()


def followed(heads: Integers, following: Integers) -> NDArray[np.bool_]:
    """Which entries are on the chains that begin at ``heads``; ``following``: the next entry of each, negative at the end."""
    found = np.zeros(len(following), np.bool_)
    entries = heads[heads >= 0]
    while len(entries):
        found[entries] = True
        entries = following[entries]
        entries = entries[entries >= 0]
    return found


def is_of(owners: Integers, part: int) -> NDArray[np.bool_]:
    """What goes to one part."""
    return (owners == part) | (owners == EVERYWHERE)
