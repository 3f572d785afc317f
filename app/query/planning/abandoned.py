"""What negations end, as queries of their own: for shedders that must know which events prevented matches.

An *abandoned partial match* is the beginning of a match up to the event that a negation forbids. Dropping that event would complete a match that is
none, so it is as useful as one that completes a match, and the events before it are what make it so. The abandoned partial matches of
``SEQ(A a, !(B b), C c)`` are the matches of ``SEQ(A a, B b)`` under the same predicates and window; engines need not report them.

**Source:** gSPICE (Slo et al., arXiv 2309.16405), section III: for queries with negation the operator also forwards abandoned partial matches.
"""

from __future__ import annotations

from dataclasses import replace

from app.query.plan import Absent, Item, JoinPredicate, Ordered, Plan, Runs, Take, Ways
from app.query.planning.fingerprint import fingerprint


def abandoned_plans(plan: Plan) -> tuple[Plan, ...]:
    """One plan per negated item: its matches are the partial matches that an event of the item ends.

    Returns:
        Plans without return fields, named ``<query>!<item>``; empty for queries without negation. Left out are negations inside AND, OR and groups,
        conjunctions of negated events, and items of types that lack an equivalence attribute.
    """
    if plan.temporal is not None:
        return ()
    wanted = [item for item in plan.items if item.negated and not item.lacks]
    return tuple(found for item in wanted if (found := _ended_by(plan, item)) is not None)


def _ended_by(plan: Plan, negated: Item) -> Plan | None:
    last = max(negated.index, plan.positive[0].index)  # nothing began before a negated start: what it ends begins behind it
    runs = _cut(plan.runs or Runs(plan.pattern, tuple(Ways() for _ in plan.items)), negated, last)
    if runs is None:
        return None
    items = tuple(replace(item, negated=False) if item is negated else item for item in plan.items if item.index <= last or item.asked)
    bound = {item.bound_to for item in items}
    found = replace(
        plan,
        name=f"{plan.name}!{negated.index}",
        items=items,
        joins=tuple(_positive(join, negated) for join in plan.joins if bound.issuperset(join.items)),
        returns=(),
        on_timeout="drop",
        evaluator="runs",
        runs=runs,
    )
    return replace(found, fingerprint=fingerprint(found))


def _positive(join: JoinPredicate, negated: Item) -> JoinPredicate:
    return replace(join, negated_item=None) if join.negated_item == negated.bound_to else join


def _cut(runs: Runs, negated: Item, last: int) -> Runs | None:
    """The pattern up to item ``last`` with the negated one as a positive one; None where it is no plain part of the outermost SEQ."""
    if not isinstance(runs.pattern, Ordered):
        return None
    parts: list[Take | Absent] = []
    for part in runs.pattern.parts:
        if not isinstance(part, Take | Absent):
            return None
        first = part.item if isinstance(part, Take) else part.items[0]
        if first > last:
            break
        if isinstance(part, Absent) and negated.index in part.items:
            if len(part.items) > 1:
                return None
            part = Take(negated.index)  # noqa: PLW2901 - what stands in its place
        parts.append(part)
    if all(isinstance(part, Absent) or part.item != negated.index for part in parts):
        return None
    ways = list(runs.ways)
    if ways[negated.bound_to].first == "skip-till-any-match":
        ways[negated.bound_to] = Ways("skip-till-next-match")  # the first one ends the partial match
    return replace(runs, pattern=Ordered(tuple(parts)), ways=tuple(ways), after="no-skip", after_binding=-1, longest=False)
