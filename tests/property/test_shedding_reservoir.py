"""The reservoir makes the decisions of the scan over all of memory, and its approximate results lie inside the exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedding.tuples.intervals import Intervals, accuracy, coalesced, run_starts
from shedding.tuples.reservoir import Bounds, Reservoir, Score
from shedding.tuples.reservoirs import NEVER, Coming, Reservoirs
from tests.naive.reservoir import NaiveReservoir

SCORES = {"cals": (1, 1), "cals-v": (1, 0), "cals-i": (0, 1), "rand": (0, 0), "lexicographic": (2, 1)}


@st.composite
def streams(draw: st.DrawFn, *, disjoint: bool = False) -> Intervals:
    """Tuples of two values, in runs of few or many, with gaps and, unless ``disjoint``, overlaps, in the order of their start."""
    distances = st.integers(0 if disjoint else -5, 4) if draw(st.booleans()) else st.just(0)
    steps = st.sampled_from(draw(st.sampled_from([[0, 1], [0, 0, 0, 1], [0] * 15 + [1]])))
    count = draw(st.integers(1, 80))
    rows = draw(st.lists(st.tuples(steps, st.integers(1, 6), distances), min_size=count, max_size=count))
    value, start, end = [], [], []
    for step, length, distance in rows:
        begin = max(end[-1] + distance, start[-1]) if end else 0
        value.append(value[-1] ^ step if value else 0)
        start.append(begin)
        end.append(begin + length)
    return Intervals(*(np.array(column, np.int64) for column in (value, start, end)))


@st.composite
def bounds(draw: st.DrawFn) -> Bounds:
    count, span = draw(st.sampled_from([(0, 0), (12, 0), (0, 30), (15, 40)]))
    return Bounds(draw(st.integers(1, 12)), count, span, draw(st.integers(0, 2)))


@given(st.sampled_from(sorted(SCORES)), streams(), bounds(), st.integers(0, 3), st.data())
def test_every_arrival_drives_out_the_tuple_of_the_scan(
    kind: str, tuples: Intervals, limits: Bounds, ties: int, data: st.DataObject
) -> None:
    hashes = np.array([(7 * k) % 5 if ties == 0 else hash((k, ties)) % 2**63 for k in range(len(tuples))], np.uint64) << np.uint64(1)
    naive = NaiveReservoir(*SCORES[kind], limits.memory, limits.window_tuples, limits.window_span, limits.gap)
    expected = [
        naive.arrive(*row) for row in zip(*map(np.ndarray.tolist, (tuples.value, tuples.start, tuples.end, hashes >> 1)), strict=True)
    ]
    reservoir, found, start = Reservoir(Score(*SCORES[kind]), limits), [], 0
    while start < len(tuples):
        stop = start + data.draw(st.integers(1, 20))
        found += reservoir.arrive(tuples.rows(slice(start, stop)), hashes[start:stop]).tolist()
        reservoir.validate()
        if data.draw(st.booleans()):
            saved, reservoir = reservoir.saved(), Reservoir(Score(*SCORES[kind]), limits)
            reservoir.load(saved)
            reservoir.validate()
        start = stop
    assert found == expected
    assert reservoir.kept().tolist() == [one.rank for one in naive.held]
    count = data.draw(st.integers(0, len(naive.held)))
    assert reservoir.drop(count).tolist() == [naive.drop() for _ in range(count)]
    reservoir.validate()


@given(streams(disjoint=True), st.integers(0, 3))
def test_runs_are_those_of_the_reservoir(tuples: Intervals, gap: int) -> None:
    naive = NaiveReservoir(1, 1, len(tuples), gap=gap)
    for row in zip(*map(np.ndarray.tolist, (tuples.value, tuples.start, tuples.end)), strict=True):
        naive.arrive(*row, 0)
    assert run_starts(tuples, gap).tolist() == [one.place == 0 for one in naive.held]
    merged = coalesced(tuples, gap)
    assert list(zip(merged.start.tolist(), merged.end.tolist(), strict=True)) == naive.extents


@given(st.sampled_from(sorted(SCORES)), streams(disjoint=True), st.integers(1, 30), st.integers(0, 8))
def test_accuracy_is_a_share_and_all_without_shedding(kind: str, tuples: Intervals, memory: int, shortest: int) -> None:
    reservoir = Reservoir(Score(*SCORES[kind]), Bounds(memory))
    reservoir.arrive(tuples, np.arange(len(tuples), dtype=np.uint64))
    exact = coalesced(tuples).at_least(shortest)
    assert accuracy(exact, exact) == 1.0
    found = accuracy(exact, coalesced(tuples.rows(reservoir.kept())).at_least(shortest))
    assert 0.0 <= found <= 1.0
    assert found < 1.0 or memory >= len(tuples) or not len(exact) or shortest > 1


@pytest.mark.parametrize(("dropped", "share"), [(0, 5 / 6), (1, 4 / 9), (2, 5 / 6), (3, 3 / 4), (4, 3 / 4)])
def test_accuracy_of_the_specifications_first_example(dropped: int, share: float) -> None:
    assert example([1, 1, 1, 2, 2], dropped) == pytest.approx(share)


def example(values: list[int], dropped: int) -> float:
    """Accuracy when one of tuples of unit length is dropped."""
    tuples = Intervals(np.array(values), np.arange(len(values)), np.arange(len(values)) + 1)
    return accuracy(coalesced(tuples), coalesced(tuples.rows(np.arange(len(values)) != dropped)))


@given(st.sampled_from(sorted(SCORES)), st.lists(streams(), min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 2), st.data())
def test_reservoirs_of_many_keys_decide_as_each_alone(kind: str, keys: list[Intervals], memory: int, gap: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations([key for key, own in enumerate(keys) for _ in range(len(own))]))
    window, span = data.draw(st.sampled_from([(0, 0), (12, 0), (0, 30)]))
    naive = [NaiveReservoir(*SCORES[kind], memory, gap=gap) for _ in keys]
    reservoirs, number, left = Reservoirs(Score(*SCORES[kind]), memory, gap), list(range(len(keys))), [0] * len(keys)
    rows = []
    for rank, key in enumerate(order):
        one = keys[key].rows(slice(left[key], left[key] + 1))
        left[key] += 1
        start = int(one.start[0])
        rows.append((key, rank, rank + 1 - window if window else NEVER, start - span if span else NEVER, one, hash((rank, 7)) % 2**62))
    begin = 0
    while begin < len(rows):
        part = rows[begin : begin + data.draw(st.integers(1, 40))]
        begin += len(part)
        columns = [np.array([number[row[0]] for row in part]), *(np.array([row[k] for row in part]) for k in (1, 2, 3))]
        tuples = Intervals(*(np.concatenate([getattr(row[4], name) for row in part]) for name in ("value", "start", "end")))
        found = reservoirs.arrive(Coming(*columns), tuples, np.array([row[5] for row in part], np.uint64) << np.uint64(1))
        expected = []
        for key, rank, oldest, ended, one, tie in part:
            expected.append(naive[key].come(rank, oldest, ended, int(one.value[0]), int(one.start[0]), int(one.end[0]), tie))
        assert found.tolist() == expected
        if data.draw(st.booleans()):
            saved, reservoirs = reservoirs.saved(), Reservoirs(Score(*SCORES[kind]), memory, gap)
            reservoirs.load(saved)
        if data.draw(st.booleans()):
            stay = data.draw(st.permutations(range(max(number) + 1)))
            known = [key for key in stay if key < len(reservoirs.idle(0))]
            if len(known) == len(stay) == len(reservoirs.idle(0)):
                reservoirs.keep(np.array(known))
                number = [known.index(key) for key in number]
        for key, own in enumerate(naive):
            assert reservoirs.kept(number[key]).tolist() == [held.rank for held in own.held]
