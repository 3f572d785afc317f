"""EventBatch: events as arrays, one per attribute, from decoding to the match.

No Python object per event. Axis names used in every docstring: ``events`` (rows of a batch), ``entries`` (of a dictionary).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.events.types import Kind

PRESENT, NULL, ABSENT = 0, 1, 2
"""States of a cell: has a value; the attribute is there but null (its comparison is false);
the event's schema does not have the attribute (its comparison is true)."""

PARTITION_BITS = 20
"""``source = topic_index << 20 | partition``: sorting by source is sorting by (topic, partition). Kafka allows far fewer partitions."""


def source_number(topic_index: int, partition: int) -> int:
    """The number of a topic partition; ``topic_index`` is the topic's place in the application's sorted list of topics.

    >>> source_number(1, 3) == (1 << 20) + 3
    True
    """
    return topic_index << PARTITION_BITS | partition


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """The distinct byte strings that a column's codes stand for. Entries may repeat (after batches were joined).

    Attributes:
        data: uint8 (bytes,), all entries after each other (UTF-8 for strings).
        offsets: int64 (entries + 1,), entry ``k`` is ``data[offsets[k]:offsets[k + 1]]``.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def entry(self, code: int) -> bytes:
        """The bytes of one entry."""
        return self.data[self.offsets[code] : self.offsets[code + 1]].tobytes()

    def entries(self) -> list[bytes]:
        """All entries; one Python object each, so for dictionaries, never for events."""
        data, bounds = self.data.tobytes(), self.offsets.tolist()
        return [data[start:end] for start, end in zip(bounds, bounds[1:], strict=False)]

    @staticmethod
    def of(entries: Sequence[bytes]) -> Dictionary:
        """A dictionary of the given byte strings.

        >>> Dictionary.of([b"a", b"bc"]).entry(1)
        b'bc'
        """
        offsets = np.zeros(len(entries) + 1, dtype=np.int64)
        np.cumsum([len(e) for e in entries], out=offsets[1:])
        return Dictionary(np.frombuffer(b"".join(entries), dtype=np.uint8), offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One attribute of all events of a batch.

    Attributes:
        values: (events,) int64 (boolean, integer, time), float64 (float) or int32 codes (string, bytes). Undefined where the state is not PRESENT.
        state: uint8 (events,) of PRESENT, NULL, ABSENT; None means that all are present.
        dictionary: for string and bytes.
    """

    kind: Kind
    values: NDArray[np.generic]
    state: NDArray[np.uint8] | None = None
    dictionary: Dictionary | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EventBatch:
    """Events of one stream (or of the streams of one query group), columnar.

    Attributes:
        time: int64 (events,), milliseconds since the epoch.
        source: int64 (events,), see `source_number`; 0 for files.
        offset: int64 (events,), Kafka offset, or the line number of a file.
        type: string column of event type names; always present.
        columns: by attribute name.
    """

    time: NDArray[np.int64]
    source: NDArray[np.int64]
    offset: NDArray[np.int64]
    type: Column
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.time)

    def total_order(self) -> NDArray[np.intp]:
        """Row numbers sorted by (time, source, offset): the total order of query-language.md, section 2."""
        return np.lexsort((self.offset, self.source, self.time))
