"""Records of a megabyte: batches are bounded in bytes, and workers hold a part of a batch at a time."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from app.delivery.record_sizes import topic_sizes
from app.events.wire import prefix
from tests.kafka.application import Application, records_of, until
from tests.kafka.test_transactions import Sending
from tests.kafka.test_whole_way import apply_topics

PHOTO = {
    "type": "record",
    "name": "Photo",
    "fields": [
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tag", "type": "string"},
        {"name": "pixels", "type": "bytes"},
    ],
}
QUERY = """\
name: photos
version: 1
title: Two photos of a tag
from: photos
event: SEQ(Photo a, Photo b)
where: "[tag]"
within: 1 h
return: {tag: a.tag}
output: {topic: large.found, key: tag}
"""
PIXELS, PHOTOS = 900_000, 500
MIB = 1 << 20


def produced(servers: str, topic: str, *values: bytes, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value, partition=partition)
    producer.flush()


def test_sizes_are_sampled_where_reading_begins_and_at_the_end(bootstrap_servers, make_topic):
    small, grown, empty = make_topic("small", 3), make_topic("grown"), make_topic("empty")
    for partition in range(3):
        produced(bootstrap_servers, small, *[b"x" * 100] * 10, partition=partition)
    produced(bootstrap_servers, grown, *[b"x" * 1000] * 60, *[b"x" * 50_000] * 30)
    options = {"bootstrap.servers": bootstrap_servers}
    topics = [small, grown, empty, "there-is-no-such-topic"]
    begun = time.monotonic()
    sizes = topic_sizes(options, topics, {(small, 0): 10, (small, 1): 4, (grown, 0): 80}, from_beginning=True)
    assert set(sizes) == {small, grown, empty}
    assert (sizes[small].record_bytes, sizes[small].held, sizes[small].waiting) == (100, 30, 16)
    assert (sizes[grown].record_bytes, sizes[grown].held, sizes[grown].waiting) == (50_000, 90, 10)
    assert (sizes[empty].record_bytes, sizes[empty].held, sizes[empty].waiting) == (0, 0, 0)
    fresh = topic_sizes(options, [grown], None, from_beginning=False)
    assert (fresh[grown].record_bytes, fresh[grown].waiting) == (50_000, 0)
    assert topic_sizes(options, [grown], None, from_beginning=True)[grown].waiting == 90
    shrunk = make_topic("shrunk")
    produced(bootstrap_servers, shrunk, *[b"x" * 50_000] * 60, *[b"x" * 1000] * 60)
    assert topic_sizes(options, [shrunk], None, from_beginning=True)[shrunk].record_bytes == 50_000, "a backlog of another kind"
    assert topic_sizes(options, [shrunk], None, from_beginning=False)[shrunk].record_bytes == 1000
    assert time.monotonic() - begun < 20, "the ends of logs are known, not waited for"


def test_markers_of_transactions_hold_no_sample_up(bootstrap_servers, make_topic):
    topic = make_topic("marked")
    sending = Sending(bootstrap_servers, topic)
    sending.committed(b"x" * 300)
    sending.aborted(b"x" * 9000)
    begun = time.monotonic()
    sizes = topic_sizes({"bootstrap.servers": bootstrap_servers, "isolation.level": "read_committed"}, [topic], None, from_beginning=True)
    assert sizes[topic].record_bytes == 300
    assert time.monotonic() - begun < 8


def workers(parent: int) -> dict[int, int]:
    """Greatest resident memory so far of the Python processes below Spark, MiB: daemon, keeper, owners, and workers of tasks."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below, found = {parent}, {}
    for _ in range(6):
        below |= {pid for pid, above in parents.items() if above in below}
    for pid in below - {parent}:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        except OSError:
            continue
        if b"app.pipeline.daemon" in command and peak:  # a word of its own: the JVM's command line names the module as a setting
            found[pid] = int(peak[1]) >> 10
    return found


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_large_records_come_in_small_batches_and_workers_stay_small(embedded, tmp_path):
    servers, topic = embedded.broker.bootstrap_servers, "large.photos"
    (tmp_path / "photo.avsc").write_text(json.dumps(PHOTO))
    (tmp_path / "photos.yaml").write_text(QUERY)
    stream = {"topics": [topic], "schemas": [str(tmp_path / "photo.avsc")], "time": "time", "idle_after": "1 h", "partitions": 1}
    settings = {
        "kafka": {"bootstrap_servers": servers, "starting_offsets": "earliest"},
        "schema_registry": {"url": embedded.registry.url},
        "streams": {"photos": stream},
        "queries": {"paths": [str(tmp_path / "photos.yaml")]},
        "topics": {"prefix": "large", "partitions": 1},
    }
    apply_topics(settings, tmp_path)
    schema_id = SchemaRegistryClient({"url": embedded.registry.url}).register_schema(f"{topic}-value", Schema(json.dumps(PHOTO), "AVRO"))
    base_ms = int(time.time() * 1000) - 600_000

    def photo(k: int, pixels: int) -> bytes:
        stream = io.BytesIO(prefix(schema_id))
        stream.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(stream, PHOTO, {"time": base_ms + k, "tag": f"t{k // 2}", "pixels": bytes(pixels)})
        return stream.getvalue()

    produced(servers, topic, *(photo(k, PIXELS) for k in range(PHOTOS)))
    application = Application(tmp_path, settings)
    peaks: dict[int, int] = {}

    def consumed() -> bool:
        for pid, peak in workers(application.process.pid).items():
            peaks[pid] = max(peak, peaks.get(pid, 0))
        return application.has_consumed(PHOTOS, topic)

    try:
        application.started()
        until(consumed, 240, alive=application.alive)
        (told,) = [json.loads(line) for line in application.log.read_text().splitlines() if '"batches are bounded"' in line]
        assert told["records"] == pytest.approx(256 * MIB / PIXELS, rel=0.01)
        until(lambda: f'cep_bytes_consumed_total{{topic="{topic}"}}' in application.text("/metrics"), alive=application.alive)
        until(lambda: len(records_of(servers, "large.found")) >= PHOTOS // 2 - 1, alive=application.alive)
        assert len(list((application.checkpoint / "spark" / "commits").glob("[0-9]*"))) >= 2
        print(f"peaks of workers, MiB: {sorted(peaks.values())}")
        assert peaks, "workers were seen"
        idle = min(peaks.values())
        assert max(peaks.values()) - idle < 200, f"a worker held a whole batch: {sorted(peaks.values())} MiB"
        assert application.stop() == 0
    finally:
        if application.process.poll() is None:
            application.kill()
