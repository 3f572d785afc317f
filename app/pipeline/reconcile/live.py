"""Where the application is, from its checkpoint, which is only read: it may run meanwhile."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from app.bucket.hold import stream_watermark
from app.config.settings import SPARK_FOLDER, Settings
from app.control.messages.batch_log import TOTALS, BatchLog
from app.control.messages.reached import progress_by
from app.events.topics import topic_name, topic_partition
from app.owners.deployment import Deployment, load_deployment
from app.owners.spark_log import OF_FIRST_SOURCE, Offsets, read_offsets
from app.pipeline.numbers import Numbers, load_numbers
from app.pipeline.planned import PlannedOffsets
from app.pipeline.reconcile.failure import ReconcileError
from app.query.plan import QUERY_STREAM, Plan
from app.storage.open import open_store
from app.storage.store import MissingError

FIRST_SOURCE = f"{SPARK_FOLDER}/sources/0/0"
LOOKS = 5
"""Files of batches long past are deleted while the application runs: whoever finds one gone looks again."""


@dataclass(frozen=True, slots=True)
class Live:
    """What the application has done.

    Attributes:
        deployment: that runs.
        numbers: of its topics.
        batch: the newest that is over; what it found is in Kafka.
        first: by topic partition the offset at which the application began.
        renewed: topics that were deleted and created again: what they held before is gone.
        ends: by topic partition the offset up to which it has read.
        watermarks: by stream; ms.
        greatest: by topic partition the greatest event time, ms.
    """

    deployment: Deployment
    numbers: Numbers
    batch: int
    first: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int]
    watermarks: Mapping[str, int]
    greatest: Mapping[tuple[str, int], int]
    renewed: frozenset[str] = frozenset()


def where_it_is(settings: Settings) -> Live:
    """The application of some settings as it is now.

    Raises:
        ReconcileError: it has not done anything yet, or does not read Kafka.
        SnapshotError, StorageError: the checkpoint cannot be read.
    """
    for _ in range(LOOKS - 1):
        try:
            return _look(settings)
        except MissingError:
            continue
    return _look(settings)


def topics_of(plans: Iterable[Plan], deployment: Deployment) -> dict[str, str]:
    """By topic that some queries read, its stream."""
    streams = {stream for plan in plans for stream in plan.streams if not stream.startswith(QUERY_STREAM)}
    return {
        topic_name(deployment.topics[number]): one.rules.stream
        for one in deployment.streams
        if one.rules.stream in streams
        for number in sorted(one.rules.topics)
    }


def _look(settings: Settings) -> Live:
    uri = settings.checkpoint.uri
    log, numbers = BatchLog(open_store(uri)), load_numbers(uri)
    batch = log.latest_batch(TOTALS)
    directive = None if batch is None else log.logged(batch)
    if batch is None or directive is None:
        raise ReconcileError(f"the checkpoint {uri} holds no batch: the application has found nothing that could be reconciled")
    ranges = PlannedOffsets(uri).ranges(batch)
    if ranges is None:
        raise ReconcileError(f"the checkpoint {uri} does not say which offsets batch {batch} has read")
    deployment = load_deployment(uri, directive.deployment)
    times = log.greatest_times_before(batch + 1)
    progress = progress_by(directive, times)
    watermarks = {
        one.rules.stream: stream_watermark(one.rules, {s: t for s, t in times.items() if one.rules.owns(s)}, progress)
        for one in deployment.streams
    }
    ends = {place: end for place, (_, end) in ranges.items()}
    greatest = {
        topic_partition(deployment.topics, source): time for source, time in sorted(times.items())
    }  # of two incarnations the newer one
    renewed = frozenset(one.topic for one in numbers.topics if one.incarnation > 1)
    return Live(deployment, numbers, batch, _first(settings, renewed), ends, watermarks, greatest, renewed)


def _first(settings: Settings, renewed: Container[str]) -> Offsets:
    """Where the first batch began; nothing of topics that came later, or were created again: these are read from their beginning."""
    try:
        text = open_store(settings.checkpoint.uri).read(FIRST_SOURCE).decode()
    except MissingError:
        return {}
    found = read_offsets(FIRST_SOURCE, text, OF_FIRST_SOURCE) or {}
    return {place: offset for place, offset in found.items() if place[0] not in renewed}
