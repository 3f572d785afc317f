"""The bounded memory of temporal queries: their shedders, as the engines see them.

Nothing of it is decided by the clock or by a directive: which tuples stay follows from the tuples alone, so replays and restarts keep the same ones.
"""

from __future__ import annotations

from app.coalesce.memory import TupleMemory
from app.owners.reservoirs import memory_of
from app.query.plan import Plan


def tuple_memory(plan: Plan) -> TupleMemory:
    """The memory that the plan asks for.

    Raises:
        ValueError: it asks for none, or not with a shedder of tuples.
    """
    return memory_of(plan)
