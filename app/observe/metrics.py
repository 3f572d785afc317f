"""The metrics' values, kept by prometheus-client and served as text."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from app.observe.table import METRICS, Metric

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}


class Metrics:
    """All metrics of one driver. Names and labels that are not in the table raise KeyError or ValueError: tests find them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry or CollectorRegistry()
        self._counters = {m.name: Counter(m.name, m.help, m.labels, registry=self._registry) for m in METRICS if m.kind == "counter"}
        self._gauges = {m.name: Gauge(m.name, m.help, m.labels, registry=None) for m in METRICS if m.kind == "gauge"}
        self._shown: set[str] = set()
        self._lock = threading.Lock()
        self._samples: dict[str, dict[tuple[tuple[str, str], ...], Any]] = {}
        self._tables = _Tables()
        self._registry.register(self._tables)
        ProcessCollector(registry=self._registry)

    def add(self, name: str, amount: float, /, **labels: str) -> None:
        """Adds to a counter, which is shown from the first time on, also when it is nothing that is added."""
        sample = self._sample(self._counters[name], name, labels)
        if amount:
            sample.inc(amount)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        """Sets a gauge, which is shown from then on: a 0 that nobody set would be read as one."""
        self._sample(self._gauges[name], name, labels).set(value)
        if name not in self._shown:
            with self._lock:
                if name not in self._shown:
                    self._registry.register(self._gauges[name])
                    self._shown.add(name)

    def clear(self, name: str) -> None:
        """Forgets all label values of a gauge: partitions and queries that are gone."""
        with self._lock:
            self._gauges[name].clear()
            self._samples.pop(name, None)

    def forget(self, label: str, value: str) -> None:
        """Forgets everything that was said of one value of a label, such as of a query that is gone."""
        for name, metric in {**self._counters, **self._gauges}.items():
            if label in BY_NAME[name].labels:
                with self._lock:
                    metric.remove_by_labels({label: value})
                    self._samples.pop(name, None)
        self._tables.forget(label, value)

    def _sample(self, metric: Any, name: str, labels: Mapping[str, str]) -> Any:
        """What prometheus-client has for these labels; its own look-up takes 3 us, and a batch of 1,000 queries asks 15,000 times."""
        if not labels:
            return metric
        key = tuple(labels.items())
        found = self._samples.get(name, {}).get(key)
        if found is None:
            with self._lock:  # what is forgotten meanwhile must not be kept here
                found = self._samples.setdefault(name, {})[key] = metric.labels(**labels)
        return found

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Puts one value into a histogram."""
        bounds = BY_NAME[name].buckets
        counts = [0] * (len(bounds) + 1)
        counts[next((k for k, bound in enumerate(bounds) if value <= bound), len(bounds))] = 1
        self.add_counts(name, counts, value, **labels)

    def add_counts(self, name: str, counts: Sequence[int], added: float, /, **labels: str) -> None:
        """Adds many values to a histogram at once.

        Args:
            name: of the histogram.
            counts: values per bucket, one more than it has bounds; empty for none.
            added: sum of the values.
            labels: all of the metric's labels.
        """
        self._tables.add_counts(BY_NAME[name], counts, added, labels)

    def inform(self, name: str, /, **values: str) -> None:
        """Sets an info metric."""
        self._tables.inform(BY_NAME[name], values)

    def text(self) -> tuple[bytes, str]:
        """The body and content type of ``/metrics``."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def value(self, name: str, /, **labels: str) -> float | None:
        """The present value of one sample, by its exposed name; for people and tests."""
        known = self._samples.get(name, {}).get(tuple(labels.items()))
        if known is not None:  # the registry looks through all samples of all metrics: 1,000 queries took seconds
            return float(known._value.get())  # noqa: SLF001 - there is no other way to it
        metric = self._counters.get(name) or self._gauges.get(name)
        if name in self._gauges and name not in self._shown:
            return None
        if metric is None:
            return self._registry.get_sample_value(name, labels)
        samples = (sample for family in metric.collect() for sample in family.samples)
        return next((sample.value for sample in samples if sample.name == name and sample.labels == labels), None)


class _Tables(Collector):
    """Histograms that can take counts (prometheus-client's take one value at a time), and infos."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, tuple[str, ...]], tuple[list[int], float]] = {}
        self._infos: dict[str, dict[str, str]] = {}

    def add_counts(self, metric: Metric, counts: Sequence[int], added: float, labels: Mapping[str, str]) -> None:
        if set(labels) != set(metric.labels) or metric.kind != "histogram":
            raise ValueError(f"{metric.name} is a {metric.kind} with labels {metric.labels}")
        if len(counts) > len(metric.buckets) + 1:
            raise ValueError(f"{metric.name} has {len(metric.buckets) + 1} buckets, not {len(counts)}")
        key = (metric.name, tuple(labels[label] for label in metric.labels))
        with self._lock:
            known, total = self._counts.get(key, ([0] * (len(metric.buckets) + 1), 0.0))
            for number, count in enumerate(counts):
                known[number] += count
            self._counts[key] = (known, total + added)

    def forget(self, label: str, value: str) -> None:
        with self._lock:
            for name, labels in list(self._counts):
                if (label, value) in zip(BY_NAME[name].labels, labels, strict=True):
                    del self._counts[name, labels]

    def inform(self, metric: Metric, values: Mapping[str, str]) -> None:
        if set(values) != set(metric.labels) or metric.kind != "info":
            raise ValueError(f"{metric.name} is a {metric.kind} with labels {metric.labels}")
        with self._lock:
            self._infos[metric.name] = dict(values)

    def collect(self) -> Iterable[Family]:
        with self._lock:
            counts = {key: (list(known), total) for key, (known, total) in self._counts.items()}
            infos = {name: dict(values) for name, values in self._infos.items()}
        for metric in METRICS:
            if metric.kind == "histogram":
                family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
                for (name, labels), (known, total) in sorted(counts.items()):
                    if name == metric.name:
                        family.add_metric(labels, _cumulated(metric.buckets, known), total)
                yield family
            elif metric.kind == "info":
                info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.help)
                if metric.name in infos:
                    info.add_metric([], infos[metric.name])
                yield info


def _cumulated(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    running, buckets = 0, []
    for bound, count in zip([*(repr(float(b)) for b in bounds), "+Inf"], counts, strict=True):
        running += count
        buckets.append((bound, float(running)))
    return buckets
