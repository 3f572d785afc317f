"""Where an owner's output goes: to Kafka, with a producer that lives as long as the owner."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.delivery.kept import KeptClient
from app.errors import DependencyError
from app.owners.egress import REQUEST_OVERHEAD, Records

FLUSH_S = 130.0
"""Longer than the producer itself tries to send a record (120 s, as Kafka's own producers do)."""
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "message.timeout.ms": 120_000,
    "partitioner": "murmur2_random",  # as Java's producers do it: a key's records are where other tools expect them
    "queue.buffering.max.messages": 1_000_000,
    "log_level": 3,
}
HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "the topic's max.message.bytes is below topics.max_record_bytes: raise it, or lower the setting",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant WRITE and DESCRIBE on the topic; cep doctor shows what else is missing",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "was the topic deleted? cep topics plan shows it, cep topics apply creates it",
}
"""By what a record was refused for, what is to be done."""


class KafkaOutlet:
    """Writes to Kafka, each record at least once.

    Args:
        options: of confluent-kafka; see `app.delivery.security.shipped_options`.
        max_record_bytes: largest record that is written.
    """

    def __init__(self, options: Mapping[str, str], max_record_bytes: int) -> None:
        largest = max(1 << 20, max_record_bytes + REQUEST_OVERHEAD)
        self._kept: KeptClient[Producer] = KeptClient(
            {**_PRODUCER, "message.max.bytes": largest, **options}, Producer, lambda producer: producer.flush(0)
        )
        self._producer = self._kept()
        self._arrived = 0
        self._failed: tuple[str, KafkaError] | None = None

    def send(self, records: Records) -> None:
        """Takes records; they may be on their way when this returns.

        Raises:
            DependencyError: a record cannot be taken.
        """
        if len(self._producer) == 0:  # the first of a batch: secrets may have been exchanged since the last one
            self._renew()
        for topic, key, value, headers in zip(records.topics, records.keys, records.values, records.headers, strict=True):
            while True:
                try:
                    self._producer.produce(topic, value, key, headers=list(headers), on_delivery=self._told)
                    break
                except BufferError:
                    self._producer.poll(0.1)
                except KafkaException as error:
                    raise DependencyError(f"cannot write to {topic}: {error.args[0].str()}") from error
        self._producer.poll(0)

    def flush(self) -> int:
        """Waits until all records that were taken have arrived; returns how many.

        Raises:
            DependencyError: some have not.
        """
        left = self._producer.flush(FLUSH_S)
        arrived, failed = self._arrived, self._failed
        self._arrived, self._failed = 0, None
        self._renew()
        if failed is not None:
            topic, error = failed
            hint = HINTS.get(error.code())
            raise DependencyError(f"output could not be written to {topic}: {error.str()}" + (f"\nhint: {hint}" if hint else ""))
        if left:
            raise DependencyError(f"{left} records of the output did not arrive at Kafka in {FLUSH_S:g} s")
        return arrived

    def forget(self) -> None:
        """The batch has failed: what is not sent yet need not be, and is not counted."""
        self._producer.purge()
        self._producer.poll(0)
        self._arrived, self._failed = 0, None
        self._renew()

    def _renew(self) -> None:
        """Between two batches nothing is under way, so the producer may be exchanged for one with the present secrets."""
        self._producer = self._kept()

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._arrived += 1
        else:
            self._failed = message.topic() or "Kafka", error
