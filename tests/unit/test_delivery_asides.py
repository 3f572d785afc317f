"""What a broker's client says beside records: readers who commit nothing go on where it does not matter, and never take an error for the end of a log."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from app.delivery import positions, tail
from app.delivery.positions import Positions
from app.delivery.tail import Tails
from app.errors import AccessRefusedError, DependencyError

NO_GROUP, AWAY = KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._ALL_BROKERS_DOWN
END, CORRUPT, NO_LEADER = KafkaError._PARTITION_EOF, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.LEADER_NOT_AVAILABLE


class Said:
    """A message: a record of the first topic partition, or an error, which belongs to none."""

    def __init__(self, offset: int = -1, code: int | None = None) -> None:
        self._offset, self._error = offset, None if code is None else KafkaError(code)

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str | None:
        return "a" if self._error is None else None

    def partition(self) -> int:
        return 0 if self._error is None else -1

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d" % self._offset

    def headers(self) -> list[tuple[str, bytes]] | None:
        return [("ce_type", b"t")] if self._offset else None


class Client:
    """A consumer that says some things in turn, and then nothing more."""

    def __init__(self, *said: Said, times: list[TopicPartition] | None = None) -> None:
        self._said, self._times = deque(said), times or []

    def poll(self, _timeout: float) -> Said | None:
        return self._said.popleft() if self._said else None

    def consume(self, most: int, timeout: float) -> list[Said]:
        return [one for one in (self.poll(timeout) for _ in range(most)) if one is not None]

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        del timeout
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})

    def get_watermark_offsets(self, _place: TopicPartition, timeout: float) -> tuple[int, int]:
        del timeout
        return 0, 2

    def offsets_for_times(self, _asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        del timeout
        return self._times

    def assign(self, _places: list[TopicPartition]) -> None:
        """Nothing is read."""

    unassign = close = lambda _: None


def asking(client: Client, monkeypatch: pytest.MonkeyPatch) -> Positions:
    monkeypatch.setattr(positions, "Consumer", lambda _: client)
    monkeypatch.setattr(positions, "ANSWER_S", 0.05)
    return Positions({"bootstrap.servers": "b:1"})


@pytest.mark.parametrize("aside", [NO_GROUP, AWAY])
def test_the_time_of_a_record_is_waited_for_while_the_client_says_what_does_not_matter(aside, monkeypatch):
    assert asking(Client(Said(code=aside), Said(7)), monkeypatch).time_at(("a", 0), 7) == 1007
    assert asking(Client(Said(code=aside), Said(code=END)), monkeypatch).time_at(("a", 0), 7) is None, "this is the end of the log"


def test_who_may_not_read_is_told_what_is_missing(monkeypatch):
    with pytest.raises(AccessRefusedError, match=r"the brokers b:1 do not let us read: .*\nhint: grant READ and DESCRIBE"):
        asking(Client(Said(code=CORRUPT)), monkeypatch).time_at(("a", 0), 7)


@pytest.mark.parametrize("said", [[], [Said(code=AWAY)], [Said(code=KafkaError.REQUEST_TIMED_OUT)]])
def test_where_nobody_answers_it_is_not_said_that_there_is_no_record(said, monkeypatch):
    """A reconciliation would take records for deleted, and late events for events in time."""
    with pytest.raises(DependencyError, match="no answer from the brokers b:1"):
        asking(Client(*said), monkeypatch).time_at(("a", 0), 7)


def test_a_topic_partition_that_does_not_answer_is_not_one_without_records_from_then_on(monkeypatch):
    """A reconciliation would publish once more what stands there."""

    class Place(SimpleNamespace):
        """Of an answer."""

    answers = [Place(topic="a", partition=0, offset=-1, error=None), Place(topic="a", partition=1, offset=5, error=None)]
    assert asking(Client(times=answers), monkeypatch).at({("a", 0): 1, ("a", 1): 1}) == {("a", 0): None, ("a", 1): 5}
    answers[0].error = KafkaError(NO_LEADER)
    with pytest.raises(DependencyError, match="no answer from the brokers b:1"):
        asking(Client(times=answers), monkeypatch).at({("a", 0): 1, ("a", 1): 1})


def test_the_last_records_come_also_to_who_may_not_join_a_group(monkeypatch):
    monkeypatch.setattr(tail, "Consumer", lambda _: Client(Said(code=NO_GROUP), Said(0), Said(1)))
    found = Tails(dict).last("a")
    told = [(record.value, record.headers) for record in found.records]
    assert (told, found.problem) == ([(b"1", (("ce_type", b"t"),)), (b"0", ())], "")


def test_what_keeps_records_from_coming_is_told(monkeypatch):
    monkeypatch.setattr(tail, "Consumer", lambda _: Client(Said(code=CORRUPT)))
    found = Tails(dict).last("a")
    assert found.records == ()
    assert found.problem == KafkaException(KafkaError(CORRUPT)).args[0].str()
