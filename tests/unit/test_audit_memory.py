"""What a memory of shedding forgets, and when it knows of none any more."""

from __future__ import annotations

import numpy as np

from app.audit.memory import Memory
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind


def events(*times: int) -> EventBatch:
    types = Column(Kind.STRING, np.zeros(len(times), np.int32), None, Dictionary.of([b"A"]))
    return EventBatch(np.array(times), np.zeros(len(times), np.int64), np.array(times), types, {})


def memory(most_bytes: int = 1 << 20) -> Memory:
    return Memory(1, lambda batch: (np.zeros(len(batch), np.uint64), np.zeros(len(batch), np.bool_)), most_bytes)


def bits(count: int) -> np.ndarray:
    return np.ones((count, 1), np.uint64)


def test_shedding_of_which_nobody_asks_any_more_is_not_known_for_ever() -> None:
    one = memory()
    one.shed_unknown(50)
    one.add(events(60, 70), bits(2), "fed")
    one.forget(51)
    assert not one.knows_of_shedding
    one.shed_unknown(50)
    one.forget(50)
    assert one.knows_of_shedding, "a match may begin at 50"


def test_what_does_not_fit_is_shed_unknown_until_time_has_passed_it() -> None:
    one = memory(most_bytes=300)
    one.add(events(1, 2, 3), bits(3), "shed")
    one.add(events(4, 5, 6, 7, 8), bits(5), "shed")
    assert one.shed_before_ms == 4
    one.add(events(100), bits(1), "fed")
    one.forget(90)
    assert not one.knows_of_shedding


def test_who_may_hold_less_from_now_on_lets_the_oldest_go() -> None:
    one = memory()
    for first in (1, 4, 7):
        one.add(events(first, first + 1, first + 2), bits(3), "shed")
    whole = one.pieces[0].bytes
    one.hold(whole)
    assert [piece.batch.time.tolist() for piece in one.pieces] == [[7, 8, 9]]
    assert one.shed_before_ms == 7
    one.add(events(10, 11, 12), bits(3), "shed")
    assert len(one.pieces) == 1


def test_only_what_was_shed_is_recalled_when_only_that_is_asked_for() -> None:
    one = memory()
    one.add(events(1, 2), bits(2), "fed")
    one.add(events(3), bits(1), "shed")
    keys = np.zeros(1, np.uint64)
    assert one.recall(keys, 0, 9, "shed").batch.time.tolist() == [3]
    assert one.recall(keys, 0, 9).batch.time.tolist() == [1, 2, 3]
