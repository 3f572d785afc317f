"""What a broker refuses or no longer has: heartbeats and originals."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from app.control.arrivals.heartbeat import BEAT_OPTIONS, HeartbeatWriter
from app.delivery.originals import OriginalReader
from tests.kafka.application import until
from tests.kafka.retention import delete_records


class Heard:
    def __init__(self) -> None:
        self.written, self.reasons = 0, []

    def beat_written(self) -> None:
        self.written += 1

    def beat_failed(self, reason: str) -> None:
        self.reasons.append(reason)


def beating(servers: str, topic: str) -> tuple[HeartbeatWriter, Heard]:
    heard, answers = Heard(), iter([True])
    producer = Producer({"bootstrap.servers": servers, **BEAT_OPTIONS, "message.timeout.ms": 3000})
    return HeartbeatWriter(producer, topic, lambda: next(answers, False), 0.05, heard), heard


def test_a_heartbeat_that_the_broker_does_not_take_is_no_heartbeat(bootstrap_servers, make_topic):
    good, of_good = beating(bootstrap_servers, make_topic("beats"))
    bad, of_bad = beating(bootstrap_servers, "there-is-no-such-topic")
    for writer in (good, bad):
        writer.start()
    until(lambda: of_good.written == 1 and len(of_bad.reasons) == 1, 20)
    assert (of_good.reasons, of_bad.written) == ([], 0)
    assert of_bad.reasons[0]
    for writer in (good, bad):
        writer.stop()


def test_originals_that_retention_took_are_gone_and_the_others_are_found(admin, bootstrap_servers, make_topic):
    topic = make_topic("shortened")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for k in range(20):
        producer.produce(topic, f"v{k}".encode())
    producer.flush()
    delete_records(admin, {(topic, 0): 10})
    reader = OriginalReader({"bootstrap.servers": bootstrap_servers})
    found = list(reader.read(topic, 0, [3, 9, 10, 15, 30]))
    assert [(one.found, one.value, one.problem) for one in found] == [
        (False, None, ""),
        (False, None, ""),
        (True, b"v10", ""),
        (True, b"v15", ""),
        (False, None, ""),
    ]
    assert [one.found for one in reader.read(topic, 0, [2, 3])] == [False, False]
    reader.close()


def test_originals_of_a_broker_that_is_away_are_not_gone_and_it_is_waited_for_once():
    reader = OriginalReader({"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, timeout_s=3)
    begun = time.monotonic()
    found = list(reader.read("any", 0, [5, 6000, 12000]))
    assert 3 <= time.monotonic() - begun < 8
    assert [one.found for one in found] == [False] * 3
    assert all(one.problem for one in found)
    reader.close()
