"""Whether a control sample of partitions can say what shedding costs a query, and if not, why; pure."""

from __future__ import annotations

from app.query.plan import QUERY_STREAM, Plan
from app.query.reach import reach_ms


def sheds_for_its_bound(plan: Plan) -> bool:
    """Whether the query has a bound to shed for, and a shedder."""
    return plan.shedding.latency_bound_ms is not None and plan.shedding.shedder != "none"


def reads_queries(plan: Plan) -> bool:
    """Whether it reads other queries' composite events: what these have lost or made up nobody here knows."""
    return any(stream.startswith(QUERY_STREAM) for stream in plan.streams)


def why_no_sample(plan: Plan) -> str | None:
    """Why the query can have no control sample, a sentence's end; None where it can.

    Events must belong to partitions; other queries that it reads have a sample of other partitions; and what it finds must depend on what its reach holds, not on matches or events of any time before:
    after a restart nobody could say any more that all of them were seen.
    """
    if not sheds_for_its_bound(plan):
        return "nothing is shed for a latency bound"
    if plan.draining is not None:
        return "it is an old version that finishes what it began"
    if plan.temporal is not None:
        return "it is a temporal query"
    if not plan.equivalence:
        return "it has no partition attribute"
    if plan.ranks == "stream":
        return "its window counts the events of all partitions"
    if any(item.lacks for item in plan.items):
        return "events of some of its types belong to all partitions"
    if reads_queries(plan):
        return "it reads other queries"
    if plan.runs is not None and plan.runs.after != "no-skip":
        return "with after: what it finds depends on all matches before"
    return "its matches have no bound in time" if reach_ms(plan) is None else None
