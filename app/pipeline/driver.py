"""The driver: starts everything in the order in which it is needed, watches, and stops between batches."""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.config.durations import format_duration
from app.config.settings import Settings
from app.control.plane import ControlPlane
from app.delivery.security import client_options
from app.errors import CepError, ConfigurationError, DependencyError, Finding
from app.events.registry import Registry
from app.observe.logs import get_logger
from app.pipeline.application import ProgressListener, control_plane, open_catalog, task_settings
from app.pipeline.assemble import outputs, to_kafka
from app.pipeline.causes import cause
from app.pipeline.deployment import Deployment
from app.pipeline.draining import past_of
from app.pipeline.preparation import check_topics, compile_queries, prepare, read_streams, registry_settings, without_models
from app.pipeline.reload.watcher import watching
from app.pipeline.session import start_session
from app.pipeline.source import kafka_records

PAUSE_S = 0.2
RETRY_PAUSE_S = 1.0
Result = TypeVar("Result")

log = get_logger(__name__)


class CheckpointTakenError(CepError):
    """Another driver works on this checkpoint (exit code 75)."""


class QueryFailedError(CepError):
    """The streaming query ended with an error (exit code 1)."""


@dataclass(slots=True)
class Stop:
    """Asked for by a signal: the first request waits for the batch in flight, the second does not."""

    asked: threading.Event = field(default_factory=threading.Event)
    at_once: threading.Event = field(default_factory=threading.Event)
    failed: threading.Event = field(default_factory=threading.Event)
    """Set when the query has failed: from here on there is only cleaning up to do."""

    def request(self) -> None:
        """Notes a request."""
        (self.at_once if self.asked.is_set() else self.asked).set()


