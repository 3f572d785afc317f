# ruff: noqa: S101 - what `validate` says are assertions
"""Bounded memory for the tuples of one key: a tuple arrives, and when there is one too many, the one whose loss costs least goes.

The decisions are those of the paper's algorithm 1, which scans all of memory at every arrival; here a tournament over the tuples finds the same one in
O(log M) (`shedding.tuples.kernels`).

**Score** of a tuple in memory: ``value_weight * delta+ + interval_weight * rho-``. delta+ is the change in the number of extraneous tuples: +1 in the
middle of a piece, -1 alone in its piece while its coalesced tuple has others, else 0. rho- is the tuple's share of the exact coalesced tuple as far as seen.

**Ties** go by a hash of the tuples' identities.

**Source:** Al-Kateb and Lee, JCSE 5(4) 2011, section III-C and algorithm 1; as restored in the specification, 5.3 and 5.4. What deviates: time must be
O(log M), so the past of a run is known only by tuples in memory: when one expires, the coalesced tuple is taken to begin where it ended. The paper breaks ties at random.
Losing a tuple in the middle is taken to split its piece, even where a gap or overlapping intervals would bridge it; with intervals that meet, as in the paper, it always does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedTuples
from shedding.tuples import kernels as at
from shedding.tuples.intervals import Intervals
from shedding.tuples.kernels import Tables

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Score:
    """What a tuple's loss costs. Weights are whole numbers: 2 and 1 is the lexicographic order, as rho- is at most 1.

    Attributes:
        value_weight: of delta+.
        interval_weight: of rho-.
    """

    value_weight: int
    interval_weight: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What must fit.

    Attributes:
        memory: tuples that may stay, at least 1.
        window_tuples: tuples are forgotten when so many have arrived since; 0: never for that.
        window_span: tuples are forgotten when an arrival starts so long after their end, in the unit of time; 0: never for that.
        gap: greatest distance between tuples of one coalesced tuple.
    """

    memory: int
    window_tuples: int = 0
    window_span: int = 0
    gap: int = 0


class Reservoir:
    """The tuples of one key that are in memory.

    Raises:
        ValueError: memory for no tuple.

    Example:
        >>> reservoir = Reservoir(Score(1, 1), Bounds(memory=4))
        >>> tuples = Intervals(np.array([1, 1, 1, 2, 2]), np.arange(5), np.arange(1, 6))
        >>> reservoir.arrive(tuples, np.arange(5, dtype=np.uint64)).tolist()
        [-1, -1, -1, -1, 0]
    """

    def __init__(self, score: Score, bounds: Bounds) -> None:
        if bounds.memory < 1:
            raise ValueError(f"memory holds at least one tuple, not {bounds.memory}")
        rules = [bounds.memory, bounds.window_tuples, bounds.window_span, bounds.gap, score.value_weight, score.interval_weight]
        positions = 1 << (2 * bounds.memory + 1).bit_length()
        self._tables = Tables(
            np.array(rules, np.int64),
            np.zeros(at.STATE, np.int64),
            np.zeros((positions, at.TUPLE_WIDTH), np.int64),
            np.zeros((positions + 1, at.RUN_WIDTH), np.int64),  # the newest run may have lost its tuples
            np.full((2 * positions, at.TREE_WIDTH), at.GONE, np.int64),
            np.zeros(at.TOUCHED, np.int64),
        )
        self.clear()

    def __len__(self) -> int:
        return int(self._tables.state[at.HELD])

    @staticmethod
    def holding(tuples: JudgedTuples, ties: NDArray[np.uint64], score: Score, gap: int = 0) -> Reservoir:
        """A reservoir that holds just these tuples, none dropped; their ranks are their places.

        Args:
            tuples: all of them, of any keys.
            ties: uint64 (tuples,), evenly spread.
            score: what a tuple's loss costs.
            gap: greatest distance between tuples of one piece.
        """
        count = len(tuples)
        reservoir = Reservoir(score, Bounds(max(1, count), gap=gap))
        begins, joined = np.ones(count, np.bool_), np.zeros(count, np.bool_)
        begins[1:] = tuples.run[1:] != tuples.run[:-1]
        joined[1:] = ~begins[1:] & (tuples.start[1:] <= tuples.end[:-1] + gap)
        first, place, number = np.flatnonzero(begins), np.arange(count), np.cumsum(begins) - 1
        rows = np.zeros((count, at.TUPLE_WIDTH), np.int64)
        rows[:, [at.ORDINAL, at.START, at.END]] = np.stack([place, tuples.start, tuples.end], axis=1)
        rows[:, [at.RUN, at.JOINED]] = np.stack([number, joined], axis=1)
        rows[:, at.LENGTH] = (tuples.end - tuples.start) if score.interval_weight else 0
        rows[:, at.TIE] = ties >> np.uint64(1)
        runs = np.zeros((len(first), at.RUN_WIDTH), np.int64)
        runs[:, at.RUN_END] = tuples.run_length[first]
        runs[:, at.PIECES] = np.bincount(number, ~joined, minlength=len(first))
        state = np.zeros(at.STATE, np.int64)
        state[[at.HELD, at.USED, at.SEEN, at.RUN_COUNT, at.PREVIOUS]] = count, count, count, len(first), count - 1
        reservoir.load({"state": state, "tuples": rows, "runs": runs})
        return reservoir

    def clear(self) -> None:
        """Forgets all tuples, as between windows that do not overlap; ranks go on."""
        tables = self._tables
        seen = tables.state[at.SEEN]
        tables.state[:] = 0
        tables.state[[at.HEAD, at.TAIL, at.PREVIOUS]], tables.state[at.SEEN] = -1, seen
        tables.tuples[:, at.RUN] = at.GONE
        tables.tree[:, at.OWNER] = at.GONE

    def arrive(self, tuples: Intervals, identity: NDArray[np.uint64]) -> Integers:
        """Takes tuples in.

        Args:
            tuples: in the order of time, none before those that arrived earlier. Lengths up to 2**49 are told apart.
            identity: uint64 (tuples,), evenly spread hashes; those of greater hash stay longer.

        Returns:
            int64 (tuples,), rank among all arrivals of the tuple that each one drove out, itself perhaps; -1: none.
        """
        dropped = np.empty(len(tuples), np.int64)
        tie = (identity >> np.uint64(1)).astype(np.int64)
        value, start, end = (np.require(column, np.int64, ["C", "W"]) for column in (tuples.value, tuples.start, tuples.end))
        at.arrive(self._tables, at.Arrivals(value, start, end, tie), dropped)
        return dropped

    def drop(self, count: int) -> Integers:
        """Drives out ``count`` tuples, at most all, one after the other; returns their ranks."""
        dropped = np.empty(min(count, len(self)), np.int64)
        at.drop(self._tables, len(dropped), dropped)
        return dropped

    def expire(self, time: int) -> None:
        """Forgets the tuples that ended by then."""
        at.expire(self._tables, 0, time)

    def kept(self) -> Integers:
        """Ranks of the tuples in memory, rising."""
        return self._column(at.ORDINAL)

    def _column(self, column: int) -> Integers:
        tuples = self._tables.tuples
        return tuples[tuples[:, at.RUN] != at.GONE, column]

    def saved(self) -> Mapping[str, Integers]:
        """Arrays from which `load` makes the same state."""
        at.pack(self._tables)
        state = self._tables.state
        return {
            "state": state.copy(),
            "tuples": self._tables.tuples[: state[at.USED]].copy(),
            "runs": self._tables.runs[: state[at.RUN_COUNT]].copy(),
        }

    def load(self, arrays: Mapping[str, Integers]) -> None:
        """Takes over what `saved` gave, of a reservoir of the same bounds and score."""
        tables = self._tables
        tables.tuples[:, at.RUN] = at.GONE
        tables.state[:] = arrays["state"]
        tables.tuples[: len(arrays["tuples"])] = arrays["tuples"]
        tables.runs[: len(arrays["runs"])] = arrays["runs"]
        at.pack(tables)

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """
        tables, state = self._tables, self._tables.state
        rows = np.flatnonzero(tables.tuples[:, at.RUN] != at.GONE)
        held = tables.tuples[rows]
        assert len(rows) == state[at.HELD] <= tables.rules[at.MEMORY], "memory is bounded"
        assert (np.diff(held[:, at.ORDINAL]) > 0).all(), "positions follow arrivals"
        assert held[1:, at.BEFORE].tolist() == rows[:-1].tolist(), "neighbours"
        assert held[:-1, at.AFTER].tolist() == rows[1:].tolist(), "neighbours"
        for run in np.unique(held[:, at.RUN]):
            mine = rows[held[:, at.RUN] == run]
            assert tables.runs[run, [at.FIRST, at.LAST]].tolist() == [mine[0], mine[-1]], "a run's ends"
            assert tables.runs[run, at.PIECES] == (tables.tuples[mine, at.JOINED] == 0).sum(), "pieces"
        if len(rows):
            ranked = [(at.score_of(tables, p), tables.tuples[p, at.TIE], p) for p in rows]
            assert at.best_of(tables, 1) == min(ranked)[2], "the tournament's winner is the least of all"
