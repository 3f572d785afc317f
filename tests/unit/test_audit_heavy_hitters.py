"""Who is in the control sample more often, and what it weighs."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from app.audit.digests import mixed
from app.audit.heavy_hitters import ENOUGH, KNOWN, MOST_OFTEN, PART, HeavyHitters, may_hold
from app.audit.sample import Sample

SAMPLE = Sample(0.01, 250)
TURN_MS = SAMPLE.turn_ms
"""1,000 ms."""


def keys(*numbers: int) -> NDArray[np.uint64]:
    return mixed(np.array(numbers, np.uint64))


def heavy_from(counts: dict[int, int], sample: Sample = SAMPLE, *, more: bool = True) -> HeavyHitters:
    """From the second epoch on it is known who has how many."""
    heavy = HeavyHitters(sample)
    heavy.choose_heavy(0, more=more)
    heavy.note(0, np.concatenate([np.repeat(keys(number), count) for number, count in counts.items()]))
    heavy.choose_heavy(10 * TURN_MS, more=more)
    return heavy


def often(heavy: HeavyHitters, number: int, at_ms: int = 12 * TURN_MS) -> int:
    return int(heavy.often(keys(number), np.array([at_ms]))[0])


def test_who_has_more_is_in_the_sample_more_often() -> None:
    heavy = heavy_from({1: 320, 2: 160, 3: 80, 4: 20, **dict.fromkeys(range(100, 160), 1)})  # of 640
    assert [often(heavy, number) for number in (1, 2, 3, 4, 100, 999)] == [8, 8, 4, 1, 1, 1]


def test_a_turn_that_has_begun_is_as_often_in_the_sample_as_it_was() -> None:
    heavy = heavy_from({1: 640})
    begun = SAMPLE.begins(keys(1), np.array([10 * TURN_MS]))[0]
    assert begun < 10 * TURN_MS, "it began in the epoch before"
    assert [often(heavy, 1, int(begun) + moved) for moved in (0, TURN_MS - 1, TURN_MS)] == [1, 1, 8]
    heavy.note(0, np.repeat(keys(2), 100_000))
    assert not heavy.choose_heavy(11 * TURN_MS - 1, more=True), "of this epoch it is settled"
    assert heavy.choose_heavy(11 * TURN_MS, more=True)
    assert [often(heavy, number, int(begun) + TURN_MS) for number in (1, 2)] == [8, 1]
    assert [often(heavy, number, 13 * TURN_MS) for number in (1, 2)] == [1, 8]


def test_all_are_equal_where_little_is_known_or_nobody_is_to_be_heavy() -> None:
    assert often(heavy_from({1: ENOUGH}), 1) == MOST_OFTEN
    assert often(heavy_from({1: ENOUGH - 1}), 1) == 1
    assert often(heavy_from({1: ENOUGH}, more=False), 1) == 1


@pytest.mark.parametrize(("share", "most"), [(1.0, 1), (0.5, 2), (0.3, 2), (0.125, 8), (0.01, 8)])
def test_nobody_is_in_it_more_often_than_always(share: float, most: int) -> None:
    assert often(heavy_from({1: 1_000}, Sample(share, 250)), 1) == most


def test_who_was_heavy_is_forgotten_when_others_are() -> None:
    heavy = heavy_from({1: 640})
    for epoch in range(11, 30):
        heavy.note(0, np.repeat(keys(2), 640))
        heavy.choose_heavy(epoch * TURN_MS, more=True)
        heavy.let_go((epoch - 1) * TURN_MS)
    assert [often(heavy, number, 32 * TURN_MS) for number in (1, 2)] == [1, 8]
    assert len(heavy._eras) < 5


def test_nothing_grows_while_the_same_are_heavy() -> None:
    heavy = HeavyHitters(SAMPLE)
    for epoch in range(1, 200):
        heavy.note(0, np.repeat(keys(1, 2), 400 if epoch > 100 else 50))
        assert heavy.choose_heavy(epoch * TURN_MS, more=epoch > 100)
        assert not heavy.choose_heavy(epoch * TURN_MS + 1, more=True)
    assert len(heavy._eras) == 2, "nobody, and then two"
    assert [often(heavy, 1, at * TURN_MS) for at in (50, 99, 103, 190)] == [1, 1, 8, 8]


def test_each_query_has_heavy_partitions_of_its_own() -> None:
    heavy = heavy_from({1: 100_000})
    heavy.note(1, np.repeat(keys(2), 640))
    heavy.choose_heavy(11 * TURN_MS, more=True)
    assert [often(heavy, number, 13 * TURN_MS) for number in (1, 2)] == [8, 8]


def test_it_is_as_the_definition_says() -> None:
    """Counts of all partitions, halved with every epoch; the twin remembers everybody."""
    chance, heavy, found, total, settled = random.Random(7), HeavyHitters(SAMPLE), Counter[int](), 0.0, dict[int, dict[int, int]]()
    for epoch in range(60):
        if epoch in (20, 21, 22):  # epochs without events: they are settled with the next
            continue
        settled[epoch] = {
            number: 1 << int(math.log2(min(PART * count / total, MOST_OFTEN)))
            for number, count in found.items()
            if total >= ENOUGH and 2 * total <= PART * count
        }
        heavy.choose_heavy(epoch * TURN_MS + 3, more=True)
        found, total = Counter({number: count / 2 for number, count in found.items()}), total / 2
        for _ in range(150):
            some = [int(chance.paretovariate(0.7)) % (5 * KNOWN) for _ in range(3)]
            found.update(some)
            total += len(some)
            heavy.note(0, keys(*some))
    everybody = range(5 * KNOWN)
    names = keys(*everybody)
    for epoch in range(1, 60):
        begins = SAMPLE.begins(names, np.full(len(names), epoch * TURN_MS + 500))
        known = heavy.often(names, begins)
        for number, begun, times in zip(everybody, begins.tolist(), known.tolist(), strict=True):
            assert times == settled[max(one for one in settled if one <= begun // TURN_MS)].get(number, 1)
    assert {MOST_OFTEN, 2} <= {times for own in settled.values() for times in own.values()}


def test_the_sample_with_its_weights_is_true_to_the_whole() -> None:
    """Three of 200 partitions have four of five composite events, at any time."""
    heavy, names = HeavyHitters(SAMPLE), keys(*range(200))
    of_each = np.where(np.arange(200) < 3, 300, 1)
    turns, weighed, events = Counter[int](), 0.0, 0
    for epoch in range(4_000):
        heavy.choose_heavy(epoch * TURN_MS, more=True)
        times = np.full(200, epoch * TURN_MS + TURN_MS - 1)
        held = heavy.hold(names, times)
        assert not (held & ~may_hold(SAMPLE, names, times)).any(), "what is not sent cannot be looked at"
        weighed += float((of_each * held / heavy.often(names, times)).sum())
        turns.update(np.flatnonzero(held[:3]).tolist())
        events += int(of_each.sum())
        heavy.note(0, np.repeat(names, of_each))
        heavy.let_go((epoch - 2) * TURN_MS)
    assert weighed / events == pytest.approx(SAMPLE.share, rel=0.08)
    assert all(count == pytest.approx(MOST_OFTEN * 40, rel=0.2) for count in turns.values())
