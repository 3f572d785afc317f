"""What becomes of partial matches that branch (skip-till-any-match): each that takes an event stays as it is, and a longer one begins.

So a partial match is a beginning: what is lost with it are the matches that would grow from it later, and what is saved is the work for it and for all that would grow
from it. What has grown from it already lives on without it. Beginnings are told apart by a hash of what they bound.

**Source:** contribution and consumption of Zhao, Hung, Weidlich (ICDE 2020) and SHARP (arXiv 2507.04872, equations 1 and 2), which count all that ever grew from a partial match; here only what still will.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches
from shedding.identity import identities
from shedding.observations import Succession

Integers = NDArray[np.int64]
Names = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Beginnings:
    """The beginnings of some matches, complete or not.

    Attributes:
        starts: int64 (matches + 1,), those of match k stand at ``starts[k] : starts[k + 1]``, the longest of them, itself, last.
        name: uint64 (beginnings,), equal for equal beginnings.
    """

    starts: Integers
    name: Names

    @staticmethod
    def of(starts: Integers, items: Integers, rows: Integers) -> Beginnings:
        """Of bound events (int64, as `app.cep.matches.Constituents`): a sum of hashes, as the order of events follows from their times."""
        sums = np.cumsum(identities(rows, items), dtype=np.uint64)
        before = np.concatenate([np.zeros(1, np.uint64), sums])[starts[:-1]]
        return Beginnings(starts, sums - np.repeat(before, np.diff(starts)))

    @property
    def whole(self) -> Names:
        """uint64 (matches,): each match's own name."""
        return self.name[self.starts[1:] - 1]

    @property
    def longer(self) -> NDArray[np.bool_]:
        """Bool (matches,): which have more than one event."""
        return np.diff(self.starts) > 1

    def parents(self, which: NDArray[np.bool_] | None = None) -> Names:
        """uint64: names of what these matches, or some of them, grew from by their newest event; without those of one event."""
        longer = self.longer if which is None else self.longer & which
        return self.name[self.starts[1:][longer] - 2]


def furthest(names: Names, states: NDArray[np.int32], parents: Names, reached: NDArray[np.int32]) -> NDArray[np.int32]:
    """int32 (names,): the state of each partial match, or of the child that came further."""
    after, order = states.copy(), np.argsort(names)
    known = np.isin(parents, names)
    np.maximum.at(after, order[np.searchsorted(names, parents[known], sorter=order)], reached[known])
    return after


class Branches:
    """Live partial matches at some moments, and who of them what comes later is owed to: its longest beginning that was there a look before."""

    def __init__(self) -> None:
        self._seen: list[JudgedMatches] = []
        self._rows: list[int] = []
        self._owner: list[Integers] = []
        self._gain: list[Integers] = []
        self._last = np.zeros(0, np.uint64)
        self._found: list[Integers] = []
        self._rows_before = 0

    def found(self, matches: Beginnings) -> None:
        """These were completed since the last look."""
        owner = self._owners(matches)
        self._found.append(owner[owner >= 0])

    def look(self, judged: JudgedMatches, live: Beginnings, row: int) -> None:
        """Keeps all live partial matches, as shedders see them before the event of this row."""
        self._gain.append(np.bincount(np.concatenate([np.zeros(0, np.int64), *self._found]), minlength=len(self._last)))
        owner = self._owners(live)
        before = self._rows_before - len(self._last)
        self._owner.append(np.where(owner >= 0, before + owner, -1))
        self._seen.append(judged)
        self._rows.append(row)
        self._last, self._found = live.whole, []
        self._rows_before += len(judged)

    def _owners(self, matches: Beginnings) -> Integers:
        """int64 (matches,): place in the last look of the longest beginning that was there; -1 where none was."""
        if not len(self._last) or not len(matches.name):
            return np.full(len(matches.starts) - 1, -1, np.int64)
        order = np.argsort(self._last)
        at = np.minimum(np.searchsorted(self._last, matches.name, sorter=order), len(order) - 1)
        place = np.where(self._last[order[at]] == matches.name, np.arange(len(at)), -1)
        longest = np.maximum.reduceat(place, matches.starts[:-1])
        return np.where(longest >= 0, order[at[longest]], -1)

    def outcomes(self, weight: float, match_cost_s: float) -> tuple[JudgedMatches, Succession]:
        """What was seen, and how it went on."""
        columns = {name: np.concatenate([getattr(one, name) for one in self._seen], axis=-1) for name in JudgedMatches.__slots__}
        counts = [len(one) for one in self._seen]
        spans = np.diff(np.array(self._rows, np.float64), append=float(self._rows[-1]))
        gain = np.concatenate([*self._gain[1:], np.zeros(len(self._last), np.int64)]) * weight
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return JudgedMatches(**columns), Succession(starts, np.concatenate(self._owner), gain, np.repeat(spans, counts) * match_cost_s)
