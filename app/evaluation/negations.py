"""Where events came that negations ask for: what a partial match does not know of itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.query.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Negations:
    """Where events came that negations ask for.

    Attributes:
        key: int64 (events,), number of each event's partition.
        places: by negated item, int64 ascending: partition times the number of rows, plus row.
    """

    key: NDArray[np.int64]
    places: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of(plan: Plan, key: NDArray[np.uint64], items: NDArray[np.uint64]) -> Negations:
        """Those of a recording.

        Args:
            plan: of the query.
            key: uint64 (events,), equal in a partition.
            items: uint64 (events,), bit i: the event can be item i.
        """
        number = np.unique(key, return_inverse=True)[1] if len(key) else np.zeros(len(items), np.int64)
        rows = [np.flatnonzero(items & np.uint64(1 << item.index)) for item in plan.items if item.negated]
        return Negations(number, tuple(np.sort(number[own] * len(items) + own) for own in rows))

    def since(self, newest: NDArray[np.int64], row: int) -> NDArray[np.float64]:
        """float64 (negated items, newest): whether one came after this row in its partition, and before ``row``."""
        base = self.key[newest] * len(self.key)
        came = [np.searchsorted(own, base + row) > np.searchsorted(own, base + newest, side="right") for own in self.places]
        return np.array(came, np.float64).reshape(len(self.places), len(newest))
