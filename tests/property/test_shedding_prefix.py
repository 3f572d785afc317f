"""The kernels of `prefix` rank and decide as its definition does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shedding.candidates import JudgedEvents
from shedding.chain_memory import ChainMemory
from shedding.events.prefix import PrefixModel
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import Shape
from shedding.registry import method
from tests.conformance.shedding_cases import event_observations, event_parts, some_events
from tests.naive.shedding_prefix import Arrival, kept_events

SHAPES = (
    ((-1, 0), 0, 0),
    ((-1, 0, 1), 0, 0),
    ((-1, 0, 0, 2), 0b0010, 0),
    ((-1, 0, 0, 2), 0b0010, 0b0010),
    ((-1, 0, 0, 2, 2), 0b01010, 0b01010),
    ((-1, -1, 1), 0b001, 0),
    ((-1, 0, 1, 1), 0b1000, 0),
)
"""Sequences; with a negated item in the middle (1) that may or that will surely end what it needs, two that surely do (1 and 3), a negated start (0), a negated end (3)."""
THRESHOLDS = (0.2, 0.5, 1.0, 1.2, 1.5, 1.7, 2.0, 2.5, 3.0, 3.4)


@given(st.integers(0, 2**32))
def test_chains_are_kept_as_defined(seed: int) -> None:
    # streams from a seed: drawn one by one, few of them have an event at the very edge of a window
    for number in range(10):
        chance = Random(seed + number)
        (needs, negated, ending), window, threshold = chance.choice(SHAPES), chance.randint(1, 20), chance.choice(THRESHOLDS)
        place, events = 0, []
        for _ in range(chance.randint(1, 25)):
            place += chance.randint(0, 6)
            events.append(Arrival(chance.randrange(1 << len(needs)), chance.randint(0, 2), place, chance.choice((0.0, 0.3, 0.6, 0.9))))
        items, key = (np.array([getattr(one, name) for one in events], np.uint64) for name in ("items", "key"))
        places, rank = np.array([one.place for one in events], np.int64), np.array([one.rank for one in events])
        shape = Shape(needs, negated, window, ending=ending)
        memory, kept, cuts = ChainMemory(shape), [], sorted({0, len(events), *(chance.randint(0, len(events)) for _ in range(3))})
        for a, b in pairwise(cuts):
            memory.pass_to(events[a].place)
            if chance.random() < 0.5:
                memory = ChainMemory.restored(shape, memory.arrays())
            kept += memory.keep(items[a:b], 2 * key[a:b] + np.uint64(2), places[a:b], rank[a:b], threshold).tolist()
        assert kept == kept_events(events, needs, negated, ending, window, threshold)


def test_an_event_of_all_partitions_stays_longest() -> None:
    """A negated type without the key: what it forbids is in partitions that it does not name."""
    memory = ChainMemory(Shape((-1, 0, 0), 0b010, 10, ending=0b010))
    items, key = np.array([0b001, 0b010, 0b100], np.uint64), np.array([2, 0, 2], np.uint64)
    assert memory.keep(items, key, np.arange(3), np.full(3, 0.5), 2.6).tolist() == [False, True, False]


def test_of_a_time_that_nobody_knows_everything_may_be_extended() -> None:
    shape = Shape((-1, 0), 0, 10)
    items, key, rank = np.array([0b10], np.uint64), np.array([2], np.uint64), np.zeros(1)
    memory = ChainMemory(shape, known_from=100)
    assert memory.keep(items, key, np.array([105]), rank, 1.0).tolist() == [True]
    assert memory.keep(items, key, np.array([110]), rank, 1.0).tolist() == [False], "a window later it is known that there is nothing"


def test_partitions_that_are_over_are_forgotten() -> None:
    memory = ChainMemory(Shape((-1, 0), 0, 10))
    for begin in range(0, 100_000, 100):
        places = np.arange(begin, begin + 100)
        assert memory.keep(
            np.ones(100, np.uint64), places.astype(np.uint64) * np.uint64(2) + np.uint64(2), places, np.zeros(100), 0.0
        ).all()
        memory.pass_to(begin + 95)
    assert len(memory.arrays()["keys"]) == 14, "those of a window before the last place that was passed, and those behind it"


def lots(numbers: np.ndarray, seed: int) -> np.ndarray:
    return (identities(numbers.view(np.int64), np.full(len(numbers), seed)) >> np.uint64(11)) / 2.0**53


def rank_of(model: PrefixModel, events: JudgedEvents, k: int, lot: float) -> float:
    """From the definition: the share of learned events whose worth per event saved is less, and by lot a part of those with the same."""
    items, worth, needs = int(events.items[k]), model.worth, model.shape.needs
    depth = [0] * len(needs)
    for item, before in enumerate(needs):
        depth[item] = 0 if before < 0 else depth[before] + 1
    if not items:
        return lot
    places = dict(zip(worth.groups.tolist(), worth.order.tolist(), strict=True))
    known = [np.float32(places.get(items | int(events.type[k]) << 48, 0))]
    known += [np.float32(m if np.isnan(v) else v) for m, v in zip(worth.missing, events.values[:, k], strict=True)]
    node = 0
    while worth.tree.feature[node] >= 0:
        node = worth.tree.child[node] + (known[worth.tree.feature[node]] > worth.tree.content[node])
    saved = min(max(depth) + 1 - depth[item] for item in range(len(needs)) if items >> item & 1)
    density = worth.tree.content[node] / saved
    below = max([0.0, *model.shares.cumulative[model.shares.utility < density]])
    upto = max([0.0, *model.shares.cumulative[model.shares.utility <= density]])
    return below + (upto - below) * lot


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), thinned=st.sampled_from([0.0, 0.3]), staying=st.sampled_from([0, 0b10]), by_partition=st.booleans())
def test_events_rank_as_defined(*, seed: int, thinned: float, staying: int, by_partition: bool) -> None:
    model = method("prefix", leaf_events=10).train(event_observations(seed % 7), Training(seed=seed))
    assert isinstance(model, PrefixModel)
    model, events = replace(model, by_partition=by_partition), event_parts(some_events(seed))[2]
    chance = np.random.default_rng(seed)
    several = chance.choice(np.array([0, 1, 2, 4, 3, 6, 7], np.uint64), len(events))
    events = replace(events, items=several, staying=staying, key=events.key if seed % 3 else np.zeros(0, np.uint64))
    first, second = lots(events.identity, seed), lots(events.identity, seed + 1)
    if by_partition and len(events.key):
        first, second = ((np.floor(16 * lots(events.key, at)) + own) / 16 for at, own in ((seed, first), (seed + 1, second)))
    expected = [rank_of(model, events, k, first[k]) for k in range(len(events))]
    expected = np.where(second < thinned, 0.0, np.minimum(expected, 1 - 2.0**-40))
    expected = np.where(several & np.uint64(staying), 4.0, expected)
    np.testing.assert_array_equal(model.ranks(events, thinned), expected)
    assert len(set(model.worth.per_saved(events, np.ones(4)).tolist())) > 3
