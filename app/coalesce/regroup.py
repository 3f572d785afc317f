"""States of the coalescing operator, put together and taken apart by key. Texts have the same numbers in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.coalesce import arrays as at
from app.coalesce.arrays import Integers

State = Mapping[str, Integers]
"""What `app.coalesce.coalescer.Coalescer.saved` gives; what is there beside it where memory is bounded moves in `app.coalesce.regroup_bounded`."""


def merged(states: Sequence[State]) -> State:
    """One state of the keys of all, which are different."""
    return _gathered(states, [np.ones(len(state["keys"]), np.bool_) for state in states])


def parted(state: State, owners: Integers, parts: int) -> list[State]:
    """The state of every part; ``owners``: by key the part that it goes to."""
    return [_gathered([state], [owners == part]) for part in range(parts)]


def _gathered(states: Sequence[State], keys: Sequence[NDArray[np.bool_]]) -> State:
    tables: dict[str, list[Integers]] = {"tuples": [], "runs": [], "keys": []}
    for state, kept in zip(states, keys, strict=True):
        _take(state, kept, tables)
    whole = {name: np.concatenate(parts) for name, parts in tables.items()}
    whole["tuples"], numbers = _in_total_order(whole["tuples"])
    for name, columns in (("tuples", (at.AFTER, at.BEFORE)), ("runs", (at.FIRST, at.NEWEST)), ("keys", (at.CURRENT_TUPLE,))):
        for column in columns:
            whole[name][:, column] = _moved(numbers, whole[name][:, column])
    counters = np.max([state["counters"] for state in states], axis=0)  # of those without tuples the next window is an old one
    counters[[at.FOUND, at.MEMBERS, at.EVALUATED]] = 0
    counters[at.TUPLES] = counters[at.LIVE] = len(whole["tuples"])
    counters[at.RUNS] = counters[at.LIVE_RUNS] = len(whole["runs"])
    counters[at.KEYS] = len(whole["keys"])
    return {**whole, "counters": counters}


def _take(state: State, keys: NDArray[np.bool_], tables: dict[str, list[Integers]]) -> None:
    """Appends a state's keys with all that is theirs."""
    runs = keys[state["runs"][:, at.KEY]]
    tuples = runs[state["tuples"][:, at.RUN]]
    kept = {"keys": keys, "runs": runs, "tuples": tuples}
    new = {name: np.where(which, np.cumsum(which) - 1 + sum(map(len, tables[name])), -1) for name, which in kept.items()}
    own = {name: state[name][which].copy() for name, which in kept.items()}
    own["runs"][:, at.KEY] = new["keys"][own["runs"][:, at.KEY]]
    own["tuples"][:, at.RUN] = new["runs"][own["tuples"][:, at.RUN]]
    own["keys"][:, at.CURRENT] = _moved(new["runs"], own["keys"][:, at.CURRENT])
    for name, columns in (("tuples", (at.AFTER, at.BEFORE)), ("runs", (at.FIRST, at.NEWEST)), ("keys", (at.CURRENT_TUPLE,))):
        for column in columns:
            own[name][:, column] = _moved(new["tuples"], own[name][:, column])
    for name, table in own.items():
        tables[name].append(table)


def _in_total_order(tuples: Integers) -> tuple[Integers, Integers]:
    """The tuples in total order, and the new number of each."""
    order = np.lexsort((np.arange(len(tuples)), tuples[:, at.OFFSET], tuples[:, at.SOURCE], tuples[:, at.START]))
    numbers = np.empty(len(tuples), np.int64)
    numbers[order] = np.arange(len(tuples))
    return tuples[order], numbers


def _moved(numbers: Integers, pointers: Integers) -> Integers:
    """Pointers to rows that have new numbers; negative ones stay."""
    return np.where(pointers >= 0, numbers[np.maximum(pointers, 0)], pointers) if len(numbers) else pointers.copy()
