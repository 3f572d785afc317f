"""Composite events as they arrive on their topics, and what is to be said about them."""

from __future__ import annotations

import io
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition

from app.config.settings import Settings
from app.delivery.bounds import bounds
from app.delivery.security import client_options
from app.events.registry import Registry

_MAGIC_BYTES = 5
RECENT = 300
"""Latencies are those of so many last composite events: the first ones wait for the JVM to warm up and say little."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A composite event as it lies on its topic."""

    id: str
    query: str
    time_ms: int
    written_ms: int
    """The broker's time."""
    fields: Mapping[str, Any]

    @property
    def latency_ms(self) -> int:
        """From the match's time (the demo's events are sent at their own times) to the broker's time of the composite event."""
        return self.written_ms - self.time_ms


class CompositeReader:
    """Reads the topics of composite events; belongs to no consumer group.

    Args:
        settings: of the brokers.
        topics: names.
        registry: with their schemas.
        since_ms: written then or later: schemas of an earlier run of the demo are gone.
    """

    def __init__(self, settings: Settings, topics: Sequence[str], registry: Registry, since_ms: int) -> None:
        self._registry = registry
        self._consumer = Consumer(
            {
                **client_options(settings.kafka),
                "group.id": "cep-demo",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )
        known = self._consumer.list_topics(timeout=30).topics
        begin, _ = bounds(self._consumer, [(topic, number) for topic in topics for number in known[topic].partitions], since_ms)
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in begin.items()])

    def read(self, seconds: float) -> list[Composite]:
        """What arrives within this time, at most 1,000."""
        messages = self._consumer.consume(1000, seconds)
        return [self._decoded(message) for message in messages if message.error() is None]

    def close(self) -> None:
        """Leaves the broker."""
        self._consumer.close()

    def _decoded(self, message: Message) -> Composite:
        value = message.value()
        schema = self._registry.schema(int.from_bytes(value[1:_MAGIC_BYTES], "big"))
        record: Any = fastavro.schemaless_reader(io.BytesIO(value[_MAGIC_BYTES:]), schema.root if schema else "null", None)
        time_ms = int(record["time"].timestamp() * 1000)
        return Composite(record["id"], record["query"], time_ms, message.timestamp()[1], record["fields"])


@dataclass(slots=True)
class Seen:
    """All composite events so far, each identity once."""

    by_query: Counter[str] = field(default_factory=Counter)
    latest: deque[Composite] = field(default_factory=lambda: deque(maxlen=14))
    latencies_ms: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    found: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        """How many."""
        return len(self._ids)

    def add(self, composites: Iterable[Composite]) -> list[Composite]:
        """Takes those that are new, and returns them."""
        new = []
        for composite in composites:
            if composite.id in self._ids:
                continue  # at-least-once: written again after a restart
            self._ids.add(composite.id)
            self.by_query[composite.query] += 1
            self.latest.append(composite)
            self.latencies_ms.append(composite.latency_ms)
            self.found.setdefault(composite.query, []).append(composite.fields)
            new.append(composite)
        return new

    def latency_ms(self, percent: float) -> float:
        """A percentile of the recent latencies; NaN without any."""
        return float(np.percentile(list(self.latencies_ms), percent)) if self.latencies_ms else float("nan")
