"""A finished batch as the watchdog sees it: Spark's progress and the reports of tasks and owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.control.law.levels import hides_events, sheds_matches
from app.control.law.query_cost import QueryObservation
from app.control.law.watched import BatchObservation
from app.control.messages.directives import Directive
from app.control.messages.reports import QueryTally
from app.control.messages.totals import BatchTotals
from app.observe.progress import Progress
from app.query.plan import QUERY_STREAM, Plan


@dataclass(frozen=True, slots=True)
class Done:
    """A batch that is over.

    Attributes:
        progress: what Spark tells of it.
        totals: what tasks and owners told.
        directive: under which it ran, if it is still known.
        before: of the batch before it: which partial matches were there when it began.
    """

    progress: Progress
    totals: BatchTotals
    directive: Directive | None
    before: BatchTotals | None


@dataclass(frozen=True, slots=True)
class Streams:
    """Which stream is what.

    Attributes:
        of_source: by source (`app.events.batch.source_number`); None of the heartbeat's and of topics that are no longer read.
        of_topic: the same by topic.
    """

    of_source: Callable[[int], str | None]
    of_topic: Callable[[str], str | None]


def observation_of(
    done: Done, plans: Iterable[Plan], streams: Streams, reference: Callable[[str], int], deployment: str | None = None
) -> BatchObservation:
    """What the watchdog learns from.

    Args:
        done: the batch.
        plans: of the running queries.
        streams: which topics and sources are which.
        reference: by query, partial matches that it would have without shedding, as far as known.
        deployment: that runs now; None: the one under which the batch ran.
    """
    progress, totals = done.progress, done.totals
    oldest = [source.oldest_broker_ms for source in totals.sources.values() if source.oldest_broker_ms is not None]
    listed = tuple(plans)
    consumed = {
        stream: 0 for plan in listed for stream in plan.streams if not stream.startswith(QUERY_STREAM)
    }  # a silent one is read as well
    arrived: dict[str, int] = {}
    for source in totals.sources.values():
        if (stream := streams.of_source(source.source)) is not None:
            consumed[stream] = consumed.get(stream, 0) + source.events
    for (topic, partition), end in progress.end.items():
        if (stream := streams.of_topic(topic)) is not None:
            arrived[stream] = arrived.get(stream, 0) + max(progress.latest.get((topic, partition), end), end)
    by_matches = {plan.name for plan in listed if sheds_matches(plan)}
    by_pairs = {plan.name for plan in listed if hides_events(plan)}
    names = {*totals.queries, *totals.slowest_ns}
    return BatchObservation(
        batch=progress.batch,
        planned_at_ms=progress.planned_at_ms,
        duration_ms=progress.duration_ms,
        arrived=arrived,
        remaining=progress.remaining,
        consumed=consumed,
        shipped=totals.counts.get("matched", 0),
        shed=totals.counts.get("shed", 0),
        oldest_broker_ms=min(oldest, default=None),
        queries={
            query: _query(query, done, reference(query) if query in by_matches else None, by_pairs=query in by_pairs)
            for query in sorted(names)
        },
        of_catalog=done.directive is None or deployment in (None, done.directive.deployment),
    )


def _query(query: str, done: Done, known: int | None, *, by_pairs: bool) -> QueryObservation:
    """``known``: partial matches without shedding, where these are shed. Of a query whose events are hidden from single partial matches, the share of these that they were hidden from counts as shed events."""
    totals = done.totals
    tally = totals.queries.get(query, QueryTally(query))
    earlier = tally if done.before is None else done.before.queries.get(query, QueryTally(query))
    orders = None if done.directive is None else done.directive.shedding.get(query)
    reference = 0 if known is None else max(tally.partial_matches, known) if orders is None else orders.reference
    hidden = tally.ended_matches / max(1, tally.judged_matches)
    ended = 0 if by_pairs else tally.ended_matches
    return QueryObservation(
        candidates=tally.candidates,
        shed=round(tally.candidates * hidden) if by_pairs else tally.shed,
        work_ms=totals.slowest_ns.get(query, 0) / 1e6,
        judging_ms=totals.judging_ns.get(query, 0) / 1e6,
        matches=_held_against(earlier.partial_matches, tally),
        more_matches=max(0, tally.partial_matches - earlier.partial_matches + ended),
        reference=reference,
        asked=0.0 if orders is None else orders.asked,
        latency_ms=tally.latency_sum_ms / sum(tally.latencies) if sum(tally.latencies) else None,
        let_go=tally.let_go,
        unasked=tally.unasked,
    )


def _held_against(before: int, tally: QueryTally) -> float:
    """How many partial matches events met on average: as engines counted them while a shedder looked on, else between those that were left before the batch, and those behind it.

    Where more were ended than there were, most of them within the batch, there were about as many throughout.
    """
    if tally.held_matches:
        return float(tally.held_matches)
    left = before - tally.ended_matches
    return (left + tally.partial_matches) / 2 if left >= 0 else float(tally.partial_matches)
