"""eSPICE, BL and E-BL against their definitions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedding.candidates import JudgedEvents, JudgedInWindows
from shedding.events.baseline import drop_shares
from shedding.events.espice import Espice
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import EventObservations, WindowObservations
from shedding.registry import method
from shedding.windows import count_windows, kept_anywhere, time_windows
from tests.naive import shedding_windows as naive

TYPES = 3


@st.composite
def windows(draw: st.DrawFn, most: int = 5) -> list[naive.Pair]:
    pairs = []
    for window in range(draw(st.integers(1, most))):
        size = draw(st.integers(1, 7))
        for position in range(size):
            weight = Fraction(draw(st.sampled_from([0, 0, 1, 2])))
            pairs.append(naive.Pair(draw(st.integers(-1, TYPES - 1)), window, position, size, weight))
    return pairs


def judged(pairs: list[naive.Pair]) -> JudgedInWindows:
    count = len(pairs)
    types = np.array([pair.type for pair in pairs], np.int32)
    events = JudgedEvents(identities(np.zeros(count, np.int64), np.arange(count)), np.arange(count), types)
    position = np.array([pair.position for pair in pairs], np.int32)
    number, size = np.array([pair.window for pair in pairs], np.int64), np.array([pair.size for pair in pairs], np.float64)
    return JudgedInWindows(events, np.arange(count), number, position, size)


def observed(pairs: list[naive.Pair], **more: Any) -> WindowObservations:
    return WindowObservations(judged(pairs), np.array([float(pair.weight) for pair in pairs]), **more)


@given(windows(), windows(), st.integers(1, 3), st.sampled_from(["probability", "row"]))
def test_utilities_are_those_of_the_definition(learning: list[naive.Pair], later: list[naive.Pair], bin_: int, variant: Any) -> None:
    model = Espice(variant, bin_, holdout=0.0).train(observed(learning), Training())
    table = naive.learn(learning, bin_, variant)
    assert model.table.length == table.length
    for pairs in (learning, later):
        np.testing.assert_allclose(model.utilities(judged(pairs)), [float(table.utility(pair)) for pair in pairs], atol=1e-9)


@settings(max_examples=30)
@given(windows(), st.integers(1, 3), st.integers(1, 9))
def test_every_part_of_a_window_has_the_literal_threshold_of_its_own(pairs: list[naive.Pair], parts: int, tenths: int) -> None:
    model = Espice(parts=parts, holdout=0.0, ties="literal").train(observed(pairs), Training())
    kept = model.gate(tenths / 10).keep(judged(pairs))
    table = naive.learn(pairs, 1, "probability")
    for part in range(parts):
        mine = [pair.position * parts // pair.size == part for pair in pairs]
        utilities = [round(float(table.utility(pair)), 9) for pair, own in zip(pairs, mine, strict=True) if own]
        if utilities:
            threshold = min(u for u in utilities if sum(v <= u for v in utilities) * 10 >= tenths * len(utilities))
            assert kept[np.array(mine)].tolist() == [u > threshold for u in utilities]


def test_golden_table_of_the_specification() -> None:
    """eSPICE's example: five positions, types A and B, rows of 100; to drop 2 of 5 events per window the threshold is 10."""
    counts = {0: [70, 15, 10, 5, 0], 1: [0, 60, 30, 10, 0]}
    a_of_ten = [8, 5, 2, 5, 2]
    pairs = []
    for window in range(10):
        for position in range(5):
            type_ = 0 if window < a_of_ten[position] else 1
            often = a_of_ten[position] if type_ == 0 else 10 - a_of_ten[position]
            pairs.append(naive.Pair(type_, window, position, 5, Fraction(counts[type_][position], often)))
    model = Espice("row", holdout=0.0, ties="literal").train(observed(pairs), Training())
    assert model.table.utility.tolist() == [[70, 15, 10, 5, 0], [0, 60, 30, 10, 0]]
    (shares,) = model.shares
    assert shares.utility.tolist() == [0, 5, 10, 15, 30, 60, 70]
    np.testing.assert_allclose(shares.cumulative * 5, [1.2, 1.7, 2.4, 2.9, 3.7, 4.2, 5.0])
    assert shares.cut(2 / 5, ties="literal").utility == 10


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 3]), st.integers(0, 5)), min_size=1, max_size=5).filter(
        lambda types: any(f for _, f in types)
    ),
    st.integers(1, 99),
)
def test_types_lose_what_the_definition_says(types: list[tuple[int, int]], percent: int) -> None:
    total = sum(f for _, f in types)
    repetition, frequency = [Fraction(r) for r, _ in types], [Fraction(f, total) for _, f in types]
    found = drop_shares(np.array(repetition, np.float64), np.array(frequency, np.float64), percent / 100)
    wanted = naive.drop_shares(repetition, frequency, Fraction(percent, 100))
    occurring = np.array([f > 0 for f in frequency])
    np.testing.assert_allclose(found[occurring], np.array(wanted, np.float64)[occurring], atol=1e-9)
    assert abs(found @ np.array(frequency, np.float64) - percent / 100) < 1e-9


