import io
import json
import os
import threading
import time

import fastavro
import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient

from app.bootstrap.places import PROJECT
from app.config.settings import Stream
from app.errors import ConfigurationError
from app.events.registry import Registry, RegistrySettings
from app.local.generators import generate
from app.local.outlets import outlet_of
from app.local.sending import Sender, as_recorded, at_once, at_rate

RETAIL = [PROJECT / "schemas" / f"{name}.avsc" for name in ("ShelfReading", "CounterReading", "ExitReading", "BackroomReading")]


@pytest.fixture
def retail_outlet(registry_url, make_topic):
    stream = Stream.model_validate(
        {"topics": [make_topic("retail", partitions=3)], "schemas": RETAIL, "time": "time", "ordered_by": "tag_id"}
    )
    return outlet_of("retail", stream, Registry(RegistrySettings(registry_url)))


def records_of(bootstrap_servers, topic, count):
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": f"g{os.getpid()}", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in consumer.list_topics(topic).topics[topic].partitions])
    found, deadline = [], time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(10_000, 0.2)
    consumer.close()
    return found


def test_events_arrive_as_registered_avro_and_in_order_per_key(bootstrap_servers, registry_url, retail_outlet):
    stream = generate("retail", 3000, seed=5)
    with Sender({"bootstrap.servers": bootstrap_servers}, retail_outlet, at_once) as sender:
        assert sender.check_topic() == 3
        assert sender.send(stream.batches).events == 3000
    client = SchemaRegistryClient({"url": registry_url})
    schemas, times, places = {}, {}, {}
    found = records_of(bootstrap_servers, retail_outlet.topic, 3000)
    assert len(found) == 3000
    for message in found:
        number = int.from_bytes(message.value()[1:5], "big")
        schema = schemas.setdefault(number, client.get_schema(number).schema_str) if number not in schemas else schemas[number]
        record = fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), json.loads(schema))
        assert message.key().decode() == record["tag_id"]
        assert places.setdefault(message.key(), message.partition()) == message.partition()
        assert times.get(message.key(), record["time"]) <= record["time"]
        times[message.key()] = record["time"]
    assert {json.loads(schema)["name"] for schema in schemas.values()} == {
        "ShelfReading",
        "CounterReading",
        "ExitReading",
        "BackroomReading",
    }
    assert len(set(places.values())) == 3


def test_a_paced_stream_keeps_its_rate_and_its_recorded_pauses(bootstrap_servers, retail_outlet):
    stream = generate("retail", 2000, seed=1, rate_per_s=1000)
    for due in (at_rate(2000), as_recorded(0, speed=2.0)):
        with Sender({"bootstrap.servers": bootstrap_servers}, retail_outlet, due) as sender:
            sender.check_topic()
            started = time.monotonic()
            sender.send(stream.batches)
            elapsed = time.monotonic() - started
        scheduled = float(due(stream.batches[-1], 2000 - len(stream.batches[-1]))[-1])
        assert scheduled <= elapsed + 0.01
        assert elapsed < 5 * scheduled
        assert np.isclose(scheduled, 1.0, atol=0.2)


def test_a_topic_that_is_missing_is_a_sentence(bootstrap_servers, retail_outlet):
    outlet = type(retail_outlet)("no-such-topic", retail_outlet.schemas, retail_outlet.headers)
    with pytest.raises(ConfigurationError, match=r"there is no topic no-such-topic\nhint: cep topics apply"):
        Sender({"bootstrap.servers": bootstrap_servers}, outlet, at_once).check_topic()


def test_a_stopped_sender_does_not_ask_for_the_next_batch(bootstrap_servers, retail_outlet):
    stream = generate("retail", 2000, seed=1, rate_per_s=1000)
    sender = Sender({"bootstrap.servers": bootstrap_servers}, retail_outlet, at_rate(500))
    asked_again = []

    def batches():
        yield stream.batches[0]
        asked_again.append(True)
        yield stream.batches[0]

    timer = threading.Timer(0.3, sender.stop)
    timer.start()
    with sender:
        sender.check_topic()
        assert sender.send(batches()).events < 2000
    timer.join()
    assert not asked_again
