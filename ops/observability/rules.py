"""Recording rules and alerts, as Prometheus takes them: `helm/files/rules/cep.yaml` is made from here.

Names in angle brackets stand for values of the chart (`prometheusRule`): the chart puts them in. Metrics are those of `app.observe.table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shedding.registry import METHODS

WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
"""Over which the share of late composite events is kept."""
OF_QUERY = "namespace, pod, query"
OF_MATCHES = "|".join(name for name, method in METHODS.items() if method.of_matches)
"""Shedders whose drop ratio speaks of partial matches."""
LATE = "cep:latency_bound:violation_ratio_rate"
RECORDED = {"cep_release": "<release>"}
"""The label by which alerts find recorded series: these are sums, which have lost what `<selector>` may ask for, such as a job."""
MOVING = "on (namespace, pod) increase(cep_batches_total{<selector>}[10m]) > 0"
"""Batches end: what the last one said is not of an hour ago."""
ALMOST_ALL = 0.99
"""More than all composite events cannot be late: however loose the objective is, this is too many."""
STATE = "max by (namespace, pod) (cep_state_bytes{<selector>})"
"""Not by instance: a pod that is made anew has another address."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; its runbook is `ops/runbooks/<name>.md`.

    Attributes:
        name: begins with Cep.
        severity: ``critical`` wakes somebody, ``warning`` makes a ticket.
        expr: PromQL.
        wait: how long it must be true.
        summary: one line, with templates of Prometheus.
        description: what it means and what to look at first.
    """

    name: str
    severity: str
    expr: str
    wait: str
    summary: str
    description: str


def late_ratio(window: str, selector: str = "<selector>") -> str:
    """Share of composite events of a query that came after its latency bound; queries without one have no such series."""
    late, all_ = (
        f"sum by ({OF_QUERY}) (rate({one}{{{selector}}}[{window}]))"
        for one in ("cep_late_composite_events_total", "cep_detection_latency_seconds_count")
    )
    return f"{late} / {all_}"


def shed_ratio(window: str, selector: str = "<selector>") -> str:
    """Share of the events that queries could use that was shed."""
    shed, all_ = (
        f"sum by (namespace, pod) (rate({one}{{{selector}}}[{window}]))" for one in ("cep_events_shed_total", "cep_candidate_events_total")
    )
    return f"{shed} / {all_}"


def sheds_much(window: str) -> str:
    """Share of the events that a query could use that was shed, over a window: counted, whatever the batches were like that scrapes happened to see. Of partial matches nobody counts those that were judged: the mean of what scrapes see."""
    shed = f"sum by ({OF_QUERY}, shedder) (increase(cep_events_shed_total{{<selector>}}[{window}]))"
    all_ = f"sum by ({OF_QUERY}) (increase(cep_candidate_events_total{{<selector>}}[{window}]))"
    ended = f'max by ({OF_QUERY}, shedder) (avg_over_time(cep_realised_drop_ratio{{<selector>,shedder=~"{OF_MATCHES}"}}[{window}]))'
    return f"{shed} / on ({OF_QUERY}) group_left {all_} > <shed_ratio> or {ended} > <shed_ratio>"


def recordings() -> list[dict[str, Any]]:
    """Series that alerts ask, and three for people's own graphs. Our dashboards ask none of them: they come without the rules as well."""
    series = [
        *({"record": f"{LATE}{window}", "expr": late_ratio(window)} for window in WINDOWS),
        {
            "record": "cep:detection_latency_seconds:p99_5m",
            "expr": f"histogram_quantile(0.99, sum by ({OF_QUERY}, le) (rate(cep_detection_latency_seconds_bucket{{<selector>}}[5m])))",
        },
        {"record": "cep:events_consumed:rate5m", "expr": "sum by (namespace, pod) (rate(cep_events_consumed_total{<selector>}[5m]))"},
        {"record": "cep:shed:ratio_rate5m", "expr": shed_ratio("5m")},
    ]
    return [{**one, "labels": dict(RECORDED)} for one in series]


def burns(factor: float, long: str, short: str) -> str:
    """The error budget is spent so many times too fast, over a long window and still over a short one, and there were composite events enough to say so.

    As many in a long window of days as in one of an hour: were it more, nobody would hear of a query that finds few, all of them late.
    """
    budget = f"scalar(clamp_max(vector({factor} * (1 - <objective>)), {ALMOST_ALL}))"
    enough = f"sum by ({OF_QUERY}) (increase(cep_detection_latency_seconds_count{{<selector>}}[{long}])) >= <least_events>"
    ours = ",".join(f'{label}="{value}"' for label, value in RECORDED.items())
    return f"{LATE}{long}{{{ours}}} > {budget} and {LATE}{short}{{{ours}}} > {budget} and on ({OF_QUERY}) {enough}"


