"""What tasks have delivered and no batch has used yet: by application, batch, attempt and task."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Payload = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one task sends to one owner.

    Attributes:
        part: the task's Spark partition.
        payloads: by bucket (see `app.owners.shipment`).
        copy: which of the task it is: Spark may run it twice, after a failure or at the same time (speculation), and one may know a schema that the other asked for too early.
    """

    application: str
    batch: int
    attempt: int
    part: int
    payloads: Mapping[int, Sequence[Payload]]
    copy: int = 0


class Inbox:
    """Safe to use from the threads of all connections."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deliveries: dict[tuple[str, int, int], dict[tuple[int, int], Mapping[int, Sequence[Payload]]]] = {}
        self._done: dict[str, tuple[int, int]] = {}

    def put(self, delivery: Delivery) -> None:
        """Keeps a delivery, beside those of the task's other copies; stragglers of attempts that are over are dropped."""
        with self._lock:
            if (delivery.batch, delivery.attempt) > self._done.get(delivery.application, (-1, -1)):
                parts = self._deliveries.setdefault((delivery.application, delivery.batch, delivery.attempt), {})
                parts[delivery.part, delivery.copy] = delivery.payloads

    def take(self, application: str, batch: int, attempt: int, copies: Mapping[int, int]) -> Mapping[int, Mapping[int, Sequence[Payload]]]:
        """Payloads by task and bucket of one attempt; it and all before it are forgotten.

        Args:
            application: whose.
            batch: of the attempt.
            attempt: of the batch.
            copies: by task, which one Spark took the report of. Those that have not delivered are missing.
        """
        with self._lock:
            found = self._deliveries.get((application, batch, attempt), {})
            self._done[application] = (batch, attempt)
            over = [key for key in self._deliveries if key[0] == application and key[1:] <= (batch, attempt)]
            for key in over:
                del self._deliveries[key]
            return {part: found[part, copy] for part, copy in sorted(copies.items()) if (part, copy) in found}

    def forget(self, application: str) -> None:
        """The application has ended, or begins anew."""
        with self._lock:
            self._done.pop(application, None)
            for key in [key for key in self._deliveries if key[0] == application]:
                del self._deliveries[key]
