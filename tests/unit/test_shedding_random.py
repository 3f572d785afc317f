from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shedding.candidates import JudgedEvents
from shedding.gate import withdraw
from shedding.identity import identities
from shedding.registry import unlearned

WORD = 2**64


def slow_mix(state: int, part: int) -> int:
    h = ((state ^ part) + 0x9E3779B97F4A7C15) % WORD
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) % WORD
    return h ^ (h >> 31)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**62)), max_size=20), st.integers(0, 2**32), st.floats(0, 1))
def test_random_shedder_does_what_its_definition_says(places: list[tuple[int, int]], seed: int, ratio: float) -> None:
    identity = identities(np.array([p[0] for p in places], np.int64), np.array([p[1] for p in places], np.int64))
    expected = [slow_mix(slow_mix(0, source), offset) for source, offset in places]
    assert identity.tolist() == expected
    mask = ~unlearned("random", seed).gate(ratio).keep(JudgedEvents(identity))
    assert mask.tolist() == [slow_mix(seed, h) >> 11 < round(ratio * 2**53) for h in expected]


def test_other_seeds_make_independent_choices() -> None:
    events = JudgedEvents(identities(np.zeros(20_000, np.int64), np.arange(20_000)))
    both = ~unlearned("random", 1).gate(0.5).keep(events) & ~unlearned("random", 2).gate(0.5).keep(events)
    assert abs(both.mean() - 0.25) < 0.02


def test_neighbouring_offsets_are_dropped_independently() -> None:
    mask = ~unlearned("random").gate(0.5).keep(JudgedEvents(identities(np.zeros(20_000, np.int64), np.arange(20_000))))
    assert abs((mask[1:] & mask[:-1]).mean() - 0.25) < 0.02


def test_event_goes_only_when_every_query_that_could_use_it_drops_it() -> None:
    first, second = np.array([0b0011], np.uint64), np.array([0b1100], np.uint64)
    bitmap = np.array([[0b0001], [0b0101], [0b0100], [0b0000]], np.uint64)
    assert withdraw(bitmap, first, np.zeros(4, np.bool_)) == 2
    assert bitmap.ravel().tolist() == [0, 0b0100, 0b0100, 0]
    assert withdraw(bitmap, second, np.array([True, False, True, True])) == 1
    assert bitmap.ravel().tolist() == [0, 0, 0b0100, 0]


def test_events_of_protected_items_stay() -> None:
    own = np.array([0b11], np.uint64)
    bitmap = np.array([[0b01], [0b10], [0b11]], np.uint64)
    assert withdraw(bitmap, own, np.zeros(3, np.bool_), protected=np.array([0b10], np.uint64)) == 1
    assert bitmap.ravel().tolist() == [0, 0b10, 0b11]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=12), st.integers(0, 2**64 - 1), st.data())
def test_withdraw_is_its_obvious_twin(bits: list[int], own: int, data: st.DataObject) -> None:
    dropped = data.draw(st.lists(st.booleans(), min_size=len(bits), max_size=len(bits)))
    bitmap = np.array(bits, np.uint64).reshape(-1, 1)
    lost = withdraw(bitmap, np.array([own], np.uint64), ~np.array(dropped, np.bool_))
    assert lost == sum(d and b & own != 0 for b, d in zip(bits, dropped, strict=True))
    assert bitmap.ravel().tolist() == [b & ~own if d else b for b, d in zip(bits, dropped, strict=True)]
