"""The reservoirs of shedders of tuples as the memory of an engine (`app.coalesce.memory.TupleMemory`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.coalesce.memory import Finished, MovedKeys, TupleMemory
from app.query.plan import Plan
from shedding.identity import identities
from shedding.registry import unlearned
from shedding.tuples.cals import TupleModel
from shedding.tuples.intervals import Intervals
from shedding.tuples.reservoirs import Coming, Moving, Reservoirs

Integers = NDArray[np.int64]


class ShedderMemory:
    """Memory in which a shedder's model says what goes.

    Args:
        model: of a shedder of tuples.
        tuples: that may stay, per key.
        gap_ms: greatest distance between tuples of one coalesced tuple.
    """

    def __init__(self, model: TupleModel, tuples: int, gap_ms: int) -> None:
        self._model = model
        self._reservoirs = Reservoirs(model.score, tuples, gap_ms)

    def arrive(self, tuples: Finished) -> Integers:
        """See `TupleMemory.arrive`."""
        ties = self._model.ties(identities(tuples.source, tuples.offset))
        coming = Coming(tuples.key, tuples.rank, tuples.oldest, tuples.ended)
        return self._reservoirs.arrive(coming, Intervals(tuples.value, tuples.start, tuples.end), ties)

    def expire(self, oldest: int, ended: int) -> None:
        """See `TupleMemory.expire`."""
        self._reservoirs.expire(oldest, ended)

    def idle(self, now: int) -> NDArray[np.bool_]:
        """See `TupleMemory.idle`."""
        return self._reservoirs.idle(now)

    def keep(self, keys: Integers) -> None:
        """See `TupleMemory.keep`."""
        self._reservoirs.keep(keys)

    def saved(self) -> Mapping[str, Integers]:
        """See `TupleMemory.saved`."""
        return self._reservoirs.saved()

    def load(self, arrays: Mapping[str, Integers]) -> None:
        """See `TupleMemory.load`."""
        self._reservoirs.load(arrays)

    def gather(self, parts: Sequence[MovedKeys]) -> None:
        """See `TupleMemory.gather`."""
        self._reservoirs.gather([Moving(one.arrays, one.keys, one.ranks) for one in parts])


def memory_of(plan: Plan) -> TupleMemory:
    """The memory that the plan asks for.

    Raises:
        ValueError: it asks for none, or not with a shedder of tuples.
    """
    model, tuples = unlearned(plan.shedding.shedder), plan.shedding.memory_tuples
    if tuples is None or plan.temporal is None or not isinstance(model, TupleModel):
        raise ValueError(f"query {plan.name}: {plan.shedding.shedder} keeps no memory of tuples")
    return ShedderMemory(model, tuples, plan.temporal.max_gap_ms)
