"""Which topic partitions are read, as which sources, and what streams they feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.config.settings import Settings
from app.control.arrivals.accounts import Planned
from app.control.arrivals.idle import SourceOfStream
from app.control.messages.totals import BatchTotals
from app.events.batch import PARTITION_BITS, source_number
from app.events.topics import topic_numbers

TopicPartition = tuple[str, int]
Ranges = Mapping[TopicPartition, tuple[int | None, int]]
"""Of a batch, by topic partition: the first offset (None where Spark does not say) and the one after the last."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The topics that are read now.

    Attributes:
        numbers: by topic, its number in sources.
        streams: by number, the stream that the topic feeds; the heartbeat's is missing.
    """

    numbers: Mapping[str, int]
    streams: Mapping[int, str]

    @staticmethod
    def of(settings: Settings, topics: Sequence[str]) -> Sources:
        """Of topics by number (`app.events.topics`)."""
        numbers = topic_numbers(topics)
        named = ((number, settings.stream_of(topic)) for topic, number in numbers.items())
        return Sources(numbers, {number: stream for number, stream in named if stream is not None})

    def number(self, topic: str, partition: int) -> int:
        """The source that a topic partition is; the topic must be one that is read."""
        return source_number(self.numbers[topic], partition)

    def those_of(self, places: Iterable[TopicPartition]) -> list[int]:
        """The sources that topic partitions are; those of other topics are left out."""
        return [self.number(*place) for place in places if place[0] in self.numbers]

    def stream_of(self, source: int) -> str | None:
        """The stream that a source feeds; None of the heartbeat's and of topics that are no longer read."""
        return self.streams.get(source >> PARTITION_BITS)

    def with_streams(self, sources: Iterable[int]) -> list[SourceOfStream]:
        """Sources with the streams that they feed; those that feed none are left out."""
        named = ((source, self.stream_of(source)) for source in sources)
        return [SourceOfStream(source, stream) for source, stream in named if stream is not None]

    def topics_by_stream(self) -> dict[str, frozenset[int]]:
        """By stream, the numbers of its topics."""
        names = set(self.streams.values())
        return {name: frozenset(number for number, stream in self.streams.items() if stream == name) for name in sorted(names)}

    def planned(self, ranges: Ranges) -> Planned:
        """By source, the offsets that are planned for a batch."""
        return {self.number(*place): span for place, span in ranges.items() if place[0] in self.numbers}

    def records(self, ranges: Ranges) -> dict[str, int] | None:
        """By stream that anything is planned of, the records; None where nobody knows. Markers of transactions count as well."""
        if any(start is None for start, _ in ranges.values()):
            return None
        records: dict[str, int] = {}
        for (topic, partition), (start, end) in ranges.items():
            stream = self.stream_of(self.number(topic, partition)) if topic in self.numbers else None
            if stream is not None and start is not None:
                records[stream] = records.get(stream, 0) + max(0, end - start)
        return records

    def untouched(self, planned: Planned, totals: BatchTotals) -> dict[TopicPartition, tuple[int, int]]:
        """Topic partitions of streams with offsets that were planned for a batch, and of which nothing came."""
        read = {number for number, source in totals.sources.items() if source.events}
        topics = {number: topic for topic, number in self.numbers.items() if number in self.streams}
        return {
            (topics[number >> PARTITION_BITS], number & ((1 << PARTITION_BITS) - 1)): (start, end)
            for number, (start, end) in planned.items()
            if start is not None and end > start and number not in read and number >> PARTITION_BITS in topics
        }
