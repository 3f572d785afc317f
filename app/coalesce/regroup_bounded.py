"""Bounded memory, put together and taken apart by key: each key has its own, so what goes later is what would have gone in the old place.

Tuples are named by their rank in the input of the engine that took them in. Where keys of several engines come together they get new ranks, those
of all of them in total order: the table of tuples is searched by rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.coalesce import arrays as at
from app.coalesce import kernels_bounded as of
from app.coalesce.arrays import Integers
from app.coalesce.bounded import OPEN_ROWS, as_memory, memory_of
from app.coalesce.memory import MovedKeys, TupleMemory

State = Mapping[str, Integers]
"""What `app.coalesce.coalescer.Coalescer.saved` gives where memory is bounded."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Old ranks of the tuples of an engine that are known, rising, and their new ones. All new ones are even.

    >>> Ranks(np.array([3, 7]), np.array([2, 8]))(np.array([7, 3, 5, 1])).tolist()
    [8, 2, 3, 1]
    """

    old: Integers
    new: Integers

    def __call__(self, ranks: Integers) -> Integers:
        """New ranks in the order of the old ones; those of tuples that only memory still has are odd, so that no tuple is taken for one of them."""
        if not len(self.old):
            return np.ones_like(ranks)
        places = np.searchsorted(self.old, ranks, side="right") - 1
        before = np.maximum(places, 0)
        known = (places >= 0) & (self.old[before] == ranks)
        return np.where(known, self.new[before], np.where(places >= 0, self.new[before] + 1, 1))


def reranked(states: Sequence[State]) -> tuple[list[State], list[Ranks]]:
    """The states with ranks in the input of all of them together, and what gave them these."""
    found = [_ranked(state) for state in states]
    every = np.concatenate([np.zeros((0, 4), np.int64), *found])
    order = np.lexsort((every[:, 2], every[:, 1], every[:, 0]))
    numbers = np.empty(len(every), np.int64)
    numbers[order] = 2 * np.arange(1, len(every) + 1)
    new = np.split(numbers, np.cumsum([len(rows) for rows in found])[:-1])
    ranks = [Ranks(rows[:, 3], own) for rows, own in zip(found, new, strict=True)]
    return [_under(state, own, 2 * len(every) + 1) for state, own in zip(states, ranks, strict=True)], ranks


def gathered(
    memory: TupleMemory, states: Sequence[State], keys: Sequence[NDArray[np.bool_]], ranks: Sequence[Callable[[Integers], Integers]]
) -> State:
    """The arrays of bounded memory of some keys.

    Args:
        memory: a new one.
        states: which hold them.
        keys: of each, bool (open rows,), which ones.
        ranks: of each, what its own memory's ranks become.
    """
    memory.gather([MovedKeys(memory_of(state), np.flatnonzero(kept), own) for state, kept, own in zip(states, keys, ranks, strict=True)])
    rows = np.concatenate([state[OPEN_ROWS][kept] for state, kept in zip(states, keys, strict=True)])
    return {OPEN_ROWS: rows, **as_memory(memory.saved())}


def _ranked(state: State) -> Integers:
    """Start, source, offset and rank of all tuples of which these are known, by rank."""
    known = np.concatenate(
        [state["tuples"][:, [at.START, at.SOURCE, at.OFFSET, at.PLACE]], state[OPEN_ROWS][:, [of.TIME, of.FROM, of.AT, of.ORDER]]]
    )
    _, first = np.unique(known[:, 3], return_index=True)
    return known[first]


def _under(state: State, ranks: Ranks, last: int) -> State:
    tuples, rows, counters = state["tuples"].copy(), state[OPEN_ROWS].copy(), state["counters"].copy()
    tuples[:, at.PLACE], rows[:, of.ORDER] = ranks(tuples[:, at.PLACE]), ranks(rows[:, of.ORDER])
    counters[at.RANK] = last
    return {**state, "tuples": tuples, OPEN_ROWS: rows, "counters": counters}
