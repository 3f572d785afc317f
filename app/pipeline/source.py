"""Where records come from: one DataFrame of (value, source, offset, ingested_us), whatever the source.

``source`` (topic and partition in one number, see `app.events.batch.source_number`) is computed in the JVM: handing the topic's
name to Python for every record costs 1 µs of CPU per record (kafka-facts.md, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from app.config.settings import Settings
from app.delivery.security import jvm_options
from app.events.batch import PARTITION_BITS
from app.events.topics import topic_numbers

FETCH_WAIT_MS = 1
"""Spark's consumer asks for a partition's first and last offset after every poll, and a broker answers one request of a connection after the other:
at the end of the log the answer waited behind a fetch for records that were not there yet, Kafka's 500 ms per topic partition."""
RECORDED_SCHEMA = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary"
"""Parquet files with recorded topics, for runs without a broker."""


def _source_column(topics: Sequence[str]) -> Column:
    """``topic_index << 20 | partition`` as a JVM expression; a topic that is no longer read may still be in a batch that is repeated."""
    index = sql.lit(-1)
    for topic, number in topic_numbers(topics).items():
        index = sql.when(sql.col("topic") == topic, number).otherwise(index)
    return (sql.shiftleft(index.cast("long"), PARTITION_BITS) + sql.col("partition").cast("long")).alias("source")


def record_columns(records: DataFrame, topics: Sequence[str], *more: Column | str) -> DataFrame:
    """What the ingress gets of records with Kafka's columns."""
    return records.select("value", _source_column(topics), "offset", sql.unix_micros("timestamp").alias("ingested_us"), *more)


def kafka_records(
    spark: SparkSession, settings: Settings, topics: Sequence[str] | None = None, most_records: int | None = None
) -> DataFrame:
    """The records of all input topics and of the heartbeat topic.

    With transactions offsets have gaps (aborted records, markers of commits and aborts), and a batch may end in them: nothing downstream
    takes offsets for a count. Headers are read only when a stream keeps its schema id there: they triple the ingress' cost.

    Args:
        spark: the session.
        settings: of the application.
        topics: by number, those of the settings among them; the settings' own when not given.
        most_records: of a batch; the settings' own when not given.
    """
    with_headers = any(stream.wire == "guid-header" for stream in settings.streams.values())
    options = {
        "subscribe": ",".join(settings.source_topics),
        "startingOffsets": settings.kafka.starting_offsets,
        "maxOffsetsPerTrigger": str(most_records or settings.kafka.max_offsets_per_trigger),
        "failOnDataLoss": str(settings.kafka.fail_on_data_loss).lower(),
        "kafka.max.poll.records": str(settings.kafka.max_poll_records),
        "kafka.max.partition.fetch.bytes": str(settings.kafka.max_partition_fetch_bytes),
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "kafka.isolation.level": settings.kafka.isolation_level,
        "includeHeaders": str(with_headers).lower(),
        **jvm_options(settings.kafka),
    }
    if settings.kafka.group_id_prefix:
        options["groupIdPrefix"] = settings.kafka.group_id_prefix
    records = spark.readStream.format("kafka").options(**options).load()
    return record_columns(records, topics or settings.source_topics, *(["headers"] if with_headers else []))


def recorded_records(
    spark: SparkSession, settings: Settings, folder: str, files_per_batch: int = 1, topics: Sequence[str] | None = None
) -> DataFrame:
    """The same columns from Parquet files of `RECORDED_SCHEMA`, ``files_per_batch`` files per micro-batch, in order of modification time."""
    records = spark.readStream.schema(RECORDED_SCHEMA).option("maxFilesPerTrigger", files_per_batch).parquet(folder)
    return record_columns(records, topics or settings.source_topics)
