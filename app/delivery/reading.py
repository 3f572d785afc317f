"""Records of some topics from a moment on: up to what is there now, or on and on. Belongs to no consumer group and commits nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.config.settings import Kafka
from app.delivery.bounds import bounds
from app.delivery.connection import NO_TOPIC, NOT_ALLOWED, absent, connect, failure, no_topic
from app.delivery.security import client_options
from app.errors import DependencyError

AT_ONCE = 1000
PAUSE_S = 0.5
WAIT_S = 30.0
"""Without any record, though the end is not reached: the broker is gone."""
_FATAL = (NOT_ALLOWED - {KafkaError.GROUP_AUTHORIZATION_FAILED}) | NO_TOPIC | {KafkaError._AUTHENTICATION}  # noqa: SLF001 - so named
"""Errors after which nothing comes. The client asks for its group's coordinator, though it is in none: that it may not is no matter."""


class Reading:
    """A reader of topics.

    Args:
        kafka: settings of the brokers.
        topics: names.
        since_ms: least Kafka timestamp; None: all that is there.
        only: a partition, and the least offset in it; None: all partitions.

    Raises:
        ConfigurationError: a topic does not exist.
        AccessRefusedError: it may not be read.
        DependencyError: no answer.
    """

    def __init__(self, kafka: Kafka, topics: Sequence[str], since_ms: int | None, only: tuple[int, int] | None = None) -> None:
        self._kafka = kafka
        metadata = connect(kafka).metadata
        known = metadata.topics
        if missing := absent(metadata, topics):
            raise no_topic(missing, kafka)
        own = {"group.id": "cep-reading", "enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}
        committed = {"isolation.level": "read_committed", "fetch.wait.max.ms": 100, "log_level": 0}
        self._consumer = Consumer({**client_options(kafka), **own, **committed})
        partitions = {topic: [one for one in sorted(known[topic].partitions) if only is None or one == only[0]] for topic in topics}
        places = [(topic, partition) for topic, numbers in partitions.items() for partition in numbers]
        try:
            self._begin, self._end = bounds(self._consumer, places, since_ms)
        except KafkaException as error:
            self._consumer.close()
            raise failure(kafka, error.args[0], f"read {', '.join(topics)}") from error
        if only is not None:
            self._begin = {place: max(start, only[1]) for place, start in self._begin.items()}

    def close(self) -> None:
        """Leaves the brokers."""
        self._consumer.close()

    def there(self) -> Iterator[list[Message]]:
        """What is there now, in pieces; of one topic partition in order.

        Raises:
            AccessRefusedError, DependencyError: it cannot be read.
        """
        left = {place for place, start in self._begin.items() if start < self._end[place]}
        self._consumer.assign([TopicPartition(*place, self._begin[place]) for place in sorted(left)])
        silent_s = 0.0
        while left:
            messages = self._consumer.consume(AT_ONCE, PAUSE_S)
            good = [one for one in messages if not self._is_error(one) and one.offset() < self._end[_place(one)]]
            if good:
                yield good
            silent_s = 0.0 if messages else silent_s + PAUSE_S
            at = {_place(one) for one in messages if _at_end(one)}
            at |= {_place(one) for one in messages if one.error() is None and one.offset() + 1 >= self._end[_place(one)]}
            left -= at
            if silent_s >= WAIT_S:
                raise DependencyError(f"the brokers sent nothing for {WAIT_S:.0f} s\nhint: cep doctor says whether they answer at all")

    def coming(self) -> Iterator[list[Message]]:
        """All from the beginning on and what comes, in pieces, for ever; an empty one where nothing came for a moment.

        Raises:
            AccessRefusedError, DependencyError: it cannot be read.
        """
        self._consumer.assign([TopicPartition(*place, start) for place, start in sorted(self._begin.items())])
        while True:
            messages = self._consumer.consume(AT_ONCE, PAUSE_S)
            yield [one for one in messages if not self._is_error(one)]

    def _is_error(self, message: Message) -> bool:
        """Whether it is no record.

        Raises:
            AccessRefusedError, DependencyError: and none will come.
        """
        error = message.error()
        if error is not None and error.code() in _FATAL:
            raise failure(self._kafka, error, f"read the topic {message.topic()}")
        return error is not None


def _place(message: Message) -> tuple[str, int]:
    return str(message.topic()), int(message.partition())


def _at_end(message: Message) -> bool:
    """Whether this says that the log ends; in markers of transactions, say, behind its last record."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - so named
