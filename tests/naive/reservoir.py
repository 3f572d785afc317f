"""Coalescence-aware load shedding (CALS) as the specification's sections 5.3 and 5.4 say it: every score from scratch, every tuple scanned. Slow and obvious.

One deviation of the library's is its definition here, too: what is known of a coalesced tuple's past begins where its last expired tuple in memory ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Tuple:
    """One arrival."""

    rank: int
    value: int
    start: int
    end: int
    tie: int
    run: int = -1
    place: int = -1
    """Among all arrivals of its run."""

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass
class NaiveReservoir:
    """Memory of one key."""

    value_weight: int
    interval_weight: int
    memory: int
    window_tuples: int = 0
    window_span: int = 0
    gap: int = 0
    held: list[Tuple] = field(default_factory=list)
    extents: list[tuple[int, int]] = field(default_factory=list)
    """Known interval of every run."""
    latest: Tuple | None = None
    seen: int = 0

    def arrive(self, value: int, start: int, end: int, tie: int) -> int:
        """Takes a tuple in; the rank of the one that goes, or -1."""
        new = Tuple(self.seen, value, start, end, tie)
        for old in list(self.held):
            gone = self.window_tuples and old.rank <= new.rank - self.window_tuples
            if gone or (self.window_span and old.end <= start - self.window_span):
                self._expire(old)
            else:
                break
        before = self.latest
        if before is not None and before.value == value and start <= self.extents[-1][1] + self.gap:
            new.run, new.place = before.run, before.place + 1
            self.extents[-1] = (self.extents[-1][0], max(end, self.extents[-1][1]))
        else:
            new.run, new.place = len(self.extents), 0
            self.extents.append((start, end))
        self.held.append(new)
        self.seen += 1
        self.latest = new
        return self.drop() if len(self.held) > self.memory else -1

    def come(self, rank: int, oldest: int, ended: int, value: int, start: int, end: int, tie: int) -> int:
        """As `arrive`, with ranks given from outside; what lies before ``oldest``, or ended by ``ended``, is forgotten first."""
        for old in list(self.held):
            if old.rank >= oldest and old.end > ended:
                break
            self._expire(old)
        self.seen = rank
        return self.arrive(value, start, end, tie)

    def drop(self) -> int:
        """Drives the cheapest tuple out."""
        least = min(self.held, key=lambda one: (self.score(one), one.tie, one.rank))
        self.held.remove(least)
        return least.rank

    def _expire(self, old: Tuple) -> None:
        self.held.remove(old)
        left = [one for one in self.held if one.run == old.run]
        end = self.extents[old.run][1]
        self.extents[old.run] = (min(old.end, left[0].start if left else end), end)

    def score(self, one: Tuple) -> Fraction:
        """delta+ and rho-, weighted; exact."""
        return self.value_weight * Fraction(self.extraneous(one)) + self.interval_weight * self.reduction(one)

    def extraneous(self, one: Tuple) -> int:
        """delta+: how many more extraneous tuples there are without this one."""
        places = {other.place for other in self.held if other.run == one.run}
        return extraneous(places - {one.place}) - extraneous(places)

    def reduction(self, one: Tuple) -> Fraction:
        """rho-: its share of the exact coalesced tuple."""
        start, end = self.extents[one.run]
        return Fraction(one.length, end - start) if end > start else Fraction(0)


def extraneous(places: set[int]) -> int:
    """Pieces of one run beyond the first."""
    return max(0, sum(1 for place in places if place - 1 not in places) - 1)
