"""What `prefix` remembers of the events that were kept: by partition, where the newest chain up to each item began, and what is over without the engine's knowing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shedding import kernels_prefix
from shedding.candidates import Mask
from shedding.interface import Arrays
from shedding.kernels_prefix import EVER
from shedding.observations import Shape

_LEAST_SLOTS = 64
_ROOM = 4
"""Slots per key when a table is made anew; at most half of them are used."""


class ChainMemory:
    """The chains of a query, partition by partition. Only events of one partition come in the order of their places: in a trusted order others may be far behind.

    Args:
        shape: of the query's pattern.
        known_from: nobody knows what was kept before this place (ms, or events); until a window after it everything may be extended.
    """

    def __init__(self, shape: Shape, known_from: int = EVER) -> None:
        self._shape = shape
        self._known_from = known_from
        self._needs = np.array(shape.needs, dtype=np.int64)
        self._passed = EVER
        self._keys, self._begun = np.zeros(0, np.uint64), np.zeros((0, 2 * len(shape.needs)), np.int64)

    def keep(
        self, items: NDArray[np.uint64], key: NDArray[np.uint64], place: NDArray[np.int64], rank: NDArray[np.float64], threshold: float
    ) -> Mask:
        """Which of the next events stay, bool (events,); remembers them.

        Args:
            items: uint64 (events,), bit i: the event can be item i.
            key: uint64 (events,), partitions; 0: of all of them.
            place: int64 (events,), what windows are measured in.
            rank: float64 (events,), in [0, 1): of their worth among those of their class.
            threshold: 0 (keeps all but what is forbidden) to 4 (keeps none), see `shedding.kernels_prefix.keep_chains`.
        """
        self._make_room(len(items))
        kept = np.empty(len(items), dtype=np.bool_)
        shape = self._shape
        kernels_prefix.keep_chains(
            self._keys,
            self._begun,
            items,
            key,
            place,
            rank,
            self._needs,
            shape.negated,
            shape.ending,
            shape.window,
            self._known_from,
            threshold,
            kept,
        )
        return kept

    def begin(self, place: int) -> None:
        """Nobody knows what was kept before this place."""
        self._known_from = max(self._known_from, place)

    def pass_to(self, place: int) -> None:
        """No event comes any more that is before this place: what is in none of their windows is forgotten."""
        self._passed = max(self._passed, place)

    def arrays(self) -> Arrays:
        """All of it; equal memories give equal arrays."""
        alive = np.flatnonzero((self._keys != 0) & (self._begun > self._forgotten).any(axis=1))
        alive = alive[np.argsort(self._keys[alive])]
        begun = np.where(self._begun[alive] > self._forgotten, self._begun[alive], EVER)
        return {"keys": self._keys[alive], "begun": begun, "places": np.array([self._passed, self._known_from], dtype=np.int64)}

    @staticmethod
    def restored(shape: Shape, arrays: Arrays) -> ChainMemory:
        """The memory that had these arrays."""
        passed, known_from = arrays["places"].tolist()
        memory = ChainMemory(shape, known_from)
        memory.pass_to(passed)
        memory._take_in(arrays["keys"], arrays["begun"].reshape(-1, 2 * len(shape.needs)), len(arrays["keys"]))
        return memory

    @property
    def _forgotten(self) -> int:
        """What began here or before is part of no window any more."""
        return self._passed - self._shape.window if self._passed > EVER else EVER

    def _make_room(self, more: int) -> None:
        """So that at most half of the slots are used when every one of so many events has a partition of its own."""
        if 2 * (np.count_nonzero(self._keys) + more) <= len(self._keys):
            return
        known = self.arrays()
        self._take_in(known["keys"], known["begun"], len(known["keys"]) + more)

    def _take_in(self, keys: NDArray[np.uint64], begun: NDArray[np.int64], count: int) -> None:
        slots = max(_LEAST_SLOTS, 1 << (_ROOM * count).bit_length())
        self._keys, self._begun = np.zeros(slots, np.uint64), np.full((slots, 2 * len(self._needs)), EVER, np.int64)
        kernels_prefix.put_in(self._keys, self._begun, keys, np.ascontiguousarray(begun))
