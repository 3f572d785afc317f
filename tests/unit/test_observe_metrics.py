from __future__ import annotations

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.observe.latency import latency_counts
from app.observe.metrics import Metrics
from app.observe.table import METRICS


def test_counters_gauges_and_infos_are_served_as_text() -> None:
    metrics = Metrics()
    metrics.add("cep_events_consumed_total", 3, topic="a")
    metrics.add("cep_events_consumed_total", 4, topic="a")
    metrics.set("cep_drop_ratio", 0.25, query="q", shedder="random")
    metrics.inform("cep_build_info", version="1", spark="4", git="abc")
    body, content_type = metrics.text()
    text = body.decode()
    assert 'cep_events_consumed_total{topic="a"} 7.0' in text
    assert 'cep_drop_ratio{query="q",shedder="random"} 0.25' in text
    assert 'cep_build_info{git="abc",spark="4",version="1"} 1.0' in text
    assert content_type.startswith("text/plain")
    for metric in METRICS:
        if metric.kind == "gauge":
            metrics.set(metric.name, 1, **dict.fromkeys(metric.labels, "a"))
    families = {family.name: family for family in text_string_to_metric_families(metrics.text()[0].decode())}
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert family.documentation == metric.help


def test_histograms_take_counts_and_single_values() -> None:
    metrics = Metrics()
    counts = latency_counts(np.array([120, 120, 99_999]))
    metrics.add_counts("cep_detection_latency_seconds", counts, 100.239, query="q")
    metrics.add_counts("cep_detection_latency_seconds", (), 0.0, query="q")
    assert metrics.value("cep_detection_latency_seconds_count", query="q") == 3
    assert metrics.value("cep_detection_latency_seconds_sum", query="q") == 100.239
    assert metrics.value("cep_detection_latency_seconds_bucket", query="q", le="0.15") == 2
    metrics.observe("cep_batch_duration_seconds", 0.15, phase="total")
    assert metrics.value("cep_batch_duration_seconds_bucket", phase="total", le="0.15") == 1
    assert metrics.value("cep_batch_duration_seconds_bucket", phase="total", le="0.1") == 0


def test_names_and_labels_outside_the_table_are_refused() -> None:
    metrics = Metrics()
    with pytest.raises(KeyError):
        metrics.add("cep_unheard_of_total", 1)
    with pytest.raises(ValueError):
        metrics.set("cep_drop_ratio", 1, user="u")
    with pytest.raises(ValueError):
        metrics.observe("cep_batch_duration_seconds", 1, query="q")


def test_two_drivers_in_one_process_do_not_share_values() -> None:
    one, two = Metrics(), Metrics()
    one.set("cep_leader", 1)
    assert two.value("cep_leader") is None


def test_a_gauge_is_shown_from_when_it_was_set() -> None:
    """A bound that nobody has spoken of is not out of reach; an alert would take the 0 for that."""
    metrics = Metrics()
    assert b"\ncep_latency_bound_reachable " not in metrics.text()[0]
    for value in (1, 0):
        metrics.set("cep_latency_bound_reachable", value)
        assert f"\ncep_latency_bound_reachable {float(value)}\n".encode() in metrics.text()[0]
        assert metrics.value("cep_latency_bound_reachable") == value


def test_what_was_forgotten_is_counted_anew() -> None:
    """Samples are remembered by label: one that is gone must not be written to, where nobody sees it."""
    metrics = Metrics()
    for _ in range(2):
        metrics.set("cep_partial_matches", 5, query="a")
        metrics.add("cep_candidate_events_total", 3, query="a")
        assert (metrics.value("cep_partial_matches", query="a"), metrics.value("cep_candidate_events_total", query="a")) == (5, 3)
        metrics.clear("cep_partial_matches")
        assert metrics.value("cep_partial_matches", query="a") is None
        metrics.forget("query", "a")
        assert metrics.value("cep_candidate_events_total", query="a") is None


def test_a_counter_to_which_nothing_was_added_is_shown() -> None:
    metrics = Metrics()
    metrics.add("cep_candidate_events_total", 0, query="a")
    assert metrics.value("cep_candidate_events_total", query="a") == 0


def test_one_sample_is_told_whether_it_was_kept_at_hand_or_not() -> None:
    metrics = Metrics()
    metrics.set("cep_owners", 3)
    metrics.add("cep_events_rejected_total", 2, reason="late")
    for query in ("a", "b"):
        metrics.set("cep_drop_ratio", 0.5, query=query, shedder="random")
    metrics.forget("query", "a")  # what is kept at hand of the metric goes, b stays
    assert metrics.value("cep_owners") == 3
    assert metrics.value("cep_events_rejected_total", reason="late") == 2
    assert metrics.value("cep_events_rejected_total", reason="schema") is None
    assert metrics.value("cep_drop_ratio", query="a", shedder="random") is None
    assert metrics.value("cep_drop_ratio", shedder="random", query="b") == 0.5
    metrics.observe("cep_batch_duration_seconds", 0.2, phase="total")
    assert metrics.value("cep_batch_duration_seconds_count", phase="total") == 1
