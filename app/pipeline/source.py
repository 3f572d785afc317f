"""Where records come from: one DataFrame of (value, source, offset, ingested_us), whatever the source.

``source`` (topic and partition in one number, see `app.events.batch.source_number`) is computed in the JVM: handing the topic's
name to Python for every record costs 1 µs of CPU per record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

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
    options = {
        **_kafka_options(settings),
        "subscribe": ",".join(settings.source_topics),
        "startingOffsets": settings.kafka.starting_offsets,
        "maxOffsetsPerTrigger": str(most_records or settings.kafka.max_offsets_per_trigger),
    }
    records = spark.readStream.format("kafka").options(**options).load()
    return record_columns(records, topics or settings.source_topics, *_header_columns(settings))


def kafka_ranges(
    spark: SparkSession,
    settings: Settings,
    topics: Sequence[str],
    ranges: Mapping[tuple[str, int], tuple[int, int]],
    without: DataFrame | None = None,
) -> DataFrame:
    """The same columns of the records in some ranges of offsets, read once.

    Args:
        spark: the session.
        settings: of the application.
        topics: by number.
        ranges: by topic and partition, the first offset and the one after the last.
        without: topic, partition and offset of records that are left out; few enough for every task to have them.
    """
    records = ranged_records(spark, settings, ranges, headers=bool(_header_columns(settings)))
    if without is not None:
        records = records.join(sql.broadcast(without), ["topic", "partition", "offset"], "left_anti")
    return record_columns(records, topics, *_header_columns(settings))


def ranged_records(
    spark: SparkSession, settings: Settings, ranges: Mapping[tuple[str, int], tuple[int, int]], *, headers: bool = False
) -> DataFrame:
    """The records in some ranges of offsets as Spark's Kafka source has them; see `kafka_ranges`."""
    options = {
        **_kafka_options(settings),
        "assign": _by_topic({place: place[1] for place in ranges}),
        "startingOffsets": _by_topic({place: {str(place[1]): start} for place, (start, _) in ranges.items()}),
        "endingOffsets": _by_topic({place: {str(place[1]): end} for place, (_, end) in ranges.items()}),
        "includeHeaders": str(headers).lower(),
    }
    return spark.read.format("kafka").options(**options).load()


def _by_topic(parts: Mapping[tuple[str, int], Any]) -> str:
    """Partitions as a list, or offsets by partition, by topic: JSON as Spark's source takes it.

    >>> _by_topic({("a", 0): 0, ("a", 1): 1}), _by_topic({("a", 0): {"0": 7}})
    ('{"a": [0, 1]}', '{"a": {"0": 7}}')
    """
    topics: dict[str, Any] = {}
    for (topic, _), part in parts.items():
        if isinstance(part, dict):
            topics.setdefault(topic, {}).update(part)
        else:
            topics.setdefault(topic, []).append(part)
    return json.dumps(topics)


def _kafka_options(settings: Settings) -> dict[str, str]:
    """What does not depend on what is read."""
    options = {
        "failOnDataLoss": str(settings.kafka.fail_on_data_loss).lower(),
        "kafka.max.poll.records": str(settings.kafka.max_poll_records),
        "kafka.max.partition.fetch.bytes": str(settings.kafka.max_partition_fetch_bytes),
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "kafka.isolation.level": settings.kafka.isolation_level,
        "includeHeaders": str(bool(_header_columns(settings))).lower(),
        **jvm_options(settings.kafka),
    }
    if settings.kafka.group_id_prefix:
        options["groupIdPrefix"] = settings.kafka.group_id_prefix
    return options


def _header_columns(settings: Settings) -> list[str]:
    """Headers are read where a stream keeps its schema id there."""
    return ["headers"] if any(stream.wire == "guid-header" for stream in settings.streams.values()) else []


def recorded_records(
    spark: SparkSession, settings: Settings, folder: str, files_per_batch: int = 1, topics: Sequence[str] | None = None
) -> DataFrame:
    """The same columns from Parquet files of `RECORDED_SCHEMA`, ``files_per_batch`` files per micro-batch, in order of modification time."""
    records = spark.readStream.schema(RECORDED_SCHEMA).option("maxFilesPerTrigger", files_per_batch).parquet(folder)
    return record_columns(records, topics or settings.source_topics)
