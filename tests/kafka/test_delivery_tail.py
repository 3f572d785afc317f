"""The last records of topics, as the console reads them from a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from app.delivery import tail
from app.delivery.tail import FEWEST, MOST_RECORDS, Tails
from app.errors import ConfigurationError, Finding


@pytest.fixture
def tails(bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tail, "PATIENCE_S", 60.0)  # CI machines are busy
    made = Tails(lambda: {"bootstrap.servers": bootstrap_servers})
    yield made
    made.close()


def write(servers: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value, partition=partition)
    producer.flush(60)


def test_the_last_records_of_all_topic_partitions_come_newest_first(tails: Tails, bootstrap_servers: str, make_topic: Callable[..., str]):
    topic = make_topic("tail", partitions=3)
    for partition in (0, 1):
        write(bootstrap_servers, topic, [b"%d/%d" % (partition, k) for k in range(MOST_RECORDS)], partition)
    found = tails.last(topic)
    assert found.problem == ""
    each = max(FEWEST, MOST_RECORDS // 3)
    assert sorted(record.value for record in found.records) == sorted(
        b"%d/%d" % (partition, k) for partition in (0, 1) for k in range(MOST_RECORDS - each, MOST_RECORDS)
    )
    assert [record.timestamp_ms for record in found.records] == sorted((record.timestamp_ms for record in found.records), reverse=True)


def test_whoever_asks_for_more_gets_more(tails: Tails, bootstrap_servers: str, make_topic: Callable[..., str]):
    topic = make_topic("tail")
    write(bootstrap_servers, topic, [b"%d" % k for k in range(4 * MOST_RECORDS)])
    found = tails.last(topic, 3 * MOST_RECORDS)
    assert [record.value for record in found.records] == [b"%d" % k for k in reversed(range(MOST_RECORDS, 4 * MOST_RECORDS))]


def test_who_asks_often_is_told_the_same_and_later_what_came(
    tails: Tails, bootstrap_servers: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tail, "AGAIN_S", 3600.0)
    topic = make_topic("tail")
    write(bootstrap_servers, topic, [b"first"])
    first = tails.last(topic)
    write(bootstrap_servers, topic, [b"second"])
    assert tails.last(topic) is first
    monkeypatch.setattr(tail, "AGAIN_S", 0.0)
    assert [record.value for record in tails.last(topic).records][:1] == [b"second"]


def test_large_records_are_not_all_read(
    tails: Tails, bootstrap_servers: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tail, "MOST_BYTES", 100_000)
    topic = make_topic("tail")
    write(bootstrap_servers, topic, [bytes(50_000)] * 150)
    found = tails.last(topic)
    assert "large" in found.problem
    assert 0 < len(found.records) < 150


def test_an_empty_topic_and_one_that_is_not_there(tails: Tails, admin: AdminClient, make_topic: Callable[..., str]):
    empty = tails.last(make_topic("tail"))
    assert (empty.records, empty.problem) == ((), "")
    missing = tails.last("nobody-made-this")
    assert missing.records == ()
    assert "nknown topic" in missing.problem
    assert "nobody-made-this" not in admin.list_topics(timeout=60).topics, "looking makes no topic"


def test_after_a_failure_the_options_of_then_count(bootstrap_servers: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tail, "AGAIN_S", 0.0)
    topic = make_topic("tail")
    write(bootstrap_servers, topic, [b"first"])
    options = [{"bootstrap.servers": "127.0.0.1:1"}]
    tails = Tails(lambda: options[-1])
    assert tails.last(topic).problem
    options.append({"bootstrap.servers": bootstrap_servers})
    monkeypatch.setattr(tail, "PATIENCE_S", 60.0)
    assert [record.value for record in tails.last(topic).records] == [b"first"]

    def wrong():
        raise ConfigurationError([Finding("no such option")])

    broken = Tails(wrong)
    assert broken.last(topic).problem == "no such option"
    tails.close()


def test_a_broker_that_is_away_is_told_soon():
    tails = Tails(lambda: {"bootstrap.servers": "127.0.0.1:1"})
    began = time.monotonic()
    found = tails.last("any")
    assert found.records == ()
    assert found.problem
    assert time.monotonic() - began < 30
    tails.close()
