"""The distinct texts of an engine, numbered, so that everywhere else a text is an integer.

Batches carry their own dictionaries; equality between events of different batches needs one numbering. Numbers are given in order
of first use and stay until `keep` drops those that no event in the window uses any more: memory follows live windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import Texts, as_input
from app.cep.cells.kernels_texts import COUNT, USED_BYTES, keep_marked, number_codes, number_of, rebuild_table
from app.events.batch import Column, Dictionary

FEW = 1024
"""Of so many texts none is worth dropping."""
FEW_BYTES = 1 << 23
"""Nor where all of them together take no more: texts may be large."""
UNKNOWN = -(2**63)
"""In a memo of a text function: not yet computed."""


class TextTable:
    """Numbers of distinct byte strings. Arrays handed out stay valid: entries are appended, `keep` makes new arrays.

    Args:
        pinned: texts that are never dropped; they get the numbers 0, 1, 2 …
    """

    def __init__(self, pinned: Iterable[bytes] = ()) -> None:
        self._data = np.zeros(256, np.uint8)
        self._offsets = np.zeros(17, np.int64)
        self._table = np.zeros((32, 2), np.int64)
        self._sizes = np.zeros(2, np.int64)
        self._known: dict[int, tuple[Dictionary, NDArray[np.int64]]] = {}
        self._memos: dict[str, NDArray[np.int64]] = {}
        for text in pinned:
            self.number(text)
        self.pinned = len(self)
        self._kept, self._kept_bytes = FEW, FEW_BYTES

    def __len__(self) -> int:
        return int(self._sizes[COUNT])

    @property
    def doubled(self) -> bool:
        """Whether there are twice as many as were kept last, or they take twice the room: time to drop those that nobody uses."""
        return len(self) > 2 * self._kept or int(self._sizes[USED_BYTES]) > 2 * self._kept_bytes

    def arrays(self) -> Texts:
        """What the machine reads."""
        return Texts(self._data, self._offsets)

    def number(self, text: bytes) -> int:
        """The number of a text, new or known."""
        self._make_room(1, len(text))
        source = as_input(np.frombuffer(text, np.uint8), np.uint8)
        return int(number_of(source, 0, len(source), self._data, self._offsets, self._table, self._sizes))

    def text(self, number: int) -> bytes:
        """The text of a number."""
        return self._data[self._offsets[number] : self._offsets[number + 1]].tobytes()

    def dictionary(self) -> Dictionary:
        """All texts as a column's dictionary: code = number. A view; later texts do not change it."""
        return Dictionary(self._data[: self._sizes[USED_BYTES]], self._offsets[: len(self) + 1])

    def number_column(self, column: Column, rows: NDArray[np.int64], cells: NDArray[np.int64], at: int) -> None:
        """Writes the numbers of a text column's values at ``rows`` to ``cells[:, at]`` (undefined where not present)."""
        entries = column.dictionary
        if entries is None or not len(entries):
            cells[:, at] = 0
            return
        self._make_room(len(entries), len(entries.data))
        known = self._known.get(at)
        if known is None or known[0] is not entries:
            known = (entries, np.full(len(entries), -1, np.int64))
            self._known[at] = known
        codes = as_input(column.values, np.int32)
        data, offsets = as_input(entries.data, np.uint8), as_input(entries.offsets, np.int64)
        number_codes(codes, rows, known[1], data, offsets, self._data, self._offsets, self._table, self._sizes, cells, at)

    def computed(self, name: str, function: Callable[[bytes], int], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """A function of texts for many numbers, called once per distinct text and remembered under ``name``."""
        memo = self._memos.get(name)
        if memo is None or len(memo) < len(self):
            grown = np.full(2 * len(self) + 16, UNKNOWN, np.int64)
            if memo is not None:
                grown[: len(memo)] = memo
            memo = self._memos[name] = grown
        for number in np.unique(numbers[memo[numbers] == UNKNOWN]).tolist():
            memo[number] = function(self.text(number))
        return memo[numbers]

    def keep(self, used: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drops the texts that are neither pinned nor used.

        Args:
            used: int64 (any,), numbers in use.

        Returns:
            int64 (texts before,), old number → new number, -1 for those that are gone.
        """
        count = len(self)
        marks = np.zeros(max(count, 1), np.int64)
        marks[: self.pinned] = 1
        marks[used] = 1
        new_data = np.zeros(max(256, int(self._sizes[USED_BYTES])), np.uint8)
        new_offsets = np.zeros(len(self._offsets), np.int64)
        kept = keep_marked(marks, count, self._data, self._offsets, new_data, new_offsets)
        used_bytes = int(new_offsets[kept])
        self._data = new_data[: max(256, 2 * used_bytes)].copy()
        self._offsets = new_offsets[: max(17, 2 * kept + 1)].copy()
        self._sizes[:] = (kept, used_bytes)
        self._forget()
        self._rebuild(kept)
        self._kept, self._kept_bytes = max(FEW, kept), max(FEW_BYTES, used_bytes)
        return marks[:count]

    def _forget(self) -> None:
        self._known.clear()
        self._memos.clear()

    def _rebuild(self, room: int) -> None:
        slots = 32
        while slots < 2 * room + 2:
            slots *= 2
        self._table = np.zeros((slots, 2), np.int64)
        rebuild_table(self._data, self._offsets, self._table, self._sizes)

    def _make_room(self, entries: int, size: int) -> None:
        """For that many more texts of that many bytes in all, even if every one is new."""
        need = int(self._sizes[USED_BYTES]) + size
        if need > len(self._data):
            grown = np.zeros(2 * need, np.uint8)
            grown[: self._sizes[USED_BYTES]] = self._data[: self._sizes[USED_BYTES]]
            self._data = grown
        if len(self) + entries + 1 > len(self._offsets):
            offsets = np.zeros(2 * (len(self) + entries) + 1, np.int64)
            offsets[: len(self) + 1] = self._offsets[: len(self) + 1]
            self._offsets = offsets
        if 2 * (len(self) + entries) > len(self._table):
            self._rebuild(2 * (len(self) + entries))

    def saved(self) -> Mapping[str, NDArray[np.generic]]:
        """Arrays from which `restored` makes the same numbering."""
        return {"text_data": self._data[: self._sizes[USED_BYTES]], "text_offsets": self._offsets[: len(self) + 1]}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Takes over what `saved` gave."""
        self._data = np.zeros(max(256, len(arrays["text_data"])), np.uint8)
        self._data[: len(arrays["text_data"])] = arrays["text_data"]
        self._offsets = arrays["text_offsets"].astype(np.int64)
        self._sizes[:] = (len(self._offsets) - 1, self._offsets[-1])
        self._forget()
        self._rebuild(len(self))

    def validate(self) -> None:
        """Every text is found under its own number.

        Raises:
            AssertionError: it is not.
        """
        for number in range(len(self)):
            assert self.number(self.text(number)) == number, f"text {number} is entered twice"  # noqa: S101


def keep_used(texts: TextTable, used: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drops the texts whose numbers are not among those used (undefined where a cell is not present); returns the new numbers."""
    return texts.keep(used[(used >= 0) & (used < len(texts))])


def renumber_cells(cells: NDArray[np.int64], columns: Iterable[int], renumbered: NDArray[np.int64]) -> None:
    """New numbers of texts in the columns of live rows (a view); 0 where a cell is not present."""
    for column in columns:
        numbers = cells[:, column]
        valid = (numbers >= 0) & (numbers < len(renumbered))
        cells[:, column] = np.where(valid, renumbered[np.where(valid, numbers, 0)], 0)
