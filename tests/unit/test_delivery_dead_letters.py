"""Dead letters that are sent again: a value that is where its record was may be another one's, and links may be slow."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.config.settings import Settings
from app.delivery import dead_letters
from app.delivery.dead_letters import BYTES_AT_ONCE, COMMIT_S, Letter, LetterPlace, SendingAgain, record_of
from app.delivery.originals import Original
from app.errors import AccessRefusedError, DependencyError

WRITTEN_MS = 1_800_000_000_000
LETTER = Letter(LetterPlace(0, 3), WRITTEN_MS, "a", (0, 17), WRITTEN_MS - 500, "oversized", "too large", "oversized", None, None, ())


class Broker:
    """Has one record at every place."""

    def __init__(self, timestamp_ms: int) -> None:
        self.timestamp_ms = timestamp_ms

    def read(self, topic, partition, offsets):
        return (Original(topic, partition, offset, self.timestamp_ms, b"k", b"v") for offset in offsets)


@pytest.mark.parametrize(
    ("known_ms", "found_ms", "is_it"),
    [
        (WRITTEN_MS - 500, WRITTEN_MS - 500, True),
        (WRITTEN_MS - 500, WRITTEN_MS - 499, False),
        (-1, WRITTEN_MS - 1, True),  # it could not be read when the letter was written
        (-1, WRITTEN_MS + 1, False),
    ],
)
def test_a_record_of_a_topic_that_was_made_again_is_not_sent_in_the_place_of_a_letter(known_ms: int, found_ms: int, *, is_it: bool) -> None:
    found = record_of(replace(LETTER, timestamp_ms=known_ms), "dead", Broker(found_ms))
    assert (found is not None) is is_it


class SlowProducer:
    """Is through with a transaction after so many calls; notes the bytes of each."""

    def __init__(self, calls: int, error: KafkaError | None = None) -> None:
        self.calls, self.now_s = calls, 0.0
        self.error = error or KafkaError(KafkaError._TIMED_OUT, "still under way", retriable=True)
        self.left, self.bytes, self.asked_s, self.aborted = 0, list[int](), list[float](), 0

    def init_transactions(self, _timeout_s: float) -> None:
        pass

    def begin_transaction(self) -> None:
        self.left = self.calls
        self.bytes.append(0)

    def produce(self, _topic: str, value: bytes | None = None, **_record: object) -> None:
        self.bytes[-1] += len(value or b"")

    def commit_transaction(self, timeout_s: float) -> None:
        self.asked_s.append(timeout_s)
        self.left -= 1
        if self.left > 0:
            self.now_s += timeout_s
            raise KafkaException(self.error)

    def abort_transaction(self, _timeout_s: float) -> None:
        self.aborted += 1
        raise KafkaException(KafkaError(KafkaError._PREV_IN_PROGRESS, "a commit is under way", retriable=True))


def sending(monkeypatch: pytest.MonkeyPatch, producer: SlowProducer) -> SendingAgain:
    monkeypatch.setattr(dead_letters, "connect", lambda _: SimpleNamespace(metadata=SimpleNamespace(topics={})))
    monkeypatch.setattr(dead_letters, "Producer", lambda _: producer)
    monkeypatch.setattr(dead_letters, "OriginalReader", lambda _: Broker(WRITTEN_MS))
    monkeypatch.setattr(dead_letters.time, "monotonic", lambda: producer.now_s)
    return SendingAgain(Settings())


def letters(count: int, size: int) -> list[Letter]:
    return [replace(LETTER, place=LetterPlace(0, k), missing="", value=bytes(size)) for k in range(count)]


def test_a_transaction_ends_before_it_has_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SlowProducer(1)
    assert sending(monkeypatch, producer).send([*letters(5, BYTES_AT_ONCE // 2), *letters(1, 2 * BYTES_AT_ONCE)]) == {}
    assert producer.bytes == [BYTES_AT_ONCE, BYTES_AT_ONCE, BYTES_AT_ONCE // 2, 2 * BYTES_AT_ONCE]


def test_a_commit_that_takes_longer_than_a_call_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SlowProducer(2)
    assert sending(monkeypatch, producer).send(letters(2, 10)) == {}
    assert (producer.bytes, producer.asked_s, producer.aborted) == ([20], [30.0, 20.0], 0)


def test_a_commit_is_not_waited_for_longer_than_its_transaction_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SlowProducer(9)
    with pytest.raises(DependencyError, match="still under way"):
        sending(monkeypatch, producer).send(letters(1, 10))
    assert sum(producer.asked_s) == COMMIT_S
    assert min(producer.asked_s) > 0, "less than nothing is for ever"


def test_a_commit_that_fails_is_not_tried_again_but_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SlowProducer(9, KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not allowed", txn_requires_abort=True))
    with pytest.raises(AccessRefusedError, match="not allowed"):
        sending(monkeypatch, producer).send(letters(1, 10))
    assert (producer.asked_s, producer.aborted) == ([30.0], 1)
