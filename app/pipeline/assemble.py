"""The streaming query, as the data-flow diagram has it: records → ingress → shuffle by bucket → stage → topics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from app.config.settings import Settings
from app.delivery.security import jvm_options
from app.pipeline.egress import OUTPUT_DDL, REQUEST_OVERHEAD
from app.pipeline.ingress import TaskSettings, ingress
from app.pipeline.shipment import SHIPMENT_DDL
from app.pipeline.stage import stage
from app.pipeline.worker import settle

QUERY_NAME = "cep"
KAFKAS_REQUEST_BYTES = 1 << 20
"""The producer's default."""


def outputs(records: DataFrame, settings: Settings, task_settings: TaskSettings) -> DataFrame:
    """Records in (see `app.pipeline.source`), output records out.

    ``coalesce`` merges topic partitions into as many ingress tasks as cores: each task costs 60–80 ms of CPU per batch.
    ``repartitionById`` puts bucket *k* on shuffle partition *k*, whatever Spark's hash would do.
    """
    shipped = records.coalesce(settings.spark.ingress_tasks).mapInArrow(partial(_ingress, settings=task_settings), SHIPMENT_DDL)
    by_bucket = shipped.repartitionById(settings.spark.buckets, "bucket")
    return by_bucket.mapInArrow(partial(_stage, settings=task_settings), OUTPUT_DDL)


def to_kafka(written: DataFrame, settings: Settings) -> DataStreamWriter:
    """Output records to their topics, at least once."""
    request_bytes = max(KAFKAS_REQUEST_BYTES, settings.topics.max_record_bytes + REQUEST_OVERHEAD)
    options = {
        "checkpointLocation": settings.checkpoint.spark_location,
        "kafka.max.request.size": str(request_bytes),
        **jvm_options(settings.kafka),
    }
    writer = written.writeStream.format("kafka").queryName(QUERY_NAME).outputMode("append").options(**options)
    return writer.trigger(processingTime=f"{settings.spark.trigger} milliseconds") if settings.spark.trigger else writer


def _ingress(batches: Iterator[pa.RecordBatch], settings: TaskSettings) -> Iterator[pa.RecordBatch]:
    yield from ingress(batches, settings)
    settle()


def _stage(batches: Iterator[pa.RecordBatch], settings: TaskSettings) -> Iterator[pa.RecordBatch]:
    yield from stage(batches, settings)
    settle()
