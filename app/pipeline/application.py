"""What every way of running the application needs around Spark's query: the deployment, the control plane, the tasks' settings, Spark's progress.

`app.pipeline.driver` adds patience, locks and signals; benchmarks and tests take `opened`.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from app import __version__
from app.config.settings import Settings
from app.control.plane import ControlPlane, RunningCatalog
from app.delivery.security import consumer_options
from app.events.registry import Registry, Subjects
from app.observe.logs import get_logger
from app.pipeline.answers import RememberedRegistry
from app.pipeline.deployment import Deployment, store_deployment
from app.pipeline.draining import past_of
from app.pipeline.ingress import TaskSettings
from app.pipeline.planned import PlannedOffsets
from app.pipeline.preparation import compile_queries, prepare, read_streams, registry_settings
from app.pipeline.schemas import KeptDecisions, SchemaKeeping

log = get_logger(__name__)


class ProgressListener(StreamingQueryListener):
    """Hands Spark's progress to the control plane; an error there must not end the stream.

    Args:
        plane: told of every batch.
        committed: set after every batch.
    """

    def __init__(self, plane: ControlPlane, committed: threading.Event) -> None:
        self._plane, self._committed = plane, committed

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Notes it."""
        log.info("query started", run_id=str(event.runId))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A batch was committed."""
        try:
            self._plane.on_progress(json.loads(event.progress.json))
        except Exception:
            log.exception("progress could not be used")
        finally:
            self._committed.set()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """A query with nothing to read is as ready as one that has read: a restart on quiet topics must not wait for the next event."""
        self._plane.first_batch.good()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Notes it."""
        log.info("query terminated", run_id=str(event.runId), failed=event.exception is not None)


def control_plane(settings: Settings) -> ControlPlane:
    """The control plane, listening.

    Raises:
        OSError: it cannot listen at the configured address.
    """
    return ControlPlane(settings, {"version": __version__, "spark": pyspark.__version__, "git": ""})


def task_settings(settings: Settings, plane: ControlPlane, *, kafka: bool = True) -> TaskSettings:
    """What travels to the tasks of one run of the driver.

    Args:
        settings: of the application.
        plane: where the tasks get their directives.
        kafka: whether records come from Kafka, so that originals of dead letters can be read there again.
    """
    return TaskSettings(
        settings.checkpoint.path,
        plane.address,
        schema_keeping(settings),
        tuple(sorted(consumer_options(settings.kafka).items())) if kafka else (),
        settings.application,
        uuid.uuid4().hex[:12],
        settings.topics.max_record_bytes,
    )


def schema_keeping(settings: Settings) -> SchemaKeeping:
    """Where the tasks find writers' schemas."""
    registry = settings.schema_registry
    return SchemaKeeping(settings.checkpoint.path, registry_settings(registry), registry.on_registry_down == "dead_letter")


def remembered_registry(settings: Settings, failed: Callable[[], None]) -> RememberedRegistry:
    """The registry as the driver asks it: what it answered at earlier starts counts where it does not answer now.

    Args:
        settings: of the application.
        failed: told of every question that was not answered.
    """
    registry = Registry(registry_settings(settings.schema_registry))
    return RememberedRegistry(registry, settings.schema_registry.url, settings.checkpoint.path, failed)


def open_catalog(settings: Settings, plane: ControlPlane, deployment: Deployment) -> str:
    """Stores the deployment in the checkpoint and makes its catalog the running one; returns its fingerprint."""
    fingerprint = store_deployment(settings.checkpoint.path, deployment)
    plane.registry.decisions = KeptDecisions(settings.checkpoint.path)
    plane.open(RunningCatalog(deployment.catalog, fingerprint), PlannedOffsets(settings.checkpoint.path).speakers)
    return fingerprint


@dataclass(frozen=True, slots=True)
class Opened:
    """An application that is ready for Spark's query: `app.pipeline.assemble.outputs` wants its tasks."""

    deployment: Deployment
    plane: ControlPlane
    tasks: TaskSettings


@contextmanager
def opened(spark: SparkSession, settings: Settings, registry: Subjects | None = None, *, kafka: bool = True) -> Iterator[Opened]:
    """The application around a query of the caller's, without patience: everything it depends on must be there.

    Args:
        spark: whose queries' progress the control plane is told of.
        settings: of the application.
        registry: asked for schemas; the configured one when not given.
        kafka: see `task_settings`.
    """
    asked = registry or remembered_registry(settings, lambda: None)
    streams = read_streams(settings, asked)
    deployment = prepare(settings, compile_queries(settings, streams), streams, asked, past_of(settings))
    plane = control_plane(settings)
    listener = ProgressListener(plane, threading.Event())
    try:
        open_catalog(settings, plane, deployment)
        spark.streams.addListener(listener)
        yield Opened(deployment, plane, task_settings(settings, plane, kafka=kafka))
    finally:
        spark.streams.removeListener(listener)
        plane.close()
