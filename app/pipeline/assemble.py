"""The streaming query, as the data-flow diagram has it: records → ingress, which delivers to owners → what the driver does in every batch."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from app.config.settings import Settings
from app.pipeline.batches import Batches
from app.pipeline.ingress import TaskSettings, ingress
from app.pipeline.task_answers import ANSWER_DDL
from app.pipeline.worker import freeze_garbage

QUERY_NAME = "cep"


def ingested(records: DataFrame, settings: Settings, task_settings: TaskSettings) -> DataFrame:
    """Records in (see `app.pipeline.source`), one report per task out.

    ``coalesce`` merges topic partitions into as many tasks as cores: each costs 60–80 ms of CPU per batch.
    """
    return records.coalesce(settings.spark.ingress_tasks).mapInArrow(partial(_ingress, settings=task_settings), ANSWER_DDL)


def matched(reports: DataFrame, settings: Settings, batches: Batches) -> DataStreamWriter:
    """The query: every batch is worked off by the driver and the owners of buckets, then committed."""
    writer = reports.writeStream.foreachBatch(batches).queryName(QUERY_NAME)
    writer = writer.option("checkpointLocation", settings.checkpoint.spark_location)
    return writer.trigger(processingTime=f"{settings.spark.trigger} milliseconds") if settings.spark.trigger else writer


def _ingress(batches: Iterator[pa.RecordBatch], settings: TaskSettings) -> Iterator[pa.RecordBatch]:
    faulthandler.dump_traceback_later(settings.stall_after_s, exit=False)
    try:
        yield from ingress(batches, settings)
    finally:
        faulthandler.cancel_dump_traceback_later()
    freeze_garbage()
