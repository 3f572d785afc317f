"""Which engine runs a plan: a fresh one, or one that goes on from its state. The engines do not know each other; here they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.bucket.temporal import MemoryOf, TemporalEngine
from app.cep.engine import Engine, Tally, Watermarks
from app.cep.matches import Matches
from app.cep.snapshot import names_in
from app.events.batch import EventBatch
from app.query.chains import chain_of
from app.query.plan import Plan


class QueryEngine(Protocol):
    """The door of every engine: arrays in, arrays out, its state as bytes."""

    timeouts: Matches | None
    """Partial matches that timed out in the last feed; None unless the plan emits them."""

    def feed(self, batch: EventBatch, items: NDArray[np.uint64], watermarks: Watermarks) -> tuple[Matches, Tally]:
        """Processes events in the order given, and lets time come to the watermarks; see `app.cep.engine.Engine.feed`."""

    def snapshot(self) -> bytes:
        """The whole state; the engine goes on unchanged."""

    def validate(self) -> None:
        """Invariants of the state.

        Raises:
            AssertionError: one of them does not hold.
        """


@dataclass(frozen=True, slots=True)
class _Kind:
    """How engines of one evaluator come to be."""

    new: Callable[[Plan, MemoryOf | None], QueryEngine]
    restore: Callable[[Plan, bytes, MemoryOf | None], QueryEngine]


def _new_stacks(plan: Plan, memory_of: MemoryOf | None) -> QueryEngine:
    return Engine(plan)


def _restored_stacks(plan: Plan, data: bytes, memory_of: MemoryOf | None) -> QueryEngine:
    return Engine.restore(plan, data)


def _new_runs(plan: Plan, memory_of: MemoryOf | None) -> QueryEngine:
    if chain_of(plan) is not None:
        from app.cep.chains.engine import ChainsEngine  # noqa: PLC0415 - its kernels take seconds to compile

        return ChainsEngine(plan)
    from app.cep.runs.engine import RunsEngine  # noqa: PLC0415 - its kernels take a minute to compile where no query needs them

    return RunsEngine(plan)


def _restored_runs(plan: Plan, data: bytes, memory_of: MemoryOf | None) -> QueryEngine:
    if "runs" in names_in(data):
        # the runs evaluator has none of that name; a query that has got a shedder of partial matches since cannot go on with what chains hold
        if chain_of(plan) is None:
            return _new_runs(plan, memory_of)
        from app.cep.chains.engine import ChainsEngine  # noqa: PLC0415 - see above

        return ChainsEngine.restore(plan, data)
    from app.cep.runs.engine import RunsEngine  # noqa: PLC0415 - see above

    return RunsEngine.restore(plan, data)


_KINDS: Mapping[str, _Kind] = {
    "stacks": _Kind(_new_stacks, _restored_stacks),
    "runs": _Kind(_new_runs, _restored_runs),
    "coalesce": _Kind(TemporalEngine, TemporalEngine.restore),
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


def restore_engine(plan: Plan, data: bytes, memory_of: MemoryOf | None = None) -> QueryEngine:
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


def _kind(plan: Plan) -> _Kind:
    kind = _KINDS.get(plan.evaluator)
    if kind is None:
        raise ValueError(f"query {plan.name}: no engine runs plans for the {plan.evaluator} evaluator")
    return kind
