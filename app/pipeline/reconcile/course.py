"""Who decides about the batches of a run over what is there: their offsets, how time passes, and that nothing is shed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.bucket.hold import NEVER, Progress, stream_watermark
from app.control.arrivals.accounts import Breach, Planned
from app.control.messages.directives import Directive
from app.control.messages.totals import BatchTotals
from app.control.server.registry_watch import Notice, Ruling
from app.delivery.bounds import TopicAndPartition
from app.events.batch import source_number
from app.events.topics import topic_numbers
from app.owners.deployment import Deployment, StreamDeployment
from app.pipeline.reconcile.failure import too_far_ahead
from app.pipeline.reconcile.span import Span

Ranges = dict[TopicAndPartition, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class NoDesk:
    """Nobody waits for a schema registry that is away: the run fails, and can be begun again."""

    def registry(self, notice: Notice) -> Ruling:
        """As of `app.control.server.desk.Desk`."""
        return Ruling("fail" if notice.outcome == "failed" else "use")


@dataclass(frozen=True, slots=True)
class Terms:
    """Of a run.

    Attributes:
        deployment: that is run, and its fingerprint.
        spans: what is read.
        until: by stream the watermark that is enough, ms; at the end time has come so far, also where events are missing that say so.
        ahead: by topic, as `app.pipeline.reconcile.span.Since` has it.
        most_records: of a batch.
        decided_at_ms: the clock.
    """

    deployment: Deployment
    fingerprint: str
    spans: Mapping[TopicAndPartition, Span]
    until: Mapping[str, int]
    ahead: Mapping[str, int]
    most_records: int
    decided_at_ms: int


def next_ranges(at: Mapping[TopicAndPartition, int], ends: Mapping[TopicAndPartition, int], most: int) -> Ranges:
    """What the next batch reads: of each topic partition in proportion to what is left there, so that time passes evenly.

    >>> next_ranges({("a", 0): 0, ("a", 1): 90}, {("a", 0): 100, ("a", 1): 100}, 11)
    {('a', 0): (0, 10), ('a', 1): (90, 91)}
    """
    left = {place: end - at[place] for place, end in ends.items() if end > at[place]}
    share = min(1.0, most / max(1, sum(left.values())))
    return {place: (at[place], at[place] + min(count, max(1, round(count * share)))) for place, count in left.items()}


class Course:
    """`app.pipeline.batches.Plane` of a run. For one thread.

    Args:
        terms: of the run.
        tell: gets the number of records that a batch has read.
    """

    def __init__(self, terms: Terms, tell: Callable[[int], None]) -> None:
        self._terms, self._tell = terms, tell
        self._numbers = topic_numbers(terms.deployment.topics)
        self._stream: dict[int, StreamDeployment] = {
            self._source(place): stream
            for place in terms.spans
            for stream in terms.deployment.streams
            if stream.rules.owns(self._source(place))
        }
        self._at = {place: span.start for place, span in terms.spans.items()}
        self._greatest: dict[int, int] = {}
        self._ranges: dict[int, Ranges] = {}
        self._directives: dict[int, Directive] = {}

    def plan(self, batch: int) -> Ranges:
        """What a batch reads; nothing in the last one, in which only time passes."""
        ends = {place: span.end for place, span in self._terms.spans.items() if not self._is_over(place)}
        self._ranges[batch] = next_ranges(self._at, ends, self._terms.most_records)
        return self._ranges[batch]

    def begin_run(self) -> int:
        """The only one."""
        return 1

    def directive(self, batch: int) -> Directive:
        """Nothing is shed. Topic partitions that are read to their ends hold nobody up."""
        if batch not in self._directives:
            over = tuple(sorted(self._source(place) for place in self._terms.spans if self._is_over(place)))
            times = {
                stream.rules.stream: time + stream.rules.allowed_lateness_ms
                for stream in self._terms.deployment.streams
                if (time := self._terms.until.get(stream.rules.stream, NEVER)) > NEVER
                and all(source in over for source, of in self._stream.items() if of is stream)
            }
            self._directives = {
                batch: Directive(
                    batch,
                    catalog_version=self._terms.deployment.catalog.version,
                    deployment=self._terms.fingerprint,
                    decided_at_ms=self._terms.decided_at_ms,
                    greatest_times=dict(self._greatest),
                    sources=tuple(sorted(self._stream)),
                    idle=over,
                    stream_times=times,
                )
            }
        return self._directives[batch]

    def await_directive(self) -> None:
        """Nothing survives a crash: a run that is begun again begins at its beginning."""

    def finish(self, totals: BatchTotals, owners: int = 0) -> None:
        """Notes how far the run has come.

        Raises:
            ReconcileError: event times are further ahead of Kafka's than was said, so that earlier records may be of the interval as well.
        """
        for number, source in totals.sources.items():
            if source.greatest_time is not None:
                self._greatest[number] = max(source.greatest_time, self._greatest.get(number, source.greatest_time))
                self._check_ahead(number, source.greatest_time, source.newest_broker_ms)
        self._at |= {place: end for place, (_, end) in self._ranges.pop(totals.batch, {}).items()}
        self._tell(sum(source.events for source in totals.sources.values()))

    def planned(self, batch: int) -> Planned | None:
        """By source, the offsets of a batch."""
        return {self._source(place): span for place, span in self._ranges.get(batch, {}).items()}

    def untouched(self, planned: Planned, totals: BatchTotals) -> dict[TopicAndPartition, tuple[int, int]]:
        """Nobody is asked."""
        return {}

    def count_failed_attempt(self) -> None:
        """It is logged."""

    def count_owners(self, owners: int) -> None:
        """Nobody watches."""

    def count_breaches(self, breaches: Sequence[Breach]) -> None:
        """They are logged."""

    def _check_ahead(self, number: int, greatest: int, newest_broker_ms: int | None) -> None:
        topic = next(place[0] for place in self._terms.spans if self._source(place) == number)
        if newest_broker_ms is not None and greatest - newest_broker_ms > self._terms.ahead.get(topic, 0):
            raise too_far_ahead(topic, greatest - newest_broker_ms)

    def _is_over(self, place: TopicAndPartition) -> bool:
        """Whether nothing more is read of a topic partition: it is at its end, or what follows is later than all that counts."""
        if self._at[place] >= self._terms.spans[place].end:
            return True
        source = self._source(place)
        rules = self._stream[source].rules
        enough = self._terms.until.get(rules.stream, NEVER)
        return enough > NEVER and stream_watermark(rules, {source: self._greatest.get(source, NEVER)}, Progress()) > enough

    def _source(self, place: TopicAndPartition) -> int:
        return source_number(self._numbers[place[0]], place[1])
