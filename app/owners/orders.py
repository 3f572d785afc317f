"""What the driver tells tasks and owners about a micro-batch. Values only."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from app.control.messages.directives import Directive
from app.errors import SnapshotError

EPOCHS_PER_RUN = 1 << 24
"""Holdings that one run of the driver may give: with 10 a second it takes 19 days of nothing but moves."""
PROPERTY = "cep.orders"
"""Spark's local property that carries `TaskOrders` to the tasks of an attempt."""


@dataclass(frozen=True, slots=True)
class OwnerPlace:
    """An owner, and the buckets that it holds in this attempt."""

    host: str
    port: int
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TaskOrders:
    """For the ingress tasks of one attempt of a batch.

    Attributes:
        application: whose buckets are meant; see `OwnerSettings.application`.
        attempt: counts how often the driver has begun this run's batches; deliveries of earlier attempts are forgotten.
        owners: who gets the chunks.
        unknown: by Spark partition, schemas that the registry did not know in an attempt before: they stay unknown, since owners may have done their part of it.
    """

    application: str
    attempt: int
    directive: Directive
    owners: tuple[OwnerPlace, ...] = ()
    unknown: Mapping[int, Sequence[int | str]] = field(default_factory=dict)

    def to_text(self) -> str:
        """For a local property: it is sent with every task, so it is compressed."""
        plain = [self.application, self.attempt, self.directive.to_plain(), [[one.host, one.port, one.buckets] for one in self.owners]]
        plain.append([[part, list(keys)] for part, keys in self.unknown.items() if keys])
        return base64.b85encode(zlib.compress(orjson.dumps(plain), 1)).decode()

    @staticmethod
    def from_text(text: str) -> TaskOrders:
        """Reads what `to_text` gave."""
        application, attempt, directive, owners, unknown = orjson.loads(zlib.decompress(base64.b85decode(text)))
        places = tuple(OwnerPlace(host, port, tuple(buckets)) for host, port, buckets in owners)
        return TaskOrders(application, attempt, Directive.from_plain(directive), places, dict(unknown))


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """What an owner must know of the application; sent to it when the driver finds it.

    Attributes:
        application: key of the application's buckets in the owner: checkpoint and query of Spark.
        checkpoint: where state is kept.
        state: folder of the buckets' logs in it.
        producer_options: of Kafka; without them output is given back to the driver.
        consumer_options: of the reader of originals; empty where there is no Kafka.
        name: of the application, in the headers of what it writes.
        max_record_bytes: see `app.config.settings.Topics`.
        stall_after_s: after so long in one batch an owner writes where it is to its standard error.
        logging: the application's settings of that name as plain values; empty: as the process has it.
    """

    application: str
    checkpoint: str
    state: str
    producer_options: Mapping[str, str] = field(default_factory=dict)
    consumer_options: Mapping[str, str] = field(default_factory=dict)
    name: str = "cep"
    max_record_bytes: int = 1_000_000
    stall_after_s: float = 300.0
    logging: Mapping[str, Any] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return asdict(self)

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> OwnerSettings:
        """Reads what `to_plain` gave."""
        return OwnerSettings(**plain)


@dataclass(frozen=True, slots=True)
class BucketOrder:
    """A bucket that an owner is to hold.

    Attributes:
        epoch: of this holding; greater than that of every owner before.
        why: for which reason it is held here since then: ``start``, ``lost`` (its owner is gone), ``moved``.
    """

    number: int
    epoch: int
    why: str = "start"


@dataclass(frozen=True, slots=True)
class Advance:
    """For an owner: match a batch.

    Attributes:
        greatest: by source, the greatest event time that the batch's tasks have seen.
        parts: by task whose delivery the owner must have, which of its copies; see `app.owners.inbox.Delivery`.
        buckets: all that it is to hold; others are forgotten.
        packed: directive and greatest times as `packed_orders` made them, once for all owners; they go into the log entries as they are.
    """

    application: str
    batch: int
    attempt: int
    directive: Directive
    greatest: Mapping[int, int]
    parts: Mapping[int, int]
    buckets: tuple[BucketOrder, ...]

    packed: bytes = b""

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON, of all but what is `packed`."""
        return {
            "application": self.application,
            "batch": self.batch,
            "attempt": self.attempt,
            "parts_wanted": list(self.parts.items()),
            "buckets": [[one.number, one.epoch, one.why] for one in self.buckets],
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any], packed: bytes | memoryview) -> Advance:
        """Reads what `to_plain` gave, and `packed_orders`."""
        directive, greatest = opened_orders(packed)
        buckets = tuple(BucketOrder(*one) for one in plain["buckets"])
        wanted = dict(plain["parts_wanted"])
        return Advance(plain["application"], plain["batch"], plain["attempt"], directive, greatest, wanted, buckets, bytes(packed))


def packed_orders(directive: Directive, greatest: Mapping[int, int]) -> bytes:
    """What was decided about a batch, and how far time came in it: small, and the same for all owners and log entries."""
    return zlib.compress(orjson.dumps([directive.to_plain(), sorted(greatest.items())]), 1)


def opened_orders(packed: bytes | memoryview) -> tuple[Directive, dict[int, int]]:
    """What `packed_orders` packed.

    Raises:
        SnapshotError: the bytes are none of it, or of a newer version.
    """
    try:
        directive, greatest = orjson.loads(zlib.decompress(packed))
        return Directive.from_plain(directive), dict(greatest)
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"these are no orders of a batch: {error}") from error
