"""Of which streams events are dropped in a batch before anybody decodes them: decided by the directive alone, so tasks and owners agree."""

from __future__ import annotations

from app.control.directives import Directive, QueryShedding
from app.query.plan import Catalog, Plan

RANDOM = "random"
"""The shedder that looks at nothing but an event's place."""


def order_of(plan: Plan, directive: Directive) -> QueryShedding | None:
    """What a query has to shed in a batch; old versions of queries finish what they began whole."""
    return None if plan.draining is not None else directive.shedding.get(plan.name)


def unseen_ratio(catalog: Catalog, stream: str, directive: Directive) -> float:
    """The share of a stream's events that all its queries drop whatever is in them; 0 when nothing may be dropped unseen.

    `random` compares one number per event with each query's ratio, so the smallest ratio is what all agree on. Only when all queries of the stream shed so,
    and none of them must keep events of negated items, or counts events that it has shed.
    """
    plans = [plan for plan in catalog.plans if stream in plan.streams]
    orders = [order_of(plan, directive) for plan in plans]
    guarded = any(not plan.shedding.allow_false_positives and any(item.negated for item in plan.items) for plan in plans)
    if not orders or guarded or any(plan.ranks != "none" for plan in plans):
        return 0.0
    return min(one.drop_ratio if one is not None and one.shedder == RANDOM and one.place == "ingress" else 0.0 for one in orders)


def streams_dropped_unseen(catalog: Catalog, directive: Directive) -> frozenset[str]:
    """Streams of which events may have been dropped so."""
    if not directive.shedding:
        return frozenset()
    streams = {stream for plan in catalog.plans for stream in plan.streams}
    return frozenset(stream for stream in streams if unseen_ratio(catalog, stream, directive) > 0)
