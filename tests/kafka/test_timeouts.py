"""Timeouts leave the real application when nothing else comes any more: time goes on by heartbeats."""

import io
import json
import time

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tests.kafka.application import Application, records_of, until
from tests.kafka.test_bad_input import READING, encoded
from tests.kafka.test_whole_way import apply_topics

QUERY = """\
name: unpaid
event: SEQ(Reading order, Reading payment)
where: "[tag] AND order.step = 1 AND payment.step = 2"
within: 12 s
on_timeout: emit
return: {tag: order.tag, waited: payment.time - order.time}
output: {key: tag}
"""
STREAM = "unpaid.readings"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_timeout_arrives_though_no_further_event_comes_also_behind_a_restart(embedded, tmp_path):
    (tmp_path / "reading.avsc").write_text(json.dumps(READING))
    (tmp_path / "unpaid.yaml").write_text(QUERY)
    stream = {"topics": [STREAM], "schemas": [str(tmp_path / "reading.avsc")], "time": "time", "idle_after": "1 s", "partitions": 1}
    settings = {
        "kafka": {"bootstrap_servers": embedded.broker.bootstrap_servers, "starting_offsets": "earliest"},
        "schema_registry": {"url": embedded.registry.url},
        "streams": {"readings": stream},
        "queries": {"paths": [str(tmp_path / "unpaid.yaml")]},
        "topics": {"prefix": "unpaid", "partitions": 1},
    }
    apply_topics(settings, tmp_path)
    schema_id = SchemaRegistryClient({"url": embedded.registry.url}).register_schema(f"{STREAM}-value", Schema(json.dumps(READING), "AVRO"))
    application = Application(tmp_path, settings)
    application.started()
    start_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": embedded.broker.bootstrap_servers})
    for tag, step, at_ms in (("paid", 1, 0), ("unpaid", 1, 1000), ("paid", 2, 2000)):
        producer.produce(STREAM, encoded(READING, schema_id, time=start_ms + at_ms, tag=tag, step=step))
    producer.flush()

    def timeouts():
        return records_of(embedded.broker.bootstrap_servers, "unpaid.timeouts")

    # two of them: under skip-till-any-match the order that was paid waits for another payment
    found = until(lambda: len(timeouts()) >= 2 and timeouts(), seconds=60, pause=1.0, alive=application.alive)
    outputs = application.deployment().timeouts
    read = {record.key: fastavro.schemaless_reader(io.BytesIO(record.value[5:]), json.loads(outputs[0].schema)) for record in found}
    assert set(read) == {b"paid", b"unpaid"}
    unpaid = read[b"unpaid"]
    assert unpaid["missing"] == ["payment"]
    assert unpaid["fields"] == {"tag": "unpaid", "waited": None}
    assert unpaid["time"].timestamp() * 1000 == pytest.approx(start_ms + 13_000, abs=1)
    assert [(event["variable"], event["offset"]) for event in unpaid["events"]] == [("order", 1)]
    assert int.from_bytes(found[0].value[1:5], "big") == outputs[0].schema_id
    headers = next(record.headers for record in found if record.key == b"unpaid")
    assert headers["ce_type"] == b"cep.unpaid.v1.timeout"
    assert headers["ce_id"].decode() == unpaid["id"]
    until(lambda: 'cep_timeouts_emitted_total{query="unpaid"} 2.0' in application.text("/metrics"), seconds=20, alive=application.alive)
    later_ms = int(time.time() * 1000) + 3_000  # the stream's time went on from events that were ahead of the clock
    producer.produce(STREAM, encoded(READING, schema_id, time=later_ms, tag="later", step=1))
    producer.flush()
    until(lambda: application.committed().get((STREAM, 0), 0) >= 4, seconds=60, alive=application.alive)
    assert application.stop() == 0
    assert len(timeouts()) == 2, "it is not due before the driver is away"
    application.started()
    found = until(lambda: len(timeouts()) >= 3 and timeouts(), seconds=60, pause=1.0, alive=application.alive)
    assert [record.key for record in found].count(b"later") == 1
    assert application.stop() == 0
    assert len(timeouts()) == 3
    assert len(records_of(embedded.broker.bootstrap_servers, "unpaid.unpaid")) == 1
