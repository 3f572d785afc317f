"""Every registered event shedder passes every check here."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from shedding.identity import identities
from shedding.interface import Contributions, EventShedder, JudgedEvents
from shedding.registry import EVENT_SHEDDERS, event_shedder

EVENTS = 20_000
RATIOS = (0.0, 0.01, 0.1, 0.33, 0.5, 0.9, 0.95, 1.0)
TOLERANCE = 4 * 0.5 / EVENTS**0.5
"""Four standard deviations of a share of independent choices."""


def some_events(seed: int = 1) -> JudgedEvents:
    chance = np.random.default_rng(seed)
    source = chance.integers(0, 4, EVENTS)
    return JudgedEvents(
        identity=identities(source, np.arange(EVENTS)),
        time=np.sort(chance.integers(0, 1_000_000, EVENTS)),
        type=chance.integers(0, 5, EVENTS).astype(np.int32),
        values=chance.random((2, EVENTS)),
    )


def trained(name: str, seed: int = 7) -> EventShedder:
    shedder = event_shedder(name, seed)
    return shedder.learn(some_events(2), Contributions(np.random.default_rng(3).random(EVENTS)))


@pytest.fixture(params=sorted(EVENT_SHEDDERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_shedder_has_the_interface(name: str) -> None:
    assert isinstance(event_shedder(name), EventShedder)
    assert trained(name).trained


def test_pickled_shedder_decides_the_same(name: str) -> None:
    shedder = trained(name)
    again = pickle.loads(pickle.dumps(shedder))
    np.testing.assert_array_equal(shedder.mask(some_events(), 0.4), again.mask(some_events(), 0.4))


def test_same_seed_gives_the_same_mask(name: str) -> None:
    np.testing.assert_array_equal(trained(name, 5).mask(some_events(), 0.4), trained(name, 5).mask(some_events(), 0.4))


def test_batches_may_be_cut_anywhere(name: str) -> None:
    events, shedder = some_events(), trained(name)
    parts = [
        JudgedEvents(events.identity[cut], events.time[cut], events.type[cut], events.values[:, cut])
        for cut in (slice(0, 17), slice(17, 17), slice(17, EVENTS))
    ]
    np.testing.assert_array_equal(np.concatenate([shedder.mask(part, 0.4) for part in parts]), shedder.mask(events, 0.4))


def test_input_is_left_untouched_and_may_be_read_only(name: str) -> None:
    events = some_events()
    before = [array.copy() for array in (events.identity, events.time, events.type, events.values)]
    for array in (events.identity, events.time, events.type, events.values):
        array.flags.writeable = False
    trained(name).mask(events, 0.5)
    for array, copy in zip((events.identity, events.time, events.type, events.values), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("ratio", RATIOS)
def test_share_of_dropped_events_is_the_ratio(name: str, ratio: float) -> None:
    mask = trained(name).mask(some_events(), ratio)
    assert mask.dtype == np.bool_
    assert mask.shape == (EVENTS,)
    if name == "none":
        assert not mask.any()
    else:
        assert abs(mask.mean() - ratio) <= TOLERANCE


def test_ratio_zero_keeps_all_and_ratio_one_drops_all(name: str) -> None:
    shedder = trained(name)
    assert not shedder.mask(some_events(), 0.0).any()
    assert name == "none" or shedder.mask(some_events(), 1.0).all()


def test_what_a_ratio_drops_every_higher_one_drops_too(name: str) -> None:
    shedder, events = trained(name), some_events()
    for lower, higher in itertools.pairwise(RATIOS):
        assert not (shedder.mask(events, lower) & ~shedder.mask(events, higher)).any()


def test_no_events_no_mask(name: str) -> None:
    nothing = JudgedEvents(np.empty(0, dtype=np.uint64))
    assert event_shedder(name).mask(nothing, 0.5).shape == (0,)
