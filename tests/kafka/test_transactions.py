"""Transactional producers: what they abort is never seen, and the markers that they leave in the log hold nothing up."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from app.delivery.originals import OriginalReader
from app.delivery.span import Span
from app.delivery.witness import Witness
from app.events.wire import prefix
from tests.kafka.application import Application, records_of, until
from tests.kafka.test_whole_way import apply_topics

STEP = {
    "type": "record",
    "name": "Step",
    "fields": [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "tag", "type": "string"}],
}
QUERY = """\
name: steps
version: 1
title: Two steps of a tag
from: steps
event: SEQ(Step a, Step b)
where: "[tag]"
within: 10 s
return: {tag: a.tag}
output: {topic: TOPIC, key: tag}
"""
BASE_MS = 1_780_000_000_000


class Sending:
    """A transactional producer; every call is one transaction of one record per value."""

    def __init__(self, servers: str, topic: str) -> None:
        self.topic = topic
        self.producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-sender"})
        self.producer.init_transactions(30)

    def begin(self, *values: bytes) -> None:
        self.producer.begin_transaction()
        for value in values:
            self.producer.produce(self.topic, value, partition=0)
        self.producer.flush()

    def committed(self, *values: bytes) -> None:
        self.begin(*values)
        self.producer.commit_transaction(30)

    def aborted(self, *values: bytes) -> None:
        self.begin(*values)
        self.producer.abort_transaction(30)


def test_a_reader_of_originals_sees_what_was_committed_and_calls_the_rest_gone(bootstrap_servers, make_topic):
    topic = make_topic("originals")
    sending = Sending(bootstrap_servers, topic)
    sending.committed(b"a", b"b")  # 0 1, and a marker at 2
    sending.aborted(b"c", b"d")  # 3 4, 5
    sending.committed(b"e")  # 6, 7
    sending.aborted(b"f")  # 8, 9: the log ends in what nobody sees
    seen = {}
    for level in ("read_committed", "read_uncommitted"):
        reader = OriginalReader({"bootstrap.servers": bootstrap_servers, "isolation.level": level}, timeout_s=20)
        found = list(reader.read(topic, 0, range(10)))
        reader.close()
        assert [one.offset for one in found] == list(range(10))
        assert not any(one.problem for one in found), "the end of the log is no trouble"
        seen[level] = {one.offset: one.value for one in found if one.found}
    assert seen["read_committed"] == {0: b"a", 1: b"b", 6: b"e"}
    assert seen["read_uncommitted"] == {0: b"a", 1: b"b", 3: b"c", 4: b"d", 6: b"e", 8: b"f"}


def test_a_recording_ends_where_the_log_ends_in_an_aborted_transaction(bootstrap_servers, make_topic):
    topic = make_topic("span")
    sending = Sending(bootstrap_servers, topic)
    sending.committed(b"a")
    sending.aborted(b"b")
    parts = list(Span({"bootstrap.servers": bootstrap_servers}, [topic], None).parts())
    assert [value for part in parts for value in part.values.to_pylist()] == [b"a"]


def test_a_witness_tells_markers_and_aborted_records_from_records_that_are_there(bootstrap_servers, make_topic):
    topic = make_topic("witnessed")
    sending = Sending(bootstrap_servers, topic)
    sending.committed(b"a", b"b")  # 0 1, and a marker at 2
    sending.aborted(b"c", b"d")  # 3 4, 5
    sending.committed(b"e")  # 6, 7
    spans = [(0, 3), (1, 2), (2, 3), (2, 6), (3, 7), (7, 8)]
    seen = {}
    for level in ("read_committed", "read_uncommitted"):
        witness = Witness({"bootstrap.servers": bootstrap_servers, "isolation.level": level}, timeout_s=20)
        seen[level] = [witness.first(topic, 0, *span) for span in spans]
        assert witness.first("there-is-no-such-topic", 0, 0, 9) is None
        witness.close()
    assert seen["read_committed"] == [0, 1, None, None, 6, None]
    assert seen["read_uncommitted"] == [0, 1, None, 3, 3, None]


def test_a_broker_that_is_away_is_no_witness():
    witness = Witness({"bootstrap.servers": "127.0.0.1:9"}, timeout_s=0.5)
    assert witness.first("any", 0, 0, 9) is None
    witness.close()


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_only_events_of_committed_transactions_are_matched(embedded, tmp_path, level):
    name = f"tx-{level.removeprefix('read_')}"
    topic = f"{name}.steps"
    (tmp_path / "step.avsc").write_text(json.dumps(STEP))
    (tmp_path / "steps.yaml").write_text(QUERY.replace("TOPIC", f"{name}.found"))
    stream = {"topics": [topic], "schemas": [str(tmp_path / "step.avsc")], "time": "time", "idle_after": "1 h", "partitions": 1}
    settings = {
        "kafka": {"bootstrap_servers": embedded.broker.bootstrap_servers, "starting_offsets": "earliest", "isolation_level": level},
        "schema_registry": {"url": embedded.registry.url},
        "streams": {"steps": stream},
        "queries": {"paths": [str(tmp_path / "steps.yaml")]},
        "topics": {"prefix": name, "partitions": 1},
    }
    apply_topics(settings, tmp_path)
    schema_id = SchemaRegistryClient({"url": embedded.registry.url}).register_schema(f"{topic}-value", Schema(json.dumps(STEP), "AVRO"))

    def step(tag: str, at_ms: int) -> bytes:
        stream = io.BytesIO(prefix(schema_id))
        stream.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(stream, STEP, {"time": BASE_MS + at_ms, "tag": tag})
        return stream.getvalue()

    application = Application(tmp_path, settings)
    sending = Sending(embedded.broker.bootstrap_servers, topic)

    def consumed() -> bool:
        """Up to the last marker: nothing waits for records that will never be seen."""
        end = sending_end(embedded.broker.bootstrap_servers, topic)
        return application.committed().get((topic, 0)) == end

    try:
        application.started()
        sending.committed(step("both", 0), step("second-aborted", 0))
        sending.aborted(step("second-aborted", 10), step("aborted", 10), step("aborted", 11))
        sending.committed(step("both", 20), b"no event")
        sending.aborted(step("end", 25))  # the first batches end in markers
        until(consumed, alive=application.alive)
        sending.aborted(step("alone", 26), step("alone", 27))  # a batch of nothing else
        until(consumed, alive=application.alive)
        sending.committed(step("after", 30), step("after", 31))
        sending.committed(step("late", 5), step("tick", 60_000))
        until(consumed, alive=application.alive)
        wanted = {"both", "after"} if level == "read_committed" else {"both", "second-aborted", "aborted", "alone", "after"}
        found = lambda: {one.key.decode() for one in records_of(embedded.broker.bootstrap_servers, f"{name}.found")}  # noqa: E731
        until(lambda: found() >= wanted, seconds=60, alive=application.alive)
        assert found() == wanted
        (letter,) = records_of(embedded.broker.bootstrap_servers, f"{name}.dead-letters")
        assert letter.value == b"no event", "found among the gaps"
        (late,) = records_of(embedded.broker.bootstrap_servers, f"{name}.late")
        assert late.value == step("late", 5)
        assert application.stop() == 0
        assert '"level": "error"' not in application.log.read_text()
    finally:
        if application.process.poll() is None:
            application.kill()


def sending_end(servers: str, topic: str) -> int:
    """The log's end, markers included."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "end"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1]
    finally:
        consumer.close()