def grew(metric: str, window: str, more: str = "") -> str:
    """A counter that moved."""
    return f"increase({metric}{{<selector>{more}}}[{window}]) > 0"


ALERTS: tuple[Alert, ...] = (
    Alert(
        "CepDown",
        "critical",
        "absent(cep_leader{<selector>})",
        "5m",
        "The driver is not seen",
        "Nothing of it was scraped for five minutes: no composite events, or no scrape.",
    ),
    Alert(
        "CepRestarting",
        "critical",
        "changes(max by (namespace, pod) (process_start_time_seconds{<selector>})[30m:30s]) >= 3",
        "0m",
        "The driver started {{ $value }} times in half an hour",
        "It ends again and again; the exit code and the last lines of its log say why.",
    ),
    Alert(
        "CepNoProgress",
        "critical",
        "max by (namespace, pod) (cep_batch_running_seconds{<selector>}) > <no_progress_seconds>"
        " or time() - max by (namespace, pod) (cep_checkpoint_last_success_timestamp_seconds{<selector>}) > <no_progress_seconds>"
        " and on (namespace, pod) sum by (namespace, pod) (cep_consumer_lag_records{<selector>}) > 0",
        "1m",
        "No batch was finished for {{ $value | humanizeDuration }}",
        "A batch hangs, fails and is repeated, or waits for the schema registry or for storage; or records wait and none begins.",
    ),
    Alert(
        "CepBatchesStalled",
        "critical",
        grew("cep_stalled_batches_total", "15m"),
        "0m",
        "A batch did not finish in time",
        "It took longer than spark.stall_after; the log says what the owners of buckets are doing.",
    ),
    Alert(
        "CepBatchesFailing",
        "warning",
        "increase(cep_batch_attempts_failed_total{<selector>}[15m]) >= 3",
        "0m",
        "{{ $value }} attempts of batches failed in 15 minutes",
        "After spark.batch_attempts the application ends with exit code 65; executors that are lost are the usual reason.",
    ),
    Alert(
        "CepAccountsBroken",
        "critical",
        f"{grew('cep_accounting_breaches_total', '1h')} or on (namespace, pod) {grew('cep_events_unaccounted_total', '1h')}",
        "0m",
        "The accounts of a batch did not close",
        "Events without an end, rows that got lost, or output that did not arrive: a defect. Keep log and checkpoint.",
    ),
    Alert(
        "CepSnapshotsDamaged",
        "warning",
        grew("cep_damaged_snapshots_total", "1h"),
        "0m",
        "Snapshots of buckets are damaged",
        "The ones before were used; the storage of the checkpoint is to be looked at.",
    ),
    Alert(
        "CepLagGrowing",
        "warning",
        "deriv(sum by (namespace, pod) (cep_consumer_lag_records{<selector>})[20m:1m]) > 0 and on (namespace, pod) max by (namespace, pod) (cep_consumer_lag_seconds{<selector>}) > <lag_seconds> / 5",
        "15m",
        "Lag grows by {{ $value | humanize }} records per second",
        "More comes than is done; where queries have bounds, shedding should have begun.",
    ),
    Alert(
        "CepLagHigh",
        "critical",
        "max by (namespace, pod, topic) (cep_consumer_lag_seconds{<selector>}) > <lag_seconds>",
        "5m",
        "{{ $labels.topic }} lags by {{ $value | humanizeDuration }}",
        "Composite events are at least so late.",
    ),
    Alert(
        "CepWatermarkStalled",
        "warning",
        f"max by (namespace, pod, query) (cep_watermark_delay_seconds{{<selector>}}) > <watermark_seconds> and {MOVING}",
        "10m",
        "Time of {{ $labels.query }} is {{ $value | humanizeDuration }} behind the clock",
        "Negations and windows end late; a topic partition with old event times, or lag.",
    ),
    Alert(
        "CepHeartbeatsFailing",
        "warning",
        "increase(cep_heartbeat_errors_total{<selector>}[15m]) >= 3",
        "0m",
        "{{ $value | humanize }} heartbeats were lost in 15 minutes",
        "While the input is silent, negations at an end, timeouts and windows wait for the next event.",
    ),
    Alert(
        "CepLatencySLOBurnFast",
        "critical",
        f"({burns(14.4, '1h', '5m')}) or ({burns(6, '6h', '30m')})",
        "2m",
        "{{ $labels.query }}: {{ $value | humanizePercentage }} of composite events came after the latency bound",
        "At this rate the error budget of 30 days is spent in less than five.",
    ),
    Alert(
        "CepLatencySLOBurnSlow",
        "warning",
        f"({burns(3, '1d', '2h')}) or ({burns(1, '3d', '6h')})",
        "15m",
        "{{ $labels.query }}: {{ $value | humanizePercentage }} of composite events came after the latency bound",
        "The error budget of 30 days will not last.",
    ),
    Alert(
        "CepBoundUnreachable",
        "critical",
        f"cep_latency_bound_reachable{{<selector>}} == 0 and {MOVING}",
        "10m",
        "No drop ratio keeps all latency bounds",
        "A batch's fixed cost, or a query that may not shed, takes more than a bound allows.",
    ),
    Alert(
        "CepSheddingSustained",
        "warning",
        f"({sheds_much('30m')}) and {MOVING}",
        "5m",
        "{{ $labels.query }} shed {{ $value | humanizePercentage }} in half an hour",
        "This is no burst but too little capacity.",
    ),
    Alert(
        "CepRecallLow",
        "warning",
        f'cep_shed_recall_estimate_ratio{{<selector>,bound="upper"}} < <recall> and {MOVING}',
        "15m",
        "{{ $labels.query }} finds at most {{ $value | humanizePercentage }} of its composite events",
        "The upper end of the estimate's interval is below what was agreed.",
    ),
    Alert(
        "CepLearningFailing",
        "warning",
        'increase(cep_learning_total{<selector>,outcome="failed"}[6h]) >= 3',
        "0m",
        "Learning of the model of {{ $labels.query }} failed {{ $value | humanize }} times in six hours",
        "The query sheds by an old model, or at random; the log says why.",
    ),
    Alert(
        "CepDeadLetterRateHigh",
        "warning",
        "sum by (namespace, pod) (rate(cep_dead_letters_total{<selector>}[10m])) > <dead_letters> * sum by (namespace, pod) (rate(cep_events_consumed_total{<selector>}[10m]))",
        "10m",
        "{{ $value | humanize }} records per second become dead letters",
        "A producer writes what the schemas do not say; the reason is with every dead letter.",
    ),
    Alert(
        "CepStateGrowth",
        "warning",
        f"{STATE} > <state_bytes> and {STATE} > 2 * max by (namespace, pod) (cep_state_bytes{{<selector>}} offset 1d)",
        "30m",
        "State has doubled in a day, to {{ $value | humanize1024 }}B",
        "Windows that are too long, keys that never end, or partial matches without a limit.",
    ),
    Alert(
        "CepPartialMatchesLimited",
        "warning",
        f"sum by (namespace, pod, query, limit) ({grew('cep_limited_total', '15m')})",
        "0m",
        "A limit of {{ $labels.query }} keeps matches from being made: {{ $labels.limit }}",
        "What the limit ends is not found, and in no drop ratio; the audit topic has a shed report with the limit.",
    ),
    Alert(
        "CepExecutorsMissing",
        "warning",
        "cep_owners{<selector>} < <owners>",
        "10m",
        "{{ $value }} processes hold buckets instead of <owners>",
        "Executors are pending, or end again and again; the others do their work.",
    ),
    Alert(
        "CepSchemaRegistryErrors",
        "warning",
        "cep_schema_registry_waiting_seconds{<selector>} > 30",
        "1m",
        "The schema registry has been away for {{ $value | humanizeDuration }}",
        "A batch waits for an unseen schema; after schema_registry.wait_for the application ends.",
    ),
    Alert(
        "CepConfigReloadFailed",
        "warning",
        "cep_config_reload_success{<selector>} == 0",
        "5m",
        "The last change of the queries does not run",
        "What ran before goes on; /queries and the log say why: an error in a file, a topic that is missing, a registry that is away, or a restart that is needed.",
    ),
)


def rules() -> dict[str, Any]:
    """The file."""
    alerts = [
        {
            "alert": one.name,
            "expr": one.expr,
            "for": one.wait,
            "labels": {"severity": one.severity},
            "annotations": {"summary": one.summary, "description": one.description, "runbook_url": f"<runbooks>{one.name}.md"},
        }
        for one in ALERTS
    ]
    return {
        "groups": [
            {"name": "cep.recordings", "interval": "30s", "rules": recordings()},
            {"name": "cep.alerts", "interval": "30s", "rules": alerts},
        ]
    }
