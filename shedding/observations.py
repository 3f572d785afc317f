"""What shedders learn from: candidates that were not shed, whose windows are over, and what became of them. One record per level."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedEvents, JudgedInMatches, JudgedInWindows, JudgedMatches


def _float64() -> NDArray[np.float64]:
    return np.empty(0, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Shape:
    """The pattern of a query that is one sequence with a window.

    Attributes:
        needs: by item, the item of which an event must come before it in every match (of a negated item: of every match that it prevents); -1: none.
        negated: negated items, as bits.
        window: the first and last event of a match are less than so much apart: ms, or events of the stream.
        by_rank: whether it is events.
        ending: of the negated items, as bits, those with which it is certain what is over when such an event comes: nothing begins again with the events
            of the item that it needs. Of others it depends on more than their items and partitions, or a match can be whole before they come.
    """

    needs: tuple[int, ...]
    negated: int
    window: int
    by_rank: bool = False
    ending: int = 0


def _no_matches() -> JudgedMatches:
    return JudgedMatches(np.empty(0, dtype=np.uint64))


@dataclass(frozen=True, slots=True, eq=False)
class EventObservations:
    """Consecutive events of the input stream and their use.

    Attributes:
        events: the events, in the order of the stream.
        weight: float64 (events,), sum of the weights of the composite events that each one contributed to, over all queries and windows.
        abandoned: float64 (events,), the same of partial matches that a negated event ended: for the events in it and for that event.
            Empty: none.
        repetition: float64 (types,), how often the patterns name each event type, times the queries' weights. Only `bl` reads it.
        shape: of the pattern, where it is one sequence with a window. Only `prefix` reads it.
    """

    events: JudgedEvents
    weight: NDArray[np.float64]
    abandoned: NDArray[np.float64] = field(default_factory=_float64)
    repetition: NDArray[np.float64] = field(default_factory=_float64)
    shape: Shape | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WindowObservations:
    """Whole windows and the use of events in each of them.

    Attributes:
        pairs: every event of every observed window.
        weight: float64 (pairs,), sum of the weights of the window's composite events that the event contributed to.
        repetition: as in `EventObservations`. Only `e-bl` reads it.
    """

    pairs: JudgedInWindows
    weight: NDArray[np.float64]
    repetition: NDArray[np.float64] = field(default_factory=_float64)


@dataclass(frozen=True, slots=True, eq=False)
class Succession:
    """How partial matches went on from look to look: each with what it is at the next look, and what grew from it in between.

    Attributes:
        starts: int64 (looks + 1,), those of look k stand at ``starts[k] : starts[k + 1]`` of the sample.
        owner: int64 (sample,), which of the sample, one look before, it is or grew from; -1: nothing that was there.
        gain: float64 (sample,), weight of the composite events that grew from it until the next look.
        spent_s: float64 (sample,), seconds of processing until the next look, for itself.
    """

    starts: NDArray[np.int64]
    owner: NDArray[np.int64]
    gain: NDArray[np.float64]
    spent_s: NDArray[np.float64]

    def totals(self, kept: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What would come of each if it were kept now, and from the next look on all were treated as marked: float64 (sample,) weight and seconds."""
        return self._summed(self.gain, kept), self._summed(self.spent_s, kept)

    def survive(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Bool (sample,): which are there after each look when at every look only those marked stay: whatever grew from one that was dropped never was."""
        there = kept.copy()
        for begin, end in zip(self.starts[1:-1], self.starts[2:], strict=True):
            owner = self.owner[begin:end]
            there[begin:end] &= there[owner] | (owner < 0)
        return there

    def ended(self) -> NDArray[np.bool_]:
        """Bool (sample,): of which nothing is left at the last look."""
        last = np.zeros(len(self.owner))
        last[self.starts[-2] :] = 1.0
        return self._summed(last, np.ones(len(last), np.bool_)) == 0

    def _summed(self, own: NDArray[np.float64], kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        total = own.copy()
        for begin, end in zip(self.starts[-2:0:-1], self.starts[:1:-1], strict=True):
            heirs = np.flatnonzero(kept[begin:end] & (self.owner[begin:end] >= 0)) + begin
            np.add.at(total, self.owner[heirs], total[heirs])
        return total


@dataclass(frozen=True, slots=True, eq=False)
class MatchObservations:
    """Steps of partial matches: one row each time that a partial match was held against an event.

    Attributes:
        query: int32 (steps,), number of the query.
        before: int32 (steps,), state before the event, from 0.
        after: int32 (steps,), state after it; negative where it died before its window was over.
        spent_s: float64 (steps,), seconds of processing.
        states: int32 (queries,), number of states of each query; the last one is complete.
        weight: float64 (queries,).
        window_size: float64 (queries,), events in a window, the mean where it varies.
        sample: partial matches at some moments. Only `stateful` reads it and what became of it.
        gain: float64 (sample,), sum of the weights of the composite events that each became.
        cost_s: float64 (sample,), seconds of processing that it still took from then on.
        succession: of the sample, where partial matches branch.
    """

    query: NDArray[np.int32]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    spent_s: NDArray[np.float64]
    states: NDArray[np.int32]
    weight: NDArray[np.float64]
    window_size: NDArray[np.float64]
    sample: JudgedMatches = field(default_factory=_no_matches)
    gain: NDArray[np.float64] = field(default_factory=_float64)
    cost_s: NDArray[np.float64] = field(default_factory=_float64)
    succession: Succession | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PairObservations:
    """Pairs of an event and a partial match, and what became of them.

    Attributes:
        pairs: every event that was held against a partial match, once for each; or once for equal ones.
        use: float64 (pairs,), the query's weight where the partial match took the event and became a composite event later; else 0. Of equal ones the sum.
        times: float64 (pairs,), how many equal ones each stands for; empty: one.
    """

    pairs: JudgedInMatches
    use: NDArray[np.float64]
    times: NDArray[np.float64] = field(default_factory=_float64)
