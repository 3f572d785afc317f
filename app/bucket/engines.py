"""Which engine runs a plan: a fresh one, or one that goes on from its state. The engines do not know each other; here they meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.bucket import regroup_tuples
from app.bucket.family import is_family_state, merged_family_states, parted_family_state
from app.bucket.temporal import MemoryOf, TemporalEngine
from app.cep import door
from app.cep.engine import Engine
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import Owner
from app.errors import SnapshotError
from app.query.plan import Plan

QueryEngine = Engine
"""The door of every engine."""


def new_engine(plan: Plan, memory_of: MemoryOf | None = None) -> QueryEngine:
    """An engine for the plan that has seen nothing yet.

    Args:
        plan: of a query.
        memory_of: makes the bounded memory of temporal queries that ask for one.

    Raises:
        ValueError: no engine runs the plan, or it bounds its memory and nobody says how.
    """
    return door.new_engine(plan) if plan.temporal is None else TemporalEngine(plan, memory_of)


def restore_engine(plan: Plan, data: Buffer, memory_of: MemoryOf | None = None) -> QueryEngine:
    """An engine that goes on where the one of the snapshot was; arguments as of `new_engine`.

    Raises:
        ValueError: no engine runs the plan, or it bounds its memory and nobody says how.
        SnapshotError: the bytes are no snapshot of an engine of this plan.
    """
    return door.restore_engine(plan, data) if plan.temporal is None else TemporalEngine.restore(plan, data, memory_of)


def load_engines(plans: Iterable[Plan]) -> None:
    """Makes sure that the kernels of all engines that run these plans are there: compiling them takes seconds, loading them a part of one."""
    for plan in {door.way_of(plan): plan for plan in plans if plan.evaluator == "runs"}.values():
        door.new_engine(plan)


def taken_over(engine: QueryEngine, before: Plan, plan: Plan, memory_of: MemoryOf | None = None) -> QueryEngine:
    """A live engine under a plan of the same fingerprint: mostly itself.

    Args:
        engine: goes on; not to be used for the plan of before any more.
        before: what it was made for.
        plan: what it is to run; differs in what state does not depend on.
        memory_of: as of `new_engine`.
    """
    if before.shedding == plan.shedding or plan.temporal is not None or door.way_of(before) == door.way_of(plan):
        return engine
    return restore_engine(plan, engine.snapshot(), memory_of)  # shedders of partial matches know runs only, not chains


def merged_states(plan: Plan, states: Sequence[Buffer], memory_of: MemoryOf | None = None) -> Buffer:
    """The states of a query in several buckets as one.

    Args:
        plan: of the query.
        states: at least one.
        memory_of: as for `new_engine`.

    Raises:
        SnapshotError: they cannot be put together.
    """
    if len(states) == 1:
        return states[0]
    shared = {is_family_state(data) for data in states}
    if len(shared) > 1:
        raise SnapshotError("it shares an engine in some buckets and has one of its own in others")
    if shared == {True}:
        return merged_family_states(states)
    return door.merged_states(plan, states) if plan.temporal is None else regroup_tuples.merged(plan, states, memory_of)


def parted_state(plan: Plan, state: Buffer, owner: Owner, parts: int, memory_of: MemoryOf | None = None) -> list[Buffer]:
    """A query's state by the bucket that each partition goes to; a bucket that gets none gets an empty one.

    Args:
        plan: of the query.
        state: whole.
        owner: says where partitions go.
        parts: how many buckets there are.
        memory_of: as for `new_engine`.

    Raises:
        SnapshotError: it cannot be taken apart.
    """
    if parts == 1:
        return [state]
    if is_family_state(state):
        return parted_family_state(state, owner, parts)
    if plan.temporal is None:
        return door.parted_state(plan, state, owner, parts)
    return regroup_tuples.parted(plan, state, owner, parts, memory_of)