@contextmanager
def sole_driver(settings: Settings) -> Iterator[None]:
    """Holds the checkpoint for this driver: two on one checkpoint would corrupt it.

    Raises:
        CheckpointTakenError: another driver holds it.
        ConfigurationError: the folder cannot be written.
    """
    path = settings.checkpoint.path
    if "://" in path and not path.startswith("file://"):
        yield  # object stores have no locks; the chart runs one replica
        return
    folder = Path(path.removeprefix("file://"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "driver.lock").open("w")
    except OSError as error:
        finding = Finding(f"checkpoint.path: cannot write to {folder}: {_words(error)}", hint="name a folder that survives the driver")
        raise ConfigurationError([finding]) from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CheckpointTakenError(f"another driver works on the checkpoint {folder}") from error
        yield


def patiently(what: str, question: Callable[[], Result], retry_for_ms: int, stop: Stop) -> Result:
    """Asks a dependency until it answers.

    Raises:
        DependencyError: it did not answer in time.
    """
    deadline = time.monotonic() + retry_for_ms / 1000
    while True:
        try:
            return question()
        except DependencyError as error:
            if time.monotonic() >= deadline or stop.asked.is_set():
                raise DependencyError(
                    f"{error}\nhint: the {what} was waited for {format_duration(retry_for_ms)}; is its address right, is it up?"
                ) from error
            log.warning("waiting for a dependency", dependency=what, reason=str(error))
            stop.asked.wait(RETRY_PAUSE_S)


def run(settings: Settings, stop: Stop, file: Path | None = None) -> None:
    """Runs the application until it is asked to stop.

    Args:
        settings: of the application.
        stop: by whom it is asked.
        file: the settings file, to tell when it changes.

    Raises:
        ConfigurationError, TopicsMissingError: it cannot start as configured.
        DependencyError: broker or registry do not answer.
        CheckpointTakenError: another driver works on the checkpoint.
        QueryFailedError: the query ended with an error.
    """
    with ExitStack() as cleanup:
        cleanup.enter_context(sole_driver(settings))
        plane = _listening(settings)
        cleanup.callback(plane.close)
        deployment = _prepared(settings, stop)
        fingerprint = open_catalog(settings, plane, deployment)
        plane.assign(_partitions(settings))
        spark = start_session(settings)
        cleanup.callback(_stop_spark, spark)
        plane.started.good()
        committed = threading.Event()
        listener = ProgressListener(plane, committed)
        spark.streams.addListener(listener)
        cleanup.callback(_forget, spark, listener)
        query = to_kafka(outputs(kafka_records(spark, settings), settings, task_settings(settings, plane)), settings).start()
        plane.running.good()
        if settings.heartbeat.enabled:
            plane.start_heartbeat(Producer({**client_options(settings.kafka), "linger.ms": 0}))
        cleanup.enter_context(watching(settings, plane, deployment, Registry(registry_settings(settings.schema_registry)), file))
        log.info("running", queries=[plan.name for plan in deployment.catalog.plans], port=plane.address.port, deployment=fingerprint)
        _watch(query, plane, stop)
        plane.running.bad("stopping")
        _stop_between_batches(query, committed, settings, stop)


def _listening(settings: Settings) -> ControlPlane:
    try:
        return control_plane(settings)
    except OSError as error:
        http = settings.http
        finding = Finding(f"http: cannot listen on {http.host}:{http.port}: {_words(error)}", hint="set http.port; 0 takes any free one")
        raise ConfigurationError([finding]) from error


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _prepared(settings: Settings, stop: Stop) -> Deployment:
    registry = Registry(registry_settings(settings.schema_registry))
    wait_ms = settings.schema_registry.retry_for
    streams = patiently("schema registry", lambda: read_streams(settings, registry), wait_ms, stop)
    compiled = compile_queries(settings, streams)
    for finding in compiled.warnings:
        log.warning("query warning", finding=finding.render())
    patiently("broker", lambda: check_topics(settings, compiled.catalog), wait_ms, stop)
    past = past_of(settings)
    deployment = patiently("schema registry", lambda: prepare(settings, compiled, streams, registry, past), wait_ms, stop)
    for query, shedder in without_models(compiled, deployment):
        folder = settings.queries.models or "queries.models is not set"
        log.warning("no model: sheds at random", query=query, shedder=shedder, models=str(folder), hint="write one with cep train")
    return deployment


def _partitions(settings: Settings) -> list[tuple[str, int]]:
    try:
        known = AdminClient({**client_options(settings.kafka), "log_level": 0}).list_topics(timeout=30).topics
    except KafkaException as error:
        raise DependencyError(f"no answer from the brokers {settings.kafka.bootstrap_servers}: {error.args[0].str()}") from error
    return [(topic, partition) for topic in settings.source_topics if topic in known for partition in sorted(known[topic].partitions)]


def _watch(query: StreamingQuery, plane: ControlPlane, stop: Stop) -> None:
    """Beats the pulse until somebody asks to stop, or the query ends."""
    while not stop.asked.wait(PAUSE_S):
        plane.pulse.beat()
        if failure := _failure(query):
            stop.failed.set()
            log.error("query failed", **{"error.stack": failure})
            raise QueryFailedError(f"the streaming query ended: {cause(failure)}")


def _failure(query: StreamingQuery) -> str:
    """Why the query runs no more; empty while it does."""
    try:
        return "" if query.isActive else str(query.exception() or "without an error")
    except (Py4JError, OSError) as error:  # nobody answers: killed, most likely for its memory
        return f"Spark's JVM is gone: {error}"


def _forget(spark: SparkSession, listener: ProgressListener) -> None:
    """The JVM must not call an interpreter that is going away."""
    with contextlib.suppress(Py4JError, OSError):
        spark.streams.removeListener(listener)


def _stop_spark(spark: SparkSession) -> None:
    with contextlib.suppress(Py4JError, OSError):  # a JVM that is gone need not be stopped
        spark.stop()


def _stop_between_batches(query: StreamingQuery, committed: threading.Event, settings: Settings, stop: Stop) -> None:
    """Lets the batch in flight commit, within the time that there is; a batch that is cut off is repeated at the next start."""
    status: Mapping[str, Any] = query.status
    if status.get("isTriggerActive") and status.get("isDataAvailable"):
        committed.clear()
        deadline = time.monotonic() + settings.spark.stop_timeout / 1000
        while not committed.wait(PAUSE_S) and time.monotonic() < deadline and not stop.at_once.is_set():
            pass
    query.stop()
    log.info("stopped")
