"""What stands on the topics of composite events: one Spark job over their headers. Values are not read."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sql

from app.config.settings import Settings
from app.delivery.positions import Place, Positions
from app.delivery.topics import TopicAdministrator
from app.pipeline.reconcile.failure import ReconcileError, moment
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
        ReconcileError: retention has deleted records that may be of the scope.
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
    known: dict[Place, Place] = {}
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
    """A header's text; of several of one name the first."""
    return sql.filter("headers", lambda header: header["key"] == name)[0]["value"].cast("string")


def _ranges(
    settings: Settings, positions: Positions, compared: Mapping[Kind, Compared], ahead_ms: int
) -> dict[tuple[str, int], tuple[int, int]]:
    topics = _begins(compared.values())
    bounds = positions.bounds(sorted(topics))
    starts = positions.at({place: topics[place[0]] - ahead_ms for place in bounds})
    if emptied := {place[0] for place, (low, high) in bounds.items() if low == high > 0}:
        refuse_deleted(settings, {topic: topics[topic] - ahead_ms for topic in emptied}, NOT_KNOWN)
    ranges = {}
    for place, (low, high) in bounds.items():
        start = starts[place]
        if low > 0 and start == low:
            oldest = positions.time_at(place, low)
            if oldest is not None and oldest > topics[place[0]] - ahead_ms:
                raise _deleted(f"{place[0]}, partition {place[1]},", NOT_KNOWN, oldest, oldest + ahead_ms)
        if start is not None and start < high:
            ranges[place] = start, high
    return ranges


def refuse_deleted(settings: Settings, begins: Mapping[str, int], unknown: str) -> None:
    """Of topic partitions of which retention has left nothing, or nothing of a time, only the topic's retention says how far back that reaches.

    Args:
        settings: of the application.
        begins: by topic with such a partition, from when on all records must be known, ms.
        unknown: what nobody knows without them.

    Raises:
        ReconcileError: records from then on may be deleted.
    """
    for name, topic in TopicAdministrator(settings).existing(begins).items():
        kept_ms = int(topic.config.get("retention.ms", "0"))
        oldest = int(time.time() * 1000) - kept_ms
        if kept_ms >= 0 and begins[name] < oldest:
            raise _deleted(name, unknown, oldest, oldest)


def _deleted(what: str, unknown: str, oldest_ms: int, possible_ms: int) -> ReconcileError:
    return ReconcileError(
        f"records of {what} from before {moment(oldest_ms)} are deleted: {unknown}\n"
        f"hint: it is possible for composite events from {moment(possible_ms)} on"
    )


def _begins(compared: Collection[Compared]) -> dict[str, int]:
    """By topic, the least match time that is compared."""
    begins: dict[str, int] = {}
    for one in compared:
        begins[one.topic] = min(one.scope.begin, begins.get(one.topic, one.scope.begin))
    return begins
