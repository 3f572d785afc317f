"""The driver: starts everything in the order in which it is needed, watches, and stops between batches."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.config.durations import format_duration
from app.config.settings import Settings
from app.control.arrivals.heartbeat import BEAT_OPTIONS
from app.control.messages.batch_log import DIRECTIVE, BatchLog
from app.control.plane import ControlPlane
from app.delivery.kept import KeptProducer
from app.delivery.security import client_options, shipped_options
from app.delivery.topics import TopicAdministrator
from app.errors import CepError, ConfigurationError, DependencyError, Finding, SnapshotError
from app.events.topics import topic_numbers
from app.observe.logs import get_logger
from app.owners.deployment import Deployment, StreamDeployment
from app.owners.inventory import fault_of_spark_log
from app.owners.sole import sole_driver
from app.pipeline.answers import RememberedRegistry
from app.pipeline.application import control_plane, matching, open_catalog, remembered_registry, task_settings
from app.pipeline.assemble import ingested, matched
from app.pipeline.batches import Batches
from app.pipeline.causes import cause
from app.pipeline.draining import past_of
from app.pipeline.learning.learner import learning
from app.pipeline.limits import batch_limits
from app.pipeline.moving import move_to_readers, numbers_after_moves
from app.pipeline.numbers import Numbers, buckets_kept, store_numbers
from app.pipeline.offsets import OffsetLog
from app.pipeline.preparation import compile_queries, ensure_topics, prepare, read_streams, without_models
from app.pipeline.progress import ProgressListener
from app.pipeline.reload.watcher import watching
from app.pipeline.resumption import Kafka, Resumption, resumption
from app.pipeline.secret_checks import check_secrets
from app.pipeline.session import bound_arrow_batches
from app.pipeline.shown import shown_outside
from app.pipeline.source import kafka_records
from app.pipeline.stalls import StallWatch
from app.pipeline.starting import spark_starting
from app.query.compile import Compilation
from app.storage.open import open_store
from app.storage.trial import try_out

PAUSE_S = 0.2
STOP_PAUSE_S = 0.02
RETRY_PAUSE_S = 1.0
Result = TypeVar("Result")

log = get_logger(__name__)


class QueryFailedError(CepError):
    """The streaming query ended with an error (exit code 1)."""


@dataclass(slots=True)
class Stop:
    """Asked for by a signal: the first request waits for the batch in flight, the second does not."""

    asked: threading.Event = field(default_factory=threading.Event)
    at_once: threading.Event = field(default_factory=threading.Event)
    failed: threading.Event = field(default_factory=threading.Event)
    """Set when the query has failed: from here on there is only cleaning up to do."""
    failure: Exception | None = None
    """Why it has."""

    def request(self) -> None:
        """Notes a request."""
        (self.at_once if self.asked.is_set() else self.asked).set()


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
        BatchFailedError, AccountsError: a batch cannot be done, or its accounts do not close.
    """
    check_secrets(settings)
    with ExitStack() as cleanup:
        cleanup.enter_context(sole_driver(settings))
        try_out(settings.checkpoint.address)
        settings = buckets_kept(settings)
        plane = _listening(settings)
        cleanup.callback(plane.close)
        plane.metrics.set("cep_leader", 1)  # `sole_driver` has the checkpoint's lock
        registry = remembered_registry(settings, lambda: plane.metrics.add("cep_schema_registry_errors_total", 1))
        streams, compiled = _compiled(settings, registry, stop)  # before the broker is asked: broken files are told while it is away
        starting = cleanup.enter_context(spark_starting(settings))  # not before: a broken file should be told at once
        resumed = _resumed(settings, stop)
        streams = numbered_streams(settings, streams, resumed.numbers)
        deployment = _prepared(settings, compiled, streams, registry, numbers=resumed.numbers, stop=stop)
        store_numbers(settings.checkpoint.uri, resumed.noted)
        OffsetLog(settings.checkpoint.uri).correct(resumed.correction)
        store_numbers(settings.checkpoint.uri, resumed.numbers)
        move_to_readers(settings, deployment)
        limits = patiently("broker", lambda: batch_limits(settings), settings.schema_registry.retry_for, stop)
        plane.limit_batches(limits.records)
        fingerprint = open_catalog(settings, plane, deployment)
        plane.assign(_partitions(settings))
        spark = starting.result()
        bound_arrow_batches(spark, settings, limits.arrow_bytes)
        listener = ProgressListener(plane)
        spark.streams.addListener(listener)
        cleanup.callback(_forget, spark, listener)
        batches = cleanup.enter_context(matching(spark, settings, plane, stop=stop.asked))
        if stop.asked.is_set():
            return  # perhaps there is no executor: whatever asks Spark now waits for one
        batches.prepare(fingerprint)
        cleanup.enter_context(shown_outside(settings, plane, batches))
        records = kafka_records(spark, settings, deployment.topics, limits.records)
        query = matched(ingested(records, settings, task_settings(settings, plane)), settings, batches).start()
        _started(plane)
        if settings.heartbeat.enabled:
            plane.start_heartbeat(KeptProducer({**shipped_options(settings.kafka), **BEAT_OPTIONS}))
        cleanup.enter_context(watching(settings, plane, deployment, registry, file))
        cleanup.enter_context(learning(settings, plane))
        log.info("running", queries=[plan.name for plan in deployment.catalog.plans], port=plane.port, deployment=fingerprint)
        gc.collect()
        gc.freeze()  # what is there now stays: collections in the middle of a batch need not look at it
        _watch(query, plane, batches, StallWatch(plane, batches, settings.spark.stall_after), stop)
        plane.running.bad("stopping")
        _stop_between_batches(query, batches, settings, stop)


