"""An embedded Kafka broker: one node, KRaft, a child process, data in a folder of its own."""

from __future__ import annotations

import base64
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from app.bootstrap.artifacts import broker_jars
from app.bootstrap.java import find_java
from app.errors import DependencyError
from app.local.child import Child
from app.local.ports import accepts, free_ports

_START_SECONDS = 90.0
"""4 s on a free machine; 9 s were seen under load, and CI machines are worse."""
_FORMAT_SECONDS = 60.0
_ATTEMPTS = 3
"""Somebody may take a free port between our look and the broker's bind."""

_FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

_SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={data}
# broker time: honest latencies
log.message.timestamp.type=LogAppendTime
auto.create.topics.enable=false
num.partitions=4
default.replication.factor=1
offsets.topic.replication.factor=1
# the default is 50 each, which makes the first consumer and the first transaction slow
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# a demo left running must not fill the disk
log.retention.minutes=60
log.retention.bytes=2147483648
log.segment.bytes=134217728
"""


_OUTSIDE = """\
listeners=PLAINTEXT://127.0.0.1:{port},OUTSIDE://0.0.0.0:{outside_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},OUTSIDE://{outside_host}:{outside_port},CONTROLLER://127.0.0.1:{controller_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
"""
"""Later lines win: a third listener for clients that know this machine by a name, such as pods."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running embedded broker."""

    bootstrap_servers: str
    child: Child
    folder: Path
    outside_servers: str | None = None
    """For clients that are not on this machine, if it was asked to listen to them."""


@contextmanager
def embedded_broker(folder: Path | None = None, heap_megabytes: int = 512, outside_host: str | None = None) -> Iterator[Broker]:
    """A broker for as long as the block runs.

    Args:
        folder: Data and logs; a temporary one, removed at the end, when not given. A folder that holds data of an earlier run continues it.
        heap_megabytes: The JVM's heap; 512 carries 700,000 events/s.
        outside_host: Listen on all interfaces too, for clients that know this machine by this name.

    Yields:
        The broker, ready: it answers requests for its topics.

    Raises:
        DependencyError: it did not start in time.
    """
    home = folder or Path(tempfile.mkdtemp(prefix="cep-broker-"))
    home.mkdir(parents=True, exist_ok=True)
    try:
        broker = start_broker(home, heap_megabytes, outside_host)
        try:
            wait_for_broker(broker)
            yield broker
        finally:
            broker.child.terminate()
    finally:
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)


def start_broker(home: Path, heap_megabytes: int = 512, outside_host: str | None = None) -> Broker:
    """Start a broker and return as soon as it listens; :func:`wait_for_broker` tells when it is ready.

    A folder with data of an earlier run keeps its ports: the controller's is written into the metadata, and clients may know the other.
    """
    class_path = os.pathsep.join(str(jar) for jar in broker_jars())
    java = find_java().command
    settings = home / "server.properties"
    continued = settings.exists() and (home / "data" / "meta.properties").exists()
    for attempt in range(1 if continued else _ATTEMPTS):
        if not continued:
            _write_settings(home, settings, outside_host)
            shutil.rmtree(home / "data", ignore_errors=True)
            _format(java, class_path, settings)
        command = [java, f"-Xmx{heap_megabytes}m", "-cp", class_path, "kafka.Kafka", str(settings)]
        child = Child("embedded broker", command, home / f"broker-{attempt}.log")
        ports = dict(re.findall(r"(PLAINTEXT|OUTSIDE)://[^:]+:(\d+)", settings.read_text(encoding="utf-8")))
        outside = f"{outside_host}:{ports['OUTSIDE']}" if outside_host else None
        broker = Broker(f"127.0.0.1:{ports['PLAINTEXT']}", child, home, outside)
        try:
            child.wait_until(lambda: accepts(int(ports["PLAINTEXT"])), _START_SECONDS)  # noqa: B023 - called at once
        except DependencyError as error:
            child.terminate()
            if "already in use" in str(error) and attempt + 1 < _ATTEMPTS and not continued:
                continue
            raise
        return broker
    raise DependencyError("embedded broker: no free port could be had")


def _write_settings(home: Path, settings: Path, outside_host: str | None) -> None:
    port, controller_port, outside_port = free_ports(3)
    text = _SETTINGS + (_OUTSIDE if outside_host else "")
    places = {"port": port, "controller_port": controller_port, "outside_port": outside_port, "outside_host": outside_host}
    settings.write_text(text.format(**places, data=home / "data"), encoding="utf-8")


def wait_for_broker(broker: Broker) -> None:
    """Wait until the broker answers.

    Raises:
        DependencyError: it does not in time.
    """
    # Quiet: librdkafka's complaints about the first refused connections are no news while we wait.
    admin = AdminClient(
        {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
    )

    def answers() -> bool:
        try:
            metadata = admin.list_topics(timeout=2)
            partitions = [TopicPartition(topic, number) for topic, about in metadata.topics.items() for number in about.partitions]
            if partitions:  # of an earlier run: for a moment they are known, but led by nobody
                asked = admin.list_offsets({each: OffsetSpec.latest() for each in partitions}, request_timeout=2)
                concurrent.futures.wait(asked.values())
                return all(future.exception() is None for future in asked.values())
            return bool(metadata.brokers)
        except KafkaException:
            return False

    broker.child.wait_until(answers, _START_SECONDS)


def _format(java: str, class_path: str, settings: Path) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [java, *_FAST_START, "-cp", class_path, "kafka.tools.StorageTool"]
    command += ["format", "--standalone", f"--cluster-id={cluster}", "-c", str(settings)]  # an id may begin with a dash
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False)
    if done.returncode != 0:
        raise DependencyError(f"embedded broker: the data folder cannot be formatted: {(done.stdout + done.stderr).strip()[-1000:]}")
