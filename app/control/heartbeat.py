"""Writes heartbeats: one tiny record on a topic of our own that Spark reads like any other, so that a batch starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

BEAT = b""
"""A heartbeat carries nothing: what matters is decided in the directive."""


class Producer(Protocol):
    """The part of confluent-kafka's producer that is used."""

    def produce(self, topic: str, value: bytes) -> None:
        """Queues a record."""

    def poll(self, timeout: float) -> object:
        """Lets the client work."""

    def flush(self, timeout: float) -> object:
        """Waits for queued records."""


class HeartbeatWriter:
    """A thread that asks now and then whether a heartbeat is due.

    Args:
        producer: writes to Kafka.
        topic: the heartbeat topic.
        due: whether to write one now; called from the writer's thread. It notes the time itself when it says yes.
        pause_s: time between two questions.
        failed: told about errors; the writer goes on.
    """

    def __init__(
        self, producer: Producer, topic: str, due: Callable[[], bool], pause_s: float, failed: Callable[[Exception], None]
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._due = due
        self._pause_s = pause_s
        self._failed = failed
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
        if not self._due():
            return False
        self._producer.produce(self._topic, BEAT)
        self._producer.poll(0)
        return True

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            try:
                self.beat_if_due()
            except Exception as error:  # noqa: BLE001 - a heartbeat that fails must not end the heartbeats
                self._failed(error)
