"""Original records, read again by offset: a late event or dead letter is delivered with the key, value, headers and timestamp it came with.

Headers in the hot path triple the ingress' cost (kafka-facts.md, section 3), and bad records are few; so only these are read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from confluent_kafka import Consumer, KafkaException, TopicPartition

CLOSE = 500
"""Offsets nearer than this are read in one sweep; a seek costs a round trip (about 1 ms), a record in between 3 µs."""


@dataclass(frozen=True, slots=True)
class Original:
    """A record as the broker has it. ``found`` is false when retention or compaction took it meanwhile."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    found: bool = True


class OriginalReader:
    """Reads single records. Keeps one consumer, assigned by hand; commits nothing."""

    def __init__(self, options: dict[str, str], timeout_s: float = 20.0) -> None:
        self._consumer = Consumer(
            {
                **options,
                "group.id": "cep-originals",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        self._timeout_s = timeout_s

    def close(self) -> None:
        """Leaves the broker."""
        self._consumer.close()

    def read(self, topic: str, partition: int, offsets: Iterable[int]) -> Iterator[Original]:
        """The records at these offsets of one topic partition, ascending; those that are gone come with ``found=False``."""
        wanted = sorted(set(offsets))
        for run in _runs(wanted):
            found = self._sweep(topic, partition, run)
            yield from (found.get(offset, Original(topic, partition, offset, found=False)) for offset in run)

    def _sweep(self, topic: str, partition: int, run: list[int]) -> dict[int, Original]:
        wanted, found, deadline = set(run), {}, monotonic() + self._timeout_s
        self._consumer.assign([TopicPartition(topic, partition, run[0])])
        try:
            while monotonic() < deadline:
                message = self._consumer.poll(1.0)
                if message is None:
                    continue
                if message.error() is not None or message.offset() > run[-1]:
                    break  # end of partition, offset out of range, or past the last one: what is missing is gone
                if message.offset() in wanted:
                    found[message.offset()] = Original(
                        topic,
                        partition,
                        message.offset(),
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        tuple((name, bytes(value) if value is not None else None) for name, value in message.headers() or ()),
                    )
                if message.offset() == run[-1]:
                    break
        except KafkaException:
            pass  # reported as not found: the letter is then delivered without its original
        return found


def _runs(offsets: list[int]) -> list[list[int]]:
    """Groups ascending offsets that lie close together.

    >>> _runs([1, 2, 400, 5000]), _runs([])
    ([[1, 2, 400], [5000]], [])
    """
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= CLOSE:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs
