"""Bounded memory for the tuples of many keys: a reservoir for each (`shedding.tuples.reservoir`), in shared tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shedding.tuples import kernels as at
from shedding.tuples import kernels_pool as pool_at
from shedding.tuples.intervals import Intervals
from shedding.tuples.kernels import Arrivals
from shedding.tuples.kernels_pool import Places, Pool, arrive_by_key, pack_all
from shedding.tuples.reservoir import Score

Integers = NDArray[np.int64]

FIRST_ROOM = 4
"""Tuples that a new key has room for."""
NEVER = at.NEVER
"""As a bound: nothing lies before it."""


@dataclass(frozen=True, slots=True, eq=False)
class Coming:
    """What is known of arriving tuples beside their intervals; each int64 (tuples,).

    Attributes:
        key: number of the key.
        rank: rises within a key; what `Reservoirs.arrive` answers with.
        oldest: tuples of the key of a lesser rank are forgotten first; `NEVER`: none.
        ended: tuples of the key that ended by this time are forgotten first; `NEVER`: none.
    """

    key: Integers
    rank: Integers
    oldest: Integers
    ended: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """Keys that go from some reservoirs to others.

    Attributes:
        arrays: what `Reservoirs.saved` gave of the ones.
        keys: int64 (keys,), their numbers there; those that it does not know hold nothing.
        ranks: gives tuples new ranks, in the same order.
    """

    arrays: Mapping[str, Integers]
    keys: Integers
    ranks: Callable[[Integers], Integers]


class Reservoirs:
    """The tuples of all keys that are in memory. Keys are numbered from 0; which one has which number is up to the caller.

    Args:
        score: what a tuple's loss costs.
        memory: tuples that may stay, per key.
        gap: greatest distance between tuples of one coalesced tuple.

    Raises:
        ValueError: memory for no tuple.

    Example:
        >>> reservoirs = Reservoirs(Score(1, 1), memory=1)
        >>> key, never = np.array([0, 1, 0]), np.full(3, NEVER)
        >>> tuples = Intervals(np.array([7, 7, 7]), np.array([0, 0, 5]), np.array([5, 9, 6]))
        >>> reservoirs.arrive(Coming(key, np.arange(3), never, never), tuples, np.arange(3, dtype=np.uint64)).tolist()
        [-1, -1, 2]
    """

    def __init__(self, score: Score, memory: int, gap: int = 0) -> None:
        if memory < 1:
            raise ValueError(f"memory holds at least one tuple, not {memory}")
        self._rules = np.array([memory, 0, 0, gap, score.value_weight, score.interval_weight], np.int64)
        self._pool = self._empty(np.zeros((0, at.STATE), np.int64), np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Tuples held, of all keys."""
        return int(self._pool.state[:, at.HELD].sum())

    def arrive(self, coming: Coming, tuples: Intervals, identity: NDArray[np.uint64]) -> Integers:
        """Takes tuples in.

        Args:
            coming: their keys and ranks.
            tuples: those of each key in the order of time.
            identity: uint64 (tuples,), evenly spread hashes; those of greater hash stay longer.

        Returns:
            int64 (tuples,), rank of the tuple of its key that each one drove out, itself perhaps; -1: none.
        """
        self._know(int(coming.key.max(initial=-1)) + 1)
        dropped = np.empty(len(tuples), np.int64)
        tie = (identity >> np.uint64(1)).astype(np.int64)
        arrivals = Arrivals(*(np.require(one, np.int64, ["C", "W"]) for one in (tuples.value, tuples.start, tuples.end, tie)))
        places = Places(*(np.require(one, np.int64, ["C", "W"]) for one in (coming.key, coming.rank, coming.oldest, coming.ended)))
        begin = 0
        while (begin := arrive_by_key(self._pool, places, arrivals, dropped, begin)) < len(tuples):
            self._reserve(2 * len(self._pool.tuples), 2 * len(self._pool.runs))
        return dropped

    def expire(self, oldest: int, ended: int) -> None:
        """Forgets in all keys what lies before the bounds, as the next arrival of each key would; see `Coming`."""
        pack_all(self._pool, oldest, ended)

    def idle(self, now: int) -> NDArray[np.bool_]:
        """Bool (keys,): whether a key holds nothing, and no tuple that starts at ``now`` or later can lengthen its last run."""
        pool = self._pool
        latest = pool.blocks[:, pool_at.RUN_ROW] + np.maximum(pool.state[:, at.RUN_COUNT] - 1, 0)
        over = (pool.state[:, at.RUN_COUNT] == 0) | (pool.runs[latest, at.RUN_END] + self._rules[at.GAP] < now)
        return (pool.state[:, at.HELD] == 0) & over

    def keep(self, keys: Integers) -> None:
        """Forgets all other keys; those that stay are numbered in the order given."""
        saved = self.saved()
        used, runs = saved["state"][:, at.USED], saved["state"][:, at.RUN_COUNT]
        self.load(
            {
                "state": saved["state"][keys],
                "tuples": saved["tuples"][_stretches(np.cumsum(used)[keys] - used[keys], used[keys])],
                "runs": saved["runs"][_stretches(np.cumsum(runs)[keys] - runs[keys], runs[keys])],
            }
        )

    def gather(self, parts: Sequence[Moving]) -> None:
        """Takes over keys of other reservoirs (of the same score, memory and gap) in place of its own, numbered one after the other.

        A key's tuples compete with each other alone, so what goes later is what would have gone there.
        """
        tables: dict[str, list[Integers]] = {
            "state": [_nothing(0)],
            "tuples": [np.zeros((0, at.TUPLE_WIDTH), np.int64)],
            "runs": [np.zeros((0, at.RUN_WIDTH), np.int64)],
        }
        for part in parts:
            unknown = int(part.keys.max(initial=-1)) + 1 - len(part.arrays["state"])
            state = np.concatenate([part.arrays["state"], _nothing(max(unknown, 0))])
            tables["state"].append(state[part.keys])
            for name, column in (("tuples", at.USED), ("runs", at.RUN_COUNT)):
                counts = state[:, column]
                tables[name].append(part.arrays[name][_stretches(np.cumsum(counts)[part.keys] - counts[part.keys], counts[part.keys])])
            tables["tuples"][-1][:, at.ORDINAL] = part.ranks(tables["tuples"][-1][:, at.ORDINAL])
        self.load({name: np.concatenate(found) for name, found in tables.items()})

    def kept(self, key: int) -> Integers:
        """Ranks of the tuples in memory of one key, rising."""
        if key >= len(self._pool.state):
            return np.zeros(0, np.int64)
        row, size = self._pool.blocks[key, pool_at.ROW], self._pool.blocks[key, pool_at.SIZE]
        held = self._pool.tuples[row : row + size]
        return held[held[:, at.RUN] != at.GONE, at.ORDINAL]

    def saved(self) -> Mapping[str, Integers]:
        """Arrays from which `load` makes the same state."""
        pack_all(self._pool, NEVER, NEVER)
        pool = self._pool
        used = _stretches(pool.blocks[:, pool_at.ROW], pool.state[:, at.USED])
        runs = _stretches(pool.blocks[:, pool_at.RUN_ROW], pool.state[:, at.RUN_COUNT])
        return {"state": pool.state.copy(), "tuples": pool.tuples[used], "runs": pool.runs[runs]}

    def load(self, arrays: Mapping[str, Integers]) -> None:
        """Takes over what `saved` gave, of reservoirs of the same score, memory and gap."""
        state = arrays["state"].copy()
        room = 1 << np.ceil(np.log2(state[:, at.USED] + 1)).astype(np.int64)
        pool = self._empty(state, np.maximum(room, FIRST_ROOM))
        pool.tuples[_stretches(pool.blocks[:, pool_at.ROW], state[:, at.USED])] = arrays["tuples"]
        pool.runs[_stretches(pool.blocks[:, pool_at.RUN_ROW], state[:, at.RUN_COUNT])] = arrays["runs"]
        pack_all(pool, NEVER, NEVER)
        self._pool = pool

    def _know(self, keys: int) -> None:
        """Makes room for new keys, in steps that double."""
        old = self._pool
        known, taken = len(old.state), old.taken
        if keys <= known:
            return
        news = max(keys - known, known)
        self._reserve(int(taken[pool_at.ROWS]) + FIRST_ROOM * news, int(taken[pool_at.RUN_ROWS]) + (FIRST_ROOM + 1) * news)
        state = _nothing(news)
        added = np.arange(news)
        blocks = np.stack([taken[pool_at.ROWS] + FIRST_ROOM * added, taken[pool_at.RUN_ROWS] + (FIRST_ROOM + 1) * added], axis=1)
        blocks = np.concatenate([blocks, np.full((news, 1), FIRST_ROOM)], axis=1)
        taken += news * np.array([FIRST_ROOM, FIRST_ROOM + 1])
        self._pool = self._pool._replace(blocks=np.concatenate([old.blocks, blocks]), state=np.concatenate([old.state, state]))

    def _reserve(self, rows: int, run_rows: int) -> None:
        """At least so many rows of ``tuples`` and ``runs``."""
        old = self._pool
        if rows <= len(old.tuples) and run_rows <= len(old.runs):
            return
        rows, run_rows = max(rows, 2 * len(old.tuples)), max(run_rows, 2 * len(old.runs))
        tuples = _gone(rows, at.TUPLE_WIDTH, at.RUN, old.tuples)
        tree = _gone(2 * rows, at.TREE_WIDTH, at.OWNER, old.tree)
        runs = np.zeros((run_rows, at.RUN_WIDTH), np.int64)
        runs[: len(old.runs)] = old.runs
        self._pool = old._replace(tuples=tuples, runs=runs, tree=tree)

    def _empty(self, state: Integers, room: Integers) -> Pool:
        """Tables for keys of these states, with room for so many tuples each."""
        ends, run_ends = np.cumsum(room), np.cumsum(room + 1)
        blocks = np.stack([ends - room, run_ends - room - 1, room], axis=1)
        taken = np.array([room.sum(), (room + 1).sum()], np.int64)
        rows, run_rows = (int(one) for one in taken)
        none = np.zeros((0, 0), np.int64)
        tuples, tree = _gone(rows, at.TUPLE_WIDTH, at.RUN, none), _gone(2 * rows, at.TREE_WIDTH, at.OWNER, none)
        runs = np.zeros((run_rows + 1, at.RUN_WIDTH), np.int64)
        return Pool(self._rules, np.ascontiguousarray(blocks), taken, state, tuples, runs, tree, np.zeros(at.TOUCHED, np.int64))


def _nothing(keys: int) -> Integers:
    """The states of keys that hold nothing."""
    state = np.zeros((keys, at.STATE), np.int64)
    state[:, [at.HEAD, at.TAIL, at.PREVIOUS]] = -1
    return state


def _gone(rows: int, width: int, mark: int, old: Integers) -> Integers:
    """A table of rows that are marked as gone, save the old ones."""
    table = np.zeros((rows, width), np.int64)
    table[:, mark] = at.GONE
    if len(old):
        table[: len(old)] = old
    return table


def _stretches(starts: Integers, lengths: Integers) -> Integers:
    """``starts[0], starts[0] + 1, ...`` for so many, then those of the next one."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
