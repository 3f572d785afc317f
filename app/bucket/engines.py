"""Which engine runs a plan: a fresh one, or one that goes on from its state. The engines do not know each other; here they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.bucket import regroup_tuples
from app.bucket.family import is_family_state, merged_family_states, parted_family_state
from app.bucket.temporal import MemoryOf, TemporalEngine
from app.cep.chains import regroup as regroup_chains
from app.cep.chains.engine import ChainsEngine
from app.cep.engine import Tally, Watermarks
from app.cep.matches import Matches
from app.cep.runs import regroup as regroup_runs
from app.cep.runs.engine import RunsEngine
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import Owner
from app.cep.snapshot.state import engine_of
from app.cep.stacks import regroup as regroup_stacks
from app.cep.stacks.engine import StacksEngine
from app.errors import SnapshotError
from app.events.batch import EventBatch
from app.query.plan import Plan
from app.query.planning.chains import chain_of


class QueryEngine(Protocol):
    """The door of every engine: arrays in, arrays out, its state as bytes."""

    timeouts: Matches | None
    """Partial matches that timed out in the last feed; None unless the plan emits them."""

    def feed(self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks) -> tuple[Matches, Tally]:
        """Processes events in the order given, and lets time come to the watermarks; see `app.cep.engine.Engine.feed`."""

    def snapshot_parts(self) -> Sequence[Buffer]:
        """The whole state, as buffers to be put one after the other before the next feed; the engine goes on unchanged."""

    def snapshot(self) -> bytes:
        """The same, joined."""

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """


@dataclass(frozen=True, slots=True)
class _Kind:
    """How engines of one evaluator come to be."""

    new: Callable[[Plan, MemoryOf | None], QueryEngine]
    restore: Callable[[Plan, Buffer, MemoryOf | None], QueryEngine]
    merged: Callable[[Plan, Sequence[Buffer], MemoryOf | None], Buffer]
    parted: Callable[[Plan, Buffer, Owner, int, MemoryOf | None], list[Buffer]]


def _new_stacks(plan: Plan, memory_of: MemoryOf | None) -> QueryEngine:
    return StacksEngine(plan)


def _restored_stacks(plan: Plan, data: Buffer, memory_of: MemoryOf | None) -> QueryEngine:
    return StacksEngine.restore(plan, data)


def _merged_stacks(plan: Plan, states: Sequence[Buffer], memory_of: MemoryOf | None) -> Buffer:
    return regroup_stacks.merged(plan, states)


def _parted_stacks(plan: Plan, state: Buffer, owner: Owner, parts: int, memory_of: MemoryOf | None) -> list[Buffer]:
    return regroup_stacks.parted(plan, state, owner, parts)


def _new_runs(plan: Plan, memory_of: MemoryOf | None) -> QueryEngine:
    if chain_of(plan) is not None:
        return ChainsEngine(plan)
    return RunsEngine(plan)


def _restored_runs(plan: Plan, data: Buffer, memory_of: MemoryOf | None) -> QueryEngine:
    if engine_of(data) == "chains":
        # a query that has got a shedder of partial matches since cannot go on with what chains hold
        if chain_of(plan) is None:
            return _new_runs(plan, memory_of)
        return ChainsEngine.restore(plan, data)
    return RunsEngine.restore(plan, data)


def _merged_runs(plan: Plan, states: Sequence[Buffer], memory_of: MemoryOf | None) -> Buffer:
    engines = {engine_of(data) for data in states}
    if len(engines) > 1:
        raise SnapshotError("it has an engine of chains in some buckets, and one of runs in others")
    return (regroup_chains if engines == {"chains"} else regroup_runs).merged(plan, states)


def _parted_runs(plan: Plan, state: Buffer, owner: Owner, parts: int, memory_of: MemoryOf | None) -> list[Buffer]:
    return (regroup_chains if engine_of(state) == "chains" else regroup_runs).parted(plan, state, owner, parts)


_KINDS: Mapping[str, _Kind] = {
    "stacks": _Kind(_new_stacks, _restored_stacks, _merged_stacks, _parted_stacks),
    "runs": _Kind(_new_runs, _restored_runs, _merged_runs, _parted_runs),
    "coalesce": _Kind(TemporalEngine, TemporalEngine.restore, regroup_tuples.merged, regroup_tuples.parted),
}
"""By `Plan.evaluator`."""


def new_engine(plan: Plan, memory_of: MemoryOf | None = None) -> QueryEngine:
    """An engine for the plan that has seen nothing yet.

    Args:
        plan: of a query.
        memory_of: makes the bounded memory of temporal queries that ask for one.

    Raises:
        ValueError: no engine runs the plan, or it bounds its memory and nobody says how.
    """
    return _kind(plan).new(plan, memory_of)


def restore_engine(plan: Plan, data: Buffer, memory_of: MemoryOf | None = None) -> QueryEngine:
    """An engine that goes on where the one of the snapshot was; arguments as of `new_engine`.

    Raises:
        ValueError: no engine runs the plan, or it bounds its memory and nobody says how.
        SnapshotError: the bytes are no snapshot of an engine of this plan.
    """
    return _kind(plan).restore(plan, data, memory_of)


def load_engines(plans: Iterable[Plan]) -> None:
    """Makes sure that the kernels of all engines that run these plans are there: compiling them takes seconds, loading them a part of one."""
    kinds = {(plan.evaluator, plan.evaluator == "runs" and chain_of(plan) is not None): plan for plan in plans}
    for (evaluator, _), plan in kinds.items():
        if evaluator == "runs":
            new_engine(plan)


def taken_over(engine: QueryEngine, before: Plan, plan: Plan, memory_of: MemoryOf | None = None) -> QueryEngine:
    """A live engine under a plan of the same fingerprint: mostly itself.

    Args:
        engine: goes on; not to be used for the plan of before any more.
        before: what it was made for.
        plan: what it is to run; differs in what state does not depend on.
        memory_of: as of `new_engine`.
    """
    if before.shedding == plan.shedding or (chain_of(before) is None) == (chain_of(plan) is None):
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
    return merged_family_states(states) if shared == {True} else _kind(plan).merged(plan, states, memory_of)


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
    return parted_family_state(state, owner, parts) if is_family_state(state) else _kind(plan).parted(plan, state, owner, parts, memory_of)


def _kind(plan: Plan) -> _Kind:
    kind = _KINDS.get(plan.evaluator)
    if kind is None:
        raise ValueError(f"query {plan.name}: no engine runs plans for the {plan.evaluator} evaluator")
    return kind
