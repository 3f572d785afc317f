"""From which offsets on records must be read, so that all events of an interval are among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.bucket.composition import with_all_read
from app.bucket.hold import FOREVER, NEVER
from app.delivery.bounds import TopicAndPartition
from app.delivery.positions import Positions
from app.pipeline.reconcile.failure import DeletedError, moment, too_far_ahead
from app.pipeline.reconcile.live import Live, topics_of
from app.query.plan import Plan

SETTLED_MS = 60_000
"""So long after a change was prepared a query is certainly fed by it."""


@dataclass(frozen=True, slots=True)
class Span:
    """What is read of a topic partition.

    Attributes:
        start: the first offset.
        end: the one after the last.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Since:
    """From when on events are needed.

    Attributes:
        time: least event time, ms; `NEVER`: all.
        ahead: by topic how far event times may be ahead of Kafka's timestamps, ms: an event from this time on has a timestamp from ``time - ahead`` on.
        spare: how much of the interval is there for windows that reach beyond what was asked for, ms; for messages.
    """

    time: int
    ahead: Mapping[str, int]
    spare: int = 0


def spans(positions: Positions, live: Live, topics: Iterable[str], since: Since) -> dict[TopicAndPartition, Span]:
    """By topic partition what is to be read; those of which the application has read nothing are left out.

    Raises:
        DeletedError: retention has deleted records that are needed.
        ReconcileError: event times are further ahead of Kafka's than was said.
        DependencyError: the brokers do not answer.
    """
    bounds = positions.bounds(topics)
    for topic in live.renewed.intersection(topics):
        if not any(live.ends.get(place, 0) for place in bounds if place[0] == topic):
            raise DeletedError(
                f"topic {topic} was created again, and the application has read nothing of it since: what it held before is gone"
            )
    begun = {place: max(since.time, NEVER) for place in bounds}
    found = {} if since.time <= NEVER else positions.at({place: time - since.ahead.get(place[0], 0) for place, time in begun.items()})
    older = {place[0] for place, offset in found.items() if bounds[place][0] < bounds[place][1] and offset != bounds[place][0]}
    read = {}
    for place, (low, _) in bounds.items():
        first, end = live.first.get(place, 0), live.ends.get(place, 0)
        wanted = first if since.time <= NEVER else found[place]
        start = min(end, max(first, end if wanted is None else wanted))
        gone = low > first or place[0] in live.renewed - older  # a topic that was there before had nothing in partitions that begin later
        if gone and start <= low and end > first and live.greatest.get(place, FOREVER) >= since.time:
            _refuse_deleted(positions, place, low, since)
        if start < end:
            read[place] = Span(start, end)
        elif end > first and live.greatest.get(place, NEVER) >= since.time:
            _refuse_ahead(positions, place, live, since)
    return read


def _refuse_ahead(positions: Positions, place: TopicAndPartition, live: Live, since: Since) -> None:
    """The application has seen events that are needed, though no record has such a timestamp."""
    newest = positions.time_at(place, live.ends[place] - 1)
    earlier = since.time - since.ahead.get(place[0], 0)  # than this all are; known also where the log ends in markers of transactions
    raise too_far_ahead(place[0], live.greatest[place] - (earlier if newest is None else newest))


def _refuse_deleted(positions: Positions, place: TopicAndPartition, low: int, since: Since) -> None:
    """Records before the first one that is left may be needed."""
    topic, partition = place
    oldest = positions.time_at(place, low)
    if oldest is None or since.time <= NEVER:
        hint = "only a run from the very beginning tells; leave such queries out with --query" if since.time <= NEVER else "they are gone"
        raise DeletedError(f"retention has deleted records of {topic}, partition {partition}, that are needed\nhint: {hint}")
    possible = oldest + since.ahead.get(topic, 0) + since.spare + 1
    raise DeletedError(
        f"records of {topic}, partition {partition}, from before {moment(oldest)} are deleted, and events from {moment(since.time)} on are needed\n"
        f"hint: it is possible from --from {moment(possible)} on",
        possible,
    )


def newcomers(positions: Positions, live: Live, plans: Iterable[Plan], read: Mapping[TopicAndPartition, Span]) -> dict[str, str]:
    """By query why it cannot be compared where records are needed from before it ran as it is: it was never fed these."""
    begun = {
        plan.name: since for plan, since in zip(live.deployment.catalog.plans, live.deployment.since, strict=True) if plan.draining is None
    }
    found: dict[str, str] = {}
    for plan in plans:
        since = begun[plan.name]
        for topic in () if since is None else topics_of(with_all_read([plan], live.deployment.catalog), live.deployment):
            times = [positions.time_at(place, span.start) for place, span in read.items() if place[0] == topic]
            oldest = min((time for time in times if time is not None), default=None)
            if since is not None and oldest is not None and oldest < since + SETTLED_MS:
                found[plan.name] = (
                    f'"{plan.name}" runs as it is since {moment(since)} only, and records of {topic} from {moment(oldest)} on are needed; '
                    "begin later"
                )
    return found
