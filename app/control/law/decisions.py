"""Which decisions of the watchdog are told on the audit topic: those that change something. One of every batch would bury them.

Told is a query of which shedding begins or ends (also because it is gone, or has no bound any more), whose bound leaves reach or comes back, or that sheds and of which the ratio is clearly another one than was told, or the
bottleneck has moved and stays. What was told last is in the directive's memory, so a restart goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from app.control.law.levels import split
from app.control.law.running import remembered
from app.control.law.watchdog import CostPart, Forecast
from app.control.messages.decision_reports import Bottleneck, DecisionReport, Reason
from app.query.plan import Plan

CLEARLY_ANOTHER = 0.1
"""Of a drop ratio: twice what a steady overload may swing (0.05)."""
SETTLED = 3
"""Decisions after which a bottleneck that has moved is told: where two parts take equally long, either is the longer one now and then."""
BOTTLENECKS: Mapping[CostPart, Bottleneck] = {"fixed": "FIXED", "ingress": "INGRESS", "hand-over": "HAND_OVER", "matching": "MATCHING"}


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of a query last.

    Attributes:
        events_drop_ratio: of a shedder of partial matches, the share of events that goes as well.
        in_reach: whether its bound can be kept.
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

    def reports(  # noqa: PLR0917 - of a decision all that there is
        self,
        batch: int,
        now_ms: int,
        forecast: Forecast | None,
        ratios: Mapping[str, float],
        plans: Mapping[str, Plan],
        before: Mapping[str, Plan] = MappingProxyType({}),
    ) -> tuple[DecisionReport, ...]:
        """What there is to tell of the decision that was just taken.

        Args:
            batch: the first that runs by it.
            now_ms: the clock.
            forecast: why the ratios are as they are; None before the first decision.
            ratios: of the queries that shed, as the watchdog has them.
            plans: of the running queries, by name.
            before: the same of the batch before.
        """
        if forecast is None:
            return ()
        bound = {query: plan for query, plan in plans.items() if plan.shedding.latency_bound_ms is not None}
        told = _Telling(batch, now_ms, forecast)
        return *self._ended(told, bound, before), *self._changed(told, ratios, bound)

    def snapshot(self) -> dict[str, Any]:
        """For the directive's memory."""
        return {query: asdict(told) for query, told in sorted(self._told.items())}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Goes on from a snapshot."""
        self._told = {query: remembered(Told, told) for query, told in snapshot.items()}

    def _ended(self, telling: _Telling, plans: Mapping[str, Plan], before: Mapping[str, Plan]) -> Iterator[DecisionReport]:
        """Of queries that are gone, or have no bound any more: who follows the topic would see them shed for ever."""
        for query in sorted(self._told.keys() - plans.keys()):
            told, plan = self._told.pop(query), before.get(query)
            if told.drop_ratio and plan is not None and plan.shedding.latency_bound_ms is not None:
                yield telling.report(plan, "SHEDDING_ENDS", told, Told(bottleneck=telling.bottleneck))

    def _changed(self, telling: _Telling, ratios: Mapping[str, float], plans: Mapping[str, Plan]) -> Iterator[DecisionReport]:
        beyond = telling.forecast.beyond
        for query in sorted((ratios.keys() | self._told.keys() | beyond) & plans.keys()):
            plan, before = plans[query], self._told.get(query, Told())
            elsewhere = before.elsewhere + 1 if telling.bottleneck != before.bottleneck else 0
            now = Told(*split(plan, ratios.get(query, 0.0)), query not in beyond, telling.bottleneck, elsewhere)
            reason = changed(before, now)
            told = self._told[query] = now if reason else replace(before, elsewhere=elsewhere)
            if reason:
                yield telling.report(plan, reason, before, now)
            if told.in_reach and not told.drop_ratio:
                del self._told[query]


@dataclass(frozen=True, slots=True)
class _Telling:
    """A decision, as records tell it."""

    batch: int
    now_ms: int
    forecast: Forecast

    @property
    def bottleneck(self) -> Bottleneck:
        """What most of the batch's time would go to without shedding."""
        return BOTTLENECKS[self.forecast.bottleneck]

    def report(self, plan: Plan, reason: Reason, before: Told, now: Told) -> DecisionReport:
        """The record on one query, which has a bound."""
        bound_ms, forecast = plan.shedding.latency_bound_ms or 0, self.forecast
        streams = plan.streams
        free_ms = forecast.free_ms.get(plan.name, plan.shedding.safety * bound_ms)
        return DecisionReport(
            decided_at_ms=self.now_ms,
            query=plan.name,
            version=plan.version,
            batch=self.batch,
            reason=reason,
            shedder=plan.shedding.shedder,
            drop_ratio=now.drop_ratio,
            former_drop_ratio=before.drop_ratio,
            latency_bound_ms=bound_ms,
            latency_ms=round(forecast.latency_ms, 1),
            unshed_latency_ms=round(forecast.unshed_latency_ms, 1),
            in_reach=now.in_reach,
            bottleneck=now.bottleneck,
            arrivals_per_s=round(forecast.outlook.arrivals_per_s(streams), 1),
            capacity_per_s=forecast.outlook.capacity_per_s(streams, free_ms),
            backlog=round(forecast.outlook.backlog(streams)),
            events_drop_ratio=now.events_drop_ratio,
        )


def changed(before: Told, now: Told) -> Reason | None:
    """What is worth telling.

    >>> changed(Told(), Told(0.3)), changed(Told(0.3), Told(0.35)), changed(Told(0.3), Told(0.4)), changed(Told(0.3), Told())
    ('SHEDDING_BEGINS', None, 'RATIO_CHANGED', 'SHEDDING_ENDS')
    """
    if bool(before.drop_ratio) != bool(now.drop_ratio):
        return "SHEDDING_BEGINS" if now.drop_ratio else "SHEDDING_ENDS"
    if now.in_reach != before.in_reach:  # it is what operators wait for, whatever else has changed
        return "IN_REACH" if now.in_reach else "OUT_OF_REACH"
    if not now.drop_ratio:
        return None
    if round(abs(now.drop_ratio + now.events_drop_ratio - before.drop_ratio - before.events_drop_ratio), 6) >= CLEARLY_ANOTHER:
        return "RATIO_CHANGED"
    return "BOTTLENECK_MOVED" if now.elsewhere >= SETTLED else None
