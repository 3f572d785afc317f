"""Dictionaries under construction: byte strings → codes, in hash tables that the kernel fills and Python lets grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.events.batch import Dictionary
from app.events.kernels_interning import Texts, gather_entries, intern_all, rehash

ENTRIES = 512
"""Entries that a new dictionary has room for; it grows fourfold."""
POOL = 1 << 14
"""Bytes that a new pool has room for."""


class Interner:
    """One dictionary per text column, with a common pool of bytes.

    The kernel stops where there is no room; `grow` makes some, and the kernel goes on with the same record.
    """

    def __init__(self, dictionaries: int, expected: NDArray[np.int64] | None = None) -> None:
        """Makes empty dictionaries.

        Args:
            dictionaries: how many.
            expected: int64 (dictionaries,) entries that each will have, as far as is known: saves growing (a quarter of the time when
                every record brings a new tag).
        """
        known = np.full(dictionaries, ENTRIES) if expected is None else np.maximum(expected, ENTRIES)
        self._room = np.int64(1) << np.ceil(np.log2(known)).astype(np.int64)
        self._used = np.zeros(dictionaries, dtype=np.int64)
        self._pool = np.empty(POOL, dtype=np.uint8)
        self._pool_used = np.zeros(1, dtype=np.int64)
        self._allocate()

    def _allocate(self) -> None:
        """Fresh, empty tables and entries for the room there is to be."""
        self._entry_start = np.cumsum(self._room) - self._room
        total = int(self._room.sum())
        self._entries = np.empty((total, 4), dtype=np.int64)
        self._table_start = self._entry_start * 2
        self._mask = self._room * 2 - 1
        self._table = np.full(total * 2, -1, dtype=np.int64)

    @property
    def texts(self) -> Texts:
        """What the kernel takes; valid until `grow`."""
        return Texts(
            self._table,
            self._table_start,
            self._mask,
            self._entries,
            self._entry_start,
            self._room,
            self._used,
            self._pool,
            self._pool_used,
        )

    @property
    def used(self) -> NDArray[np.int64]:
        """int64 (dictionaries,), entries of each so far."""
        return self._used

    def grow(self, needed: int) -> None:
        """Makes room for a record of `needed` bytes (at most one entry per dictionary), and plenty more."""
        used = int(self._pool_used[0])
        if used + needed > len(self._pool) // 2:
            pool = np.empty(4 * (used + needed), dtype=np.uint8)
            pool[:used] = self._pool[:used]
            self._pool = pool
        if not np.any(self._used >= self._room):
            return
        entries, starts = self._entries, self._entry_start
        self._room = np.where(self._used >= self._room, self._room * 4, self._room)
        self._allocate()
        for k, count in enumerate(self._used.tolist()):
            to, start = int(self._entry_start[k]), int(starts[k])
            self._entries[to : to + count] = entries[start : start + count]
            rehash(self._table, self._table_start[k], self._mask[k], self._entries, to, count)

    def codes(self, dictionary: int, entries: Sequence[bytes]) -> NDArray[np.int64]:
        """Codes of byte strings, new ones where needed."""
        codes = np.empty(len(entries), dtype=np.int64)
        joined = Dictionary.of(entries)
        done = 0
        while True:
            done = intern_all(self.texts, dictionary, joined.data, joined.offsets, codes, done)
            if done == len(entries):
                return codes
            self.grow(len(entries[done]))

    def dictionary(self, k: int) -> Dictionary:
        """The entries of a dictionary so far; at least one, so that every code of a null cell (0) can be looked up."""
        first, count = int(self._entry_start[k]), int(self._used[k])
        if count == 0:
            return Dictionary.of([b""])
        entries = self._entries[first : first + count]
        offsets = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(entries[:, 2], out=offsets[1:])
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        gather_entries(self._pool, entries, data, offsets)
        return Dictionary(data, offsets)
