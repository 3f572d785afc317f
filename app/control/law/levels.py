"""How much of a query's partial matches a drop ratio is: watchdogs speak of shares, shedders of partial matches end some at every batch.

A share of the live ones at every batch is no steady state: at ten batches per window and a share of a fifth one in ten would be left. So a drop ratio speaks of the partial matches that the
query had when it last did not shed (its *reference*; more of them if it has more in spite of shedding): before every batch as many are ended as are there beyond that. This is pSPICE's number of partial matches that fit into the bound
(pSPICE, overload detection), with the curves of `app.control.law.query_costs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.control.law.running import smoothed
from app.control.messages.directives import QueryShedding
from app.control.messages.reports import QueryTally
from app.control.messages.shed_reports import Place
from app.control.messages.totals import BatchTotals
from app.query.plan import Plan, Within
from shedding.registry import METHODS, Entry


def sheds_matches(plan: Plan) -> bool:
    """Whether the query's shedder drops partial matches."""
    return METHODS[plan.shedding.shedder].level == "partial matches"


def hides_events(plan: Plan) -> bool:
    """Whether the query's shedder hides events from single partial matches."""
    return METHODS[plan.shedding.shedder].level == "events per partial match"


def place_of(method: Entry) -> Place:
    """Where a shedder drops: before events travel, in the bucket where it knows what was kept, or in matching."""
    return "matching" if method.of_matches else "bucket" if method.remembers else "ingress"


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


@dataclass(slots=True)
class _Level:
    """Of one query; goes through snapshots as its fields.

    Attributes:
        reference: partial matches without shedding, as far as known.
        shed_ms: greatest event time when it shed last; None: it has not, or nobody knows.
        events: that it could use, since then.
        before: partial matches behind the batch before; what a restart forgets.
    """

    reference: int = 0
    shed_ms: int | None = None
    events: int = 0
    before: int = 0

    def see(self, tally: QueryTally, within: Within | None, newest_ms: int | None, *, sheds: bool) -> None:
        """A batch is over, or is at hand again after a restart.

        Args:
            tally: of the query in it.
            within: the query's; None where nobody knows.
            newest_ms: greatest event time of the batch; None where it has no events.
            sheds: whether the query shed in it.
        """
        live = tally.partial_matches
        if sheds:
            self.events, self.shed_ms = 0, self.shed_ms if newest_ms is None else newest_ms
        else:
            if live >= self.reference:
                self.reference = live
            elif live <= FULL * self.before and self._followed(within, newest_ms):
                self.reference = round(smoothed(self.reference, live))
            self.events += tally.candidates
        self.before = live

    def _followed(self, within: Within | None, newest_ms: int | None) -> bool:
        """Whether no partial match is missing any more because of what was shed: a window has passed since."""
        if within is None or self.shed_ms is None:
            return True
        if within.unit != "ms":
            return self.events >= within.size
        return newest_ms is not None and newest_ms - self.shed_ms >= within.size


class Levels:
    """Remembers how many partial matches queries have without shedding."""

    def __init__(self) -> None:
        self._known: dict[str, _Level] = {}

    def orders(self, plan: Plan, ratio: float, totals: BatchTotals, unshed_latency_ms: float | None) -> QueryShedding:
        """What a query has to do in the next batch.

        Args:
            plan: the query's.
            ratio: as the watchdog decided; beyond 1 events go as well.
            totals: of the batch before.
            unshed_latency_ms: for the report.
        """
        shedder = plan.shedding.shedder
        place = place_of(METHODS[shedder])
        if not sheds_matches(plan):
            return QueryShedding(ratio, shedder, place, unshed_latency_ms)
        ratio, events = split(plan, ratio)
        live = _live(totals, plan.name)
        known = self._known.setdefault(plan.name, _Level())
        known.reference = max(live, known.reference)
        allowed = (1 - ratio) * known.reference
        share = max(0.0, 1 - allowed / live) if live else 0.0
        return QueryShedding(ratio, shedder, place, unshed_latency_ms, known.reference, round(share, 6), events)

    def reference(self, query: str) -> int:
        """Partial matches that a query would have without shedding, as far as known; 0 where nothing is."""
        return self._known[query].reference if query in self._known else 0

    def see(self, shedding: Mapping[str, QueryShedding], totals: BatchTotals, plans: Mapping[str, Plan]) -> None:
        """A batch is over: queries that did not shed in it have as many partial matches as they have, but while what was shed before fills up again.

        Args:
            shedding: in that batch.
            totals: of it.
            plans: that run now; of another query nobody knows how long its window is.
        """
        newest_ms = max((one.greatest_time for one in totals.sources.values() if one.greatest_time is not None), default=None)
        for query, tally in totals.queries.items():
            plan = plans.get(query)
            self._known.setdefault(query, _Level()).see(tally, None if plan is None else plan.within, newest_ms, sheds=query in shedding)

    def snapshot(self) -> dict[str, Any]:
        """For the directive's memory."""
        return {query: [known.reference, known.shed_ms, known.events] for query, known in self._known.items()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Goes on from a snapshot, or from an earlier version's, which says how many there are and no more."""
        self._known = {query: _Level(*(known[:3] if isinstance(known, list) else [int(known)])) for query, known in snapshot.items()}


def _live(totals: BatchTotals, query: str) -> int:
    tally = totals.queries.get(query)
    return 0 if tally is None else tally.partial_matches
