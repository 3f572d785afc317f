"""The last records of a topic, for people who look: few of them, soon, and not often, so that the stream does not notice.

Nothing is committed, no consumer group is joined, and no topic is made by being asked for.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.delivery.originals import NO_MATTER
from app.delivery.record_headers import readable_headers
from app.errors import ConfigurationError

MOST_RECORDS = 200
"""Of a topic, unless more are asked for."""
FEWEST = 5
MOST_BYTES = 4 << 20
"""Of keys and values; what is beyond is left unread."""
PATIENCE_S = 2.0
"""For all of a topic; what has come by then is what there is."""
AGAIN_S = 3.0
"""A topic is read again no sooner, however many people look."""
KEPT = 16
"""Topics whose last records are remembered."""


@dataclass(frozen=True, slots=True)
class TailRecord:
    """A record near the end of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Tail:
    """The last records of a topic, newest first.

    Attributes:
        problem: why there are none, or not all of them; empty when all is well.
        read_at_s: by a clock that only goes on.
    """

    records: tuple[TailRecord, ...] = ()
    problem: str = ""
    read_at_s: float = 0.0


class Tails:
    """One consumer for all topics, assigned by hand, made when it is first needed. Any thread may ask; one at a time is served.

    Args:
        options: of the client (`app.delivery.security.consumer_options`), asked for when it is made, and made anew after a failure.
    """

    def __init__(self, options: Callable[[], Mapping[str, str]]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._known: OrderedDict[str, Tail] = OrderedDict()

    def last(self, topic: str, most: int = MOST_RECORDS) -> Tail:
        """The last records of a topic, as of some seconds ago at most: `most` of all its topic partitions together, and at least `FEWEST` of each."""
        known = self._known.get(topic)
        if known is not None and time.monotonic() - known.read_at_s < AGAIN_S:
            return known
        if not self._lock.acquire(timeout=PATIENCE_S):
            return known or Tail(problem="others are looking at the moment")
        try:
            known = self._known.get(topic)  # who waited for somebody who read the same topic need not read it again
            if known is None or time.monotonic() - known.read_at_s >= AGAIN_S:
                self._known[topic] = known = self._read(topic, most)
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
            return known
        finally:
            self._lock.release()

    def close(self) -> None:
        """Leaves the broker."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _read(self, topic: str, most: int) -> Tail:
        deadline = time.monotonic() + PATIENCE_S
        found: list[TailRecord] = []
        problem = ""
        try:
            consumer = self._ready()
            spans = _spans(consumer, topic, most, deadline)
            if spans:
                consumer.assign([TopicPartition(topic, partition, start) for partition, (start, _) in spans.items()])
                problem = _swept(consumer, {partition: end for partition, (_, end) in spans.items()}, deadline, found)
                consumer.unassign()
        except KafkaException as error:
            problem = error.args[0].str()
        except ConfigurationError as error:
            problem = str(error)
        if problem and not found:
            self._forget()  # the next one is made of the options of then: secrets may have changed
        found.sort(key=lambda record: (record.timestamp_ms, record.partition, record.offset), reverse=True)
        return Tail(tuple(found), problem, time.monotonic())

    def _ready(self) -> Consumer:
        if self._consumer is None:
            own = {
                "group.id": "cep-console",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 256 << 10,
                "queued.max.messages.kbytes": 1024,
                "log_level": 0,  # what is amiss is told on the page
            }
            self._consumer = Consumer({**self._options(), **own})
        return self._consumer


def _spans(consumer: Consumer, topic: str, most: int, deadline: float) -> dict[int, tuple[int, int]]:
    """By topic partition that has records, where to begin, and where its end is now."""
    told = consumer.list_topics(topic, timeout=_left(deadline)).topics[topic]
    if told.error is not None:
        raise KafkaException(told.error)
    each = max(FEWEST, most // max(1, len(told.partitions)))
    spans = {}
    for partition in sorted(told.partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_left(deadline))
        if high > low:
            spans[partition] = max(low, high - each), high
    return spans


def _swept(consumer: Consumer, ends: dict[int, int], deadline: float, found: list[TailRecord]) -> str:
    """Reads up to where the ends were: others go on writing. Returns why not, if not."""
    size = 0
    while ends and time.monotonic() < deadline:
        for message in consumer.consume(100, timeout=min(0.2, _left(deadline))):
            error, partition = message.error(), message.partition()
            if error is None and partition in ends:
                if message.offset() < ends[partition]:
                    found.append(_record(message))
                    size += len(message.value() or b"") + len(message.key() or b"")
                if message.offset() + 1 >= ends[partition]:
                    del ends[partition]
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so named
                ends.pop(partition, None)  # what follows the last record are markers of transactions
            elif error is not None and error.code() != NO_MATTER:
                return str(error.str())
        if size > MOST_BYTES:
            return "records are large: these are some of the last"
    return "" if not ends else f"the broker had not answered after {PATIENCE_S:g} s"


def _left(deadline: float) -> float:
    return max(0.01, deadline - time.monotonic())


def _record(message: Message) -> TailRecord:
    place = message.topic(), message.partition(), message.offset()
    return TailRecord(*place, message.timestamp()[1], message.key(), message.value(), readable_headers(message))
