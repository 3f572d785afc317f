"""Events → Kafka, paced: at a rate, as recorded, or as fast as the broker takes them.

A batch is encoded as a whole before its first record is due; then only ``produce`` calls are left (about 2 µs per record).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from numpy.typing import NDArray

from app.errors import ConfigurationError, DependencyError, Finding
from app.events.batch import PRESENT, EventBatch
from app.local.generators.avro_records import avro_records, records_of_type
from app.local.generators.stream import slices

ENCODED_ROWS = 16_384
"""Rows that are encoded at once: some 10 ms of work, so that a paced stream has no visible gap."""
ACKNOWLEDGED_S = 60
"""For so long the end waits for the broker's acknowledgements."""
TICK_SECONDS = 0.005
"""Longest nap while records fall due: at 100,000 events/s they leave in groups of 500."""
_FULL_QUEUE_SECONDS = 0.05
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)  # noqa: SLF001 - so named
_LIBRARY_SETTINGS = {
    "enable.idempotence": True,  # order per key survives repeated requests
    "compression.type": "lz4",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "partitioner": "murmur2_random",  # Java's choice, so that keys lie where other producers put them
    "delivery.report.only.error": True,
    "log_level": 0,
}

Due = Callable[[EventBatch, int], NDArray[np.float64] | None]
"""A batch and the number of events before it → when each is to be sent, in seconds from the start; None for at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlet:
    """Where a stream's events go and how they are written.

    Attributes:
        topic: Kafka topic.
        schemas: Avro record schemas (parsed JSON) by event type.
        headers: the bytes before each record, which name its schema, by event type.
        time: field of the schemas that holds the event's time.
        key: attribute whose value is the record's key, as text; None for records without key.
        attributes: field, or ``Record.field`` → the attribute that it holds, where the stream calls it otherwise.
        typed: whether an event's type is the name of its schema; otherwise there is one schema for all of them.
    """

    topic: str
    schemas: Mapping[str, Mapping[str, Any]]
    headers: Mapping[str, bytes]
    time: str = "time"
    key: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    typed: bool = True


@dataclass(slots=True)
class Sent:
    """What has been sent so far."""

    events: int = 0
    bytes: int = 0
    seconds: float = 0.0
    behind_s: float = 0.0
    """How late the latest record left, against its schedule, at worst."""
    failures: list[str] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """Events per second."""
        return self.events / self.seconds if self.seconds else 0.0


def at_rate(events_per_s: float) -> Due:
    """Evenly spread."""
    return lambda batch, before: (before + np.arange(len(batch))) / events_per_s


def as_recorded(start_ms: int, speed: float = 1.0) -> Due:
    """As the events' times say, ``speed`` times as fast."""
    return lambda batch, _before: (batch.time - start_ms) / (1000.0 * speed)


def at_once(_batch: EventBatch, _before: int) -> None:
    """As fast as the broker takes them."""
    return


