"""A stream's events as its topics hold them, read once beside the application; commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from app.config.settings import Settings
from app.delivery.security import consumer_options
from app.delivery.span import Part, Span
from app.events.avro import parse_schema
from app.events.batch import PARTITION_BITS, EventBatch, concatenate, concatenate_streams, empty_batch, in_total_order, take
from app.events.decoder import BatchDecoder, DecodedBatch
from app.events.plausible import without_implausible_times
from app.events.registry import Registry, registry_settings
from app.owners.deployment import StreamDeployment
from app.pipeline.preparation import read_streams, with_elements
from app.query.compile import elements_in

STRAGGLING_MS = 60_000
"""Beyond the allowed lateness: what other topic partitions, which are slower, still let in."""


def streams_at_a_start(settings: Settings, names: Iterable[str]) -> tuple[StreamDeployment, ...]:
    """Streams as an application that starts now reads them.

    Args:
        settings: of the application.
        names: that they know.

    Raises:
        ConfigurationError, DependencyError: their schemas cannot be had.
    """
    wanted = settings.model_copy(update={"streams": {name: settings.streams[name] for name in names}})
    elements = elements_in(settings.queries.paths)
    registry = Registry(registry_settings(settings.schema_registry))
    return tuple(with_elements(one, elements) for one in read_streams(wanted, registry))


def newest_of(
    settings: Settings, streams: Sequence[StreamDeployment], count: int, tell: Callable[[str], None], wanted: frozenset[str] | None = None
) -> EventBatch:
    """The newest events of several streams together, in total order, from the time on from which all of them are whole. Every topic partition has a source of its own.

    Args:
        settings: of the application.
        streams: as they are read.
        count: about so many records of each.
        tell: is told what is read.
        wanted: only these attributes; None: all.

    Raises:
        DependencyError: the streams cannot be read.
    """
    parts: list[EventBatch] = []
    whole_from: list[int] = []
    first = 0
    for stream in streams:
        tell(f"reading the newest {count:,} records of {stream.rules.stream}")
        batch, since_ms = StreamReader(settings, stream, first, wanted).newest(count)
        first += len(settings.streams[stream.rules.stream].topics)
        parts.append(batch)
        whole_from += [] if since_ms is None else [since_ms]
    batch = in_total_order(concatenate_streams(parts))
    return take(batch, np.flatnonzero(batch.time >= max(whole_from))) if whole_from else batch


def without_stragglers(batch: EventBatch, late_ms: int) -> EventBatch:
    """Without events that are so much older than one before them in their topic partition: the application does not match them, and one of yesterday would stretch what is learned from over a day.

    Args:
        batch: of some topic partitions, in any order.
        late_ms: how much.
    """
    order = np.lexsort((batch.offset, batch.source))
    times, sources = batch.time[order], batch.source[order]
    kept = np.ones(len(order), dtype=np.bool_)
    for own in np.split(np.arange(len(order)), np.flatnonzero(np.diff(sources)) + 1):
        kept[order[own]] = times[own] >= np.maximum.accumulate(times[own]) - late_ms
    return batch if kept.all() else take(batch, np.flatnonzero(kept))


class StreamReader:
    """Decodes a stream's records as the application does.

    Args:
        settings: of the application.
        stream: as it is read; the settings know it.
        first: number of its first topic, where other streams are read beside it.
        wanted: only these attributes; None: all.
    """

    def __init__(self, settings: Settings, stream: StreamDeployment, first: int = 0, wanted: frozenset[str] | None = None) -> None:
        own = settings.streams[stream.rules.stream]
        registry = Registry(registry_settings(settings.schema_registry))
        self._decoder = BatchDecoder(stream.definition, [parse_schema(text) for text in stream.readers], registry, wanted)
        self._first = first
        self._max_ahead_ms, self._late_ms = own.max_ahead, own.allowed_lateness + STRAGGLING_MS
        self._with_headers, self._topics, self._options = stream.with_headers, own.topics, consumer_options(settings.kafka)

    def span(self, since_ms: int | None = None, newest: int | None = None) -> Span:
        """What the stream's topics hold now; see `Span`."""
        return Span(self._options, self._topics, since_ms, newest)

    def decode(self, part: Part) -> DecodedBatch:
        """Records as events; those whose time cannot be are failures, as for the application."""
        source = ((self._first + part.topic) << PARTITION_BITS) | part.partition
        headers = part.headers if self._with_headers else None
        decoded = self._decoder.decode(part.values, source, part.offset, headers, part.timestamp_ms)
        return without_implausible_times(decoded, part.timestamp_ms, self._max_ahead_ms)

    def newest(self, count: int) -> tuple[EventBatch, int | None]:
        """The newest events, from the time on from which all partitions are whole; and that time, where there are earlier ones.

        Args:
            count: about so many records.

        Raises:
            DependencyError: Kafka or registry do not answer.
        """
        span = self.span(newest=count)
        parts = [self.decode(part).batch for part in span.parts()]
        batch = without_stragglers(concatenate(parts), self._late_ms) if parts else empty_batch()
        cut = [((self._first + self._topics.index(topic)) << PARTITION_BITS) | partition for topic, partition in span.cut]
        firsts = [int(batch.time[own].min()) for source in cut if (own := batch.source == source).any()]
        if not firsts:
            return batch, None
        return take(batch, np.flatnonzero(batch.time >= max(firsts))), max(firsts)
