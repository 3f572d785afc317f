"""How large the records of topics are, from a sample: Spark's Kafka source bounds batches in records only, so bytes need an estimate.

Brokers tell sizes of whole logs, compressed, to administrators; records tell their own. Sampled are the newest records of a few topic partitions
and those with which reading will begin, since a backlog may be of another kind than what comes now; the larger mean counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from app.errors import DependencyError

PARTITIONS = 4
"""Sampled per topic, evenly spread."""
RECORDS = 25
"""Sampled per topic partition and place."""
PATIENCE_S = 5.0
"""For each of the two places, whatever the number of topics: a start must not wait long for an estimate."""

Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class TopicSize:
    """A topic as a reader finds it.

    Attributes:
        record_bytes: mean of key and value; 0 when no record was seen.
        held: records that it has (offsets, so a little less where there were transactions or compaction).
        waiting: of these, records that are yet to be read.
    """

    record_bytes: float
    held: int
    waiting: int


def mean_record_bytes(sizes: Mapping[str, TopicSize], batch_records: int) -> float:
    """The mean size of a record in a batch that is cut off by its limit; 0 when nothing is known.

    Spark takes from each topic partition in proportion to what waits there. If more waits than a batch takes, that says what is in it;
    otherwise the topics' own sizes must.

    >>> mean_record_bytes({"small": TopicSize(100, 900, 10), "large": TopicSize(1000, 100, 0)}, 50)
    190.0
    >>> mean_record_bytes({"small": TopicSize(100, 900, 0), "large": TopicSize(1000, 100, 60)}, 50)
    1000.0
    """
    known = [size for size in sizes.values() if size.record_bytes]
    waiting = sum(size.waiting for size in known) >= batch_records
    weights = [size.waiting if waiting else size.held for size in known]
    return sum(size.record_bytes * weight for size, weight in zip(known, weights, strict=True)) / (sum(weights) or 1)


def topic_sizes(options: dict[str, str], topics: Iterable[str], starts: Offsets | None, *, from_beginning: bool) -> dict[str, TopicSize]:
    """Samples topics.

    Args:
        options: of a consumer that sees what Spark's source sees.
        topics: names; those that do not exist are left out.
        starts: where reading goes on; None: it has not begun.
        from_beginning: where it begins where ``starts`` says nothing: at the first record, or after the last one.

    Raises:
        DependencyError: the brokers do not answer.
    """
    quiet = {**options, "log_level": "0"}
    own = {
        "group.id": "cep-record-sizes",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "fetch.message.max.bytes": 1 << 20,
        "queued.max.messages.kbytes": 16 << 10,
    }
    try:
        consumer = Consumer({**quiet, **own})
        try:
            known = consumer.list_topics(timeout=20).topics
            places = [(topic, partition) for topic in topics if topic in known for partition in sorted(known[topic].partitions)]
            admin = AdminClient(quiet)
            low, high = (_limits(admin, places, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
            begin = {
                place: _begin(starts, place, low[place] if from_beginning else high[place], low[place], high[place]) for place in places
            }
            chosen = _spread(places)
            newest = _means(consumer, {place: max(low[place], high[place] - RECORDS) for place in chosen}, high)
            next_ones = _means(consumer, {place: begin[place] for place in chosen}, high)
        finally:
            consumer.close()
    except KafkaException as error:
        raise DependencyError(f"no answer from the brokers {options.get('bootstrap.servers', '')}: {error.args[0].str()}") from error
    return {
        topic: TopicSize(
            max(newest.get(topic, 0.0), next_ones.get(topic, 0.0)),
            sum(high[place] - low[place] for place in places if place[0] == topic),
            sum(high[place] - begin[place] for place in places if place[0] == topic),
        )
        for topic in dict.fromkeys(topic for topic, _ in places)
    }


def _limits(admin: AdminClient, places: list[tuple[str, int]], spec: OffsetSpec) -> dict[tuple[str, int], int]:
    asked = admin.list_offsets({TopicPartition(*place): spec for place in places}, request_timeout=20) if places else {}
    return {(one.topic, one.partition): future.result(timeout=30).offset for one, future in asked.items()}


def _begin(starts: Offsets | None, place: tuple[str, int], without: int, low: int, high: int) -> int:
    """A topic partition that came later is read from its beginning."""
    begin = without if starts is None else starts.get(place, low)
    return min(max(begin, low), high)


def _spread(places: list[tuple[str, int]]) -> list[tuple[str, int]]:
    by_topic: dict[str, list[tuple[str, int]]] = {}
    for place in places:
        by_topic.setdefault(place[0], []).append(place)
    return [place for own in by_topic.values() for place in own[:: max(1, -(-len(own) // PARTITIONS))]]


def _means(consumer: Consumer, begin: Offsets, end: Offsets) -> dict[str, float]:
    """Mean sizes by topic, of up to `RECORDS` records from each place on."""
    left = {place: RECORDS for place, start in begin.items() if start < end[place]}
    sums: dict[str, tuple[int, int]] = {}
    consumer.assign([TopicPartition(*place, begin[place]) for place in left])
    deadline = monotonic() + PATIENCE_S
    while left and monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        if message.error() is not None:
            left.pop(place, None)  # the end of the log: markers may lie between the last record and the last offset
        elif place in left:
            count, total = sums.get(place[0], (0, 0))
            sums[place[0]] = count + 1, total + len(message.key() or b"") + len(message.value() or b"")
            left[place] -= 1
            if not left[place]:
                del left[place]
                consumer.pause([TopicPartition(*place)])
    consumer.resume([TopicPartition(*place) for place in begin])
    consumer.unassign()
    return {topic: total / count for topic, (count, total) in sums.items()}
