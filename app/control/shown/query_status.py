"""The values behind ``/queries``: what runs, query by query, what finishes, and what the query files say that does not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.control.law.levels import split
from app.control.law.watchdog import Forecast
from app.control.messages.totals import BatchTotals
from app.control.running_catalog import RunningCatalog
from app.control.server.health import Check
from app.control.shown.quality import Quality
from app.control.shown.query_set import QuerySet
from app.observe.metrics import Metrics
from app.query.plan import Plan
from app.query.sampling import why_no_sample


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at one moment.

    Attributes:
        running: the catalog; None before there is one.
        opened_at_ms: when it was opened.
        told: the last reading of the query files.
        ratios: of the watchdog, by query; those that keep everything are missing.
        forecast: why they are as they are; None before the first decision.
        totals: of the last batch; None before the first.
    """

    running: RunningCatalog | None
    opened_at_ms: int | None
    told: QuerySet
    ratios: Mapping[str, float]
    forecast: Forecast | None
    totals: BatchTotals | None


class QueryStatus:
    """Puts it together.

    Args:
        metrics: hold how many composite events there were.
        quality: knows recall and precision.
        running: whether the streaming query runs.
    """

    def __init__(self, metrics: Metrics, quality: Quality, running: Check) -> None:
        self._metrics = metrics
        self._quality = quality
        self._running = running

    def queries(self, known: Known) -> list[dict[str, Any]]:
        """What runs, query by query."""
        if known.running is None:
            return []
        status = "running" if self._running() is None else "stopped"
        return [{"query": plan.name, **self._of_plan(plan, status, known.running, known)} for plan in known.running.catalog.current]

    def query_set(self, known: Known) -> dict[str, Any]:
        """All that ``/queries`` says."""
        running, told = known.running, known.told
        plans = () if running is None else running.catalog.plans
        names = {plan.name for plan in plans if plan.draining is None}
        queries = [
            *self.queries(known),
            *(
                {
                    "query": plan.name,
                    "version": plan.version,
                    "status": "draining",
                    "fingerprint": plan.fingerprint,
                    "until_ms": plan.draining.until_ms,
                }
                for plan in plans
                if plan.draining is not None
            ),
            *({"query": name, "status": "disabled"} for name in told.disabled),
            *({"query": name, "status": "broken"} for name in told.broken if name not in names),
        ]
        generation = None if running is None else running.catalog.version
        return {"generation": generation, "opened_at_ms": known.opened_at_ms, "last_reading": told.to_plain(), "queries": queries}

    def _of_plan(self, plan: Plan, status: str, running: RunningCatalog, known: Known) -> dict[str, Any]:
        totals, forecast = known.totals, known.forecast
        tally = None if totals is None else totals.queries.get(plan.name)
        drop_ratio, events_drop_ratio = split(plan, known.ratios.get(plan.name, 0.0))
        severity = dict(plan.labels).get("severity", "")
        return {
            "version": plan.version,
            "title": plan.title,
            "status": status,
            "fingerprint": plan.fingerprint,
            "generation": running.catalog.version,
            "streams": list(plan.streams),
            "shedder": plan.shedding.shedder,
            "model": running.models.get(plan.name),
            "latency_bound_ms": plan.shedding.latency_bound_ms,
            "drop_ratio": drop_ratio,
            "events_drop_ratio": events_drop_ratio,
            "predicted_latency_ms": None if forecast is None else round(forecast.latency_ms),
            "matches": int(self._metrics.value("cep_matches_emitted_total", query=plan.name, severity=severity) or 0.0),
            "partial_matches": 0 if tally is None else tally.partial_matches,
            "cost_ms": 0.0 if tally is None else tally.cost_ns / 1e6,
            "last_batch": None if totals is None else totals.batch,
            "broken": plan.name in known.told.broken,
            "sample": _sample(plan, running.catalog.sample),
            **self._quality.told(plan.name),
        }


def _sample(plan: Plan, share: float) -> str:
    """Whether a control sample can say what shedding costs the query: ``possible``, or why not."""
    return why_no_sample(plan) or ("possible" if share else "audit.sample is 0")
