"""What a memory of shedding forgets, and when it knows of none any more."""

from __future__ import annotations

import tracemalloc

import numpy as np

from app.audit.memory import PIECE_BYTES, SMALL, TOGETHER, Memory
from app.audit.memory import Kind as Became
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
    one = memory(most_bytes=2 * PIECE_BYTES - 1)
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


def test_small_pieces_are_put_together_and_nothing_of_them_is_lost() -> None:
    one, rng = memory(), np.random.default_rng(3)
    known: dict[Became, list[int]] = {"fed": [], "shed": []}
    for step in range(3000):
        kind: Became = "shed" if rng.random() < 0.3 else "fed"
        times = np.sort(rng.integers(10 * step, 10 * step + 15, rng.integers(1, 12)))
        known[kind] += times.tolist()
        one.add(events(*times.tolist()), bits(len(times)), kind)
        if step % 500 == 499:
            one.forget(10 * (step - 1000))
    assert len(one.pieces) <= 2 * TOGETHER * (1 + len(SMALL))
    numbers = [piece.number for piece in one.pieces]
    assert numbers == sorted(set(numbers))
    keys = np.zeros(1, np.uint64)
    for kind, times in known.items():
        found = one.recall(keys, 25_000, 30_020, kind).batch.time.tolist()
        assert found == sorted({time for time in times if time >= 25_000}), "of equal places one is told"


def test_what_is_held_is_bounded_with_all_that_it_takes() -> None:
    tracemalloc.start()
    one = memory(most_bytes=1 << 20)
    before, _ = tracemalloc.get_traced_memory()
    for step in range(4000):
        one.add(events(step, step), bits(2), ("fed", "shed")[step % 2])
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert held < 1.2 * (1 << 20)
    assert one.whole_from_ms < 3000, "most of it is events"


def test_who_lets_the_oldest_go_keeps_most_of_what_fits() -> None:
    one = memory(most_bytes=1 << 17)
    for step in range(20_000):
        one.add(events(step), bits(1), "fed")
    kept = 20_000 - one.whole_from_ms
    assert kept > 0.25 * (1 << 17) / (40 + 8 + 9 + 8)
