"""What is told about a finished batch on the audit topic: what shedders dropped, and what limits kept from being made or from staying."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from app.control.law.levels import shedder_of_matches
from app.control.messages.directives import Directive, QueryShedding
from app.control.messages.reports import QueryTally
from app.control.messages.shed_reports import Level, ShedReport
from app.control.messages.totals import BatchTotals
from app.query.plan import Plan
from shedding.registry import METHODS


def shed_reports(directive: Directive, totals: BatchTotals, plans: Mapping[str, Plan]) -> tuple[ShedReport, ...]:
    """The reports on a batch: one for every query that was asked to shed in it, whose memory was full, or that reached a limit."""
    cost_ns = totals.cost_ns.get("shed")
    cost_ms = None if cost_ns is None else cost_ns / 1e6
    asked = sorted({**_afterwards(totals, plans), **directive.shedding}.items())
    events = [(query, own.of_events) for query, own in asked if own.of_events is not None]
    return (
        *(
            replace(_report(directive, totals, plans, query, own), cost_ms=cost_ms if own.place == "ingress" else None)
            for query, own in asked
        ),
        *(replace(_report(directive, totals, plans, query, own), cost_ms=cost_ms) for query, own in events),
        *_memory_reports(directive, totals, plans),
        *_limit_reports(directive, totals, plans),
    )


def _report(directive: Directive, totals: BatchTotals, plans: Mapping[str, Plan], query: str, shedding: QueryShedding) -> ShedReport:
    tally, plan = totals.queries.get(query, QueryTally(query)), plans.get(query)
    matching = shedding.place == "matching"
    return ShedReport(
        decided_at_ms=directive.decided_at_ms,
        query=query,
        version=0 if plan is None else plan.version,
        batch=directive.batch,
        shedder=shedding.shedder,
        asked_drop_ratio=shedding.drop_ratio,
        considered=tally.judged_matches if matching else tally.considered,
        dropped=tally.ended_matches - tally.evicted_matches if matching else tally.shed,
        level=_level(shedding),
        latency_ms=shedding.unshed_latency_ms,
        latency_bound_ms=None if plan is None else plan.shedding.latency_bound_ms,
        place=shedding.place,
    )


def _level(shedding: QueryShedding) -> Level:
    if METHODS[shedding.shedder].level == "events per partial match":
        return "PAIRS"
    return "PARTIAL_MATCHES" if shedding.place == "matching" else "EVENTS"


def _afterwards(totals: BatchTotals, plans: Mapping[str, Plan]) -> dict[str, QueryShedding]:
    """Of queries that nobody asked to shed: what must still go because of what their shedder remembers to have dropped (`shedding.kernels_prefix`)."""
    lost = (plans[query] for query, tally in totals.queries.items() if tally.shed and query in plans)
    shedders = {plan.name: plan.shedding.shedder for plan in lost}
    return {query: QueryShedding(0.0, shedder, "bucket") for query, shedder in shedders.items() if METHODS[shedder].remembers}


def _memory_reports(directive: Directive, totals: BatchTotals, plans: Mapping[str, Plan]) -> Iterator[ShedReport]:
    """Of temporal queries whose memory was full. Nobody asked for a ratio: what did not fit went."""
    for query, tally in sorted(totals.queries.items()):
        plan = plans.get(query)
        if tally.tuples_shed and plan is not None:
            yield ShedReport(
                decided_at_ms=directive.decided_at_ms,
                query=query,
                version=plan.version,
                batch=directive.batch,
                shedder=plan.shedding.shedder,
                asked_drop_ratio=0.0,
                considered=tally.tuples_kept + tally.tuples_shed,
                dropped=tally.tuples_shed,
                level="TUPLES",
                latency_bound_ms=plan.shedding.latency_bound_ms,
                place="matching",
            )


def _limit_reports(directive: Directive, totals: BatchTotals, plans: Mapping[str, Plan]) -> Iterator[ShedReport]:
    for query, tally in sorted(totals.queries.items()):
        plan = plans.get(query)
        considered = {
            "matches_per_event": tally.matches + tally.limited_matches,
            "partial_matches_per_partition": tally.partial_matches + tally.limited_runs,
            "state_bytes": tally.judged_matches,
        }
        for limit, count in tally.limited().items():
            ended = limit == "state_bytes"
            yield ShedReport(
                decided_at_ms=directive.decided_at_ms,
                query=query,
                version=0 if plan is None else plan.version,
                batch=directive.batch,
                shedder=shedder_of_matches(plan) if ended and plan is not None else "limits",
                asked_drop_ratio=directive.state_shares.get(query, 0.0) if ended else 0.0,
                considered=considered[limit],
                dropped=count,
                level="PARTIAL_MATCHES",
                limit=limit,
                place="matching",
            )
