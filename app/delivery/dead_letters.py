"""Dead letters: what they say, and sending their records again to where they came from.

A letter that was sent again is marked: a record without value in the same topic partition, with the header `MARK`, which goes out in one transaction with the
record. So each letter is sent again once, whatever is interrupted and however often it is asked for; and of two who do it at once the later one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.config.settings import Settings
from app.delivery.connection import connect, failure
from app.delivery.originals import Original, OriginalReader
from app.delivery.record_headers import RecordHeaders, readable_headers
from app.delivery.security import client_options, consumer_options
from app.errors import CepError

REASON_HEADER, TEXT_HEADER = "__connect.errors.exception.class.name", "__connect.errors.exception.message"
TOPIC_HEADER, PARTITION_HEADER = "__connect.errors.topic", "__connect.errors.partition"
OFFSET_HEADER, TIMESTAMP_HEADER = "__connect.errors.offset", "__connect.errors.timestamp"
ORIGINALS_HEADER = "cep.original"
"""Says why a late event or dead letter comes without its original value: ``gone``, ``unreadable`` or ``oversized``."""
PROBLEM_HEADER = "cep.original-problem"
"""Why it was unreadable: it may still be there."""
MARK = "cep.sent-again"
"""Of a mark: ``partition/offset`` of the letter. Of a record that was sent again: ``topic/partition/offset`` of it."""
AT_ONCE = 500
"""Letters of one transaction."""
BYTES_AT_ONCE = 16 << 20
"""And so many bytes, unless one record has more: a slow link is to be through with them while the transaction lasts."""
REQUEST_S = 30.0
COMMIT_S = 50.0
"""A transaction is undone by the brokers after 60 s (``transaction.timeout.ms``)."""
LARGEST_BYTES = 100_000_000
"""Of what is sent again: brokers decide what is too large, and letters are of what our own limit was too small for."""
RECOVERABLE = ("unreadable", "oversized")
"""Letters without their value whose record may still be where it was."""
FENCED = (KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FENCED)  # noqa: SLF001 - so named


@dataclass(frozen=True, slots=True, order=True)
class LetterPlace:
    """Where a letter lies in the topic of dead letters."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}/{self.offset}"

    @staticmethod
    def of(text: str) -> LetterPlace:
        """A place as people write it.

        >>> LetterPlace.of("2/1045")
        LetterPlace(partition=2, offset=1045)

        Raises:
            CepError: it is none.
        """
        partition, _, offset = text.partition("/")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise CepError(
                f'"{text}" is no place of a dead letter\nhint: write partition/offset as cep dlq ls shows them, for instance 0/17'
            )
        return LetterPlace(int(partition), int(offset))


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter.

    Attributes:
        written_ms: when it was written.
        topic, origin, timestamp_ms: where the record came from; empty, (-1, -1) and -1 of what the application made itself.
        reason: a stable word (`app.events.failures.Reason`, or ``oversized``).
        text: what exactly.
        missing: why its value is not here; empty when it is.
        headers: that the record came with.
    """

    place: LetterPlace
    written_ms: int
    topic: str
    origin: tuple[int, int]
    timestamp_ms: int
    reason: str
    text: str
    missing: str
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


def letter_of(message: Message) -> Letter | None:
    """The letter that a record of the topic is; None for a mark."""
    headers = readable_headers(message)
    told = {name: (content or b"").decode(errors="replace") for name, content in headers}
    place = LetterPlace(message.partition(), message.offset())
    if MARK in told and REASON_HEADER not in told:
        return None
    ours = max((k for k, (name, _) in enumerate(headers) if name == TOPIC_HEADER), default=None)
    if ours is None:  # made by the application: a composite event that is too large
        own: RecordHeaders = ()
        origin, timestamp = (-1, -1), -1
    else:
        own = headers[:ours]
        told = {name: (content or b"").decode(errors="replace") for name, content in headers[ours:]}
        origin, timestamp = (_number(told, PARTITION_HEADER), _number(told, OFFSET_HEADER)), _number(told, TIMESTAMP_HEADER)
    return Letter(
        place,
        message.timestamp()[1],
        told.get(TOPIC_HEADER, "").partition("#")[0] if ours is not None else "",  # "#2": the topic was created again
        origin,
        timestamp,
        told.get(REASON_HEADER, "unknown"),
        told.get(TEXT_HEADER, ""),
        told.get(ORIGINALS_HEADER, ""),
        message.key(),
        message.value(),
        own,
    )


def _number(told: Mapping[str, str], name: str) -> int:
    text = told.get(name, "")
    return int(text) if text.removeprefix("-").isdecimal() else -1


def mark_of(message: Message) -> LetterPlace | None:
    """The letter that a mark speaks of; None for a letter."""
    told = dict(readable_headers(message))
    mark = told.get(MARK)
    if mark is None or REASON_HEADER in told:
        return None
    return LetterPlace.of(mark.decode())


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters are meant; what is not said takes all.

    Attributes:
        places: of single letters.
        reasons, topics: one of these.
        since_ms: written then or later.
    """

    places: frozenset[LetterPlace] = frozenset()
    reasons: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    since_ms: int | None = None

    def takes(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.places or letter.place in self.places)
            and (not self.reasons or letter.reason in self.reasons)
            and (not self.topics or letter.topic in self.topics)
            and (self.since_ms is None or letter.written_ms >= self.since_ms)
        )


