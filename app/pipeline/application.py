"""What every way of running the application needs around Spark's query: the deployment, the control plane, the tasks' settings, Spark's progress.

`app.pipeline.driver` adds patience, locks and signals; benchmarks and tests take `opened`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from app import __version__
from app.config.settings import Settings
from app.console.site import site_of
from app.control.plane import ControlPlane
from app.control.running_catalog import RunningCatalog
from app.delivery.security import shipped_consumer_options, shipped_options
from app.delivery.witness import Witness
from app.events.registry import Registry, Subjects, registry_settings
from app.owners.deployment import Deployment, store_deployment
from app.owners.models import told_of
from app.owners.orders import OwnerSettings
from app.pipeline.answers import RememberedRegistry
from app.pipeline.batches import Answers, Batches, BatchRules, Plane, Taker
from app.pipeline.draining import past_of
from app.pipeline.ingress import TaskSettings
from app.pipeline.moving import move_to_readers, numbers_after_moves
from app.pipeline.numbers import load_numbers, store_numbers
from app.pipeline.planned import PlannedOffsets
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.pipeline.progress import ProgressListener
from app.pipeline.schemas import KeptDecisions, SchemaKeeping
from app.pipeline.session import slots_of
from app.pipeline.task_answers import answers_of_batch
from app.pipeline.warming import find_owners


def control_plane(settings: Settings) -> ControlPlane:
    """The control plane, listening, with the console at ``/``.

    Raises:
        OSError: it cannot listen at the configured address.
    """
    plane = ControlPlane(settings, {"version": __version__, "spark": pyspark.__version__, "git": os.environ.get("CEP_GIT_COMMIT", "")})
    plane.pages = site_of(plane, settings, registry_settings(settings.schema_registry)).page
    return plane


def task_settings(settings: Settings, plane: ControlPlane) -> TaskSettings:
    """What travels to the ingress tasks of one run of the driver; they ask it what to do while the schema registry is away."""
    return TaskSettings(settings.checkpoint.uri, schema_keeping(settings), plane.desk, settings.spark.stall_after / 1000)


def owner_settings(settings: Settings, *, kafka: bool = True) -> OwnerSettings:
    """What owners are told of the application.

    Args:
        settings: of the application.
        kafka: whether output goes to Kafka, and originals of dead letters can be read there again.
    """
    checkpoint = settings.checkpoint.uri
    path = (
        str(Path(checkpoint.removeprefix("file://")).absolute())
        if "://" not in checkpoint or checkpoint.startswith("file://")
        else checkpoint
    )
    return OwnerSettings(
        application=path,
        checkpoint=path,
        state=load_numbers(checkpoint).home.folder,
        producer_options=shipped_options(settings.kafka) if kafka else {},
        consumer_options=shipped_consumer_options(settings.kafka) if kafka else {},
        name=settings.application,
        max_record_bytes=settings.topics.max_record_bytes,
        stall_after_s=settings.spark.stall_after / 1000,
        logging=settings.logging.model_dump(),
    )


def schema_keeping(settings: Settings) -> SchemaKeeping:
    """Where the tasks find writers' schemas."""
    registry = settings.schema_registry
    return SchemaKeeping(settings.checkpoint.uri, registry_settings(registry), registry.on_registry_down == "dead_letter")


def remembered_registry(settings: Settings, failed: Callable[[], None]) -> RememberedRegistry:
    """The registry as the driver asks it: what it answered at earlier starts counts where it does not answer now.

    Args:
        settings: of the application.
        failed: told of every question that was not answered.
    """
    registry = Registry(registry_settings(settings.schema_registry))
    return RememberedRegistry(registry, settings.schema_registry.url, settings.checkpoint.uri, failed)


def open_catalog(settings: Settings, plane: ControlPlane, deployment: Deployment) -> str:
    """Stores the deployment in the checkpoint and makes its catalog the running one; returns its fingerprint."""
    fingerprint = store_deployment(settings.checkpoint.uri, deployment)
    offsets = PlannedOffsets(settings.checkpoint.uri)
    plane.registry.decisions = KeptDecisions(settings.checkpoint.uri)
    past = past_of(settings)
    before = None if past is None else RunningCatalog(past.deployment.catalog, past.named)
    plane.open(replace(running_catalog(deployment, fingerprint), before=before), offsets.speakers, offsets.ranges)
    return fingerprint


def running_catalog(deployment: Deployment, fingerprint: str) -> RunningCatalog:
    """A stored deployment, as the control plane opens it."""
    catalog = deployment.catalog
    return RunningCatalog(catalog, fingerprint, topics=deployment.topics, models=told_of(catalog.plans, deployment.models))


@dataclass(frozen=True, slots=True)
class Opened:
    """An application that is ready for Spark's query: `app.pipeline.assemble` wants its tasks and batches."""

    deployment: Deployment
    plane: ControlPlane
    tasks: TaskSettings
    batches: Batches


@contextmanager
def matching(
    spark: SparkSession,
    settings: Settings,
    plane: Plane,
    take: Taker | None = None,
    *,
    answers: Answers = answers_of_batch,
    stop: threading.Event | None = None,
) -> Iterator[Batches]:
    """The owners of a session's executors, found and told of the application; nobody waits for them once ``stop`` is set."""
    slots = slots_of(spark)
    rules = BatchRules(settings.spark.buckets, settings.spark.batch_attempts, strict=settings.delivery.on_accounting_breach == "fail")
    with ExitStack() as cleanup:
        first = None
        if take is None and settings.kafka.fail_on_data_loss:
            first = cleanup.enter_context(closing(Witness(shipped_consumer_options(settings.kafka)))).first
        batches = Batches(plane, rules, owner_settings(settings, kafka=take is None), slots.key, take, first=first, answers=answers)
        cleanup.callback(batches.close)
        find_owners(spark, batches, slots.slots, stop or threading.Event())
        yield batches


@contextmanager
def opened(spark: SparkSession, settings: Settings, registry: Subjects | None = None, *, take: Taker | None = None) -> Iterator[Opened]:
    """The application around a query of the caller's, without patience: everything it depends on must be there.

    Args:
        spark: whose queries' progress the control plane is told of.
        settings: of the application.
        registry: asked for schemas; the configured one when not given.
        take: gets the output records instead of Kafka; then records do not come from Kafka either.
    """
    asked = registry or remembered_registry(settings, lambda: None)
    numbers = numbers_after_moves(settings.checkpoint.uri).in_buckets(settings.spark.buckets).reading(settings.source_topics)
    streams = read_streams(settings, asked, numbers.labels)
    deployment = prepare(settings, compile_queries(settings, streams), streams, asked, past_of(settings), topics=numbers.labels)
    store_numbers(settings.checkpoint.uri, numbers)
    move_to_readers(settings, deployment)
    plane = control_plane(settings)
    listener = ProgressListener(plane)
    try:
        fingerprint = open_catalog(settings, plane, deployment)
        spark.streams.addListener(listener)
        with matching(spark, settings, plane, take) as batches:
            batches.prepare(fingerprint)
            yield Opened(deployment, plane, task_settings(settings, plane), batches)
    finally:
        spark.streams.removeListener(listener)
        plane.close()
