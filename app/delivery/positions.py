"""Where records are in their topics: by time, first and last. Asks the broker; reads nothing but single records, commits nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from app.delivery.bounds import TopicAndPartition
from app.delivery.connection import NOT_ALLOWED, absent
from app.delivery.originals import NO_MATTER, PASSING
from app.errors import AccessRefusedError, DependencyError

ANSWER_S = 30.0


class Positions:
    """One consumer, assigned by hand. For one thread.

    Args:
        options: of the client; see `app.delivery.security.consumer_options`.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        own = {"group.id": "cep-positions", "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0}
        self._servers = options.get("bootstrap.servers", "")
        self._consumer = Consumer({**options, **own, "enable.partition.eof": True})

    def close(self) -> None:
        """Leaves the broker."""
        self._consumer.close()

    def bounds(self, topics: Iterable[str]) -> dict[TopicAndPartition, tuple[int, int]]:
        """The first offset that is there, and the one after the last, of every partition.

        Raises:
            DependencyError: a topic does not exist, or no answer.
        """
        try:
            metadata = self._consumer.list_topics(timeout=ANSWER_S)
            known = metadata.topics
            if missing := absent(metadata, topics):
                raise DependencyError(f"there is no topic {', '.join(missing)}")
            places = [(topic, partition) for topic in topics for partition in sorted(known[topic].partitions)]
            found = {place: self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=ANSWER_S) for place in places}
        except KafkaException as error:
            raise self._unreachable(error.args[0]) from error
        return {place: (low, high) for place, (low, high) in found.items()}

    def at(self, times_ms: Mapping[TopicAndPartition, int]) -> dict[TopicAndPartition, int | None]:
        """The first offset with that Kafka timestamp or a later one, so all before are earlier; None where there is none.

        Raises:
            DependencyError: no answer.
        """
        asked = [TopicPartition(topic, partition, max(0, time)) for (topic, partition), time in times_ms.items()]
        if not asked:
            return {}
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=ANSWER_S)
        except KafkaException as error:
            raise self._unreachable(error.args[0]) from error
        for one in answers:
            if one.error is not None:
                raise self._unreachable(one.error)
        return {(one.topic, one.partition): None if one.offset < 0 else one.offset for one in answers}

    def time_at(self, place: TopicAndPartition, offset: int) -> int | None:
        """The Kafka timestamp of the first record from an offset on, ms; None where there is none.

        Raises:
            DependencyError: no answer: whether there is one nobody knows.
        """
        deadline = monotonic() + ANSWER_S
        self._consumer.assign([TopicPartition(*place, offset)])
        while monotonic() < deadline:
            message = self._consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message.timestamp()[1]
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so named
                return None
            if error.code() != NO_MATTER and error.code() not in PASSING:
                raise self._unreachable(error)
        raise DependencyError(f"no answer from the brokers {self._servers}: nothing of {place[0]}, partition {place[1]}, in {ANSWER_S:g} s")

    def require_readable(self, topics: Iterable[str]) -> None:
        """Reads a record of each topic that has any: who is told the offsets of a topic may not be allowed to read it.

        Raises:
            AccessRefusedError: one must not be read.
            DependencyError: a topic does not exist, or no answer.
        """
        first: dict[str, tuple[TopicAndPartition, int]] = {}
        for place, (low, high) in self.bounds(topics).items():
            if low < high:
                first.setdefault(place[0], (place, low))
        for place, low in first.values():
            self.time_at(place, low)

    def _unreachable(self, error: KafkaError) -> DependencyError:
        if error.code() in NOT_ALLOWED:
            hint = "grant READ and DESCRIBE on the topic to this user (ops/runbooks/operate.md, Permissions)"
            return AccessRefusedError(f"the brokers {self._servers} do not let us read: {error.str()}\nhint: {hint}")
        return DependencyError(f"no answer from the brokers {self._servers}: {error.str()}")
