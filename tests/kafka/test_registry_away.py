"""A schema registry that is away: batches that need an unseen schema wait, and a restart needs it for nothing that was answered before."""

from __future__ import annotations

import io
import json
import re
import time

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from app.events.wire import prefix
from tests.kafka.application import Application, records_of, until
from tests.kafka.gateway import Gateway
from tests.kafka.test_whole_way import apply_topics

STEP = {
    "type": "record",
    "name": "Step",
    "fields": [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "tag", "type": "string"}],
}
NEWER = {**STEP, "fields": [*STEP["fields"], {"name": "colour", "type": "string", "default": "red"}]}
NEWEST = {**STEP, "fields": [*STEP["fields"], {"name": "size", "type": "long", "default": 0}]}
QUERY = """\
name: steps
version: 1
title: Two steps of a tag
from: steps
event: SEQ(Step a, Step b)
where: "[tag]"
within: 10 s
return: {tag: a.tag}
output: {topic: away.found, key: tag}
"""
TOPIC = "away.steps"
BASE_MS = int(time.time() * 1000) - 600_000


class World:
    def __init__(self, embedded, folder) -> None:
        self.servers = embedded.broker.bootstrap_servers
        self.gateway = Gateway(embedded.registry.url)
        self.registry = SchemaRegistryClient({"url": embedded.registry.url})
        self.step_id = self.register("value", STEP)
        self.producer = Producer({"bootstrap.servers": self.servers})
        self.sent = 0
        (folder / "steps.yaml").write_text(QUERY)
        stream = {"topics": [TOPIC], "subjects": [f"{TOPIC}-value"], "time": "time", "idle_after": "1 h", "partitions": 1}
        settings = {
            "kafka": {"bootstrap_servers": self.servers, "starting_offsets": "earliest"},
            "schema_registry": {"url": self.gateway.url, "retry_for": "3 s", "wait_for": "25 s", "timeout": "1 s"},
            "streams": {"steps": stream},
            "queries": {"paths": [str(folder / "steps.yaml")]},
            "topics": {"prefix": "away", "partitions": 1},
        }
        apply_topics(settings, folder)
        self.application = Application(folder, settings)

    def register(self, stem: str, schema: dict) -> int:
        return self.registry.register_schema(f"{TOPIC}-{stem}", Schema(json.dumps(schema), "AVRO"))

    def pair(self, tag: str, at_ms: int, schema: dict = STEP, schema_id: int | None = None) -> None:
        for k in range(2):
            stream = io.BytesIO(prefix(schema_id or self.step_id))
            stream.seek(0, io.SEEK_END)
            fastavro.schemaless_writer(stream, schema, {"time": BASE_MS + at_ms + k, "tag": tag})
            self.producer.produce(TOPIC, stream.getvalue())
            self.sent += 1
        self.producer.flush()

    def done(self) -> None:
        until(lambda: self.application.has_consumed(self.sent, TOPIC), alive=self.application.alive)

    def metric(self, name: str) -> float:
        return float(re.search(rf"^{name} (\S+)$", self.application.text("/metrics"), re.MULTILINE)[1])

    def found(self) -> list[str]:
        return sorted(record.key.decode() for record in records_of(self.servers, "away.found"))

    def logged(self, text: str) -> int:
        return self.application.log.read_text().count(text)


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_good_events_wait_for_the_registry_and_a_restart_does_not(embedded, tmp_path):
    world = World(embedded, tmp_path)
    application = world.application
    try:
        application.started()
        world.pair("before", 0)
        world.done()
        world.gateway.shut()
        newer = world.register("newer", NEWER)
        world.pair("waiting", 100, NEWER, newer)
        until(lambda: world.metric("cep_schema_registry_waiting_seconds") > 4, alive=application.alive)
        assert not application.has_consumed(world.sent, TOPIC)
        world.gateway.open()
        world.done()
        until(lambda: world.metric("cep_schema_registry_waiting_seconds") == 0, alive=application.alive)
        assert world.metric("cep_schema_registry_errors_total") > 1
        assert world.logged("the schema registry cannot be asked") == 1
        assert world.logged("the schema registry answers again") == 1
        world.gateway.shut()
        assert application.stop() == 0
        application.started()
        world.pair("restarted", 200, NEWER, newer)
        world.pair("after", 250)  # the last event of all waits for the next one
        world.done()
        tags = ["before", "restarted", "waiting"]
        until(lambda: len(world.found()) >= len(tags), alive=application.alive)
        assert world.found() == tags
        assert not records_of(world.servers, "away.dead-letters")
        assert world.logged("the schema registry does not answer, the checkpoint does") == 1
        # nobody repairs it: an error, and still no dead letter
        newest = world.register("newest", NEWEST)
        world.pair("for nothing", 300, NEWEST, newest)
        assert application.process.wait(120) == 69
        assert "the schema registry has been away for" in application.log.read_text()[-3000:]
        assert not records_of(world.servers, "away.dead-letters")
    finally:
        world.gateway.shut()
        if application.process.poll() is None:
            application.kill()
