"""The oracle of partial matches: knows which true matches still come of each, and until when it is needed for them. A reference that no method can have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.evaluation.contest import Contest
from app.evaluation.partial_matches import MatchOperator
from shedding.candidates import JudgedMatches, Mask
from shedding.interface import Manifest
from shedding.partial_matches.selection import all_but_share

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """Of one judged stream.

    Attributes:
        names: uint64 (beginnings,), ascending, of all beginnings of true matches.
        begun_ms: int64 (beginnings,), time of its first event.
        needed: int64 (uses,), ascending: number of a beginning times `_SPAN` plus the time until which a match needs it (that of the next event).
        window_ms: of the query.
    """

    manifest: Manifest
    names: NDArray[np.uint64]
    begun_ms: Integers
    needed: Integers
    window_ms: int

    @staticmethod
    def of(contest: Contest) -> Oracle:
        """The one of a contest's judged stream."""
        operator, time = MatchOperator(contest.plan, contest.judging), contest.judging.time
        complete, rows = operator.beginnings()
        following = np.append(rows[1:], 0)
        following[complete.starts[1:] - 1] = -1
        inner = following >= 0
        first = np.repeat(rows[complete.starts[:-1]], np.diff(complete.starts))
        names, at, number = np.unique(complete.name[inner], return_index=True, return_inverse=True)
        needed = np.sort(number * _SPAN + time[following[inner]])
        assert contest.plan.within is not None
        return Oracle(Manifest("oracle"), names, time[first[inner]][at], needed, contest.plan.within.size)

    def utilities(self, matches: JudgedMatches) -> NDArray[np.float64]:
        """Matches that still need it, over how long."""
        at = np.minimum(np.searchsorted(self.names, matches.identity), len(self.names) - 1)
        now = self.begun_ms[at] + self.window_ms - matches.remaining_ms.astype(np.int64)
        first, last = np.searchsorted(self.needed, at * _SPAN + now), np.searchsorted(self.needed, (at + 1) * _SPAN)
        count = np.where(self.names[at] == matches.identity, last - first, 0)
        until = self.needed[np.maximum(last, 1) - 1] - at * _SPAN
        return np.where(count > 0, count / np.maximum(1, until - now + 1), 0.0)

    def gate(self, drop_ratio: float) -> OracleGate:
        """Drops what is needed least."""
        return OracleGate(self, drop_ratio)


_SPAN = 1 << 40


@dataclass(frozen=True, slots=True)
class OracleGate:
    """At one drop ratio."""

    oracle: Oracle
    drop_ratio: float

    def keep(self, candidates: JudgedMatches) -> Mask:
        """All but the least."""
        return all_but_share(self.oracle.utilities(candidates), candidates, self.drop_ratio, 0)
