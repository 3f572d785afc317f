"""Which engine runs a plan: a fresh one, or one that goes on from its state. The engines do not know each other; here they meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.bucket.temporal import MemoryOf, TemporalEngine
from app.cep.engine import Engine, Tally, Watermarks
from app.cep.matches import Matches
from app.cep.preamble import Buffer
from app.cep.snapshot import engine_of
from app.events.batch import EventBatch
from app.query.chains import chain_of
from app.query.plan import Plan


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


def _new_stacks(plan: Plan, memory_of: MemoryOf | None) -> QueryEngine:
    return Engine(plan)


def _restored_stacks(plan: Plan, data: Buffer, memory_of: MemoryOf | None) -> QueryEngine:
    return Engine.restore(plan, data)


def _new_runs(plan: Plan, memory_of: MemoryOf | None) -> QueryEngine:
    if chain_of(plan) is not None:
        from app.cep.chains.engine import ChainsEngine  # noqa: PLC0415 - its kernels take seconds to compile

        return ChainsEngine(plan)
    from app.cep.runs.engine import RunsEngine  # noqa: PLC0415 - its kernels take a minute to compile where no query needs them

    return RunsEngine(plan)


def _restored_runs(plan: Plan, data: Buffer, memory_of: MemoryOf | None) -> QueryEngine:
    if engine_of(data) == "chains":
        # a query that has got a shedder of partial matches since cannot go on with what chains hold
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


def restore_engine(plan: Plan, data: Buffer, memory_of: MemoryOf | None = None) -> QueryEngine:
    """An engine that goes on where the one of the snapshot was; arguments as of `new_engine`.

    Raises:
        ValueError: no engine runs the plan, or it bounds its memory and nobody says how.
        SnapshotError: the bytes are no snapshot of an engine of this plan.
    """
    return _kind(plan).restore(plan, data, memory_of)


def _kind(plan: Plan) -> _Kind:
    kind = _KINDS.get(plan.evaluator)
    if kind is None:
        raise ValueError(f"query {plan.name}: no engine runs plans for the {plan.evaluator} evaluator")
    return kind
