"""A stream's events as its topics hold them, read once beside the application; commits nothing."""

from __future__ import annotations

import numpy as np

from app.config.settings import Settings
from app.delivery.security import consumer_options
from app.delivery.span import Part, Span
from app.events.avro import parse_schema
from app.events.batch import PARTITION_BITS, EventBatch, concatenate, empty_batch, in_total_order, take
from app.events.decoder import BatchDecoder, DecodedBatch
from app.events.registry import Registry, registry_settings
from app.pipeline.preparation import read_streams


class StreamReader:
    """Decodes a stream's records as the application does.

    Args:
        settings: of the application.
        stream: a name that they know.

    Raises:
        ConfigurationError, DependencyError: the stream's schemas cannot be had.
    """

    def __init__(self, settings: Settings, stream: str) -> None:
        own = settings.streams[stream]
        registry = Registry(registry_settings(settings.schema_registry))
        (deployed,) = read_streams(settings.model_copy(update={"streams": {stream: own}}), registry)
        self._decoder = BatchDecoder(deployed.definition, [parse_schema(text) for text in deployed.readers], registry)
        self._with_headers, self._topics, self._options = deployed.with_headers, own.topics, consumer_options(settings.kafka)

    def span(self, since_ms: int | None = None, newest: int | None = None) -> Span:
        """What the stream's topics hold now; see `Span`."""
        return Span(self._options, self._topics, since_ms, newest)

    def decode(self, part: Part) -> DecodedBatch:
        """Records as events."""
        source = (part.topic << PARTITION_BITS) | part.partition
        return self._decoder.decode(part.values, source, part.offset, part.headers if self._with_headers else None, part.timestamp_ms)

    def newest(self, count: int) -> EventBatch:
        """The newest events, in total order, from the time on from which all partitions are whole.

        Args:
            count: about so many records.

        Raises:
            DependencyError: Kafka or registry do not answer.
        """
        span = self.span(newest=count)
        parts = [self.decode(part).batch for part in span.parts()]
        batch = concatenate(parts) if parts else empty_batch()
        cut = [(self._topics.index(topic) << PARTITION_BITS) | partition for topic, partition in span.cut]
        firsts = [int(batch.time[own].min()) for source in cut if (own := batch.source == source).any()]
        return in_total_order(take(batch, np.flatnonzero(batch.time >= max(firsts))) if firsts else batch)
