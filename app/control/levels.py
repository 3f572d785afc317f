"""How much of a query's partial matches a drop ratio is: watchdogs speak of shares, shedders of partial matches end some at every batch.

A share of the live ones at every batch is no steady state: at ten batches per window and a share of a fifth one in ten would be left. So a drop ratio speaks of the partial matches that the
query had when it last did not shed (its *reference*; more of them if it has more in spite of shedding): before every batch as many are ended as are there beyond that. This is pSPICE's number of partial matches that fit into the bound
(specification 3.3), with the curves of `app.control.query_costs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.control.directives import QueryShedding
from app.control.running import smoothed
from app.control.totals import BatchTotals
from app.query.plan import Plan
from shedding.registry import METHODS


def sheds_matches(plan: Plan) -> bool:
    """Whether the query's shedder drops partial matches."""
    return METHODS[plan.shedding.shedder].level == "partial matches"


def hides_events(plan: Plan) -> bool:
    """Whether the query's shedder hides events from single partial matches."""
    return METHODS[plan.shedding.shedder].level == "events per partial match"


def split(plan: Plan, ratio: float) -> tuple[float, float]:
    """What of a watchdog's ratio speaks of what the query's shedder drops, and what of the events that go as well."""
    return min(ratio, plan.shedding.max_drop_ratio), round(max(0.0, ratio - 1), 6)


FULL = 1.05
"""Times as many partial matches as behind the batch before: a state that grows by more is still filling up, and says nothing of how many there would be."""
LEAST_PROGRESS = "least-progress"
"""Who ends partial matches of a query whose shedder knows nothing of them, where its state is too large (`app.owners.endings`)."""


def shedder_of_matches(plan: Plan) -> str:
    """Who says which of the query's partial matches are worth least."""
    return plan.shedding.shedder if sheds_matches(plan) else LEAST_PROGRESS


class Levels:
    """Remembers how many partial matches queries have without shedding."""

    def __init__(self) -> None:
        self._references: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def orders(self, plan: Plan, ratio: float, totals: BatchTotals, unshed_latency_ms: float | None) -> QueryShedding:
        """What a query has to do in the next batch.

        Args:
            plan: the query's.
            ratio: as the watchdog decided; beyond 1 events go as well.
            totals: of the batch before.
            unshed_latency_ms: for the report.
        """
        shedder = plan.shedding.shedder
        if hides_events(plan):
            return QueryShedding(ratio, shedder, "matching", unshed_latency_ms)
        if not sheds_matches(plan):
            return QueryShedding(ratio, shedder, "bucket" if METHODS[shedder].remembers else "ingress", unshed_latency_ms)
        ratio, events = split(plan, ratio)
        live = _live(totals, plan.name)
        reference = self._references[plan.name] = max(live, self._references.get(plan.name, 0))
        allowed = (1 - ratio) * reference
        share = max(0.0, 1 - allowed / live) if live else 0.0
        return QueryShedding(ratio, shedder, "matching", unshed_latency_ms, reference, round(share, 6), events)

    def see(self, shedding: Mapping[str, QueryShedding], totals: BatchTotals) -> None:
        """A batch is over: queries that did not shed in it have as many partial matches as they have, but while what was shed before fills up again."""
        for query, tally in totals.queries.items():
            live, known = tally.partial_matches, self._references.get(query, 0)
            if query not in shedding and (live >= known or live <= FULL * self._before.get(query, 0)):
                self._references[query] = live if live >= known else round(smoothed(known, live))
            self._before[query] = live

    def snapshot(self) -> dict[str, int]:
        """For the directive's memory."""
        return dict(self._references)

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Goes on from a snapshot."""
        self._references = {str(query): int(live) for query, live in snapshot.items()}


def _live(totals: BatchTotals, query: str) -> int:
    tally = totals.queries.get(query)
    return 0 if tally is None else tally.partial_matches
