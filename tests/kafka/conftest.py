"""One embedded broker and one registry for all tests of the session; every test uses topics of its own."""

import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from app.local.embedded import Embedded, embedded_services

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/kafka/" in str(item.path).replace(os.sep, "/"):
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """Broker and registry; `embedded.broker.bootstrap_servers`, `embedded.registry.url`."""
    with embedded_services() as services:
        yield services


@pytest.fixture(scope="session")
def bootstrap_servers(embedded: Embedded) -> str:
    return embedded.broker.bootstrap_servers


@pytest.fixture(scope="session")
def registry_url(embedded: Embedded) -> str:
    return embedded.registry.url


@pytest.fixture(scope="session")
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    """For a moment after its creation a topic is known, but nobody leads its partitions."""
    try:
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        return all(future.result() for future in admin.list_offsets(asked, request_timeout=10).values())
    except KafkaException:
        return False


@pytest.fixture
def make_topic(admin: AdminClient) -> Callable[..., str]:
    """`make_topic("quotes", partitions=4, **config)` creates a topic with a name of its own and returns the name."""

    def make(stem: str = "topic", partitions: int = 1, **config: str) -> str:
        name = f"{stem}-{os.getpid()}-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
            future.result(timeout=30)
        deadline = time.monotonic() + 30
        while not has_leaders(admin, name, partitions) and time.monotonic() < deadline:
            time.sleep(0.02)
        return name

    return make
