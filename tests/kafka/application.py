"""The real application as a child process, and what the tests want to know about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml
from confluent_kafka import Consumer, KafkaError, TopicPartition

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress
from app.bucket.ingress import IngressPlan
from app.events.avro import parse_schema
from app.events.batch import source_number
from app.events.decoder import BatchDecoder
from app.events.registry import Registry, RegistrySettings
from app.events.topics import topic_numbers
from app.local.application import answer_of, start_application
from app.local.ports import free_ports
from app.owners.deployment import Deployment, load_deployment
from tests.naive.composites import CompositeEvent, composite_events

ROOT = Path(__file__).parents[2]


def until(condition: Callable[[], object], seconds: float = 120.0, pause: float = 0.2, alive: Callable[[], None] | None = None) -> object:
    """Waits for a condition, with a deadline; returns what it gave."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if alive is not None:
            alive()
        assert time.monotonic() < deadline, f"not in {seconds} s: {condition}"
        time.sleep(pause)
    return found


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


def records_of(servers: str, *topics: str) -> list[Record]:
    """All records of the topics, from the beginning to now."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "tests",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found = []
    for topic in topics:
        partitions = [TopicPartition(topic, number, 0) for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions]
        ends = {p.partition: consumer.get_watermark_offsets(p, timeout=20)[1] for p in partitions}
        consumer.assign([p for p in partitions if ends[p.partition]])
        left = {number for number, end in ends.items() if end}
        while left:
            message = consumer.poll(10)
            if message is not None and message.error() is not None and message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())  # what follows the last record are markers of transactions
                continue
            assert message is not None and message.error() is None, f"{topic}: {message and message.error()}"
            headers = dict(message.headers() or ())
            found.append(Record(topic, message.partition(), message.offset(), message.key(), message.value(), headers))
            if message.offset() + 1 >= ends[message.partition()]:
                left.discard(message.partition())
    consumer.close()
    return found


class Application:
    """`python -m app run` with settings of its own; a process group, so that a kill takes JVM and workers as well."""

    def __init__(self, folder: Path, settings: dict, env: dict[str, str] | None = None) -> None:
        (self.port,) = free_ports(1)
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        http = {"port": self.port, "host": "127.0.0.1"}
        self.settings = {**settings, "checkpoint": {"path": str(self.checkpoint)}, "http": http}
        self.file = folder / "settings.yaml"
        self.file.write_text(yaml.safe_dump(self.settings))
        self.log = folder / "application.log"
        self.env = dict(env or {})
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        self.process = start_application(self.file, self.log, self.env)

    def started(self) -> None:
        self.start()
        until(lambda: self.get("/startupz") == 200, alive=self.alive)

    def alive(self) -> None:
        assert self.process is not None and self.process.poll() is None, self.log.read_text()[-5000:]

    def get(self, path: str) -> int:
        return answer_of(self.port, path)[0]

    def text(self, path: str) -> str:
        status, text = answer_of(self.port, path, timeout_s=30)
        if status != 200:
            raise OSError(f"{path}: {status} {text}")
        return text

    def kill(self) -> None:
        """As a machine that loses power: driver, JVM and workers at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def stop(self, seconds: float = 60) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def committed(self) -> dict[tuple[str, int], int]:
        """Offsets up to which Spark has committed, by topic partition."""
        commits = [int(path.name) for path in (self.checkpoint / "spark" / "commits").glob("*") if path.name.isdigit()]
        if not commits:
            return {}
        lines = (self.checkpoint / "spark" / "offsets" / str(max(commits))).read_text().splitlines()
        return {(topic, int(p)): end for topic, parts in json.loads(lines[2]).items() for p, end in parts.items()}

    def has_consumed(self, events: int, *topics: str) -> bool:
        return sum(end for (topic, _), end in self.committed().items() if topic in topics) >= events

    def deployment(self) -> Deployment:
        (file,) = (self.checkpoint / "deployments").iterdir()
        return load_deployment(str(self.checkpoint), file.name)


def expected_composites(
    servers: str, registry_url: str, deployment: Deployment, without: Callable[[Record], bool] = lambda _: False
) -> dict[str, list[CompositeEvent]]:
    """What the records of the input topics amount to, by query, without some of them: one bucket, one step, no Spark."""
    registry = Registry(RegistrySettings(registry_url))
    bucket, progress = Bucket(deployment.catalog, [s.rules for s in deployment.streams], 0, deployment.topics), Progress(closing=True)
    numbers, chunks = topic_numbers(deployment.topics), []
    for place, stream in enumerate(deployment.streams):
        topics = [topic for topic, of in zip(deployment.topics, deployment.stream_of_topic, strict=True) if of == place]
        records = [record for record in records_of(servers, *topics) if not without(record)]
        source = np.array([source_number(numbers[r.topic], r.partition) for r in records], dtype=np.int64)
        offset = np.array([r.offset for r in records], dtype=np.int64)
        order = np.lexsort((offset, source))
        decoder = BatchDecoder(stream.definition, [parse_schema(text) for text in stream.readers], registry)
        values = pa.array([records[k].value for k in order], pa.binary())
        decoded = decoder.decode(values, source[order], offset[order])
        ingested = IngressPlan(deployment.catalog, stream.rules, 1).ingest(decoded.batch, Progress())
        chunks += ingested.chunks
    found: dict[str, list[CompositeEvent]] = {plan.name: [] for plan in deployment.catalog.plans}
    for one in bucket.advance(chunks, progress).found:
        plan = deployment.catalog.plans[one.query]
        found[plan.name] += composite_events(plan, one.matches, deployment.topics)
    return found
