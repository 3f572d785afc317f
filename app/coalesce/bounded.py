"""Bounded memory: which tuple goes when another one comes. Decided from the tuples alone, in total order, before they are coalesced.

Memory counts a key's tuples that passed ``where``, have ended, and can still be in a window; the last tuple of a key is open and always kept. A
tuple enters memory when the next one of its key comes, for only then its interval is known (and whether another one of its time replaces it).
So what goes depends neither on how the input was split nor on when windows are evaluated.

Who decides is handed in from above: `app.coalesce.memory.TupleMemory`. Engines know no shedders.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from app.coalesce import arrays as at
from app.coalesce import kernels_bounded as of
from app.coalesce.arrays import Arrivals, Integers
from app.coalesce.kernels_bounded import Open, enter_rows, finish
from app.coalesce.memory import Finished, TupleMemory

_STATE = "memory-"
OPEN_ROWS = f"{_STATE}open"
"""The array of the last tuples of all keys."""


def is_memory(name: str) -> bool:
    """Whether an array is the state of a `TupleMemory`."""
    return name.startswith(_STATE) and name != OPEN_ROWS


def memory_of(arrays: Mapping[str, Integers]) -> Mapping[str, Integers]:
    """What `TupleMemory.saved` gave."""
    return {name.removeprefix(_STATE): array for name, array in arrays.items() if is_memory(name)}


def as_memory(saved: Mapping[str, Integers]) -> Mapping[str, Integers]:
    """The same under the names that it has among the arrays of an engine."""
    return {_STATE + name: array for name, array in saved.items()}


def tables_of(rows: Integers, key_cells: int, value_cells: int) -> tuple[Integers, list[Integers]]:
    """Views of open rows: the keys; the values. Each is a mask of nulls and cells."""
    values, own, last = of.OPEN_CELLS, of.OPEN_CELLS + value_cells, of.OPEN_CELLS + 2 * value_cells
    return rows[:, last : last + key_cells], [rows[:, values:own], rows[:, own:last]]


class Bound:
    """The bound of one query's memory.

    Args:
        rules: the query as integers, see `app.coalesce.arrays`.
        memory: who decides.
        key_cells, value_cells: how many cells the key and the values have, their masks of nulls among them.
    """

    def __init__(self, rules: Integers, memory: TupleMemory, key_cells: int, value_cells: int) -> None:
        self._rules, self._memory = rules, memory
        self._key_cells, self._value_cells = key_cells, value_cells
        self._width = of.OPEN_CELLS + 2 * value_cells + key_cells
        self._open = self._with_room(np.zeros((0, self._width), np.int64), 0)

    def drops(self, arrivals: Arrivals, rank: int, now: int) -> Integers:
        """Which tuples go.

        Args:
            arrivals: in total order, behind those of earlier calls.
            rank: how many tuples came before.
            now: ms, no arrival is earlier.

        Returns:
            int64 (arrivals,), the rank of the tuple of its key that goes when each of them has come; -1: none.
        """
        count = len(arrivals.time)
        if int(self._open.used[0]) + count > len(self._open.table):
            self.sweep(rank, now)
            self._open = self._with_room(self._rows(), count)
        finished = np.empty((count, of.FINISHED), np.int64)
        finished = finished[: finish(self._rules, self._open, arrivals, rank, finished)]
        dropped = np.full(count, -1, np.int64)
        dropped[finished[:, of.BY]] = self._memory.arrive(Finished(*(finished[:, k].copy() for k in range(of.BY))))
        return dropped

    def sweep(self, rank: int, now: int) -> None:
        """Forgets keys of which nothing can come into a window any more.

        Args:
            rank: how many tuples came.
            now: ms, no later one is earlier.
        """
        rules, rows = self._rules, self._rows()
        oldest = rank - int(rules[at.RANGE]) + 1 if rules[at.COUNTED] else at.NEVER
        ended = at.NEVER if rules[at.COUNTED] or now <= at.NEVER else now - int(rules[at.RANGE])
        self._memory.expire(oldest, ended)
        idle = np.ones(len(rows), np.bool_)  # what memory has never heard of holds nothing
        heard = self._memory.idle(now)
        known = heard[: len(rows)]
        idle[: len(known)] = known
        end = np.full(len(rows), at.OPEN) if rules[at.DURATION] < 0 else rows[:, of.TIME] + rules[at.DURATION]
        over = (rows[:, of.PASSES] == 0) | (rows[:, of.ORDER] < oldest) | (end <= ended)
        stay = np.flatnonzero(~(idle & over))
        if len(stay) < len(rows) or len(heard) > len(rows):
            self._memory.keep(stay[stay < len(known)])
            self._open = self._with_room(rows[stay], 0)

    def tables(self) -> tuple[Integers, list[Integers]]:
        """Views in which texts have numbers: the keys; the values. Each is a mask of nulls and cells."""
        return tables_of(self._rows(), self._key_cells, self._value_cells)

    def renumbered(self) -> None:
        """Texts in `tables` have new numbers."""
        self._open = self._with_room(self._rows(), 0)

    def saved(self) -> Mapping[str, Integers]:
        """Arrays from which `load` makes the same state; `sweep` first."""
        return {OPEN_ROWS: self._rows(), **as_memory(self._memory.saved())}

    def load(self, arrays: Mapping[str, Integers]) -> None:
        """Takes over what `saved` gave."""
        self._open = self._with_room(arrays[OPEN_ROWS], 0)
        self._memory.load(memory_of(arrays))

    def _rows(self) -> Integers:
        return self._open.table[: self._open.used[0]]

    def _with_room(self, rows: Integers, more: int) -> Open:
        """A table of these rows with room for at least so many more."""
        room = 2 * (len(rows) + more)
        table = np.zeros((room, self._width), np.int64)
        table[: len(rows)] = rows
        places = np.zeros(max(64, 1 << (2 * room - 1).bit_length()), np.int64)
        grown = Open(table, places, np.array([len(rows)], np.int64))
        enter_rows(grown, self._width - self._key_cells)
        return grown
