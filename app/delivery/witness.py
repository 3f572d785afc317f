"""Asks the broker whether there is a record where none was read: a batch's accounts must tell markers of transactions from records that were lost."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.delivery.kept import KeptClient

TIMEOUT_S = 2.0
"""For one question: a batch waits for it. A broker that does not answer by then is no witness."""


class Witness:
    """Keeps one consumer, made when it is first needed; commits nothing. For one thread.

    Args:
        options: of the client; see `app.delivery.security.shipped_consumer_options`.
        timeout_s: how long one question may take.
    """

    def __init__(self, options: dict[str, str], timeout_s: float = TIMEOUT_S) -> None:
        own = {
            "group.id": "cep-witness",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
        self._kept: KeptClient[Consumer] = KeptClient({**options, **own}, Consumer, Consumer.close)
        self._timeout_s = timeout_s

    def close(self) -> None:
        """Leaves the broker."""
        self._kept.close()

    def first(self, topic: str, partition: int, start: int, end: int) -> int | None:
        """The offset of the first record from ``start`` to before ``end``, as far as this reader may see it; None: there is none, or nobody knows."""
        consumer = self._kept()
        deadline = monotonic() + self._timeout_s
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            while (left := deadline - monotonic()) > 0:
                message = consumer.poll(left)
                if message is not None:
                    if (error := message.error()) is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                        continue  # the group is not used, so it need not be allowed
                    found = message.error() is None and message.offset() < end
                    return message.offset() if found else None  # an error is the end of the log, or that nothing is there any more
        except KafkaException:
            return None
        finally:
            with suppress(KafkaException):
                consumer.unassign()  # else it goes on fetching what nobody asked for
        return None
