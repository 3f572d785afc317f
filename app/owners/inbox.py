"""What tasks have delivered and no batch has used yet: by application, batch, attempt and task."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Payload = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one task sends to one owner: payloads by bucket (see `app.owners.shipment`)."""

    application: str
    batch: int
    attempt: int
    part: int
    payloads: Mapping[int, Sequence[Payload]]


class Inbox:
    """Safe to use from the threads of all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deliveries: dict[tuple[str, int, int], dict[int, Mapping[int, Sequence[Payload]]]] = {}
        self._done: dict[str, tuple[int, int]] = {}

    def put(self, delivery: Delivery) -> None:
        """Keeps a delivery. A repeated task replaces what it sent before; stragglers of attempts that are over are dropped."""
        with self._lock:
            if (delivery.batch, delivery.attempt) > self._done.get(delivery.application, (-1, -1)):
                parts = self._deliveries.setdefault((delivery.application, delivery.batch, delivery.attempt), {})
                parts[delivery.part] = delivery.payloads

    def take(self, application: str, batch: int, attempt: int) -> Mapping[int, Mapping[int, Sequence[Payload]]]:
        """Payloads by task and bucket of one attempt; it and all before it are forgotten."""
        with self._lock:
            found = self._deliveries.get((application, batch, attempt), {})
            self._done[application] = (batch, attempt)
            over = [key for key in self._deliveries if key[0] == application and key[1:] <= (batch, attempt)]
            for key in over:
                del self._deliveries[key]
            return found

    def forget(self, application: str) -> None:
        """The application has ended, or begins anew."""
        with self._lock:
            self._done.pop(application, None)
            for key in [key for key in self._deliveries if key[0] == application]:
                del self._deliveries[key]
