"""Dictionaries under construction: byte strings → codes, in hash tables that the kernel fills and Python lets grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.events.batch import Dictionary
from app.events.kernels import Texts, gather_entries, intern_all, rehash

ENTRIES = 512
"""Entries that a new dictionary has room for; it grows fourfold."""
POOL = 1 << 14
"""Bytes that a new pool has room for."""


class Interner:
    """One dictionary per text column, with a common pool of bytes.

    The kernel stops where there is no room; `grow` makes some, and the kernel goes on with the same record.
    """

    def __init__(self, dictionaries: int) -> None:
        self._room = np.full(dictionaries, ENTRIES, dtype=np.int64)
        self._used = np.zeros(dictionaries, dtype=np.int64)
        self._pool = np.empty(POOL, dtype=np.uint8)
        self._pool_used = np.zeros(1, dtype=np.int64)
        self._allocate()

    def _allocate(self) -> None:
        """Fresh, empty tables and entries for the room there is to be."""
        self._entry_start = np.cumsum(self._room) - self._room
        total = int(self._room.sum())
        self._hashes = np.empty(total, dtype=np.uint64)
        self._starts = np.empty(total, dtype=np.int64)
        self._lengths = np.empty(total, dtype=np.int64)
        self._table_start = self._entry_start * 2
        self._mask = self._room * 2 - 1
        self._table = np.full(total * 2, -1, dtype=np.int32)

    @property
    def texts(self) -> Texts:
        """What the kernel takes; valid until `grow`."""
        return Texts(
            self._table,
            self._table_start,
            self._mask,
            self._hashes,
            self._starts,
            self._lengths,
            self._entry_start,
            self._room,
            self._used,
            self._pool,
            self._pool_used,
        )

    def grow(self, needed: int) -> None:
        """Makes room for a record of `needed` bytes (at most one entry per dictionary), and plenty more."""
        used = int(self._pool_used[0])
        if used + needed > len(self._pool) // 2:
            pool = np.empty(4 * (used + needed), dtype=np.uint8)
            pool[:used] = self._pool[:used]
            self._pool = pool
        if not np.any(self._used >= self._room):
            return
        old = (self._hashes, self._starts, self._lengths, self._entry_start)
        self._room = np.where(self._used >= self._room, self._room * 4, self._room)
        self._allocate()
        for k, count in enumerate(self._used.tolist()):
            to, start = int(self._entry_start[k]), int(old[3][k])
            for new, previous in zip((self._hashes, self._starts, self._lengths), old[:3], strict=True):
                new[to : to + count] = previous[start : start + count]
            rehash(self._table, self._table_start[k], self._mask[k], self._hashes, to, count)

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
        lengths = self._lengths[first : first + count]
        offsets = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        gather_entries(self._pool, self._starts[first : first + count], lengths, data, offsets)
        return Dictionary(data, offsets)
