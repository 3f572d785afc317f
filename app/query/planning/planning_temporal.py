"""Resolved temporal query → plan: one item that takes every tuple, and how tuples are coalesced.

Nothing is tested before events travel: which tuple ends another one is decided by the tuples of its key *before* ``where``.
"""

from __future__ import annotations

from dataclasses import replace

from app.query import expressions as e
from app.query.plan import IntervalTest, Item, Plan, SlidingWindow, Temporal
from app.query.planning.constant_tests import conjuncts
from app.query.planning.occurring import FALSE
from app.query.planning.planning import finished, headed, simplified
from app.query.resolved import resolved as r
from app.query.resolved.vocabulary import BUILT_IN
from app.query.tree import tree as t

UNTIL_NEXT = "until-next"


def plan_temporal_query(query: r.ResolvedTemporal) -> Plan:
    """The plan of a temporal query. Of a count window all tuples go to one place: it speaks of the tuples of all keys."""
    document = query.document
    where = _where(query)
    coalesce, window = document.record("coalesce"), document.record("window")
    gap, duration = coalesce.get("max_gap"), coalesce["duration"].value
    sliding = SlidingWindow(window["range"].value.size, window["slide"].value.size, window["range"].value.unit)
    mentioned = {node.attribute for condition in where for node in e.walk(condition) if isinstance(node, e.AttributeOf)}
    plan = replace(
        headed(query, (Item(0, None, query.types, local=where),)),
        equivalence=tuple(name for name in query.key if name not in BUILT_IN) if sliding.unit == "ms" else (),
        columns=tuple(sorted((mentioned | {*query.key, *query.select}) - set(BUILT_IN))),
        evaluator="coalesce",
        temporal=Temporal(
            select=query.select,
            key=query.key,
            duration_ms=None if duration == UNTIL_NEXT else duration.size,
            max_gap_ms=gap.value.size if gap is not None else 0,
            window=sliding,
            valid=_valid(query.valid),
            emit=document.plain("emit", "changes"),
        ),
    )
    return finished(plan, query)


def _where(query: r.ResolvedTemporal) -> tuple[e.Expression, ...]:
    if query.where is None:
        return ()
    parts = [simplified(part, query) for part in conjuncts(query.where)]
    if any(isinstance(part, e.Literal) and not part.value for part in parts):
        return (FALSE,)
    return tuple(part for part in parts if not isinstance(part, e.Literal))


def _valid(test: t.IntervalTest | None) -> IntervalTest | None:
    return None if test is None else IntervalTest(test.operator, test.length_ms or 0, test.start_ms or 0, test.end_ms or 0)
