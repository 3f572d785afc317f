"""Which decisions of the watchdog are told on the audit topic: those that change something. One of every batch would bury them.

Told is a query of which shedding begins or ends, or that sheds and of which the ratio is clearly another one than was told, bounds come within reach or leave it, or the bottleneck has
moved and stays. What was told last is in the directive's memory, so a restart goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.control.decision_reports import Bottleneck, DecisionReport, Reason
from app.control.levels import split
from app.control.watchdog import Forecast, Place
from app.query.plan import Plan

CLEARLY_ANOTHER = 0.1
"""Of a drop ratio: twice what a steady overload may swing (0.05)."""
SETTLED = 3
"""Decisions after which a bottleneck that has moved is told: where two parts take equally long, either is the longer one now and then."""
BOTTLENECKS: Mapping[Place, Bottleneck] = {"fixed": "FIXED", "ingress": "INGRESS", "hand-over": "HAND_OVER", "matching": "MATCHING"}


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of a query last.

    Attributes:
        events_drop_ratio: of a shedder of partial matches, the share of events that goes as well.
        elsewhere: decisions in a row whose bottleneck was another one.
    """

    drop_ratio: float = 0.0
    events_drop_ratio: float = 0.0
    in_reach: bool = True
    bottleneck: Bottleneck = "FIXED"
    elsewhere: int = 0


class Decisions:
    """Remembers what was told."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}

    def reports(
        self, batch: int, now_ms: int, forecast: Forecast | None, ratios: Mapping[str, float], plans: Mapping[str, Plan]
    ) -> tuple[DecisionReport, ...]:
        """What there is to tell of the decision that was just taken.

        Args:
            batch: the first that runs by it.
            now_ms: the clock.
            forecast: why the ratios are as they are; None before the first decision.
            ratios: of the queries that shed, as the watchdog has them.
            plans: of the running queries, by name.
        """
        self._told = {query: told for query, told in self._told.items() if query in plans}
        return () if forecast is None else tuple(self._reports(batch, now_ms, forecast, ratios, plans))

    def snapshot(self) -> dict[str, Any]:
        """For the directive's memory."""
        return {query: asdict(told) for query, told in sorted(self._told.items())}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Goes on from a snapshot."""
        self._told = {query: Told(**told) for query, told in snapshot.items()}

    def _reports(
        self, batch: int, now_ms: int, forecast: Forecast, ratios: Mapping[str, float], plans: Mapping[str, Plan]
    ) -> Iterator[DecisionReport]:
        for query in sorted((ratios.keys() | self._told.keys()) & plans.keys()):
            plan, before = plans[query], self._told.get(query, Told())
            bound_ms = plan.shedding.latency_bound_ms
            if bound_ms is None:
                continue
            bottleneck = BOTTLENECKS[forecast.bottleneck]
            elsewhere = before.elsewhere + 1 if bottleneck != before.bottleneck else 0
            now = Told(*split(plan, ratios.get(query, 0.0)), forecast.in_reach, bottleneck, elsewhere)
            reason = changed(before, now)
            self._told[query] = now if reason else replace(before, elsewhere=elsewhere)
            if reason == "SHEDDING_ENDS":
                del self._told[query]
            if reason:
                streams, length_ms = plan.streams, plan.shedding.safety * bound_ms
                yield DecisionReport(
                    decided_at_ms=now_ms,
                    query=query,
                    version=plan.version,
                    batch=batch,
                    reason=reason,
                    shedder=plan.shedding.shedder,
                    drop_ratio=now.drop_ratio,
                    former_drop_ratio=before.drop_ratio,
                    latency_bound_ms=bound_ms,
                    latency_ms=round(forecast.latency_ms, 1),
                    unshed_latency_ms=round(forecast.unshed_latency_ms, 1),
                    in_reach=forecast.in_reach,
                    bottleneck=bottleneck,
                    arrivals_per_s=round(forecast.outlook.arrivals_per_s(streams), 1),
                    capacity_per_s=forecast.outlook.capacity_per_s(streams, length_ms),
                    backlog=round(forecast.outlook.backlog(streams)),
                    events_drop_ratio=now.events_drop_ratio,
                )


def changed(before: Told, now: Told) -> Reason | None:
    """What is worth telling.

    >>> changed(Told(), Told(0.3)), changed(Told(0.3), Told(0.35)), changed(Told(0.3), Told(0.4)), changed(Told(0.3), Told())
    ('SHEDDING_BEGINS', None, 'RATIO_CHANGED', 'SHEDDING_ENDS')
    """
    if not (before.drop_ratio and now.drop_ratio):
        return "SHEDDING_BEGINS" if now.drop_ratio else "SHEDDING_ENDS" if before.drop_ratio else None
    if now.in_reach != before.in_reach:  # it is what operators wait for, whatever else has changed
        return "IN_REACH" if now.in_reach else "OUT_OF_REACH"
    if round(abs(now.drop_ratio + now.events_drop_ratio - before.drop_ratio - before.events_drop_ratio), 6) >= CLEARLY_ANOTHER:
        return "RATIO_CHANGED"
    return "BOTTLENECK_MOVED" if now.elsewhere >= SETTLED else None
