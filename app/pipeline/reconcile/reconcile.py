"""A reconciliation from its beginning to its end: what can be said, the run without shedding, what stands on the topics, the difference."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from app.bucket.hold import FOREVER, NEVER
from app.config.settings import Settings
from app.delivery.bounds import TopicAndPartition
from app.delivery.positions import Positions
from app.delivery.security import consumer_options
from app.errors import DependencyError
from app.owners.sole import sole_reconciliation
from app.pipeline.limits import batch_limits
from app.pipeline.publisher import Publisher
from app.pipeline.reconcile.aims import NOBODY, Aims, Request, aims_of
from app.pipeline.reconcile.audit import add_audit_records, audit_output
from app.pipeline.reconcile.corrections import publish_missing, retract
from app.pipeline.reconcile.course import Terms
from app.pipeline.reconcile.failure import NothingCameError, NotThereYetError, ReconcileError, told_by_spark
from app.pipeline.reconcile.found import Found
from app.pipeline.reconcile.identities import Difference, Kind, Ledger, Standing
from app.pipeline.reconcile.late import late_events
from app.pipeline.reconcile.live import Live, topics_of, where_it_is
from app.pipeline.reconcile.outcome import Outcome, Row
from app.pipeline.reconcile.published import published
from app.pipeline.reconcile.span import Since, Span, newcomers, spans
from app.pipeline.reconcile.unshed import run_unshed, scratch_settings, stored, unshed_deployment


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told how far a reconciliation is.

    Attributes:
        begins: gets a sentence about what begins, and the records that are to be read; 0 where nobody counts.
        reads: gets how many more have been read.
    """

    begins: Callable[[str, int], None]
    reads: Callable[[int], None]


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be done, where."""

    settings: Settings
    request: Request
    live: Live
    aims: Aims
    ahead: Mapping[str, int]
    telling: Telling


def reconcile(settings: Settings, request: Request, session: Callable[[], SparkSession], telling: Telling) -> Outcome:
    """Compares what the application published with what it would have found without shedding, and publishes the difference.

    The application may run meanwhile: of its checkpoint nothing is changed, and nothing is compared that it may yet find itself.

    Args:
        settings: of the application.
        request: what is asked for.
        session: starts Spark; called when it is known that there is something to do.
        telling: is told of progress.

    Raises:
        NothingToDoError: there is nothing to compare.
        ReconcileError: it cannot be said what the application would have found.
        CheckpointTakenError: another reconciliation is about to publish.
        ConfigurationError: a query that is asked for is not there.
        AccessRefusedError: the brokers do not let us read what was published.
        DependencyError: broker or registry do not answer, or Spark fails; where it is about records that are to be retracted, all else is published.
    """
    live = where_it_is(settings)
    aims = _aims(settings, request, live)  # what cannot be compared at all is told at once
    with ExitStack() as cleanup:
        if not request.dry:
            cleanup.enter_context(sole_reconciliation(settings))
        positions = cleanup.enter_context(closing(Positions(consumer_options(settings.kafka))))
        work, read = _readable(positions, _Work(settings, request, live, aims, {}, telling))
        aims = work.aims
        folder = None if request.dry else Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="cep-reconcile-found-")))
        ledgers: dict[Kind, Ledger] = {kind: Ledger() for kind in aims.compared}
        found = Found(aims.compared, ledgers, folder)
        positions.require_readable(sorted({one.topic for one in aims.compared.values()}))  # before minutes of work, not behind them
        telling.begins("starting Spark", 0)
        with told_by_spark("begin"):
            spark = session()
        with told_by_spark("match without shedding"):
            _find(spark, work, positions, read, found)
        with told_by_spark("read what was published"):
            _read_published(spark, work, positions, read, ledgers)
        differences = {kind: ledger.difference() for kind, ledger in ledgers.items()}
        outcome = _outcome(work, read, differences)
        return outcome if request.dry else _published(work, outcome, found, differences)


def _aims(settings: Settings, request: Request, live: Live, newcomers: Mapping[str, str] = NOBODY) -> Aims:
    try:
        return aims_of(request, live, newcomers)
    except NotThereYetError as error:
        if waits_for_nothing(settings, live):
            raise NothingCameError(f"{error}\nnothing waits in its topics: there is nothing to compare") from error
        raise


def _readable(positions: Positions, work: _Work) -> tuple[_Work, dict[TopicAndPartition, Span]]:
    """What is read for it; queries that came or changed too late are left out, and less may be needed without them."""
    known: dict[str, str] = {}
    while True:
        aims, live, request = work.aims, work.live, work.request
        streams = topics_of(aims.plans, live.deployment)
        ahead = _ahead(live, streams, request)
        read = spans(positions, live, streams, Since(aims.needed.begin, ahead, max(0, request.shed.begin - aims.needed.begin)))
        found = newcomers(positions, live, aims.plans, read)
        if not found:
            return replace(work, ahead=ahead), read
        known |= found
        work = replace(work, aims=_aims(work.settings, request, live, known))


def waits_for_nothing(settings: Settings, live: Live) -> bool:
    """Whether the application has read all that is on its topics."""
    with closing(Positions(consumer_options(settings.kafka))) as positions:
        bounds = positions.bounds(topics_of(live.deployment.catalog.current, live.deployment))
    return all(high <= max(low, live.ends.get(place, 0)) for place, (low, high) in bounds.items())


def _ahead(live: Live, streams: Mapping[str, str], request: Request) -> dict[str, int]:
    """By topic, how far event times may be ahead of Kafka's timestamps; where these are the event times, not at all."""
    known = {one.rules.stream: one for one in live.deployment.streams}
    return {
        topic: 0 if known[stream].definition.time_attribute is None else min(request.ahead_ms, known[stream].max_ahead_ms)
        for topic, stream in streams.items()
    }


