"""What people are shown of the running queries, as metrics and as the last hour: which there are, how their files were read, what is shed and why, what became of a batch.

What ``/queries`` answers is put together when somebody asks (`app.control.shown.query_status`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.control.law.levels import sheds_matches, split
from app.control.law.watchdog import Watchdog
from app.control.messages.directives import OF_EVENTS
from app.control.messages.reports import LIMITS
from app.control.running_catalog import RunningCatalog
from app.control.shown.batch_metrics import FinishedBatch, count_batch
from app.control.shown.history import History, Noted
from app.control.shown.quality import Quality
from app.control.shown.query_set import GOOD, QuerySet
from app.control.shown.standing import standings
from app.observe.metrics import Metrics
from app.query.plan import Plan

OF_CATALOG = (
    "cep_query_info",
    "cep_latency_bound_seconds",
    "cep_drop_ratio",
    "cep_realised_drop_ratio",
    "cep_partial_matches",
    "cep_query_state_bytes",
    "cep_model_newest_event_timestamp_seconds",
)
"""Metrics that say nothing of another catalog."""


class Display:
    """Shows it. Not for several threads at once: whoever has it keeps them apart.

    Args:
        metrics: changed.
        history: the same.
        quality: knows recall and precision; told of another catalog.
        own_topics: topics that are read but hold no events (the heartbeat's).
    """

    def __init__(self, metrics: Metrics, history: History, quality: Quality, own_topics: frozenset[str]) -> None:
        self._metrics = metrics
        self._history = history
        self._quality = quality
        self._own_topics = own_topics

    def show_reading(self, query_set: QuerySet) -> None:
        """The query files were read."""
        self._metrics.set("cep_config_reload_success", float(query_set.outcome in GOOD))
        self._metrics.add("cep_config_reloads_total", 1, outcome=query_set.outcome)
        if query_set.outcome in GOOD and query_set.read_at_ms is not None:
            self._metrics.set("cep_config_last_reload_success_timestamp_seconds", query_set.read_at_ms / 1000)

    def show_first(self, now_ms: int, quality: Mapping[str, Any]) -> None:
        """The first catalog counts as a reading of the query files that went well; what is known of recall and precision goes on from the checkpoint's memory."""
        self._quality.restore(quality, now_ms)
        self._metrics.set("cep_config_reload_success", 1)
        self._metrics.set("cep_config_last_reload_success_timestamp_seconds", now_ms / 1000)

    def show_catalog(self, running: RunningCatalog, before: RunningCatalog | None, watchdog: Watchdog) -> None:
        """Another catalog runs.

        Args:
            running: that one.
            before: what ran until now: queries that are gone leave no metrics.
            watchdog: of the one that runs.
        """
        gone = () if before is None else {plan.name for plan in before.catalog.plans}
        for query in {*gone} - {plan.name for plan in running.catalog.plans}:
            self._metrics.forget("query", query)
        for name in OF_CATALOG:
            self._metrics.clear(name)
        for query, model in running.models.items():
            self._metrics.set("cep_model_newest_event_timestamp_seconds", model["last_ms"] / 1000, query=query)
        self._metrics.set("cep_catalog_generation", running.catalog.version)
        for plan in running.catalog.plans:
            status = "running" if plan.draining is None else "draining"
            labels = {"query": plan.name, "version": str(plan.version), "hash": plan.fingerprint[:12], "status": status}
            self._metrics.set("cep_query_info", 1, **labels)
        for plan in running.catalog.current:
            for limit in LIMITS:  # alerts see what moves, not what appears
                self._metrics.add("cep_limited_total", 0, query=plan.name, limit=limit)
            if plan.shedding.latency_bound_ms is not None:
                self._metrics.add("cep_late_composite_events_total", 0, query=plan.name)
                self._metrics.add("cep_learning_total", 0, query=plan.name, outcome="failed")
                self._metrics.set("cep_latency_bound_seconds", plan.shedding.latency_bound_ms / 1000, query=plan.name)
        self._show_shedding(running.catalog.current, watchdog)
        self._quality.open(running)
        self._quality.show(self._metrics, {plan.name for plan in running.catalog.current})

    def show_batch(self, batch: FinishedBatch, current: Sequence[Plan], watchdog: Watchdog) -> None:
        """A batch is over; to be called once per batch.

        Args:
            batch: what happened.
            current: the running queries.
            watchdog: theirs.
        """
        plans = {plan.name: plan for plan in current}
        count_batch(self._metrics, batch, plans, self._own_topics)
        self._show_shedding(current, watchdog)
        self._quality.show(self._metrics, plans)
        self._history.note(Noted.of(batch), lambda: standings(current, watchdog.forecast, self._quality))

    def _show_shedding(self, current: Iterable[Plan], watchdog: Watchdog) -> None:
        ratios, forecast = watchdog.ratios, watchdog.forecast
        for plan in current:
            drop_ratio, events = split(plan, ratios.get(plan.name, 0.0))
            self._metrics.set("cep_drop_ratio", drop_ratio, query=plan.name, shedder=plan.shedding.shedder)
            if sheds_matches(plan):
                self._metrics.set("cep_drop_ratio", events, query=plan.name, shedder=OF_EVENTS)
        if forecast is not None:
            self._metrics.set("cep_predicted_latency_seconds", forecast.latency_ms / 1000)
            self._metrics.set("cep_predicted_unshed_latency_seconds", forecast.unshed_latency_ms / 1000)
            self._metrics.set("cep_latency_bound_reachable", float(forecast.in_reach))
            self._metrics.set("cep_arrival_rate_events_per_second", forecast.rate_per_s)