def refusal(letter: Letter, topics: Iterable[str]) -> str | None:
    """Why a letter cannot be sent again, or it would be of no use; None where it can.

    Args:
        letter: to be sent.
        topics: that the application reads.
    """
    if not letter.topic:
        return "it was made by the application: there is no record to send"
    if letter.topic not in topics:
        return f"{letter.topic} is no topic of a stream of these settings"
    if letter.reason == "null-value":
        return "a record without value becomes no event, however often it is sent"
    if letter.missing == "gone":
        return "its value was gone before it could be kept"
    return None


class Originals(Protocol):
    """The part of `app.delivery.originals.OriginalReader` that is used."""

    def read(self, topic: str, partition: int, offsets: Iterable[int]) -> Iterator[Original]:
        """Records at offsets."""

    def close(self) -> None:
        """Leaves the broker."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be sent for a letter."""

    letter: Letter
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")


def record_of(letter: Letter, dead_letters: str, originals: Originals) -> Record | None:
    """The record as it was, and where it was a letter; None where its value is not here and no longer where it was."""
    key, value, headers = letter.key, letter.value, letter.headers
    if letter.missing in RECOVERABLE:
        (found,) = originals.read(letter.topic, letter.origin[0], [letter.origin[1]])
        if not found.found or _is_another(found, letter):
            return None
        key, value, headers = found.key, found.value, found.headers
    kept = tuple(one for one in headers if one[0] != MARK)
    return Record(letter, key, value, (*kept, (MARK, f"{dead_letters}/{letter.place}".encode())))


def _is_another(found: Original, letter: Letter) -> bool:
    """Whether what stands in a letter's place is not what it was written for: its topic was made again."""
    return found.timestamp_ms != letter.timestamp_ms if letter.timestamp_ms >= 0 else found.timestamp_ms > letter.written_ms