class Sender:
    """Sends the events of one stream; use as a context manager, leaving it waits for the broker's acknowledgements."""

    def __init__(self, client_options: Mapping[str, Any], outlet: Outlet, due: Due) -> None:
        self.sent = Sent()
        self._outlet, self._due = outlet, due
        self._producer = Producer({**_LIBRARY_SETTINGS, **client_options})
        self._started = time.monotonic()
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def check_topic(self) -> int:
        """The number of partitions of the topic.

        Raises:
            ConfigurationError: there is no such topic.
            DependencyError: no broker.
        """
        try:
            topic = self._producer.list_topics(self._outlet.topic, timeout=15).topics[self._outlet.topic]
        except KafkaException as error:
            raise DependencyError(f"no answer from the broker: {error.args[0].str()}") from error
        if topic.error is not None:
            if topic.error.code() in _NO_TOPIC:
                raise ConfigurationError([Finding(f"there is no topic {self._outlet.topic}", hint="cep topics apply makes topics")])
            raise DependencyError(f"topic {self._outlet.topic}: {topic.error.str()}")
        self._started = time.monotonic()
        return len(topic.partitions)

    @property
    def stopped(self) -> bool:
        """Whether somebody ended the sending before all was sent."""
        return self._stopped

    def stop(self) -> None:
        """Makes a running :meth:`send` return soon; for other threads and signal handlers."""
        self._stopped = True

    def send(self, batches: Iterable[EventBatch], told: Callable[[Sent], None] | None = None) -> Sent:
        """Sends all events.

        Args:
            batches: events, in the order of sending.
            told: called now and then with what has been sent.

        Returns:
            What was sent.

        Raises:
            DependencyError: the broker refuses records for good.
        """
        for batch in batches:
            for part in slices(batch, ENCODED_ROWS):
                values, keys = self._encoded(part)
                self._send_when_due(values, keys, self._due(part, self.sent.events))
                if told:
                    told(self.sent)
                if self._stopped:  # perhaps in the middle of the part: the iterator must not believe that its batch was sent
                    return self.sent
        return self.sent

    def flush(self) -> None:
        """Waits until everything is acknowledged."""
        left = self._producer.flush(ACKNOWLEDGED_S)
        self.sent.seconds = time.monotonic() - self._started
        self._raise_failures()
        if left:
            raise DependencyError(
                f"{left:,} of {self.sent.events:,} records were not acknowledged in {ACKNOWLEDGED_S} s\nhint: is the broker up? They may have arrived all the same"
            )

    def _encoded(self, batch: EventBatch) -> tuple[list[bytes], list[bytes | None]]:
        outlet, values = self._outlet, np.empty(len(batch), dtype=object)
        if outlet.typed:
            for _, rows, records in avro_records(batch, outlet.schemas, outlet.time, outlet.headers, outlet.attributes):
                values[rows] = records
        else:
            ((name, schema),) = outlet.schemas.items()
            values[:] = records_of_type(batch, np.arange(len(batch)), schema, outlet.time, outlet.headers[name], outlet.attributes)
        return values.tolist(), _keys(batch, outlet.key)

    def _send_when_due(self, values: list[bytes], keys: list[bytes | None], due: NDArray[np.float64] | None) -> None:
        done, count = 0, len(values)
        while done < count and not self._stopped:
            now = time.monotonic() - self._started
            ready = count if due is None else int(np.searchsorted(due, now, side="right"))
            if ready > done:
                if due is not None:
                    self.sent.behind_s = max(self.sent.behind_s, now - float(due[done]))
                self._produce(values[done:ready], keys[done:ready])
                done = ready
            self._producer.poll(0)
            if done < count and due is not None:
                time.sleep(min(TICK_SECONDS, max(0.0, float(due[done]) - (time.monotonic() - self._started))))
        self.sent.seconds = time.monotonic() - self._started
        self._raise_failures()

    def _produce(self, values: list[bytes], keys: list[bytes | None]) -> None:
        produce, topic, failed = self._producer.produce, self._outlet.topic, self._note_failure
        for value, key in zip(values, keys, strict=True):
            while True:
                try:
                    produce(topic, value, key, on_delivery=failed)
                    break
                except BufferError:
                    self._producer.poll(_FULL_QUEUE_SECONDS)
        self.sent.events += len(values)
        self.sent.bytes += sum(map(len, values))

    def _note_failure(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.sent.failures.append(error.str())

    def _raise_failures(self) -> None:
        if self.sent.failures:
            raise DependencyError(f"topic {self._outlet.topic}: {len(self.sent.failures)} records were refused: {self.sent.failures[0]}")


def _keys(batch: EventBatch, attribute: str | None) -> list[bytes | None]:
    column = batch.columns.get(attribute) if attribute else None
    if column is None:
        return [None] * len(batch)
    if column.dictionary is not None:
        entries = column.dictionary.entries() or [b""]
        keys: list[bytes | None] = [entries[code] for code in column.values.tolist()]
    else:
        keys = [str(value).encode() for value in column.values.tolist()]
    if column.state is not None:
        keys = [key if state == PRESENT else None for key, state in zip(keys, column.state.tolist(), strict=True)]
    return keys
