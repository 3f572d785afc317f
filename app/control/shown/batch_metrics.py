"""From a finished batch to metrics: Spark's progress and the tasks' reports, put into the table's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.control.law.levels import hides_events, shedder_of_matches, sheds_matches
from app.control.messages.directives import OF_EVENTS, Directive
from app.control.messages.reports import ENDS, SourceProgress
from app.control.messages.totals import BatchTotals
from app.events.batch import source_number
from app.observe.metrics import Metrics
from app.observe.progress import Progress
from app.query.plan import Plan
from shedding.registry import METHODS


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """All that is known about a batch when it is over.

    Attributes:
        now_ms: the clock.
        newest_broker_ms: per topic partition, the Kafka timestamp of the newest record ever read.
        watermarks: per stream, ms; missing where no event was seen yet.
        numbers: by topic that is read, its number in event sources.
        lateness: per stream, what its watermark is behind the greatest times by its settings, ms.
    """

    progress: Progress
    totals: BatchTotals
    directive: Directive
    now_ms: int
    newest_broker_ms: Mapping[tuple[str, int], int]
    watermarks: Mapping[str, int]
    numbers: Mapping[str, int]
    lateness: Mapping[str, int] = field(default_factory=dict)

    def read_of(self, topic: str, partition: int) -> SourceProgress:
        """What tasks read. Offsets would tell less: those of a first batch have no beginning, and markers and compaction leave gaps."""
        source = self.totals.sources.get(source_number(self.numbers[topic], partition)) if topic in self.numbers else None
        return source or SourceProgress(-1, 0)


def count_batch(metrics: Metrics, batch: FinishedBatch, plans: Mapping[str, Plan], own_topics: frozenset[str]) -> None:
    """Counts a batch; to be called once per batch.

    Args:
        metrics: changed.
        batch: what happened.
        plans: by query.
        own_topics: topics that are read but hold no events (the heartbeat's).
    """
    _count_progress(metrics, batch, own_topics)
    _count_events(metrics, batch.totals)
    for query, plan in plans.items():
        _count_query(metrics, batch, query, plan)


def _count_progress(metrics: Metrics, batch: FinishedBatch, own_topics: frozenset[str]) -> None:
    progress = batch.progress
    metrics.add("cep_batches_total", 1)
    metrics.observe("cep_batch_duration_seconds", progress.duration_ms / 1000, phase="total")
    for phase, duration in progress.phases_ms.items():
        metrics.observe("cep_batch_duration_seconds", duration / 1000, phase=phase)
    events: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for topic_partition in sorted(progress.end):
        topic, partition = topic_partition
        if topic in own_topics:
            continue
        read = batch.read_of(*topic_partition)
        events[topic] += read.events
        size[topic] += read.bytes
        lag = progress.lag(topic_partition)
        newest = batch.newest_broker_ms.get(topic_partition)
        age_ms = batch.now_ms - newest if lag and newest is not None else 0
        metrics.set("cep_consumer_lag_records", lag, topic=topic, partition=str(partition))
        metrics.set("cep_consumer_lag_seconds", max(0, age_ms) / 1000, topic=topic, partition=str(partition))
    for topic in events:
        metrics.add("cep_events_consumed_total", events[topic], topic=topic)
        metrics.add("cep_bytes_consumed_total", size[topic], topic=topic)
    metrics.set("cep_state_rows", batch.totals.state_rows or progress.state_rows)
    metrics.set("cep_state_bytes", batch.totals.state_bytes or progress.state_bytes)
    metrics.set("cep_idle_partitions", len(batch.directive.idle))
    metrics.set("cep_checkpoint_last_success_timestamp_seconds", (progress.planned_at_ms + progress.duration_ms) / 1000)


def _count_events(metrics: Metrics, totals: BatchTotals) -> None:
    for end in ENDS:
        metrics.add("cep_events_ended_total", max(0, totals.counts.get(end, 0)), outcome=end)  # a counter that falls is an error
    metrics.add("cep_events_unaccounted_total", max(0, totals.unaccounted()))
    for reason, count in totals.rejected.items():
        metrics.add("cep_events_rejected_total", count, reason=reason)
        if reason != "late":
            metrics.add("cep_dead_letters_total", count, reason=reason)
    for phase, cost in totals.cost_ns.items():
        metrics.add("cep_stage_cost_seconds_total", cost / 1e9, phase=phase)
    for stream, tally in totals.selection.items():
        metrics.add("cep_selection_events_total", tally.events, stream=stream)
        metrics.add("cep_selection_pruned_total", tally.pruned, stream=stream)
        metrics.add("cep_selection_constructs_total", tally.evaluated, stream=stream)
    for phase, spent_ns in totals.phases_ns.items():
        metrics.observe("cep_batch_duration_seconds", spent_ns / 1e9, phase=phase)
    for cause, count in totals.fed.items():
        metrics.add("cep_log_entries_fed_total", count, cause=cause)
    metrics.add("cep_damaged_snapshots_total", totals.damaged)
    metrics.set("cep_waiting", totals.waiting)


def _count_query(metrics: Metrics, batch: FinishedBatch, query: str, plan: Plan) -> None:
    tally = batch.totals.queries.get(query)
    shedder = plan.shedding.shedder
    if tally is not None:
        metrics.add("cep_matches_emitted_total", tally.matches, query=query, severity=dict(plan.labels).get("severity", ""))
        metrics.add("cep_timeouts_emitted_total", tally.timeouts, query=query)
        for limit, count in tally.limited().items():
            metrics.add("cep_limited_total", count, query=query, limit=limit)
        metrics.add("cep_candidate_events_total", tally.candidates, query=query)
        metrics.add("cep_query_cost_seconds_total", tally.cost_ns / 1e9, query=query)
        metrics.add("cep_query_judging_seconds_total", tally.judging_ns / 1e9, query=query)
        metrics.add("cep_events_shed_total", tally.shed, query=query, shedder=OF_EVENTS if sheds_matches(plan) else shedder)
        metrics.add("cep_tuples_shed_total", tally.tuples_shed, query=query, shedder=shedder)
        for verdict, count in tally.verdicts.items():
            metrics.add("cep_audit_verdicts_total", count, query=query, verdict=verdict)
        metrics.set("cep_partial_matches", tally.partial_matches, query=query)
        if plan.shedding.latency_bound_ms is not None:
            metrics.add("cep_late_composite_events_total", tally.late, query=query)
        metrics.add_counts("cep_detection_latency_seconds", tally.latencies, tally.latency_sum_ms / 1000, query=query)
        metrics.add(
            "cep_partial_matches_shed_total",
            0 if hides_events(plan) else tally.ended_matches,
            query=query,
            shedder=shedder_of_matches(plan),
        )
        if plan.shedding.state_bytes is not None:
            metrics.set("cep_query_state_bytes", tally.state_bytes, query=query)
        matching = METHODS[plan.shedding.shedder].of_matches
        dropped, judged = (tally.ended_matches, tally.judged_matches) if matching else (tally.shed, tally.considered)
        realised = dropped / judged if judged else 0.0
        metrics.set("cep_realised_drop_ratio", realised, query=query, shedder=shedder)
        if sheds_matches(plan):
            metrics.set("cep_realised_drop_ratio", tally.shed / max(1, tally.candidates), query=query, shedder=OF_EVENTS)
    else:  # nothing was shed of who sleeps
        metrics.set("cep_realised_drop_ratio", 0.0, query=query, shedder=shedder)
    known = [batch.watermarks[stream] + batch.lateness.get(stream, 0) for stream in plan.streams if stream in batch.watermarks]
    if known and len(known) == len(plan.streams):
        metrics.set("cep_watermark_delay_seconds", max(0, batch.now_ms - min(known)) / 1000, query=query)
