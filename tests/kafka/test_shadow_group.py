"""The shadow consumer group on a broker; `test_operating.py` looks at that of a running application."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from app.delivery.shadow_offsets import committer
from app.errors import DependencyError
from tests.kafka.application import until
from tests.kafka.guarded import guarded_broker


def group_offsets(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    """As a lag tool reads them."""
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(one.topic, one.partition): one.offset for one in future.result(30).topic_partitions}


def test_offsets_are_committed_and_seen_by_tools(bootstrap_servers, admin, make_topic):
    topic = make_topic("shadow", partitions=2)
    commit = committer({"bootstrap.servers": bootstrap_servers}, f"shadow-of-{topic}")
    commit({(topic, 0): 5, (topic, 1): 0})
    assert group_offsets(admin, f"shadow-of-{topic}") == {(topic, 0): 5, (topic, 1): 0}
    commit({(topic, 0): 9, (topic, 1): 2})
    assert group_offsets(admin, f"shadow-of-{topic}") == {(topic, 0): 9, (topic, 1): 2}


def test_a_group_that_somebody_consumes_in_is_refused_with_what_to_do(bootstrap_servers, make_topic):
    topic = make_topic("taken")
    group = f"taken-{topic}"
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.2) is None and consumer.assignment(), 60, 0.0)
    with pytest.raises(DependencyError, match=f"consumer group {group}: .*\nhint: the group needs READ"):
        committer({"bootstrap.servers": bootstrap_servers}, group)({(topic, 0): 1})
    consumer.close()


def test_a_broker_that_is_away_is_an_error_that_says_so():
    with pytest.raises(DependencyError, match="consumer group g: "):
        committer({"bootstrap.servers": "127.0.0.1:9"}, "g")({("t", 0): 1})


def test_a_permission_that_is_granted_later_is_enough(tmp_path):
    with guarded_broker(tmp_path) as guarded:
        admin = AdminClient(guarded.client("admin"))
        created: Future[None] = admin.create_topics([NewTopic("readings", 1, 1)])["readings"]
        created.result(30)
        commit = committer(guarded.client("app"), "lag")
        with pytest.raises(DependencyError, match="uthorization"):
            commit({("readings", 0): 1})
        guarded.allow(ResourceType.GROUP, {"lag": [AclOperation.READ]})
        guarded.allow(ResourceType.TOPIC, {"readings": [AclOperation.READ]})
        commit({("readings", 0): 1})
        assert group_offsets(admin, "lag") == {("readings", 0): 1}
