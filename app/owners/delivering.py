"""The tasks' side of owners: chunks are handed to whoever holds their buckets."""

from __future__ import annotations

from collections.abc import Sequence

from app.owners.orders import OwnerPlace, TaskOrders
from app.owners.wire import RefusedError, Wire, WireError, WireKey, connect

ANSWER_S = 60.0
"""How long an owner may take to say that it has a delivery. It takes deliveries in while it works, so this is seconds at worst."""


class Outbox:
    """Kept connections to owners. For one thread.

    Args:
        key: of the application's connections.
    """

    def __init__(self, key: WireKey) -> None:
        self._key = key
        self._wires: dict[tuple[str, int], Wire] = {}

    def deliver(self, orders: TaskOrders, part: int, rows: Sequence[tuple[int, bytes]]) -> tuple[str, ...]:
        """Hands payloads to their buckets' owners; every owner gets a delivery, also an empty one: it waits for all tasks.

        Args:
            orders: of the attempt.
            part: the task's Spark partition.
            rows: bucket and payload.

        Returns:
            owners that could not be reached, as ``host:port``.
        """
        by_bucket: dict[int, list[bytes]] = {}
        for bucket, payload in rows:
            by_bucket.setdefault(bucket, []).append(payload)
        asked: list[OwnerPlace] = []
        failed: list[OwnerPlace] = []
        for owner in orders.owners:
            own = [(bucket, payload) for bucket in owner.buckets for payload in by_bucket.get(bucket, ())]
            head = {
                "op": "deliver",
                "application": orders.application,
                "batch": orders.directive.batch,
                "attempt": orders.attempt,
                "part": part,
                "buckets": [bucket for bucket, _ in own],
            }
            try:
                self._wire(owner).send(head, [payload for _, payload in own])
                asked.append(owner)
            except WireError:
                failed.append(owner)
        for owner in asked:  # all are on their way before the first one is waited for
            try:
                answer = self._wires[owner.host, owner.port].receive(ANSWER_S)
                if "error" in answer.head:
                    raise RefusedError(answer.head["kind"], answer.head["error"])
            except WireError:
                failed.append(owner)
        for owner in failed:
            self._forget(owner)
        return tuple(f"{owner.host}:{owner.port}" for owner in failed)

    def _wire(self, owner: OwnerPlace) -> Wire:
        """The kept connection, or a new one where it has ended."""
        known = self._wires.get((owner.host, owner.port))
        if known is not None and known.alive:
            return known
        self._forget(owner)
        self._wires[owner.host, owner.port] = wire = connect(owner.host, owner.port, self._key)
        return wire

    def _forget(self, owner: OwnerPlace) -> None:
        wire = self._wires.pop((owner.host, owner.port), None)
        if wire is not None:
            wire.close()