class SendingAgain:
    """Sends letters' records to their topics, each once.

    From its construction on whoever did the same is shut out, and what they had not finished is undone: only what is read afterwards says what was sent.

    Args:
        settings: of the application.

    Raises:
        AccessRefusedError, DependencyError: the brokers do not answer, or refuse.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        known = connect(settings.kafka).metadata.topics
        self._partitions = {name: len(topic.partitions) for name, topic in known.items()}
        prefix = settings.kafka.group_id_prefix
        self.transactional_id = f"{prefix}-{settings.application}-dlq" if prefix else f"{settings.application}-dlq"
        quiet = {"log_level": 0, "error_cb": lambda _: None}  # what is wrong is raised where it matters
        self._producer = Producer(
            {**client_options(settings.kafka), "transactional.id": self.transactional_id, "message.max.bytes": LARGEST_BYTES, **quiet}
        )
        self._originals = OriginalReader(consumer_options(settings.kafka))
        self._too_large = self._after_refusal = False
        self._guarded("begin transactions", lambda: self._producer.init_transactions(REQUEST_S))

    def close(self) -> None:
        """Leaves the brokers."""
        self._originals.close()

    def send(self, letters: Sequence[Letter]) -> dict[Letter, str]:
        """Sends letters and their marks, in one transaction unless they are large or a topic refuses one of them; returns those that were left out, and why.

        Raises:
            AccessRefusedError, DependencyError: what is not in a transaction that was finished before was not sent.
        """
        left_out: dict[Letter, str] = {}
        waiting, size = list[Record](), 0
        for letter in letters:
            record = record_of(letter, self._settings.topics.dead_letters, self._originals)
            if record is None:
                left_out[letter] = "its record is no longer where it was"
                continue
            if waiting and size + record.size > BYTES_AT_ONCE:
                left_out |= self._sent(waiting)
                waiting, size = [], 0
            waiting.append(record)
            size += record.size
        return left_out | self._sent(waiting)

    def _sent(self, records: Sequence[Record]) -> dict[Letter, str]:
        """Halves what is too large until the record that its topic refuses is alone: a transaction does not say which it is, nor does a batch that is too large as a whole."""
        if not records:
            return {}
        try:
            self._transaction(records)
        except KafkaException as error:
            if self._after_refusal and error.args[0].code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._after_refusal = False
                return self._sent(records)  # librdkafka numbers records anew when the first transaction behind a refused batch has failed
            if not self._too_large:
                raise self._failure("send letters again", error) from error
            self._after_refusal = True
        else:
            return {}
        if len(records) == 1:
            letter = records[0].letter
            return {letter: f"it is larger than records of {letter.topic} may be (max.message.bytes)"}
        middle = len(records) // 2
        return self._sent(records[:middle]) | self._sent(records[middle:])

    def _transaction(self, records: Sequence[Record]) -> None:
        self._too_large = False
        self._producer.begin_transaction()
        deadline = time.monotonic() + COMMIT_S
        try:
            for record in records:
                self._produce(record)
            self._commit(deadline)
        except KafkaException as error:
            if not error.args[0].fatal():  # who is shut out has nothing left to undo
                with suppress(KafkaException):  # nor is a commit under way undone, but by the brokers when its time is over
                    self._producer.abort_transaction(REQUEST_S)
            raise

    def _commit(self, deadline: float) -> None:
        """Commits; a commit that takes longer than one call goes on in the next one."""
        while True:
            try:
                self._producer.commit_transaction(max(0.0, min(REQUEST_S, deadline - time.monotonic())))
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= deadline:
                    raise
            else:
                return

    def _produce(self, record: Record) -> None:
        letter = record.letter
        where = {"partition": letter.origin[0]} if 0 <= letter.origin[0] < self._partitions.get(letter.topic, 0) else {}
        when = {"timestamp": letter.timestamp_ms} if letter.timestamp_ms >= 0 else {}
        self._queued(letter.topic, value=record.value, key=record.key, headers=list(record.headers), **where, **when)
        mark = [(MARK, str(letter.place).encode())]
        self._queued(self._settings.topics.dead_letters, key=letter.key, headers=mark, partition=letter.place.partition)

    def _queued(self, topic: str, **record: object) -> None:
        while True:
            try:
                self._producer.produce(topic, on_delivery=self._delivered, **record)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._too_large |= error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE

    def _guarded(self, what: str, do: Callable[[], object]) -> None:
        try:
            do()
        except KafkaException as error:
            raise self._failure(what, error) from error

    def _failure(self, what: str, error: KafkaException) -> CepError:
        told = error.args[0]
        fenced = "; somebody else sends letters again at this moment" if told.code() in FENCED else ""
        return failure(self._settings.kafka, told, f"{what} (transactional id {self.transactional_id}){fenced}")
