"""The door of pattern queries: which way of matching runs a plan, and how its engines begin, go on, move and are shown.

What an engine can be asked is `app.cep.engine.Engine`, what it finds `app.cep.matches`; no other module outside imports a way of matching
(contracts in `pyproject.toml`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from app.cep.alternatives import explain as explain_alternatives
from app.cep.alternatives import regroup as regroup_alternatives
from app.cep.alternatives.engine import AlternativesEngine
from app.cep.chains import explain as explain_chains
from app.cep.chains import regroup as regroup_chains
from app.cep.chains.engine import ChainsEngine
from app.cep.engine import Engine
from app.cep.runs import explain as explain_runs
from app.cep.runs import regroup as regroup_runs
from app.cep.runs.drawing import Drawn, Edge, drawn
from app.cep.runs.engine import RunsEngine
from app.cep.runs.hiding import hide, hide_limits, hide_nothing, limits_of, only_loses, pairs_by, pairs_met
from app.cep.runs.live import (
    ANY_ITEM,
    BoundEvents,
    LiveRuns,
    Question,
    Questions,
    bound_events,
    count_live,
    end_runs,
    live_runs,
    new_runs,
    told_of,
)
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import Owner
from app.cep.snapshot.state import engine_of
from app.cep.stacks import explain as explain_stacks
from app.cep.stacks import regroup as regroup_stacks
from app.cep.stacks.engine import StacksEngine
from app.errors import SnapshotError
from app.query.plan import Plan
from app.query.planning.alternatives import alternatives_of, runs_apart
from app.query.planning.chains import chain_of

__all__ = [
    "ANY_ITEM",
    "BoundEvents",
    "Drawn",
    "Edge",
    "LiveRuns",
    "Question",
    "Questions",
    "RunsEngine",
    "StacksEngine",
    "bound_events",
    "count_live",
    "drawn",
    "end_runs",
    "hide",
    "hide_limits",
    "hide_nothing",
    "limits_of",
    "live_runs",
    "merged_states",
    "new_engine",
    "new_runs",
    "only_loses",
    "pairs_by",
    "pairs_met",
    "parted_state",
    "restore_engine",
    "tables_of",
    "tells_partial_matches",
    "told_of",
    "way_of",
]


@dataclass(frozen=True, slots=True)
class _Way:
    """A way of matching.

    Attributes:
        new: an engine that has seen nothing yet.
        restore: an engine that goes on where the one of the snapshot was.
        merged: the states of one plan as one.
        parted: a state by the part that each partition goes to.
        tables: what its kernels run, for people.
    """

    new: Callable[[Plan], Engine]
    restore: Callable[[Plan, Buffer], Engine]
    merged: Callable[[Plan, Sequence[Buffer]], Buffer]
    parted: Callable[[Plan, Buffer, Owner, int], list[Buffer]]
    tables: Callable[[Plan], dict[str, Any]]


_WAYS: Mapping[str, _Way] = {
    "stacks": _Way(StacksEngine, StacksEngine.restore, regroup_stacks.merged, regroup_stacks.parted, explain_stacks.tables_of),
    "alternatives": _Way(
        AlternativesEngine,
        AlternativesEngine.restore,
        regroup_alternatives.merged,
        regroup_alternatives.parted,
        explain_alternatives.tables_of,
    ),
    "chains": _Way(ChainsEngine, ChainsEngine.restore, regroup_chains.merged, regroup_chains.parted, explain_chains.tables_of),
    "runs": _Way(RunsEngine, RunsEngine.restore, regroup_runs.merged, regroup_runs.parted, explain_runs.tables_of),
}
"""By the name that states carry."""
_ABLE: Mapping[str, Callable[[Plan], object]] = {"chains": chain_of, "alternatives": alternatives_of}
"""Ways that run some plans of runs: None where they cannot run a plan."""


def way_of(plan: Plan) -> str:
    """Which way of matching runs a plan: of those for the runs evaluator, those whose partial matches never split are chains, and those that are a few sequences side by side are alternatives.

    Raises:
        ValueError: none does.
    """
    if plan.evaluator not in ("stacks", "runs"):
        raise ValueError(f"query {plan.name}: no engine runs plans for the {plan.evaluator} evaluator")
    if plan.evaluator == "stacks":
        return "stacks"
    if chain_of(plan) is not None:
        return "chains"
    return "alternatives" if runs_apart(plan) else "runs"


def new_engine(plan: Plan) -> Engine:
    """An engine for the plan that has seen nothing yet.

    Raises:
        ValueError: no engine runs the plan.
    """
    return _WAYS[way_of(plan)].new(plan)


def restore_engine(plan: Plan, data: Buffer) -> Engine:
    """An engine that goes on where the one of the snapshot was, and so in the way that kept it, where several run the plan.

    Raises:
        ValueError: no engine runs the plan.
        SnapshotError: the bytes are no snapshot of an engine of this plan.
    """
    way = _kept_by(plan, data)
    if way in _ABLE and _ABLE[way](plan) is None:
        # a query that has got a shedder of partial matches since cannot go on with what chains, or alternatives, hold
        return new_engine(plan)
    return _WAYS[way].restore(plan, data)


def merged_states(plan: Plan, states: Sequence[Buffer]) -> Buffer:
    """The states of a plan in several buckets as one.

    Raises:
        SnapshotError: they cannot be put together.
    """
    ways = {_kept_by(plan, data) for data in states}
    if len(ways) > 1:
        raise SnapshotError(f"it has engines of {' in some buckets, and of '.join(sorted(ways))} in others")
    return _WAYS[ways.pop()].merged(plan, states)


def parted_state(plan: Plan, state: Buffer, owner: Owner, parts: int) -> list[Buffer]:
    """A plan's state by the part that each partition goes to.

    Raises:
        SnapshotError: it cannot be taken apart.
    """
    return _WAYS[_kept_by(plan, state)].parted(plan, state, owner, parts)


def _kept_by(plan: Plan, data: Buffer) -> str:
    """The way whose state this is; what is none is refused by the plan's own."""
    way = way_of(plan)
    if plan.evaluator != "runs":
        return way
    kept = engine_of(data)
    return kept if kept in _ABLE else "runs"


def tables_of(plan: Plan) -> dict[str, Any]:
    """What the kernels of the plan's way run, by name: cells, integer tables, programs; for people."""
    return _WAYS[way_of(plan)].tables(plan)


def state_bytes(engine: Engine, above: int) -> int:
    """What an engine's partial matches take, bytes; 0 where they cannot be ended. Rough, and too much, up to ``above``; to be asked between feeds."""
    return engine.state_bytes(above) if tells_partial_matches(engine) else 0


def tells_partial_matches(engine: Engine) -> TypeGuard[RunsEngine]:
    """Whether an engine's partial matches can be looked at and ended (`live_runs`, `end_runs`, `bound_events`)."""
    return isinstance(engine, RunsEngine)
