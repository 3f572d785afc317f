"""Original records, read again by offset: a late event or dead letter is delivered with the key, value, headers and timestamp it came with.

Headers in the hot path triple the ingress' cost, and bad records are few; so only these are read twice.
Offsets may have gaps (transactions, compaction), so the end of a sweep is what the broker calls the end, never a count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.delivery.connection import NO_TOPIC
from app.delivery.kept import KeptClient
from app.delivery.record_headers import UnreadableHeadersError, headers_of

CLOSE = 500
"""Offsets nearer than this are read in one sweep; a seek costs a round trip (about 1 ms), a record in between 3 µs."""
IMPATIENT_S = 1.0
"""How long a sweep waits for a record after one that got no answer: a broker that is away must not hold the batch up once per letter."""
PASSING = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT})  # noqa: SLF001 - so named
"""Errors after which the client goes on trying by itself."""
NO_MATTER = KafkaError.GROUP_AUTHORIZATION_FAILED
"""The client asks for its group's coordinator, though it is assigned by hand and commits nothing."""
NO_PLACE = NO_TOPIC | {KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001 - so named


@dataclass(frozen=True, slots=True)
class Original:
    """A record as the broker has it.

    Attributes:
        found: false when retention or compaction took it meanwhile, or when it could not be read.
        problem: why it, or its headers, could not be read; empty when all was, and when it is gone.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    found: bool = True
    problem: str = ""


class UnreadableError(Exception):
    """The broker did not let a sweep come to its end; the message says why."""


class OriginalReader:
    """Reads single records. Keeps one consumer, assigned by hand; commits nothing.

    Args:
        options: of the client; see `app.delivery.security.shipped_consumer_options`.
        timeout_s: how long one sweep may take, and wait for a record.
    """

    def __init__(self, options: Mapping[str, str], timeout_s: float = 20.0) -> None:
        own = {
            "group.id": "cep-originals",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "log_level": 0,  # what cannot be read is told with its letter; a broker that is away would fill the log
        }
        self._kept: KeptClient[Consumer] = KeptClient({**options, **own}, Consumer, Consumer.close)
        self._consumer = self._kept()
        self._timeout_s = self._patience_s = timeout_s

    def close(self) -> None:
        """Leaves the broker."""
        self._kept.close()

    def read(self, topic: str, partition: int, offsets: Iterable[int]) -> Iterator[Original]:
        """The records at these offsets of one topic partition, ascending.

        Those that are gone come with ``found=False``, those that could not be read with a ``problem`` as well.
        """
        for run in _runs(sorted(set(offsets))):
            found: dict[int, Original] = {}
            problem = ""
            try:
                self._sweep(TopicPartition(topic, partition, run[0]), run, found)
                self._patience_s = self._timeout_s
            except UnreadableError as error:
                problem, self._patience_s = str(error), IMPATIENT_S
            yield from (found.get(offset, Original(topic, partition, offset, found=False, problem=problem)) for offset in run)

    def _sweep(self, begin: TopicPartition, run: list[int], found: dict[int, Original]) -> None:
        """Puts the records of a run into ``found``; those that are not there when this returns are gone.

        Raises:
            UnreadableError: nobody knows what became of the others.
        """
        wanted, reason, began_s = set(run), "no answer", monotonic()
        heard_s = began_s
        try:
            self._consumer = self._kept()
            self._consumer.assign([begin])
            while (now_s := monotonic()) < heard_s + self._patience_s and now_s < began_s + self._timeout_s:
                message = self._consumer.poll(min(1.0, self._patience_s))
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == NO_MATTER:
                    continue
                if error is None:
                    heard_s = monotonic()
                    if message.offset() in wanted:
                        found[message.offset()] = _original(message)
                    if message.offset() >= run[-1]:
                        return
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - so named
                    low, high = self._consumer.get_watermark_offsets(begin, timeout=self._patience_s)
                    if not run[0] < low <= min(run[-1], high - 1):
                        return
                    self._consumer.assign([TopicPartition(begin.topic, begin.partition, low)])  # retention took the first ones only
                elif error.code() in (KafkaError._PARTITION_EOF, *NO_PLACE):  # noqa: SLF001 - so named
                    return
                elif error.code() in PASSING:
                    reason = error.str()
                else:
                    raise UnreadableError(error.str())
        except KafkaException as error:
            raise UnreadableError(error.args[0].str()) from error
        finally:
            with suppress(KafkaException):
                self._consumer.unassign()  # else it goes on fetching what nobody asked for, up to its largest queue
        raise UnreadableError(f"{reason} in {self._patience_s:g} s")


def _original(message: Message) -> Original:
    place = (message.topic(), message.partition(), message.offset())
    try:
        headers, problem = headers_of(message), ""
    except UnreadableHeadersError as error:
        headers, problem = (), str(error)
    return Original(*place, message.timestamp()[1], message.key(), message.value(), headers, problem=problem)


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