def _find(spark: SparkSession, work: _Work, positions: Positions, read: Mapping[TopicAndPartition, Span], found: Found) -> None:
    """The run without shedding."""
    if not read:
        return
    deployment = unshed_deployment(work.live.deployment, work.aims.plans, work.settings.spark.buckets)
    end = work.aims.needed.end
    until = {stream: time if end >= FOREVER else min(end + 1, time) for stream, time in work.live.watermarks.items() if time > NEVER}
    work.telling.begins("matching without shedding", sum(span.end - span.start for span in read.values()))
    most, late = batch_limits(work.settings).records, late_events(spark, work.settings, positions, work.live, read, work.request.ahead_ms)
    with scratch_settings(work.settings, work.live.numbers) as own:
        terms = Terms(deployment, stored(own, deployment), read, until, work.ahead, most, int(time.time() * 1000))
        run_unshed(spark, own, terms, found.take, work.telling.reads, without=late)


def _read_published(
    spark: SparkSession, work: _Work, positions: Positions, read: Mapping[TopicAndPartition, Span], ledgers: Mapping[Kind, Ledger]
) -> None:
    """After the run: what the application publishes meanwhile is behind what is compared.

    Raises:
        ReconcileError: there is no input for what was published: taking all of it back would be wrong.
    """
    work.telling.begins("reading what was published", 0)
    standing: dict[Kind, list[Standing]] = {kind: [] for kind in ledgers}
    for kind, one in published(spark, work.settings, positions, work.aims.compared, work.request.ahead_ms):
        standing[kind].append(one)
    for kind, own in standing.items():
        ledgers[kind].read(own)
    if not read and any(ledger.standing for ledger in ledgers.values()):
        raise ReconcileError(
            "composite events are on the topics, and no event of their time in the input: are these the settings that they were made with?"
        )


def _outcome(work: _Work, read: Mapping[TopicAndPartition, Span], differences: Mapping[Kind, Difference]) -> Outcome:
    aims = work.aims
    rows = tuple(Row(kind, one.version, one.scope, kind in aims.cut, differences[kind]) for kind, one in aims.compared.items())
    records = sum(span.end - span.start for span in read.values())
    return Outcome(work.request.shed, rows, aims.left_out, records, {}, int(time.time() * 1000), aims.come)


def _published(work: _Work, outcome: Outcome, found: Found, differences: Mapping[Kind, Difference]) -> Outcome:
    """Publishes the difference, and when that is safe tells the audit topic of it."""
    if not any(one.missing or one.false for one in differences.values()):
        return outcome
    work.telling.begins("publishing the difference", 0)
    publisher, audit = Publisher(work.settings), audit_output(work.settings)
    publish_missing(publisher, found, differences)
    missed = retract(publisher, work.settings, differences)
    publisher.flush()
    told = replace(outcome, gone=missed.gone)
    add_audit_records(publisher, audit, replace(told, gone=missed.gone + missed.unread))
    publisher.flush()
    if missed.problem:
        raise DependencyError(
            f"{missed.unread.total()} false composite events could not be read again: {missed.problem}\n"
            "hint: all else is published; call it again, and they are retracted"
        )
    return told
