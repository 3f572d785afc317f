"""What a span of some topics holds, read once from its beginning to what was its end; for recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from numpy.typing import NDArray

from app.delivery.bounds import bounds
from app.delivery.connection import absent
from app.delivery.record_headers import readable_headers
from app.errors import DependencyError

AT_ONCE = 20_000
"""Records of one part."""
MORE = 100
"""Records of each partition beyond its part: those of one that hardly speaks may be anywhere in the time of the others."""
WAIT_S = 30.0
"""Without any record, though the end is not reached: the broker is gone."""
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Records as they came.

    Attributes:
        values: binary, null for tombstones.
        topic: int64 (records,), place of each record's topic among those asked for.
        partition, offset, timestamp_ms: int64 (records,).
        headers: as Spark's Kafka source has them.
    """

    values: pa.Array
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    headers: pa.Array


class Span:
    """Records of some topics from a moment on, as far as they are there now.

    Args:
        options: of the client.
        topics: names.
        since_ms: least Kafka timestamp; None: from the beginning.
        newest: about so many records, the last ones, of every partition in proportion to what it holds, so that all of them reach about as far back; None: all.

    Raises:
        DependencyError: no answer, or a topic does not exist.
    """

    def __init__(self, options: dict[str, str], topics: Sequence[str], since_ms: int | None = None, newest: int | None = None) -> None:
        own = {"group.id": "cep-record", "enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}
        self._cut: frozenset[tuple[str, int]] = frozenset()
        self._consumer, self._topics = Consumer({**options, **own, "log_level": 0}), list(topics)
        try:
            self._begin, self._end = self._bounds(since_ms, newest)
        except KafkaException as error:
            self._consumer.close()
            raise DependencyError(f"no answer from the brokers {options.get('bootstrap.servers', '')}: {error.args[0].str()}") from error

    @property
    def cut(self) -> frozenset[tuple[str, int]]:
        """Partitions of which the beginning is left out."""
        return self._cut

    @property
    def size(self) -> int:
        """Offsets in the span; a little more than records where there were transactions or compaction."""
        return sum(self._end[place] - start for place, start in self._begin.items())

    def parts(self) -> Iterator[Part]:
        """All records.

        Raises:
            DependencyError: the broker stops answering.
        """
        left = {place for place, start in self._begin.items() if start < self._end[place]}
        self._consumer.assign([TopicPartition(*place, self._begin[place]) for place in sorted(left)])
        try:
            while left:
                messages = self._consumer.consume(AT_ONCE, 1.0) or self._consumer.consume(1, WAIT_S)
                ended = [one for one in messages if one.error() is not None and one.error().code() == KafkaError._PARTITION_EOF]  # noqa: SLF001 - so named
                good = [one for one in messages if one.error() is None and one.offset() < self._end[one.topic(), one.partition()]]
                if good:
                    yield self._part(good)
                at = {(one.topic, one.partition): one.offset for one in self._consumer.position([TopicPartition(*p) for p in left])}
                if not messages and not any(at[place] >= self._end[place] for place in left):
                    raise DependencyError(f"the brokers sent nothing for {WAIT_S:.0f} s")
                left -= {place for place in left if at[place] >= self._end[place]}
                left -= {(one.topic(), one.partition()) for one in ended}  # the log may end in markers, or in an open transaction
        finally:
            self._consumer.close()

    def _bounds(self, since_ms: int | None, newest: int | None) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        metadata = self._consumer.list_topics(timeout=20)
        known = metadata.topics
        if missing := absent(metadata, self._topics):
            raise DependencyError(f"there is no topic {', '.join(missing)}")
        places = [(topic, partition) for topic in self._topics for partition in sorted(known[topic].partitions)]
        begin, end = bounds(self._consumer, places, since_ms)
        if newest is not None:
            part = min(1.0, newest / max(1, sum(end[place] - start for place, start in begin.items())))
            first = {place: end[place] - int((end[place] - begin[place]) * part) - MORE for place in places}
            self._cut = frozenset(place for place in places if first[place] > begin[place])
            begin = {place: max(start, first[place]) for place, start in begin.items()}
        return begin, end

    def _part(self, messages: Sequence[Any]) -> Part:
        def column(values: Sequence[int]) -> NDArray[np.int64]:
            return np.array(values, dtype=np.int64)

        return Part(
            pa.array([one.value() for one in messages], pa.binary()),
            column([self._topics.index(one.topic()) for one in messages]),
            column([one.partition() for one in messages]),
            column([one.offset() for one in messages]),
            column([one.timestamp()[1] for one in messages]),
            pa.array([[{"key": key, "value": value} for key, value in readable_headers(one)] for one in messages], HEADERS),
        )
