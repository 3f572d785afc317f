"""A broker that is away: nothing is lost, and the application goes on by itself when it is back; where that takes too long it ends, with a code by which it is started again."""

from __future__ import annotations

import io
import json
import time

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from app.events.wire import prefix
from app.local.broker import start_broker, wait_for_broker
from tests.kafka.application import Application, records_of, until
from tests.kafka.test_registry_away import QUERY, STEP
from tests.kafka.test_whole_way import apply_topics

TOPIC = "gone.steps"
AWAY_S = 20.0
BASE_MS = int(time.time() * 1000) - 600_000


class World:
    """An application with a broker of its own, which can be taken away."""

    def __init__(self, registry_url: str, folder) -> None:
        self.home = folder / "broker"
        self.home.mkdir()
        self.broker = start_broker(self.home)
        wait_for_broker(self.broker)
        schemas = SchemaRegistryClient({"url": registry_url})
        self.schema_id = schemas.register_schema(f"{TOPIC}-value", Schema(json.dumps(STEP), "AVRO"))
        (folder / "steps.yaml").write_text(QUERY.replace("away.", "gone."))
        stream = {"topics": [TOPIC], "subjects": [f"{TOPIC}-value"], "time": "time", "idle_after": "1 h", "partitions": 1}
        settings = {
            "kafka": {"bootstrap_servers": self.broker.bootstrap_servers, "starting_offsets": "earliest"},
            "schema_registry": {"url": registry_url, "retry_for": "3 s"},
            "streams": {"steps": stream},
            "queries": {"paths": [str(folder / "steps.yaml")]},
            "topics": {"prefix": "gone", "partitions": 1},
        }
        apply_topics(settings, folder)
        self.application = Application(folder, settings)
        self.sent = 0

    def take_away(self) -> None:
        self.broker.child.terminate()

    def bring_back(self) -> None:
        self.broker = start_broker(self.home)
        wait_for_broker(self.broker)

    def pair(self, tag: str, at_ms: int) -> None:
        """Two steps of a tag, which are a match."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for k in range(2):
            stream = io.BytesIO(prefix(self.schema_id))
            stream.seek(0, io.SEEK_END)
            fastavro.schemaless_writer(stream, STEP, {"time": BASE_MS + at_ms + k, "tag": tag})
            producer.produce(TOPIC, stream.getvalue())
            self.sent += 1
        assert not producer.flush(30)

    def done(self) -> None:
        until(lambda: self.application.has_consumed(self.sent, TOPIC), alive=self.application.alive)

    def found(self) -> list[str]:
        return sorted(record.key.decode() for record in records_of(self.broker.bootstrap_servers, "gone.found"))


@pytest.fixture
def world(embedded, tmp_path):
    made = World(embedded.registry.url, tmp_path)
    yield made
    if made.application.process is not None and made.application.process.poll() is None:
        made.application.kill()
    made.broker.child.terminate()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_application_outlives_a_broker_that_is_away_for_a_while(world):
    """It took the whole process along, at times: a client for lag tools that librdkafka aborted when its broker came back (`app.delivery.shadow_offsets`)."""
    application = world.application
    application.started()
    world.pair("before", 0)
    world.done()
    for at_ms, name in ((100, "first"), (200, "second")):
        world.take_away()
        time.sleep(AWAY_S)
        application.alive()
        world.bring_back()
        world.pair(name, at_ms)
        world.done()
    world.pair("after", 300)  # the last event of all waits for the next one
    world.done()
    until(lambda: len(world.found()) >= 3, alive=application.alive)
    assert world.found() == ["before", "first", "second"]
    assert not records_of(world.broker.bootstrap_servers, "gone.dead-letters")
    world.take_away()
    assert application.stop() == 0, "and it stops without one"
