"""Events that the application has refused as late, from its topic of late events: also those that only its clock made late, when it no longer waited for their topic partition."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from app.config.settings import Settings
from app.delivery.bounds import TopicAndPartition
from app.delivery.positions import Positions
from app.pipeline.reconcile.live import Live
from app.pipeline.reconcile.published import header, refuse_deleted
from app.pipeline.reconcile.span import Span
from app.pipeline.source import ranged_records


def late_events(  # noqa: PLR0917 - what is read, and from when on
    spark: SparkSession, settings: Settings, positions: Positions, live: Live, read: Mapping[TopicAndPartition, Span], ahead_ms: int
) -> DataFrame | None:
    """Topic, partition and offset of late events among what is read; None where there are none.

    Their timestamps are of the owners' clocks, which may be that much behind the producers'.

    Of streams with `ordered_by` only the run itself can say: there an event may be late for some queries and not for others.

    Raises:
        DeletedError: retention has deleted late events that may be of these.
        DependencyError: the brokers do not answer.
    """
    trusted = {number for one in live.deployment.streams if one.rules.ordered_by is not None for number in one.rules.topics}
    topics = {place[0] for place in read} - {live.numbers.topics[number].topic for number in trusted}
    starts = [time for place, span in read.items() if place[0] in topics and (time := positions.time_at(place, span.start)) is not None]
    if not starts:
        return None
    bounds = positions.bounds([live.deployment.late_topic])
    since = min(starts) - ahead_ms
    begins = positions.at(dict.fromkeys(bounds, since))
    gone = (begins[place] == low or (begins[place] is None and low == high) for place, (low, high) in bounds.items() if low > 0)
    if any(gone):  # late events are rare: what is gone may be of long ago
        refuse_deleted(settings, {live.deployment.late_topic: since}, "which events were refused as late then is not known")
    ranges = {place: (start, high) for place, (_, high) in bounds.items() if (start := begins[place]) is not None and start < high}
    if not ranges:
        return None
    told = ranged_records(spark, settings, ranges, headers=True).select(
        header("__connect.errors.topic").alias("topic"),
        header("__connect.errors.partition").cast("int").alias("partition"),
        header("__connect.errors.offset").cast("long").alias("offset"),
        header("cep.reason").alias("reason"),
    )
    found = told.where((sql.col("reason") == "late") & sql.col("topic").isin(sorted(topics))).drop("reason").distinct().toArrow()
    return spark.createDataFrame(found) if found.num_rows else None
