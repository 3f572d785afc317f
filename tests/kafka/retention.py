"""Takes the first records of topic partitions away, as retention does."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.application import until

_SECONDS = 30


def delete_records(admin: AdminClient, before: Mapping[tuple[str, int], int]) -> None:
    """Deletes what is before the given offset of each topic partition.

    Under load librdkafka's own copy of the metadata may for a moment know no leader of a partition that has been written to; it is asked again then.

    Raises:
        KafkaException: the broker refuses.
        AssertionError: nobody leads a partition for half a minute.
    """
    wanted = [TopicPartition(*place, offset) for place, offset in before.items()]
    until(lambda: _deleted(admin, wanted), _SECONDS)


def _deleted(admin: AdminClient, wanted: list[TopicPartition]) -> bool:
    try:
        for future in admin.delete_records(wanted).values():
            future.result(timeout=_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NOENT:
            raise
        return False
    return True
