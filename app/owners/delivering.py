"""The tasks' side of owners: chunks are handed to whoever holds their buckets."""

from __future__ import annotations

from collections.abc import Sequence

from app.owners.orders import OwnerPlace, TaskOrders
from app.owners.watch import Watch
from app.owners.wire import RefusedError, UnreachableError, Wire, WireError, WireKey, connect

ANSWER_S = 60.0
"""How long an owner may take to say that it has a delivery. It takes deliveries in while it works, so this is seconds at worst."""


class Outbox:
    """Kept connections to owners. For one thread.

    Args:
        key: of the application's connections.
    """

    def __init__(self, key: WireKey) -> None:
        self._key = key
        self._watch = Watch(key)
        self._wires: dict[tuple[str, int], Wire] = {}

    def deliver(self, orders: TaskOrders, part: int, rows: Sequence[tuple[int, bytes]], copy: int = 0) -> tuple[str, ...]:
        """Hands payloads to their buckets' owners; every owner gets a delivery, also an empty one: it waits for all tasks.

        Args:
            orders: of the attempt.
            part: the task's Spark partition.
            rows: bucket and payload.
            copy: of the task; see `app.owners.inbox.Delivery`.

        Returns:
            owners that could not be reached, as ``host:port``.
        """
        for gone in self._wires.keys() - {(owner.host, owner.port) for owner in orders.owners}:
            self._forget(gone)
        by_bucket: dict[int, list[bytes]] = {}
        for bucket, payload in rows:
            by_bucket.setdefault(bucket, []).append(payload)
        asked: list[OwnerPlace] = []
        failed: list[OwnerPlace] = []
        unreachable: set[str] = set()  # on each machine one is tried: nobody answers for seconds where it has vanished
        for owner in orders.owners:
            if owner.host in unreachable:
                failed.append(owner)
                continue
            own = [(bucket, payload) for bucket in owner.buckets for payload in by_bucket.get(bucket, ())]
            head = {
                "op": "deliver",
                "application": orders.application,
                "batch": orders.directive.batch,
                "attempt": orders.attempt,
                "part": part,
                "copy": copy,
                "buckets": [bucket for bucket, _ in own],
            }
            try:
                self._wire(owner).send(head, [payload for _, payload in own])
                asked.append(owner)
            except WireError as error:
                failed.append(owner)
                if isinstance(error, UnreachableError) or self._watch.vanished(owner.host):
                    unreachable.add(owner.host)
        for owner in asked:  # all are on their way before the first one is waited for
            try:
                answer = self._wires[owner.host, owner.port].receive(ANSWER_S)
                if "error" in answer.head:
                    raise RefusedError(answer.head["kind"], answer.head["error"])
            except WireError:
                failed.append(owner)
        for owner in failed:
            self._forget((owner.host, owner.port))
        return tuple(f"{owner.host}:{owner.port}" for owner in failed)

    def _wire(self, owner: OwnerPlace) -> Wire:
        """The kept connection, or a new one where it has ended."""
        address = owner.host, owner.port
        known = self._wires.get(address)
        if known is not None and known.alive:
            return known
        self._forget(address)
        self._wires[address] = wire = connect(*address, self._key)
        self._watch.guard(*address, wire)
        return wire

    def _forget(self, address: tuple[str, int]) -> None:
        wire = self._wires.pop(address, None)
        if wire is not None:
            self._watch.release(address[0], wire)
            wire.close()
