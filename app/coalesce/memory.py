"""What bounded memory of tuples must be able to do; who can is handed in from above, for engines know no shedders. See `app.coalesce.bounded`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.coalesce.arrays import Integers

NO_DROPS = np.zeros(0, np.int64)
"""Of memory without bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """Tuples that go to memory, those of each key in total order; every column int64 (tuples,).

    Attributes:
        key: number of the key.
        value: a number that changes when the values are not those of the tuple of the key that came before.
        start, end: ms.
        rank: in the query's input.
        source, offset: place of the event.
        oldest: tuples of the key of a lesser rank can be in no window any more.
        ended: tuples of the key that ended by then, ms, neither.
    """

    key: Integers
    value: Integers
    start: Integers
    end: Integers
    rank: Integers
    source: Integers
    offset: Integers
    oldest: Integers
    ended: Integers


@dataclass(frozen=True, slots=True, eq=False)
class MovedKeys:
    """Keys that go from one memory to another, with their tuples.

    Attributes:
        arrays: what `TupleMemory.saved` gave of the one.
        keys: int64 (keys,), their numbers there; it need not have heard of all of them.
        ranks: gives tuples new ranks, in the same order.
    """

    arrays: Mapping[str, Integers]
    keys: Integers
    ranks: Callable[[Integers], Integers]


class TupleMemory(Protocol):
    """The tuples of all keys that are in memory."""

    def arrive(self, tuples: Finished) -> Integers:
        """Takes tuples in, forgetting first what can be in no window any more; per tuple the rank of the one of its key that goes, or -1."""
        ...

    def expire(self, oldest: int, ended: int) -> None:
        """Forgets in all keys what can be in no window any more; see `Finished`."""
        ...

    def idle(self, now: int) -> NDArray[np.bool_]:
        """By key: whether forgetting it changes no later decision, when every later tuple starts at ``now`` (ms) or later."""
        ...

    def keep(self, keys: Integers) -> None:
        """Forgets all other keys, and numbers these anew, in the order given."""
        ...

    def saved(self) -> Mapping[str, Integers]:
        """The state as arrays."""
        ...

    def load(self, arrays: Mapping[str, Integers]) -> None:
        """Takes over what `saved` gave."""
        ...

    def gather(self, parts: Sequence[MovedKeys]) -> None:
        """Takes over keys of other memories in place of its own, numbered one after the other."""
        ...