@pytest.mark.parametrize("name", ["bl", "e-bl"])
def test_baseline_drops_unnamed_and_frequent_types_first(name: str) -> None:
    chance = np.random.default_rng(3)
    types = chance.choice(4, 40_000, p=[0.5, 0.2, 0.2, 0.1]).astype(np.int32)
    types[types == 3] = -1
    events = JudgedEvents(identities(np.zeros(len(types), np.int64), np.arange(len(types))), np.arange(len(types)), types)
    repetition = np.array([1.0, 1.0, 2.0])
    if name == "bl":
        observations: Any = EventObservations(events, np.zeros(len(types)), repetition=repetition)
        candidates: Any = events
    else:
        candidates = count_windows(events, 100, 100)
        observations = WindowObservations(candidates, np.zeros(len(types)), repetition=repetition)
    kept = method(name).train(observations, Training()).gate(0.4).keep(candidates)
    lost = [1 - kept[types == type_].mean() for type_ in (0, 1, 2, -1)]
    np.testing.assert_allclose(lost, [0.3 / 0.62, 0.3 / 0.62 * 0.4, 0.3 / 0.62 * 0.2, 1.0], atol=0.02)
    with pytest.raises(ValueError, match="how often the patterns name"):
        method(name).train(type(observations)(candidates, np.zeros(len(types))), Training())


@settings(max_examples=30)
@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 7), st.integers(1, 7))
def test_windows_hold_the_events_that_they_cover(gaps: list[int], size: int, slide: int) -> None:
    time = np.cumsum([0, *gaps])
    events = JudgedEvents(np.arange(len(time)).astype(np.uint64), time)
    by_count, by_time = count_windows(events, size, slide), time_windows(events, size, slide)
    for pairs, places in ((by_count, list(range(len(time)))), (by_time, time.tolist())):
        first = min(0, -size // slide)
        covered = {
            k: [e for e, at in enumerate(places) if k * slide <= at < k * slide + size] for k in range(first, max(places) // slide + 1)
        }
        if pairs is by_count:
            covered = {k: members for k, members in covered.items() if k >= 0}
        wanted = {(e, k, at) for k, members in covered.items() for at, e in enumerate(members)}
        assert set(zip(pairs.event.tolist(), pairs.window.tolist(), pairs.position.tolist(), strict=True)) == wanted
        assert len(pairs) == len(wanted)
    sizes = {k: sum(k * slide <= at < k * slide + size for at in time.tolist()) for k in by_time.window.tolist()}
    assert by_time.size.tolist() == [sizes[k] for k in by_time.window.tolist()]


def test_event_goes_altogether_when_all_its_windows_drop_it() -> None:
    pairs = count_windows(JudgedEvents(np.zeros(4, np.uint64)), 2, 2)
    overlapping = JudgedInWindows(pairs.events, np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]), np.zeros(4, np.int32), np.ones(4))
    assert kept_anywhere(overlapping, np.array([False, False, True, False])).tolist() == [False, True, False, True]
