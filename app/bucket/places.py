"""Where events stand in Kafka, as columns: for identities, and for what records say of their constituents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.bucket.encoding.pieces import Texts, decimals, side_by_side, texts_of
from app.events.batch import PARTITION_BITS
from app.events.topics import topic_and_incarnation, topic_label
from app.query.plan import QUERY_STREAM, Plan

COMPOSITES = 1 << 44
"""The source of composite events that other queries read: behind all topic partitions, so that at equal times raw events come first."""
_PARTITIONS = (1 << PARTITION_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where events stand.

    Attributes:
        labels: topics as identities know them; of composite events that a query reads the stream of the query that emitted them.
        topic: int64 (events,), index into ``labels``.
        partition, offset: int64 (events,).
    """

    labels: Sequence[str]
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    offset: NDArray[np.int64]

    @staticmethod
    def of(
        source: NDArray[np.int64], offset: NDArray[np.int64], types: tuple[NDArray[np.int64], Sequence[str]], topics: Sequence[str]
    ) -> Places:
        """The places of events.

        Args:
            source: int64 (events,), topic partitions.
            offset: int64 (events,).
            types: codes (events,) of event types and the types that they stand for; asked for composite events only.
            topics: by number (`app.events.topics`), see `named_topics`.
        """
        codes, names = types
        labels = [topic_label(*topic_and_incarnation(topic)) for topic in topics]
        topic = np.minimum(source >> PARTITION_BITS, len(labels))
        composite = source == COMPOSITES
        if composite.any():
            topic = np.where(composite, len(labels) + 1 + codes, topic)
        return Places([*labels, "", *(QUERY_STREAM + name for name in names)], topic, source & _PARTITIONS, offset)

    def texts(self, between: str) -> Texts:
        """Topic, partition and offset of each."""
        distinct, which = np.unique(self.topic << PARTITION_BITS | self.partition, return_inverse=True)
        fronts = [f"{self.labels[place >> PARTITION_BITS]}{between}{place & _PARTITIONS}{between}".encode() for place in distinct.tolist()]
        return side_by_side(texts_of(fronts).at(which), decimals(self.offset))


def named_topics(plan: Plan, topics: Sequence[str]) -> Sequence[str]:
    """The topics by number; without any (files without positions), the query's stream stands for the topic."""
    return topics or [stream for stream in plan.streams if not stream.startswith(QUERY_STREAM)][:1]
