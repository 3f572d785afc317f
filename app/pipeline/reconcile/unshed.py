"""The run that sheds nothing: the application's own ingress and owners over ranges of offsets, with a checkpoint of its own that goes when it is over."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from app.config.addresses import FolderAddress
from app.config.settings import Settings
from app.errors import CepError
from app.owners.deployment import Deployment, store_deployment
from app.pipeline.application import matching, schema_keeping
from app.pipeline.assemble import ingested
from app.pipeline.batches import Batches, UndoneError
from app.pipeline.causes import cause
from app.pipeline.ingress import TaskSettings
from app.pipeline.numbers import Numbers, store_numbers
from app.pipeline.reconcile.course import Course, NoDesk, Ranges, Terms
from app.pipeline.reconcile.failure import ReconcileError
from app.pipeline.schemas import DECIDED
from app.pipeline.session import one_process
from app.pipeline.source import kafka_ranges
from app.pipeline.task_answers import answers_of_read
from app.query.plan import Catalog, Plan
from app.storage.open import open_store

SCRATCH = "reconcile"
"""Folder of the checkpoint in which runs of several machines have their own."""
SCHEMAS = "schemas"

Take = Callable[[pa.Table], None]
"""Gets the output records of a batch."""


def unshed_deployment(deployment: Deployment, plans: Sequence[Plan], buckets: int) -> Deployment:
    """The deployment with some of its queries alone, in as many buckets as this job wants; what decides about shedding is not needed."""
    place = {plan.name: number for number, plan in enumerate(deployment.catalog.plans) if plan.draining is None}
    catalog = Catalog.of(tuple(deployment.catalog.plans[place[plan.name]] for plan in plans), deployment.catalog.version)
    places = [place[plan.name] for plan in catalog.plans]
    return replace(
        deployment,
        catalog=catalog,
        outputs=tuple(deployment.outputs[number] for number in places),
        timeouts=tuple(deployment.timeouts[number] for number in places),
        models=(None,) * len(places),
        old=(None,) * len(places),
        since=(None,) * len(places),
        buckets=buckets,
    )


@contextmanager
def scratch_settings(settings: Settings, numbers: Numbers) -> Iterator[Settings]:
    """The settings with a checkpoint of their own, in which topics have their numbers and writers' schemas are known; gone at the end."""
    with _scratch_place(settings) as path:
        own = settings.model_copy(update={"checkpoint": settings.checkpoint.model_copy(update={"path": path})})
        store_numbers(own.checkpoint.uri, Numbers(numbers.topics, settings.spark.buckets))
        known, kept = open_store(settings.checkpoint.uri), open_store(own.checkpoint.uri)
        for file in known.names(SCHEMAS):
            if not file.name.startswith(DECIDED):  # what was decided about batches of the application is nothing to these
                kept.write(file.name, [known.read(file.name)])
        yield own


@contextmanager
def _scratch_place(settings: Settings) -> Iterator[str]:
    if one_process(settings):
        with tempfile.TemporaryDirectory(prefix="cep-reconcile-") as folder:
            yield folder
        return
    inner = f"{SCRATCH}/{uuid4().hex}"
    store = open_store(settings.checkpoint.uri)
    try:
        yield f"{settings.checkpoint.path.rstrip('/')}/{inner}"
    finally:
        store.delete([file.name for file in store.names(inner)])
        if isinstance(address := settings.checkpoint.address, FolderAddress):
            shutil.rmtree(Path(address.path) / inner, ignore_errors=True)


def run_unshed(
    spark: SparkSession, settings: Settings, terms: Terms, take: Take, tell: Callable[[int], None], *, without: DataFrame | None = None
) -> None:
    """Matches what some ranges of offsets hold, nothing shed.

    Args:
        spark: the session.
        settings: of `scratch_settings`.
        terms: of the run; the fingerprint is the stored deployment's.
        take: gets what is found, batch by batch.
        tell: gets the number of records that a batch has read.
        without: topic, partition and offset of records that are left out.

    Raises:
        ReconcileError, CepError: it cannot be done.
    """
    course = Course(terms, tell)
    tasks = TaskSettings(settings.checkpoint.uri, schema_keeping(settings), NoDesk(), settings.spark.stall_after / 1000)
    with matching(spark, settings, course, lambda _, table: take(table), answers=answers_of_read) as batches:
        batches.prepare(terms.fingerprint)
        batch = 0
        while ranges := course.plan(batch):
            frame = kafka_ranges(spark, settings, terms.deployment.topics, ranges, without)
            _worked_off(batches, ingested(frame, settings, tasks), batch)
            batch += 1
        nothing = kafka_ranges(spark, settings, terms.deployment.topics, _empty(terms))
        _worked_off(batches, ingested(nothing, settings, tasks), batch)


def stored(settings: Settings, deployment: Deployment) -> str:
    """Puts the deployment where tasks and owners look for it; returns its fingerprint."""
    return store_deployment(settings.checkpoint.uri, deployment)


def _empty(terms: Terms) -> Ranges:
    """Of one topic partition nothing: a task that reads no record, and says so."""
    place, span = next(iter(terms.spans.items()))
    return {place: (span.end, span.end)}


def _worked_off(batches: Batches, frame: DataFrame, batch: int) -> None:
    try:
        batches(frame, batch)
    except UndoneError:
        failure = batches.failure
        if isinstance(failure, CepError):
            raise failure from None
        raise ReconcileError(f"batch {batch} of the run without shedding failed: {cause(str(failure), hint=False)}") from None