def _started(plane: ControlPlane) -> None:
    """The query runs. Not before: until then nothing beats the pulse, and a slow start would be killed as a hanging loop."""
    plane.running.good()
    plane.pulse.beat()
    plane.started.good()


def _listening(settings: Settings) -> ControlPlane:
    try:
        return control_plane(settings)
    except OSError as error:
        http = settings.http
        where = f"{http.host}:{http.port}" + (
            "" if http.control.port is None else f" and {http.control.host or http.host}:{http.control.port}"
        )
        finding = Finding(f"http: cannot listen on {where}: {_words(error)}", hint="set http.port; 0 takes any free one")
        raise ConfigurationError([finding]) from error


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _resumed(settings: Settings, stop: Stop) -> Resumption:
    """How the checkpoint's topics go on.

    Raises:
        SnapshotError: Spark's log is missing beside our own.
        ConfigurationError: it is in another number of buckets, or records are gone that it has not read.
        DependencyError: the broker does not answer.
    """
    store = open_store(settings.checkpoint.uri)
    for name in OffsetLog(settings.checkpoint.uri).drop_torn(BatchLog(store).latest_batch(DIRECTIVE)):
        log.warning("an empty entry of Spark's log was dropped: the machine has gone down before it was written", entry=name)
    if fault := fault_of_spark_log(store):
        raise SnapshotError(
            f"{fault}\nhint: restore it, or begin with another checkpoint.path; cep checkpoint verify says what else is amiss"
        )
    numbers = numbers_after_moves(settings.checkpoint.uri).in_buckets(settings.spark.buckets)
    topics, wait_ms = settings.source_topics, settings.schema_registry.retry_for
    ids = patiently("broker", lambda: TopicAdministrator(settings).ids(topics), wait_ms, stop)
    earliest = patiently("broker", lambda: TopicAdministrator(settings).earliest(topics), wait_ms, stop)
    found = resumption(numbers, topics, Kafka(ids, earliest), OffsetLog(settings.checkpoint.uri).committed(), {settings.topics.heartbeat})
    if found.lost and settings.kafka.fail_on_data_loss:
        raise ConfigurationError(list(found.lost))
    for finding in found.lost:
        log.warning("records are gone", finding=finding.message)
    return found


