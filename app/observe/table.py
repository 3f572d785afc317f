"""Every metric of the application, in one table. Documentation, registry and tests are made from it; a metric that is not here does not exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.observe.latency import LATENCY_BOUNDS_MS

Kind = Literal["counter", "gauge", "histogram", "info"]

ALLOWED_LABELS = frozenset(
    {
        "limit",
        "query",
        "version",
        "topic",
        "partition",
        "reason",
        "shedder",
        "severity",
        "phase",
        "outcome",
        "verdict",
        "bound",
        "hash",
        "status",
        "spark",
        "git",
        "stream",
        "account",
        "cause",
    }
)
"""Labels have few values: never keys, users or free text."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: with unit and, for counters, ``_total``.
        labels: among `ALLOWED_LABELS`.
        buckets: upper bounds of a histogram.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


LATENCY_BOUNDS_S = tuple(bound / 1000 for bound in LATENCY_BOUNDS_MS)
_BATCH_BOUNDS_S = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)

METRICS: tuple[Metric, ...] = (
    # Rate, errors, duration.
    Metric("cep_events_consumed_total", "counter", "Records read from input topics.", ("topic",)),
    Metric("cep_bytes_consumed_total", "counter", "Bytes of the values of these records.", ("topic",)),
    Metric(
        "cep_events_ended_total",
        "counter",
        "Consumed events by where their way ended: irrelevant, matched, shed, late or dead. Their sum is what was consumed.",
        ("outcome",),
    ),
    Metric("cep_events_unaccounted_total", "counter", "Consumed events whose end no task reported; anything but 0 is a defect."),
    Metric(
        "cep_accounting_breaches_total",
        "counter",
        "Accounts of a batch that did not close: events, offsets, rows, records, source. Anything but 0 is a defect.",
        ("account",),
    ),
    Metric(
        "cep_offset_gaps_total",
        "counter",
        "Offsets that held no record: markers of transactions, aborted or compacted records.",
        ("topic",),
    ),
    Metric("cep_batch_attempts_failed_total", "counter", "Attempts of batches that failed and were begun again."),
    Metric("cep_stalled_batches_total", "counter", "Batches that did not finish within spark.stall_after."),
    Metric(
        "cep_batch_running_seconds",
        "gauge",
        "How long Spark has been at the batch in work: planning, the batch itself, writing offsets and commits; 0 while it waits for data.",
    ),
    Metric("cep_owners", "gauge", "Processes that hold buckets, or could."),
    Metric(
        "cep_log_entries_fed_total",
        "counter",
        "Entries of buckets' logs that were fed: own as the batch came, or again, because an owner started, was lost, or a bucket moved.",
        ("cause",),
    ),
    Metric(
        "cep_damaged_snapshots_total",
        "counter",
        "Snapshots of buckets that were damaged and passed over: the one before and the log since then were used. The log names the bucket.",
    ),
    Metric("cep_events_rejected_total", "counter", "Events refused, by reason: late, or one of cep_dead_letters_total.", ("reason",)),
    Metric(
        "cep_matches_emitted_total",
        "counter",
        "Composite events written; severity is the query's label of that name, empty without one.",
        ("query", "severity"),
    ),
    Metric("cep_timeouts_emitted_total", "counter", "Partial matches that ran out of their window and were written.", ("query",)),
    Metric(
        "cep_limited_total",
        "counter",
        "Matches and partial matches that a query's limits kept from being made, or partial matches from staying (state_bytes), by limit.",
        ("query", "limit"),
    ),
    Metric(
        "cep_detection_latency_seconds",
        "histogram",
        "From the Kafka timestamp of a composite event's last constituent until the composite event was produced.",
        ("query",),
        LATENCY_BOUNDS_S,
    ),
    Metric("cep_late_composite_events_total", "counter", "Composite events that came after their query's latency bound.", ("query",)),
    Metric(
        "cep_batch_duration_seconds",
        "histogram",
        "Time of micro-batches by phase; phase total is the whole batch.",
        ("phase",),
        _BATCH_BOUNDS_S,
    ),
    Metric("cep_batches_total", "counter", "Finished micro-batches."),
    Metric("cep_stage_cost_seconds_total", "counter", "Time that tasks spent, by phase, added up over all tasks.", ("phase",)),
    Metric(
        "cep_query_cost_seconds_total",
        "counter",
        "Processor time that owners spent on matching a query, on judging what it found while it sheds, and on encoding it.",
        ("query",),
    ),
    Metric(
        "cep_query_judging_seconds_total",
        "counter",
        "Of cep_query_cost_seconds_total, what judging took: verdicts, which there are only while the query sheds.",
        ("query",),
    ),
    Metric("cep_selection_events_total", "counter", "Events of the stream that selection was asked about.", ("stream",)),
    Metric("cep_selection_pruned_total", "counter", "Of these, events that no query wanted: dropped before they travel.", ("stream",)),
    Metric(
        "cep_selection_constructs_total",
        "counter",
        "Attribute selection constructs that were evaluated for these events; divided by the events, how early selection ends.",
        ("stream",),
    ),
    Metric("cep_selection_rearrangements_total", "counter", "Times that another evaluation sequence was found.", ("stream",)),
    Metric("cep_candidate_events_total", "counter", "Events that could be an item of the query, before shedding.", ("query",)),
    # Shedding.
    Metric("cep_latency_bound_seconds", "gauge", "The query's latency bound.", ("query",)),
    Metric(
        "cep_drop_ratio",
        "gauge",
        "Share of the query's events, or of the partial matches that it would have, that the next batch is to drop.",
        ("query", "shedder"),
    ),
    Metric(
        "cep_realised_drop_ratio",
        "gauge",
        "Share of the query's events, or of its live partial matches, that the last batch dropped.",
        ("query", "shedder"),
    ),
    Metric(
        "cep_events_shed_total",
        "counter",
        "Events dropped for the query; `random` where those of a shedder of partial matches are not enough.",
        ("query", "shedder"),
    ),
    Metric("cep_tuples_shed_total", "counter", "Tuples of a temporal query that went because its memory is bounded.", ("query", "shedder")),
    Metric("cep_partial_matches_shed_total", "counter", "Partial matches dropped by the query's shedder.", ("query", "shedder")),
    Metric("cep_predicted_latency_seconds", "gauge", "Latency that the watchdog predicts for the next batch, at the ratios that it chose."),
    Metric("cep_predicted_unshed_latency_seconds", "gauge", "Latency that the watchdog predicts for the next batch if nothing were shed."),
    Metric(
        "cep_latency_bound_reachable",
        "gauge",
        "1 when the watchdog sees a drop ratio that keeps all bounds, else 0: three decisions after there is none, thirty after there is one again.",
    ),
    Metric("cep_arrival_rate_events_per_second", "gauge", "Records arriving on the input topics, as the watchdog reckons."),
    Metric(
        "cep_shed_recall_estimate_ratio",
        "gauge",
        "Estimated share of composite events found despite shedding; bound: estimate, lower, upper.",
        ("query", "bound"),
    ),
    Metric(
        "cep_shed_precision_estimate_ratio",
        "gauge",
        "Estimated share of composite events that are right despite shedding; bound: estimate, lower, upper.",
        ("query", "bound"),
    ),
    Metric("cep_audit_verdicts_total", "counter", "Verdicts on composite events found while shedding.", ("query", "verdict")),
    # Use.
    Metric(
        "cep_consumer_lag_records",
        "gauge",
        "Records of the topic partition that no finished batch has read, at the last planning.",
        ("topic", "partition"),
    ),
    Metric(
        "cep_consumer_lag_seconds",
        "gauge",
        "Age of the newest record read of the topic partition while it lags, else 0.",
        ("topic", "partition"),
    ),
    Metric(
        "cep_watermark_delay_seconds",
        "gauge",
        "How far the time of the query's streams is behind the clock; its watermark is `allowed_lateness` further behind.",
        ("query",),
    ),
    Metric("cep_idle_partitions", "gauge", "Topic partitions that the watermark leaves out because they are silent."),
    Metric("cep_state_rows", "gauge", "Live events of all engines."),
    Metric("cep_state_bytes", "gauge", "Bytes of the newest snapshots and the log entries since."),
    Metric("cep_partial_matches", "gauge", "Live instances or partial matches of the query.", ("query",)),
    Metric(
        "cep_query_state_bytes",
        "gauge",
        "Bytes that partial matches of the query and the events in them take, where limits.state_bytes bounds them.",
        ("query",),
    ),
    Metric("cep_waiting", "gauge", "Held events and negated ends that only time will release."),
    Metric("cep_checkpoint_last_success_timestamp_seconds", "gauge", "When the last batch was committed."),
    Metric(
        "cep_dead_letters_total",
        "counter",
        "Records written to the dead-letter topic, by reason: undecodable, schema, oversized and the others of ops/runbooks/dead-letters.md.",
        ("reason",),
    ),
    Metric("cep_heartbeats_total", "counter", "Heartbeats written because the input was silent."),
    Metric("cep_heartbeat_errors_total", "counter", "Heartbeats that the broker did not take."),
    Metric(
        "cep_shadow_commits_total", "counter", "Times that a batch's offsets were committed to the shadow consumer group, for lag tools."
    ),
    Metric(
        "cep_shadow_commit_errors_total",
        "counter",
        "Times that they could not be; nothing but lag tools depends on it.",
    ),
    Metric(
        "cep_originals_errors_total",
        "counter",
        "Late events and dead letters that were written without key, value and headers because the original could not be read again.",
    ),
    Metric("cep_schema_registry_errors_total", "counter", "Requests to the schema registry that failed."),
    Metric(
        "cep_schema_registry_waiting_seconds",
        "gauge",
        "How long the schema registry has been away while somebody needs it; 0 when it answers, and while nobody asks.",
    ),
    # Identity.
    Metric("cep_build_info", "info", "Version of the application.", ("version", "spark", "git")),
    Metric(
        "cep_model_newest_event_timestamp_seconds",
        "gauge",
        "Time of the newest event that the model of the query's shedder learned from; no value without a model.",
        ("query",),
    ),
    Metric(
        "cep_learning_total",
        "counter",
        "Looks at the query's model by the application's own learning: taken, no_better, still_fits, too_little, pinned, failed.",
        ("query", "outcome"),
    ),
    Metric(
        "cep_query_info",
        "gauge",
        "1 per query: its version, the hash of its meaning, and whether it runs.",
        ("query", "version", "hash", "status"),
    ),
    Metric("cep_catalog_generation", "gauge", "Version of the catalog that runs."),
    Metric("cep_config_reload_success", "gauge", "1 when the last reading of queries succeeded, else 0."),
    Metric("cep_config_last_reload_success_timestamp_seconds", "gauge", "When queries were last read with success."),
    Metric(
        "cep_config_reloads_total",
        "counter",
        "Readings of changed query files; outcome: reloaded, unchanged, broken, needs_topics, needs_restart, failed.",
        ("outcome",),
    ),
    Metric("cep_leader", "gauge", "1 while this driver holds the checkpoint, else 0."),
)

_HEAD = """# Metrics

Made from `app/observe/table.py` by `python -m app.observe.catalogue`; a test fails when it is stale.
Served by the driver at `/metrics`. Drop ratios and estimates are shares from 0 to 1.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def catalogue() -> str:
    """The table as Markdown."""
    rows = [f"| `{m.name}` | {m.kind} | {' '.join(f'`{label}`' for label in m.labels) or '–'} | {m.help} |" for m in METRICS]
    return _HEAD + "\n".join(rows) + "\n"
