"""Memory for large columns that come and go: what nobody holds any more is used again.

Where an event completes dozens of matches their columns are megabytes per feed, and most of a feed's time was the system's, which clears new
pages and takes them back; so are the bitmaps of a thousand queries. An array of `pages` is a slice of a block that is leased: the block comes back when no view of it is left.
"""

from __future__ import annotations

from math import prod
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL = 1 << 15
"""Numbers (256 KB): below that the allocator keeps pages itself."""
PATIENCE = 4096
"""A block that so many requests did not use goes: a burst of matches does not keep its memory."""
MOST_FREE = 12
"""Blocks; a feed takes three of an engine, and those of the feed before may still be read."""


class _Lease:
    """Holds a block for as long as an array looks into it."""

    __slots__ = ("__array_interface__", "__weakref__", "_block", "_pages")

    def __init__(self, block: NDArray[np.int64], size: int, pages: Pages) -> None:
        self.__array_interface__: dict[str, Any] = {**block.__array_interface__, "shape": (size,)}
        self._block, self._pages = block, pages

    def __del__(self) -> None:
        self._pages.give_back(self._block)


class Pages:
    """Blocks that are free; those in use are known to their leases only."""

    def __init__(self) -> None:
        # the last view may go in any thread, also in the middle of a request
        self._lock = RLock()
        self._free: list[tuple[int, NDArray[np.int64]]] = []
        self._requests = 0

    def empty(self, *shape: int) -> NDArray[np.int64]:
        """int64 (shape), contents undefined."""
        size = prod(shape)
        self._requests += 1
        free = self._free  # another thread may put another list in its place
        if free and self._requests - free[0][0] > PATIENCE:
            with self._lock:
                self._free = [one for one in self._free if self._requests - one[0] <= PATIENCE]
        if size < SMALL:
            return np.empty(shape, np.int64)
        return np.asarray(_Lease(self._block_of(size), size, self)).reshape(shape)

    def give_back(self, block: NDArray[np.int64]) -> None:
        """A block that no array looks into any more."""
        with self._lock:
            self._free = [*self._free, (self._requests, block)][-MOST_FREE:]

    @property
    def free(self) -> int:
        """Numbers that free blocks have room for."""
        return sum(len(block) for _, block in self._free)

    def _block_of(self, size: int) -> NDArray[np.int64]:
        """The smallest free block that has the size and is not four times as large, or a new one with an eighth to spare."""
        with self._lock:
            fitting = [block for _, block in self._free if size <= len(block) <= 4 * size]
            if not fitting:
                return np.empty(size + size // 8, np.int64)
            chosen = min(fitting, key=len)
            self._free = [one for one in self._free if one[1] is not chosen]
            return chosen


PAGES = Pages()
"""Of the process: what comes and goes, whoever made it."""
