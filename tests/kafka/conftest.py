"""One embedded broker and one registry for all tests of the session; every test uses topics of its own."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

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
    return AdminClient({"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def make_topic(admin: AdminClient) -> Callable[..., str]:
    """`make_topic("quotes", partitions=4, **config)` creates a topic with a name of its own and returns the name."""

    def make(stem: str = "topic", partitions: int = 1, **config: str) -> str:
        name = f"{stem}-{os.getpid()}-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
            future.result(timeout=30)
        return name

    return make
