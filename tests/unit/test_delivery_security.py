"""Options of the Kafka clients: what the settings say reaches Java's and librdkafka's alike."""

import pytest
from confluent_kafka import Consumer, Producer

from app.config.settings import Kafka
from app.delivery.security import client_options, consumer_options, jvm_options
from app.errors import ConfigurationError

GIVEN = {"client.dns.lookup": "use_all_dns_ips", "kafka.client.rack": "a", "default.api.timeout.ms": "30000"}


def test_options_reach_both_clients_by_the_names_that_they_know():
    kafka = Kafka(client_options=GIVEN)
    ours, javas = client_options(kafka), jvm_options(kafka)
    assert (ours["client.dns.lookup"], ours["client.rack"]) == ("use_all_dns_ips", "a")
    assert "default.api.timeout.ms" not in ours, "Java's alone"
    assert {f"kafka.{name.removeprefix('kafka.')}": value for name, value in GIVEN.items()}.items() <= javas.items()
    assert consumer_options(kafka).items() > ours.items()
    Producer(ours)
    Consumer({**consumer_options(kafka), "group.id": "tests"})


def test_a_value_that_is_refused_is_told_as_the_settings_mistake():
    with pytest.raises(ConfigurationError, match=r"kafka.client_options: linger.ms: soon: invalid value"):
        client_options(Kafka(client_options={"linger.ms": "soon"}))


def test_without_options_nothing_is_added():
    assert set(client_options(Kafka())) == {"bootstrap.servers", "security.protocol"}
