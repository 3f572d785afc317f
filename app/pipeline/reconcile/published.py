"""What stands on the topics of composite events: one Spark job over their headers. Values are not read."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sql

from app.config.settings import Settings
from app.delivery.bounds import TopicAndPartition
from app.delivery.positions import Positions
from app.delivery.topics import TopicAdministrator
from app.pipeline.reconcile.failure import DeletedError, moment
from app.pipeline.reconcile.found import ID, TIME, TYPE, Compared
from app.pipeline.reconcile.identities import Correction, Kind, Standing, type_of
from app.pipeline.source import ranged_records

NOT_KNOWN = "what was published then is not known"
CORRECTIONS: tuple[Correction, ...] = ("", "reconciled", "retracted")


def published(
    spark: SparkSession, settings: Settings, positions: Positions, compared: Mapping[Kind, Compared], ahead_ms: int
) -> Iterator[tuple[Kind, Standing]]:
    """All records of some kinds whose match times are in their scopes.

    Args:
        spark: the session.
        settings: of the application.
        positions: asks the broker.
        compared: by kind.
        ahead_ms: how far match times may be ahead of the records' Kafka timestamps.

    Raises:
        DeletedError: retention has deleted records that may be of the scope.
        DependencyError: the brokers do not answer.
    """
    types = {type_of(kind, one.version, how): (kind, how) for kind, one in compared.items() for how in CORRECTIONS}
    ranges = _ranges(settings, positions, compared, ahead_ms)
    if not ranges:
        return
    records = ranged_records(spark, settings, ranges, headers=True)
    told = records.select(
        header(ID).alias("id"),
        header(TYPE).alias("type"),
        header("ce_source").alias("source"),
        sql.unix_millis(sql.to_timestamp(header(TIME))).alias("time"),
        "topic",
        "partition",
        "offset",
        sql.unix_millis("timestamp").alias("timestamp_ms"),
    )
    told = told.where(sql.col("type").isin(list(types)) & sql.col("source").startswith(f"/{settings.application}/queries/"))
    known: dict[TopicAndPartition, TopicAndPartition] = {}
    for batch in told.toArrow().to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            kind, correction = types[row["type"]]
            if row["topic"] == compared[kind].topic and compared[kind].scope.holds(row["time"]):
                place = row["topic"], row["partition"]
                yield (
                    kind,
                    Standing(bytes.fromhex(row["id"]), correction, known.setdefault(place, place), row["offset"], row["timestamp_ms"]),
                )


def header(name: str) -> Column:
    """A header's text, null where there is none; of several of one name the last, which is ours: it stands behind those that a record came with."""
    return sql.try_element_at(sql.filter("headers", lambda header: header["key"] == name), sql.lit(-1))["value"].cast("string")


def _ranges(
    settings: Settings, positions: Positions, compared: Mapping[Kind, Compared], ahead_ms: int
) -> dict[tuple[str, int], tuple[int, int]]:
    topics = _begins(compared.values())
    bounds = positions.bounds(sorted(topics))
    starts = positions.at({place: topics[place[0]] - ahead_ms for place in bounds})
    beheaded = {place[0] for place, (low, high) in bounds.items() if low > 0 and (low == high or starts[place] == low)}
    refuse_deleted(settings, {topic: topics[topic] - ahead_ms for topic in beheaded}, NOT_KNOWN)
    return {place: (start, high) for place, (_, high) in bounds.items() if (start := starts[place]) is not None and start < high}


def refuse_deleted(settings: Settings, begins: Mapping[str, int], unknown: str) -> None:
    """Of topic partitions of which nothing is left from before a time, only the topic's retention says whether something was there: alerts may be rare.

    Args:
        settings: of the application.
        begins: by topic with such a partition, from when on all records must be known, ms.
        unknown: what nobody knows without them.

    Raises:
        DeletedError: records from then on may be deleted.
    """
    for name, topic in TopicAdministrator(settings).existing(begins).items():
        kept_ms = int(topic.config.get("retention.ms", "-1"))
        if kept_ms < 0 or int(topic.config.get("retention.bytes", "-1")) >= 0:
            raise DeletedError(f"records of {name} are deleted, by hand or for their size, and may be of then: {unknown}")
        oldest = int(time.time() * 1000) - kept_ms
        if begins[name] < oldest:
            raise DeletedError(
                f"records of {name} from before {moment(oldest)} are deleted: {unknown}\n"
                f"hint: it is possible for composite events from {moment(oldest)} on"
            )


def _begins(compared: Collection[Compared]) -> dict[str, int]:
    """By topic, the least match time that is compared."""
    begins: dict[str, int] = {}
    for one in compared:
        begins[one.topic] = min(one.scope.begin, begins.get(one.topic, one.scope.begin))
    return begins