def _compiled(settings: Settings, registry: RememberedRegistry, stop: Stop) -> tuple[tuple[StreamDeployment, ...], Compilation]:
    """The streams, whose topics have no lasting numbers yet, and the queries over them."""
    streams = patiently("schema registry", lambda: read_streams(settings, registry), settings.schema_registry.retry_for, stop)
    compiled = compile_queries(settings, streams)
    for finding in compiled.warnings:
        log.warning("query warning", finding=finding.render())
    return streams, compiled


def numbered_streams(settings: Settings, streams: Sequence[StreamDeployment], numbers: Numbers) -> tuple[StreamDeployment, ...]:
    """The streams with the numbers that their topics have in the checkpoint."""
    number = topic_numbers(numbers.labels)
    topics = {name: frozenset(number[topic] for topic in stream.topics) for name, stream in settings.streams.items()}
    return tuple(replace(one, rules=replace(one.rules, topics=topics[one.rules.stream])) for one in streams)


def _prepared(
    settings: Settings,
    compiled: Compilation,
    streams: tuple[StreamDeployment, ...],
    registry: RememberedRegistry,
    *,
    numbers: Numbers,
    stop: Stop,
) -> Deployment:
    wait_ms = settings.schema_registry.retry_for
    patiently("broker", lambda: ensure_topics(settings, compiled.catalog), wait_ms, stop)
    past = past_of(settings)
    deployment = patiently(
        "schema registry", lambda: prepare(settings, compiled, streams, registry, past, topics=numbers.labels), wait_ms, stop
    )
    registry.save()
    for query, shedder in without_models(compiled, deployment):
        folder = settings.queries.models or "queries.models is not set"
        hint = "one is being learned" if settings.learning.enabled else "write one with cep train, or cep models learn"
        log.warning("no model: sheds at random", query=query, shedder=shedder, models=str(folder), hint=hint)
    return deployment


def _partitions(settings: Settings) -> list[tuple[str, int]]:
    try:
        known = AdminClient({**client_options(settings.kafka), "log_level": 0}).list_topics(timeout=30).topics
    except KafkaException as error:
        raise DependencyError(f"no answer from the brokers {settings.kafka.bootstrap_servers}: {error.args[0].str()}") from error
    return [(topic, partition) for topic in settings.source_topics if topic in known for partition in sorted(known[topic].partitions)]


def _watch(query: StreamingQuery, plane: ControlPlane, batches: Batches, stalls: StallWatch, stop: Stop) -> None:
    """Beats the pulse until somebody asks to stop, or the query ends."""
    while not stop.asked.wait(PAUSE_S):
        plane.pulse.beat()
        stalls.look(active=batches.running is not None or _at_a_batch(query))
        if failure := _failure(query):
            ended: CepError = QueryFailedError(f"the streaming query ended: {cause(str(batches.failure or failure))}")
            if isinstance(batches.failure, CepError):  # told by the batch itself
                ended = batches.failure
            else:
                log.error("query failed", **{"error.stack": failure})
            stop.failure = ended
            stop.failed.set()
            raise ended


def _at_a_batch(query: StreamingQuery) -> bool:
    """Whether Spark plans, does or commits a batch."""
    try:
        return bool(query.status["isTriggerActive"])
    except (Py4JError, OSError):  # why, `_failure` says
        return False


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


def _stop_between_batches(query: StreamingQuery, batches: Batches, settings: Settings, stop: Stop) -> None:
    """Lets the batch in flight commit, within the time that there is, and none begin; a batch that is cut off is repeated at the next start."""
    batches.stop()
    deadline = time.monotonic() + settings.spark.stop_timeout / 1000
    while batches.running is not None and time.monotonic() < deadline and not stop.at_once.is_set():
        time.sleep(STOP_PAUSE_S)
    while (
        query.isActive and not query.status["message"].startswith("Waiting") and time.monotonic() < deadline and not stop.at_once.is_set()
    ):
        time.sleep(STOP_PAUSE_S)  # it commits, or finds that no further batch begins
    try:
        query.stop()
    except (Py4JError, PySparkException) as error:  # owners are still at the batch: the next start repeats it
        log.warning("Spark did not stop in time; the batch in work is repeated by the next start", reason=str(error).splitlines()[0])
    log.info("stopped")
