"""Commits offsets to a consumer group that nobody is in, for lag tools; see `app.control.shadow_group`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from app.errors import DependencyError

REQUEST_S = 10.0
HINT = (
    "the group needs READ, its topics too; somebody who consumes in it keeps others from it; kafka.shadow_group.enabled: false does without"
)


def committer(options: Mapping[str, str], group: str) -> Callable[[Mapping[tuple[str, int], int]], None]:
    """A function that commits offsets, by topic and partition, to a group.

    It raises DependencyError when the broker does not answer, or refuses. The client is made when it is first called.

    Args:
        options: of the client; see `app.delivery.security.client_options`.
        group: its name.
    """
    clients: list[AdminClient] = []

    def commit(offsets: Mapping[tuple[str, int], int]) -> None:
        try:
            if not clients:
                clients.append(AdminClient({**options, "log_level": 0}))
            places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
            asked = clients[0].alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)], request_timeout=REQUEST_S)
            refused = [one for one in asked[group].result().topic_partitions if one.error is not None]
        except KafkaException as error:
            raise DependencyError(f"consumer group {group}: {error.args[0].str()}\nhint: {HINT}") from error
        if refused:
            raise DependencyError(f"consumer group {group}, topic {refused[0].topic}: {refused[0].error.str()}\nhint: {HINT}")

    return commit
