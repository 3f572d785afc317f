"""Which shedders the application runs on which query: who competes, and who is refused, is asked here."""

from __future__ import annotations

from app.cep.door import only_loses, pairs_by
from app.features.positions import shed_window
from app.features.shape import without_chains
from app.query.plan import Plan
from shedding.registry import METHODS


def not_run(plan: Plan, shedder: str) -> str | None:
    """Why the application does not run a shedder on a query; None where it does.

    Args:
        plan: of the query.
        shedder: name in `shedding.registry`.
    """
    method = METHODS[shedder]
    if method.keyed and not _partitioned(plan):
        return f"the shedder {shedder} keeps whole partitions, and this query has none"
    if method.remembers and (why := without_chains(plan)):
        return f"the shedder {shedder} keeps whole chains; {why}"
    if method.level == "events per window" and (why := _without_time(plan)):
        return f"the shedder {shedder} goes by positions in windows of time; {why}"
    if method.level == "partial matches" and plan.runs is not None and plan.runs.window is not None:
        return f"the shedder {shedder} asks how much of a window is left to a partial match, which nobody can say of `window:`"
    if shedder == "hspice" and (why := _without_pairs(plan)):
        return f"the shedder hspice hides events from single partial matches; {why}"
    return None


def _partitioned(plan: Plan) -> bool:
    """Whether events of the query are in partitions that can be told apart wherever they are."""
    return bool(plan.equivalence) and plan.ranks != "stream"


def _without_pairs(plan: Plan) -> str | None:
    """Why events of the query cannot be hidden from partial matches; None where they can, and it only loses by it."""
    try:
        pairs_by(plan, 1)
    except ValueError as error:
        return str(error)
    if plan.shedding.state_bytes is not None:
        return "limits.state_bytes ends partial matches, and both together cannot be told apart"
    return (
        None
        if only_loses(plan)
        else "this query could find what is not so: nobody could tell (it can under skip-till-any-match, without until, after, timeouts, or an OR whose branches can bind the same events)"
    )


def _without_time(plan: Plan) -> str | None:
    """Why events of the query have no position by time; None where they have one."""
    try:
        return None if shed_window(plan).unit == "ms" else "this query's are in events, which no task can count"
    except ValueError:
        return "this query has none"
