"""Where topic partitions begin and end, from a moment on."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

TopicAndPartition = tuple[str, int]
"""A topic partition, as Kafka calls it: the topic's name and the partition's number."""

REQUEST_S = 20.0


def bounds(
    consumer: Consumer, places: Sequence[TopicAndPartition], since_ms: int | None
) -> tuple[dict[TopicAndPartition, int], dict[TopicAndPartition, int]]:
    """By topic and partition, the offset of the first record of the time, and the one behind the last that is there now.

    Args:
        consumer: any; it is only asked.
        places: topic partitions.
        since_ms: least Kafka timestamp; None: from the beginning.

    Raises:
        KafkaException: no answer, or a refusal.
    """
    limits = {place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=REQUEST_S) for place in places}
    begin, end = ({place: limit[side] for place, limit in limits.items()} for side in (0, 1))
    if since_ms is not None and places:
        for one in consumer.offsets_for_times([TopicPartition(*place, since_ms) for place in places], timeout=REQUEST_S):
            if one.error is not None:
                raise KafkaException(one.error)
            place = (one.topic, one.partition)
            begin[place] = end[place] if one.offset < 0 else one.offset
    return begin, end
