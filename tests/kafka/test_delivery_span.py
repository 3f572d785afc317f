"""The newest records of partitions that differ in size, from a real broker."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from app.delivery.span import MORE, Span

COUNTS = (9_000, 900, 90, 0)
"""Records by partition."""


def by_partition(span: Span) -> list[int]:
    found = [0] * len(COUNTS)
    for part in span.parts():
        for partition in part.partition.tolist():
            found[partition] += 1
    return found


def test_the_newest_records_reach_as_far_back_in_all_partitions_however_uneven_these_are(
    bootstrap_servers: str, make_topic: Callable[..., str]
):
    """As many of each would be half a minute of the one and a day of the other, and what only one has is not learned from."""
    topic = make_topic("uneven", partitions=len(COUNTS))
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for partition, count in enumerate(COUNTS):
        for k in range(count):
            producer.produce(topic, b"%d" % k, partition=partition)
    producer.flush(60)
    total = sum(COUNTS)
    span = Span({"bootstrap.servers": bootstrap_servers}, [topic], newest=total // 2)
    assert by_partition(span) == [4_500 + MORE, 450 + MORE, 90, 0]
    assert span.cut == {(topic, 0), (topic, 1)}, "a partition that hardly speaks is whole"
    assert by_partition(Span({"bootstrap.servers": bootstrap_servers}, [topic], newest=2 * total)) == list(COUNTS)
