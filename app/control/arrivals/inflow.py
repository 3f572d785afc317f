"""What comes in: which topic partitions speak, how far time has come in them, and when a heartbeat must make up for their silence.

What is silent is decided in `app.control.arrivals.idle`; here is remembered what that depends on, from one batch to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.bucket.hold import NEVER, TimeRules, stream_watermark
from app.config.settings import Settings
from app.control.arrivals.accounts import Planned
from app.control.arrivals.idle import Beat, IdleSources, Silence, Waiting, heartbeat_is_due
from app.control.arrivals.sources import Ranges, Sources, TopicPartition
from app.control.law.watched import PlannedBatch
from app.control.messages.directives import Directive
from app.control.messages.reached import progress_by
from app.control.messages.reports import QueryTally
from app.control.messages.totals import BatchTotals
from app.observe.progress import Progress

Speakers = Callable[[int], Iterable[TopicPartition] | None]
"""Of a batch: the topic partitions that have records in it; None where nobody knows."""
RangesOf = Callable[[int], Ranges | None]
"""Of a batch: the offsets that are planned for it; None where nobody knows."""


def elapsed_ms() -> int:
    """A clock that is never set, ms since some time."""
    return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Incoming:
    """What is known of a batch's input when the batch begins.

    Attributes:
        planned: the batch, and how much is planned for it.
        greatest_times: by source, the greatest event time before it, ms.
        sources: all known ones, ascending.
        silence: which of them are left out.
        topics: by stream, the numbers of its topics.
        memory: what the input goes on from after a restart.
    """

    planned: PlannedBatch
    greatest_times: Mapping[int, int]
    sources: tuple[int, ...]
    silence: Silence
    topics: Mapping[str, frozenset[int]]
    memory: Mapping[str, Any]


class Inflow:
    """The input of the application. Not for several threads at once: whoever has it keeps them apart.

    Args:
        settings: of the application.
        now_ms: the clock, which only goes on: silence is no matter of the time of day, which may be set. No heartbeat is due before its interval has passed.

    Attributes:
        sources: the topics that are read now. It is exchanged, never changed: any thread may look at it.
        newest_broker_ms: per topic partition, the Kafka timestamp of the newest record ever read.
        lateness: by stream, the lateness that its settings allow, ms.
    """

    def __init__(self, settings: Settings, now_ms: int) -> None:
        self._settings = settings
        self.sources = Sources.of(settings, settings.source_topics)
        self.newest_broker_ms: dict[TopicPartition, int] = {}
        self._speakers: Speakers = lambda _: None
        self._ranges: RangesOf = lambda _: None
        self.lateness = {name: stream.allowed_lateness for name, stream in settings.streams.items()}
        self._idle = IdleSources(
            {name: stream.idle_after for name, stream in settings.streams.items()},
            self.lateness,
        )
        self._begun = False
        self._mute: set[int] = set()  # who sent records and no event when it was heard of last
        self._greatest_times: dict[int, int] = {}
        self._last_beat_ms = now_ms
        self._planned_ms: int | None = None

    def read(self, topics: Sequence[str], speakers: Speakers | None, ranges: RangesOf | None) -> None:
        """Other topics are read from now on.

        Args:
            topics: by number (`app.events.topics`); none: those of the settings.
            speakers: None: as before.
            ranges: None: as before.
        """
        self.sources = Sources.of(self._settings, topics or self._settings.source_topics)
        self._speakers, self._ranges = speakers or self._speakers, ranges or self._ranges

    def planned(self, batch: int) -> Planned | None:
        """By source, the offsets that are planned for a batch; None where nobody knows. Any thread may ask."""
        ranges = self._ranges(batch)
        return None if ranges is None else self.sources.planned(ranges)

    def assign(self, places: Iterable[TopicPartition], now_ms: int) -> None:
        """Makes topic partitions known; those of topics that are not read are left out."""
        self._idle.assign(self.sources.with_streams(self.sources.those_of(places)), now_ms)

    def hear(self, sources: Sequence[int], now_ms: int) -> None:
        """Events of these sources came."""
        self._idle.assign(self.sources.with_streams(sources), now_ms)
        self._idle.hear(sources, now_ms)

    def came(self, decoded: Mapping[int, bool], now_ms: int) -> None:
        """Records of these sources came.

        Args:
            decoded: by source, whether any of them was an event. Of what is not (another format, tombstones) nobody knows a time, so who sends nothing else is as silent as who sends nothing.
            now_ms: the clock.
        """
        told = {source for source, events in decoded.items() if events}
        self._mute = (self._mute | decoded.keys()) - told
        if told:
            self.hear(sorted(told), now_ms)

    def begin(self, batch: int, greatest_times: Mapping[int, int], now_ms: int, at_ms: int) -> Incoming:
        """A batch begins: who is silent in it is decided.

        Args:
            batch: its number.
            greatest_times: by source, the greatest event time before it, ms.
            now_ms: the clock.
            at_ms: the time of day.
        """
        self._listen(batch, now_ms)
        records = self._records_of(batch)
        since_ms = None if self._planned_ms is None else float(now_ms - self._planned_ms)
        self._planned_ms = now_ms
        planned = PlannedBatch(batch, at_ms, records, since_ms)
        silence = self._idle.decide(greatest_times, now_ms)
        return Incoming(
            planned, greatest_times, self._idle.sources, silence, self.sources.topics_by_stream(), self._idle.snapshot(now_ms, at_ms)
        )

    def remember(self, progress: Progress, totals: BatchTotals, greatest_times: Mapping[int, int]) -> None:
        """A batch is over.

        Args:
            progress: of Spark.
            totals: of the batch.
            greatest_times: by source, the greatest event time up to its end, ms.
        """
        self._greatest_times = dict(greatest_times)
        for place in progress.end:
            source = totals.sources.get(self.sources.number(*place)) if place[0] in self.sources.numbers else None
            if source is not None and source.newest_broker_ms is not None:
                self.newest_broker_ms[place] = max(self.newest_broker_ms.get(place, source.newest_broker_ms), source.newest_broker_ms)

    def watermarks(self, directive: Directive) -> dict[str, int]:
        """By stream, ms, after a batch that ran under this directive, as its buckets have them; streams of which a source that is waited for has no event yet are missing."""
        found: dict[str, int] = {}
        progress, topics = progress_by(directive, self._greatest_times), self.sources.topics_by_stream()
        for name, stream in self._settings.streams.items():
            rules = TimeRules(name, stream.allowed_lateness, topics=topics.get(name, frozenset()))
            time_ms = stream_watermark(rules, self._greatest_times, progress)
            if name in directive.reached:  # a source that was idle and speaks again takes nothing back
                time_ms = max(time_ms, directive.reached[name] - stream.allowed_lateness)
            if time_ms > NEVER:
                found[name] = time_ms
        return found

    def beat_is_due(self, totals: BatchTotals, now_ms: int) -> bool:
        """Whether to write a heartbeat now; if so it counts as written.

        Args:
            totals: of the last batch: what waits for time to pass.
            now_ms: the clock.
        """
        # A shed report waits as well: it leaves with the next batch.
        waiting = Waiting(1) if any(map(_is_reported, totals.queries.values())) else Waiting(totals.waiting, totals.next_release_ms)
        beat = Beat(self._last_beat_ms, self._settings.heartbeat.interval)
        if not heartbeat_is_due(self._idle, waiting, self._greatest_times, beat, now_ms):
            return False
        self._last_beat_ms = now_ms
        return True

    def restore(
        self, snapshot: Mapping[str, Any], came: Iterable[int], greatest_times: Mapping[int, int], *, now_ms: int, at_ms: int
    ) -> None:
        """Goes on after a restart; topic partitions that are no longer read, of topics that were left out or made anew, drive no clock.

        Args:
            snapshot: the last `Incoming.memory`.
            came: sources whose events were in its batch.
            greatest_times: by source, the greatest event time up to the end of its batch, ms.
            now_ms: the clock.
            at_ms: the time of day.
        """
        self._greatest_times = dict(greatest_times)
        read = {source: name for source, name in snapshot.get("stream", {}).items() if self.sources.stream_of(int(source)) == name}
        silent_ms = {**snapshot.get("silent_ms", {}), **{name: 0 for source in came if (name := self.sources.stream_of(source))}}
        self._idle.restore({**snapshot, "stream": read, "silent_ms": silent_ms}, now_ms, at_ms)

    def _records_of(self, batch: int) -> dict[str, int] | None:
        ranges = self._ranges(batch)
        records = None if ranges is None else self.sources.records(ranges)
        return None if records is None else {**dict.fromkeys(self._settings.streams, 0), **records}

    def _listen(self, batch: int, now_ms: int) -> None:
        """Who speaks in this batch is not idle in it, however long the batch before took; and nobody is before the first batch of a run. Who sent no event lately is not known to speak before one is there."""
        speaking = [source for source in self.sources.those_of(self._speakers(batch) or ()) if source not in self._mute]
        self._idle.assign(self.sources.with_streams(speaking), now_ms)
        if not self._begun:
            self._idle.expect_all(now_ms)
        self._idle.hear(speaking, now_ms)
        self._begun = True


def _is_reported(tally: QueryTally) -> bool:
    """Whether a shed report speaks of what a query lost in the batch (`app.control.audit_reports`)."""
    return tally.shed > 0 or tally.ended_matches > 0 or tally.tuples_shed > 0 or bool(tally.limited())
