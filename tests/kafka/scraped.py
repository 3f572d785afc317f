"""What was seen of an application's metrics while it ran: every value that every metric ever had, by scraping it as Prometheus does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from tests.kafka.application import Application

PAUSE_S = 0.2


class Scraped:
    """All values of all samples, by the sample's name: of a histogram those of its count."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._stopped = threading.Event()
        self._seen: dict[str, dict[tuple[tuple[str, str], ...], set[float]]] = {}

    def look(self) -> None:
        """One scrape; an application that does not answer, because it starts, say, has nothing to tell."""
        try:
            text = self._application.text("/metrics")
        except OSError:
            return
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removesuffix("_count") if family.type == "histogram" else sample.name
                self._seen.setdefault(name, {}).setdefault(tuple(sorted(sample.labels.items())), set()).add(sample.value)

    @contextmanager
    def watching(self) -> Iterator[Self]:
        """Scrapes again and again while the block runs: gauges come and go."""

        def watch() -> None:
            while not self._stopped.wait(PAUSE_S):
                self.look()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            thread.join()

    def names(self) -> set[str]:
        """Of everything that was exported."""
        return set(self._seen)

    def values(self, name: str, **labels: str) -> set[float]:
        """Whatever the samples of this name with these labels ever were."""
        wanted = set(labels.items())
        return set().union(*(values for own, values in self._seen.get(name, {}).items() if wanted <= set(own)))

    def labels(self, name: str) -> list[set[str]]:
        """The labels of each of its samples."""
        return [{label for label, _ in own if label != "le"} for own in self._seen.get(name, {})]

    def moved(self, name: str) -> bool:
        """Whether somebody set it: before that a metric is not there, or 0."""
        return any(self.values(name))
