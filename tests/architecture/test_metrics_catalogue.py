"""Metrics: documented, and named by the rules of Prometheus and of this project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.observe.table import ALLOWED_LABELS, METRICS, Metric, catalogue

ROOT = Path(__file__).parents[2]
UNITS = ("_seconds", "_bytes", "_ratio", "_records", "_info", "_rows", "_per_second", "_total")
PLAIN_GAUGES = {
    "cep_partial_matches",
    "cep_owners",
    "cep_waiting",
    "cep_idle_partitions",
    "cep_catalog_generation",
    "cep_config_reload_success",
    "cep_leader",
    "cep_latency_bound_reachable",
}
"""Counts of things and yes-or-no: they have no unit."""


def test_catalogue_is_up_to_date() -> None:
    assert (ROOT / "ops" / "metrics.md").read_text() == catalogue(), "run: python -m app.observe.catalogue > ops/metrics.md"


def test_names_are_unique() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_metric_follows_the_rules(metric: Metric) -> None:
    assert re.fullmatch(r"cep_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.name.endswith(UNITS) or metric.name in PLAIN_GAUGES
    assert metric.help.endswith(".")
    assert "|" not in metric.help
    assert set(metric.labels) <= ALLOWED_LABELS
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(set(metric.buckets))


def test_metrics_that_rules_and_dashboards_ask_for_exist() -> None:
    exposed = {metric.name for metric in METRICS}
    for metric in METRICS:
        if metric.kind == "histogram":
            exposed |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    for path in [
        *(ROOT / "ops" / "alerts").rglob("*.y*ml"),
        *(ROOT / "ops" / "dashboards").rglob("*.json"),
        *(ROOT / "helm").rglob("*.json"),
    ]:
        asked = set(re.findall(r"\bcep_[a-z_]+(?=[{\[])", path.read_text()))
        assert asked <= exposed, f"{path} asks for {sorted(asked - exposed)}"
