"""What becomes of partial matches: looked at now and then, and followed to their end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.cep.door import LiveRuns
from app.events.batch import place_numbers
from shedding.candidates import JudgedMatches

Integers = NDArray[np.int64]


def first_keys(live: LiveRuns) -> Integers:
    """int64 (runs,): the place of each first event as one number; names partial matches of queries that do not branch."""
    return place_numbers(live.first[:, 0], live.first[:, 1])


class Looks:
    """Partial matches at some moments.

    Args:
        every: events from one look to the next.
    """

    def __init__(self, every: int) -> None:
        self._every, self._next = max(1, every), 0
        self._seen: list[JudgedMatches] = []
        self._keys: list[Integers] = []
        self._rows: list[Integers] = []
        self._ends: dict[int, tuple[int, bool]] = {}

    def due(self, row: int) -> bool:
        """Whether it is time for the next look."""
        return row >= self._next

    def look(self, judged: JudgedMatches, keys: Integers, row: int) -> None:
        """Keeps all live partial matches, as shedders see them before the event of this row."""
        self._seen.append(judged)
        self._keys.append(keys)
        self._rows.append(np.full(len(keys), row, np.int64))
        self._next = row + self._every

    def end(self, keys: Integers, complete: Integers, row: int) -> None:
        """These are gone before the event of this row; those of them that ``complete`` names too are composite events."""
        for key, done in zip(keys.tolist(), np.isin(keys, complete).tolist(), strict=True):
            self._ends[key] = (row, done)

    def outcomes(self, weight: float, match_cost_s: float) -> tuple[JudgedMatches, NDArray[np.float64], NDArray[np.float64]]:
        """What was seen, what it became (weight or 0), and how long it was held against events, s; without those that outlived the recording."""
        ends = [self._ends.get(key) for keys in self._keys for key in keys.tolist()]
        known = np.array([one is not None for one in ends], np.bool_)
        rows, done = (np.array([one[place] for one in ends if one is not None], np.float64) for place in (0, 1))
        looked = np.concatenate([np.zeros(0, np.int64), *self._rows])[known]
        return _rows(self._seen, known), weight * done, match_cost_s * (rows - looked)


def _rows(parts: list[JudgedMatches], which: NDArray[np.bool_]) -> JudgedMatches:
    """All parts as one, and of these some."""
    if not parts:
        return JudgedMatches(np.zeros(0, np.uint64))
    columns = {name: np.concatenate([getattr(one, name) for one in parts], axis=-1)[..., which] for name in JudgedMatches.__slots__}
    return JudgedMatches(**columns)
