"""Everything that the console shows, as JSON values: what pages are made of, and what ``/console.json`` and ``/queries/<name>/console.json`` answer. Described in `ops/console/README.md`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.cep.door import way_of
from app.config.settings import Settings
from app.console.automaton import automaton
from app.console.condition import of_application, of_query
from app.console.plots import Values
from app.console.recent import Recent
from app.control.law.levels import place_of
from app.control.plane import ControlPlane
from app.control.server.health import QUESTIONS
from app.events.failures import Reason
from app.observe.latency import interpolated_quantile
from app.query.plan import Plan
from shedding.registry import METHODS, Entry

Plain = dict[str, Any]

WORST_FIRST = ("bound broken", "broken", "shedding", "draining", "stopped", "healthy", "running", "disabled")
REJECTED = ("late", "oversized", *(reason.value for reason in Reason))
"""Why events are refused."""
WHERE = {"ingress": "at the ingress", "bucket": "in the bucket", "matching": "in matching"}


class Figures:
    """Asks the control plane and the topics. Any thread may ask.

    Args:
        plane: of the driver.
        settings: of the application.
        recent: reads topics.
        clock: ms since the epoch.
    """

    def __init__(self, plane: ControlPlane, settings: Settings, recent: Recent, clock: Callable[[], int]) -> None:
        self._plane, self._settings, self._recent, self._clock = plane, settings, recent, clock

    def overview(self) -> Plain:
        """The application, and every query as it is now."""
        now, plane = self._clock(), self._plane
        told = plane.query_set()
        plans = self._plans()
        queries = sorted((self._now(query, plans.get(query["query"]), now) for query in told["queries"]), key=_worst_first)
        health = {question: list(plane.health.ask(question).lines) for question in QUESTIONS}
        failed = [line.partition(" failed: ")[2] for line in (*health["livez"], *health["readyz"]) if line.startswith("[-]")]
        totals = plane.last_totals
        return {
            "application": self._settings.application,
            "at_ms": now,
            "condition": of_application(failed, told["last_reading"], queries).to_plain(),
            "health": health,
            "generation": told["generation"],
            "opened_at_ms": told["opened_at_ms"],
            "last_reading": told["last_reading"],
            "last_batch": None if totals is None else totals.batch,
            "owners": plane.metrics.value("cep_owners"),
            **plane.history.all_lately(now),
            "rejected": {reason: int(plane.metrics.value("cep_events_rejected_total", reason=reason) or 0) for reason in REJECTED},
            "queries": queries,
        }

    def series(self, name: str, now_ms: int) -> dict[str, Values]:
        """A query's last hour."""
        return self._plane.history.query(name, now_ms)

    def all_series(self, now_ms: int) -> dict[str, Values]:
        """The application's last hour."""
        return self._plane.history.all(now_ms)

    def query(self, name: str) -> Plain | None:
        """One query with its last hour, its automaton, and what it found lately; None of one that nobody knows."""
        now, plan, told = self._clock(), self._plans().get(name), self._plane.query_set()
        entries = [query for query in told["queries"] if query["query"] == name]
        if not entries:
            return None
        answer = {"application": self._settings.application, "at_ms": now, **self._now(entries[0], plan, now)}
        answer["last_reading"] = told["last_reading"]
        return answer if plan is None else {**answer, **self._about(plan, now)}

    def _about(self, plan: Plan, now: int) -> Plain:
        topic = plan.output.topic or self._settings.topics.of_query(plan.name)
        found, verdicts = self._recent.of_query(plan, topic, self._settings.topics.audit)
        series = self._plane.history.query(plan.name, now)
        forecast = self._plane.forecast
        return {
            "plan": {**_facts(plan), "topic": topic},
            "automaton": automaton(plan),
            "composite_events": found,
            "verdicts": verdicts,
            "decisions": [decision.to_avro() for decision in self._plane.history.decisions(plan.name)],
            "forecast": None
            if forecast is None
            else {
                "latency_ms": round(forecast.latency_ms, 1),
                "unshed_latency_ms": round(forecast.unshed_latency_ms, 1),
                "in_reach": plan.name not in forecast.beyond,
                "bottleneck": forecast.bottleneck,
            },
            "last_hour": {name: values.tolist() for name, values in series.items()},
        }

    def _now(self, query: Mapping[str, Any], plan: Plan | None, now: int) -> Plain:
        """What `/queries` tells, and how it is."""
        name, answer = query["query"], dict(query)
        if "model" in query:
            answer["model"] = _model(query["model"], now)
        if query["status"] == "running" and plan is not None:
            counts, late = self._plane.history.latencies(name, now)
            lately = self._plane.history.lately(name, now)
            method = METHODS[plan.shedding.shedder]
            answer |= {
                "shedding": {"shedder": plan.shedding.shedder, "what": method.level, "where": _where(method)},
                "latency": {
                    "bound_ms": plan.shedding.latency_bound_ms,
                    "p50_ms": interpolated_quantile(counts, 0.5),
                    "p95_ms": interpolated_quantile(counts, 0.95),
                    "composite_events": int(counts.sum()),
                    "late": late,
                },
                **{one: lately[one] for one in ("arrivals_per_s", "capacity_per_s", "dropped", "composite_events_per_s")},
            }
        return {**answer, "condition": of_query(answer).to_plain()}

    def _plans(self) -> dict[str, Plan]:
        running = self._plane.catalog
        return {} if running is None else {plan.name: plan for plan in running.catalog.current}


def _where(method: Entry) -> str:
    """Where it is dropped: before it travels, or behind the hand-over."""
    return "in memory" if method.level == "tuples" else WHERE[place_of(method)]


def _worst_first(query: Plain) -> tuple[int, str]:
    word = query["condition"]["word"]
    return WORST_FIRST.index(word) if word in WORST_FIRST else len(WORST_FIRST), query["query"]


def _model(model: Mapping[str, Any] | None, now: int) -> Plain | None:
    """A model is as old as the newest event that it was learned from; None where there was no time."""
    if model is None:
        return None
    return {**model, "age_ms": max(0, now - model["last_ms"]) if model.get("last_ms") else None}


def _facts(plan: Plan) -> Plain:
    """What a query's file says, as it is run."""
    within = plan.within
    return {
        "labels": dict(plan.labels),
        "partitioned_by": list(plan.equivalence),
        "within_ms": within.size if within is not None and within.unit == "ms" else None,
        "within_events": within.size if within is not None and within.unit == "events" else None,
        "evaluator": "coalesce" if plan.temporal is not None else way_of(plan),
        "safety": plan.shedding.safety,
        "max_drop_ratio": plan.shedding.max_drop_ratio,
        "weight": plan.weight,
        "shedder_title": METHODS[plan.shedding.shedder].title,
        "returns": [field.name for field in plan.returns],
    }
