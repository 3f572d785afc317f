"""Writes heartbeats: one tiny record on a topic of our own that Spark reads like any other, so that a batch starts.

A heartbeat counts when the broker has it. Without the right to write, say, time stands still for silent input, and somebody must hear of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

BEAT = b""
"""A heartbeat carries nothing: what matters is decided in the directive."""
BEAT_OPTIONS: Mapping[str, int] = {"linger.ms": 0, "message.timeout.ms": 10_000}
"""Of the producer. A heartbeat that is older than some seconds is of no use; the client would try for five minutes before it says that it failed."""

Delivered = Callable[[object, object], None]


class Producer(Protocol):
    """The part of confluent-kafka's producer that is used."""

    def produce(self, topic: str, value: bytes, *, on_delivery: Delivered) -> None:
        """Queues a record."""

    def poll(self, timeout: float) -> object:
        """Lets the client work: delivery reports come in here."""

    def flush(self, timeout: float) -> object:
        """Waits for queued records."""


class Listener(Protocol):
    """Who wants to know what becomes of heartbeats; called from the writer's thread."""

    def beat_written(self) -> None:
        """The broker has one."""

    def beat_failed(self, reason: str) -> None:
        """One is lost; the writer goes on."""


class HeartbeatWriter:
    """A thread that asks now and then whether a heartbeat is due.

    Args:
        producer: writes to Kafka; see `BEAT_OPTIONS`.
        topic: the heartbeat topic.
        due: whether to write one now; called from the writer's thread. It notes the time itself when it says yes.
        pause_s: time between two questions.
        listener: told what became of them.
    """

    def __init__(self, producer: Producer, topic: str, due: Callable[[], bool], pause_s: float, listener: Listener) -> None:
        self._producer = producer
        self._topic = topic
        self._due = due
        self._pause_s = pause_s
        self._listener = listener
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Starts asking."""
        self._thread.start()

    def stop(self) -> None:
        """Stops, with what is queued written."""
        self._stop.set()
        self._thread.join(timeout=5)
        self._producer.flush(2.0)

    def beat_if_due(self) -> bool:
        """One question, and its consequence."""
        due = self._due()
        if due:
            self._producer.produce(self._topic, BEAT, on_delivery=self._delivered)
        self._producer.poll(0)
        return due

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self._listener.beat_written()
        else:
            self._listener.beat_failed(str(error))

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            try:
                self.beat_if_due()
            except Exception as error:  # noqa: BLE001 - a heartbeat that fails must not end the heartbeats
                self._listener.beat_failed(f"{type(error).__name__}: {error}")
