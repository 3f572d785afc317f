"""gSPICE's kernels against the definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedding.candidates import JudgedEvents, Predecessors
from shedding.events.features import learned_features
from shedding.events.gspice import Gspice, learned_table
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import EventObservations
from shedding.panes import Pane, carried
from tests.naive import shedding_gspice as naive

TYPES = 3
VALUES = st.one_of(st.just(math.nan), st.integers(0, 4).map(float))


@st.composite
def streams(draw: st.DrawFn, least: int = 0) -> list[naive.Event]:
    events = draw(st.lists(st.tuples(st.integers(-1, TYPES - 1), st.integers(0, 3), VALUES, VALUES), min_size=least, max_size=25))
    times = np.cumsum([0, *(gap for _, gap, _, _ in events)])
    return [naive.Event(type_, int(time), (one, two)) for (type_, _, one, two), time in zip(events, times, strict=False)]


def judged(stream: list[naive.Event], before: Predecessors | None = None) -> JudgedEvents:
    return JudgedEvents(
        identities(np.zeros(len(stream), np.int64), np.arange(len(stream))),
        np.array([event.time for event in stream], np.int64),
        np.array([event.type for event in stream], np.int32),
        np.array([event.values for event in stream], np.float64).reshape(-1, 2).T.copy(),
        before or Predecessors(),
    )


def statistics_of(learning: list[naive.Event], pane: Pane, frequency_bin: int, value_bins: tuple[float, float]) -> naive.Statistics:
    known = [[event.values[a] for event in learning if not math.isnan(event.values[a])] or [0.0] for a in range(2)]
    types = max((event.type for event in learning), default=-1) + 1
    lows, highs = tuple(map(min, known)), tuple(map(max, known))
    return naive.Statistics(pane.events, pane.time_ms, types, frequency_bin, value_bins, lows, highs)


PANES = st.one_of(st.integers(1, 6).map(lambda n: Pane(events=n)), st.integers(1, 6).map(lambda n: Pane(time_ms=n)))


@given(streams(least=1), streams(), PANES, st.integers(1, 3), st.sampled_from([(1.0, 1.0), (2.0, 1.0), (1.0, 3.0)]), st.data())
def test_utilities_are_those_of_the_definition(
    learning: list[naive.Event],
    later: list[naive.Event],
    pane: Pane,
    frequency_bin: int,
    value_bins: tuple[float, float],
    data: st.DataObject,
) -> None:
    worth = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=len(learning), max_size=len(learning)))
    statistics = statistics_of(learning, pane, frequency_bin, value_bins)
    learned = naive.learn(statistics, learning, 0, worth)
    first = judged(learning)
    table = learned_table(first, np.array(worth), features := learned_features(first, pane, frequency_bin, value_bins, seed=3))
    whole = learning + [naive.Event(one.type, one.time + learning[-1].time, one.values) for one in later]
    second = judged(whole[len(learning) :], carried(first.before, first, [pane]))
    for events, start in ((first, 0), (second, len(learning)), (judged(whole), 0)):
        found = table.look_up(events.type, features.keys(events))[0]
        wanted = [naive.utility(statistics, learned, whole, at) for at in range(start, start + len(events))]
        if pane.time_ms:  # frequencies above all that were learned are one
            most = features.frequency_numbers.shape[1] - 1
            ranges = [naive.frequencies(naive.pane(whole, at, 0, pane.time_ms), TYPES) for at in range(start, start + len(events))]
            known = [all(count <= most for count in counts) for counts in ranges]
        else:
            known = [True] * len(events)
        np.testing.assert_allclose(found[known], np.array(wanted)[known])


@given(streams(least=1), PANES, st.data())
def test_frequencies_are_counted(stream: list[naive.Event], pane: Pane, data: st.DataObject) -> None:
    rows = sorted(data.draw(st.sets(st.integers(0, len(stream) - 1))))
    events = judged(stream)
    features = learned_features(events, pane)
    wanted = [naive.frequencies(naive.pane(stream, row, pane.events, pane.time_ms), features.types) for row in rows]
    assert features.frequencies(events, np.array(rows, np.int64)).tolist() == [list(map(float, one)) for one in wanted]


@settings(max_examples=30)
@given(streams(least=1), PANES, st.lists(st.integers(0, 25), max_size=4))
def test_batches_need_only_what_is_carried(stream: list[naive.Event], pane: Pane, cuts: list[int]) -> None:
    whole = judged(stream)
    features = learned_features(whole, pane)
    borders = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    before, keys = Predecessors(), []
    for low, high in itertools.pairwise(borders):
        part = judged(stream[low:high], before)
        keys.append(features.keys(part))
        before = carried(before, part, [pane])
        assert not pane.events or len(before) <= pane.events
    np.testing.assert_array_equal(np.concatenate(keys, axis=1), features.keys(whole))


def test_random_numbers_are_all_different() -> None:
    events = judged([naive.Event(t % 3, t, (t % 5, math.nan)) for t in range(50)])
    features = learned_features(events, Pane(events=8), frequency_bin=2)
    numbers = np.concatenate([features.frequency_numbers[:, ::2].ravel(), features.type_numbers, features.value_numbers])
    assert len(np.unique(numbers)) == len(numbers)


def test_abandoned_partial_matches_give_negated_events_a_utility() -> None:
    stream = [naive.Event(at % 3, at, (0.0, 0.0)) for at in range(300)]
    events = judged(stream)
    abandoned = (events.type == 1).astype(np.float64)
    observations = EventObservations(events, (events.type == 2).astype(np.float64), abandoned)
    for credit, wanted in ((1.0, 1.0), (0.0, 0.0)):
        model = Gspice(abandoned_credit=credit).train(observations, Training())
        assert set(model.utilities(events)[events.type == 1][20:]) == {wanted}


def test_model_says_how_many_keys_it_had_not_learned() -> None:
    """In a stream of chance, panes of 30 events hardly ever come again, those of 1 always."""
    chance = np.random.default_rng(1)
    stream = [naive.Event(int(chance.integers(3)), at, (0.0, 0.0)) for at in range(2000)]
    observations = EventObservations(judged(stream), np.ones(2000))
    assert Gspice(Pane(events=1)).train(observations, Training()).unseen == 0
    assert Gspice(Pane(events=60)).train(observations, Training()).unseen > 0.05


def test_nothing_to_learn_from_is_said() -> None:
    with pytest.raises(ValueError, match="nothing to learn from"):
        Gspice().train(None, Training())
