"""Commits offsets to a consumer group that nobody is in, for lag tools; see `app.control.shadow_group`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from app.errors import DependencyError

REQUEST_S = 10.0
PAUSE_S = 0.2
PASSING = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS})
"""A broker that has just begun to keep groups' offsets says so for a moment."""
HINT = (
    "the group needs READ, its topics too; somebody who consumes in it keeps others from it; kafka.shadow_group.enabled: false does without"
)


def committer(options: Callable[[], Mapping[str, str]], group: str) -> Callable[[Mapping[tuple[str, int], int]], None]:
    """A function that commits offsets, by topic and partition, to a group.

    It raises DependencyError when the broker does not answer, or refuses. The client is made when it is first called, and anew after a failure: secrets may have changed.

    Args:
        options: gives those of the client; see `app.delivery.security.client_options`.
        group: its name.
    """
    clients: list[AdminClient] = []

    def commit(offsets: Mapping[tuple[str, int], int]) -> None:
        try:
            if not clients:
                clients.append(AdminClient({**options(), "log_level": 0}))
            deadline = time.monotonic() + REQUEST_S
            while (error := _refusal(clients[0], group, offsets)) is not None and error.code() in PASSING and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
        except KafkaException as failure:
            error = failure.args[0]
        if error is not None:
            clients.clear()
            raise DependencyError(f"consumer group {group}: {error.str()}\nhint: {HINT}")

    return commit


def _refusal(client: AdminClient, group: str, offsets: Mapping[tuple[str, int], int]) -> KafkaError | None:
    """Why the offsets were not committed; None: they were."""
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
    asked = client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)], request_timeout=REQUEST_S)
    return next((one.error for one in asked[group].result().topic_partitions if one.error is not None), None)
