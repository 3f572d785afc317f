"""Grafana dashboards: `helm/files/dashboards/*.json` are made from here. Metrics are those of `app.observe.table`.

They ask no recorded series: the chart may bring dashboards without its rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ops.observability.rules import late_ratio, shed_ratio

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
S = 'namespace=~"$namespace",pod=~"$pod"'
"""Selector of a release."""
Q = f'{S},query=~"$query"'
"""Selector of queries."""
WIDTH, HEIGHT = 24, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: what it shows.
        text: what to read from it.
        series: expression and legend of each series.
        unit: of Grafana.
        kind: of Grafana's panels.
        width: of 24.
        most: upper end of the axis; None lets Grafana choose.
    """

    title: str
    text: str
    series: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard; its file and uid are named by `name`."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def rate(metric: str, by: str = "", more: str = S) -> str:
    """A counter per second, summed."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{{{more}}}[$__rate_interval]))"


def quantile(share: float, metric: str, by: str, more: str) -> str:
    """Of a histogram."""
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket{{{more}}}[$__rate_interval])))"


LATENCY = "cep_detection_latency_seconds"

OVERVIEW = Dashboard(
    "overview",
    "CEP / Overview",
    (
        Panel(
            "Late composite events, 1 h",
            "Share that came after the query's latency bound; the objective is in the alerts.",
            ((late_ratio("1h", S), "{{query}}"),),
            "percentunit",
            "stat",
            6,
        ),
        Panel(
            "Lag",
            "How old the newest record is that was read, where records wait.",
            ((f"max(cep_consumer_lag_seconds{{{S}}})", "lag"),),
            "s",
            "stat",
            6,
        ),
        Panel(
            "Processes that hold buckets", "One per core of the executors.", ((f"sum(cep_owners{{{S}}})", "owners"),), "short", "stat", 6
        ),
        Panel(
            "Query files",
            "1: the last reading was good. 0: broken, what ran before goes on.",
            ((f"min(cep_config_reload_success{{{S}}})", "good"),),
            "short",
            "stat",
            6,
        ),
        Panel(
            "Latency against the bound",
            "99 % of composite events are faster; dashed: the bound. Where it is above, the watchdog sheds too little or cannot.",
            (
                (quantile(0.99, LATENCY, "query", S), "p99 {{query}}"),
                (quantile(0.5, LATENCY, "query", S), "p50 {{query}}"),
                (f"max by (query) (cep_latency_bound_seconds{{{S}}})", "bound {{query}}"),
            ),
            "s",
        ),
        Panel(
            "Events",
            "Read per second by topic; what arrives as the watchdog reckons it.",
            (
                (rate("cep_events_consumed_total", "topic"), "{{topic}}"),
                (f"sum(cep_arrival_rate_events_per_second{{{S}}})", "arriving"),
            ),
            "cps",
        ),
        Panel(
            "Where events end",
            "The sum is what was read. Much that is late or dead is a fault of the input.",
            ((rate("cep_events_ended_total", "outcome"), "{{outcome}}"),),
            "cps",
        ),
        Panel("Composite events", "Written per second.", ((rate("cep_matches_emitted_total", "query"), "{{query}}"),), "cps"),
        Panel(
            "Lag in records",
            "Unread at the last planning.",
            ((f"sum by (topic) (cep_consumer_lag_records{{{S}}})", "{{topic}}"),),
        ),
        Panel(
            "Batches",
            "Median time by phase; total is the whole batch.",
            ((quantile(0.5, "cep_batch_duration_seconds", "phase", S), "{{phase}}"),),
            "s",
        ),
        Panel(
            "Rejected and dead",
            "By reason.",
            (
                (rate("cep_events_rejected_total", "reason"), "rejected {{reason}}"),
                (rate("cep_dead_letters_total", "reason"), "dead {{reason}}"),
            ),
            "cps",
        ),
        Panel(
            "State",
            "Snapshots and the log since.",
            ((f"sum(cep_state_bytes{{{S}}})", "bytes"),),
            "bytes",
        ),
        Panel(
            "Troubles",
            "Anything but 0 wants a look at the log.",
            (
                (f"sum(increase(cep_batch_attempts_failed_total{{{S}}}[$__rate_interval]))", "failed attempts"),
                (f"sum(increase(cep_stalled_batches_total{{{S}}}[$__rate_interval]))", "stalled batches"),
                (f"sum(increase(cep_accounting_breaches_total{{{S}}}[$__rate_interval]))", "accounts that did not close"),
                (f"sum(increase(cep_damaged_snapshots_total{{{S}}}[$__rate_interval]))", "damaged snapshots"),
                (f"sum(increase(cep_schema_registry_errors_total{{{S}}}[$__rate_interval]))", "registry errors"),
            ),
        ),
        Panel(
            "What runs",
            "Queries, their versions and hashes.",
            ((f"max by (query, version, hash, status) (cep_query_info{{{S}}})", "{{query}} v{{version}} {{status}}"),),
            kind="table",
        ),
    ),
)

QUERY = Dashboard(
    "query",
    "CEP / Query",
    (
        Panel(
            "Latency of composite events",
            "How many fell into each class of latency.",
            ((f"sum by (le) (increase({LATENCY}_bucket{{{Q}}}[$__rate_interval]))", "{{le}}"),),
            "s",
            "heatmap",
            24,
        ),
        Panel(
            "Latency against the bound",
            "The bound is the query's own.",
            (
                (quantile(0.99, LATENCY, "query", Q), "p99 {{query}}"),
                (quantile(0.5, LATENCY, "query", Q), "p50 {{query}}"),
                (f"max by (query) (cep_latency_bound_seconds{{{Q}}})", "bound {{query}}"),
            ),
            "s",
        ),
        Panel(
            "Late composite events",
            "Share after the bound, over an hour and over six.",
            (
                (late_ratio("1h", Q), "1 h {{query}}"),
                (late_ratio("6h", Q), "6 h {{query}}"),
            ),
            "percentunit",
        ),
        Panel(
            "Composite events",
            "Written per second, and partial matches that ran out of their window.",
            (
                (rate("cep_matches_emitted_total", "query, severity", Q), "{{query}} {{severity}}"),
                (rate("cep_timeouts_emitted_total", "query", Q), "timeouts {{query}}"),
            ),
            "cps",
        ),
        Panel(
            "Candidates",
            "Events that could be an item of the query, before shedding.",
            ((rate("cep_candidate_events_total", "query", Q), "{{query}}"),),
            "cps",
        ),
        Panel("Partial matches", "Live ones.", ((f"sum by (query) (cep_partial_matches{{{Q}}})", "{{query}}"),)),
        Panel(
            "Memory of partial matches",
            "Where limits.state_bytes bounds it.",
            ((f"sum by (query) (cep_query_state_bytes{{{Q}}})", "{{query}}"),),
            "bytes",
        ),
        Panel(
            "Cost",
            "Processor time per second of the owners of buckets, and per candidate event.",
            ((rate("cep_query_cost_seconds_total", "query", Q), "{{query}}"),),
            "s",
        ),
        Panel(
            "Cost per candidate",
            "Microseconds of processor time.",
            (
                (
                    f"1e6 * {rate('cep_query_cost_seconds_total', 'query', Q)} / {rate('cep_candidate_events_total', 'query', Q)}",
                    "{{query}}",
                ),
            ),
            "µs",
        ),
        Panel(
            "Watermark behind the clock",
            "Negations and windows wait for it.",
            ((f"max by (query) (cep_watermark_delay_seconds{{{Q}}})", "{{query}}"),),
            "s",
        ),
        Panel(
            "Limits that cut",
            "What a query's limits kept from being made, or from staying.",
            ((rate("cep_limited_total", "query, limit", Q), "{{query}} {{limit}}"),),
            "cps",
        ),
        Panel(
            "Selection",
            "Share of a stream's events that no query wants: dropped before they travel.",
            ((f"{rate('cep_selection_pruned_total', 'stream')} / {rate('cep_selection_events_total', 'stream')}", "{{stream}}"),),
            "percentunit",
            most=1,
        ),
        Panel(
            "Waiting for time alone",
            "Held events and negated ends.",
            ((f"sum(cep_waiting{{{S}}})", "waiting"), (f"sum(cep_idle_partitions{{{S}}})", "idle topic partitions")),
        ),
    ),
)

SHEDDING = Dashboard(
    "shedding",
    "CEP / Shedding and audits",
    (
        Panel(
            "Recall",
            "Estimated share of composite events found despite shedding, with its 95 % interval.",
            ((f"min by (query, bound) (cep_shed_recall_estimate_ratio{{{Q}}})", "{{query}} {{bound}}"),),
            "percentunit",
            most=1,
        ),
        Panel(
            "Precision",
            "Estimated share of composite events that are right despite shedding, with its 95 % interval.",
            ((f"min by (query, bound) (cep_shed_precision_estimate_ratio{{{Q}}})", "{{query}} {{bound}}"),),
            "percentunit",
            most=1,
        ),
        Panel(
            "Drop ratio, asked and done",
            "Where the two part, the shedder finds too little to drop, or too much of one worth.",
            (
                (f"max by (query, shedder) (cep_drop_ratio{{{Q}}})", "asked {{query}} {{shedder}}"),
                (f"max by (query, shedder) (cep_realised_drop_ratio{{{Q}}})", "done {{query}} {{shedder}}"),
            ),
            "percentunit",
            most=1,
        ),
        Panel(
            "Predicted latency",
            "What the watchdog sees for the next batch, with its ratios and without any; bounds beside it.",
            (
                (f"max(cep_predicted_latency_seconds{{{S}}})", "with shedding"),
                (f"max(cep_predicted_unshed_latency_seconds{{{S}}})", "without"),
                (f"max by (query) (cep_latency_bound_seconds{{{Q}}})", "bound {{query}}"),
            ),
            "s",
        ),
        Panel(
            "Events shed",
            "Dropped for a query at the ingress.",
            ((rate("cep_events_shed_total", "query, shedder", Q), "{{query}} {{shedder}}"),),
            "cps",
        ),
        Panel(
            "Partial matches and tuples shed",
            "Dropped in the owners of buckets.",
            (
                (rate("cep_partial_matches_shed_total", "query, shedder", Q), "partial matches {{query}} {{shedder}}"),
                (rate("cep_tuples_shed_total", "query, shedder", Q), "tuples {{query}} {{shedder}}"),
            ),
            "cps",
        ),
        Panel(
            "Verdicts",
            "On composite events that shedding may have made.",
            ((rate("cep_audit_verdicts_total", "query, verdict", Q), "{{query}} {{verdict}}"),),
            "cps",
        ),
        Panel(
            "Share of events shed",
            "Of what queries could use, wherever it was dropped: an event counts for each query that could use it.",
            ((shed_ratio("$__rate_interval", S), "shed"),),
            "percentunit",
            most=1,
        ),
        Panel(
            "Age of models",
            "Since the newest event that the model of a query's shedder learned from; none: it sheds at random.",
            ((f"time() - max by (query) (cep_model_newest_event_timestamp_seconds{{{Q}}})", "{{query}}"),),
            "s",
        ),
        Panel(
            "Learning",
            "Looks at models, by what came of them.",
            ((f"sum by (query, outcome) (increase(cep_learning_total{{{Q}}}[$__rate_interval]))", "{{query}} {{outcome}}"),),
        ),
        Panel(
            "Bounds within reach",
            "0: no ratio keeps them all.",
            ((f"min(cep_latency_bound_reachable{{{S}}})", "reachable"),),
            width=12,
            most=1,
        ),
        Panel(
            "Arriving",
            "As the watchdog reckons; above what is read it is backlog.",
            ((f"sum(cep_arrival_rate_events_per_second{{{S}}})", "arriving"), (rate("cep_events_consumed_total"), "read")),
            "cps",
        ),
    ),
)

DASHBOARDS = (OVERVIEW, QUERY, SHEDDING)


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """A variable that is asked from the data source; several and all may be chosen."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def panel(one: Panel, number: int, place: tuple[int, int]) -> dict[str, Any]:
    """A panel as Grafana takes it."""
    defaults: dict[str, Any] = {"unit": one.unit, "min": 0}
    if one.most is not None:
        defaults["max"] = one.most
    options: dict[str, Any] = {}
    if one.kind == "timeseries":
        options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
        defaults["custom"] = {"lineWidth": 1, "fillOpacity": 5, "showPoints": "never"}
    targets = [
        {
            "refId": chr(ord("A") + place_of),
            "datasource": SOURCE,
            "expr": expr,
            "legendFormat": legend,
            **({"format": "heatmap"} if one.kind == "heatmap" else {"format": "table", "instant": True} if one.kind == "table" else {}),
        }
        for place_of, (expr, legend) in enumerate(one.series)
    ]
    bound = [
        {
            "matcher": {"id": "byRegexp", "options": "bound.*"},
            "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}}],
        }
    ]
    return {
        "id": number,
        "type": one.kind,
        "title": one.title,
        "description": one.text,
        "datasource": SOURCE,
        "gridPos": {"x": place[0], "y": place[1], "w": one.width, "h": HEIGHT if one.kind != "stat" else 4},
        "fieldConfig": {"defaults": defaults, "overrides": bound if one.kind == "timeseries" else []},
        "options": options,
        "targets": targets,
    }


def dashboard(one: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana takes it."""
    panels: list[dict[str, Any]] = []
    x = y = height = 0
    for number, each in enumerate(one.panels, 1):
        if x + each.width > WIDTH:
            x, y, height = 0, y + height, 0
        panels.append(panel(each, number, (x, y)))
        x, height = x + each.width, max(height, panels[-1]["gridPos"]["h"])
    return {
        "uid": f"cep-{one.name}",
        "title": one.title,
        "tags": ["cep"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "links": [{"type": "dashboards", "tags": ["cep"], "title": "CEP", "asDropdown": False, "includeVars": True, "keepTime": True}],
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                variable("namespace", "Namespace", "label_values(cep_leader, namespace)"),
                variable("pod", "Driver", 'label_values(cep_leader{namespace=~"$namespace"}, pod)'),
                variable("query", "Query", 'label_values(cep_query_info{namespace=~"$namespace",pod=~"$pod"}, query)'),
            ]
        },
        "panels": panels,
    }
