"""CALS on the specification's example (5.5), and against the scan from the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedding.candidates import JudgedTuples
from shedding.identity import identities, shuffled
from shedding.interface import Training
from shedding.registry import method
from shedding.tuples import kernels as at
from shedding.tuples.cals import TupleModel
from shedding.tuples.intervals import Intervals, accuracy, coalesced, value_accuracy
from shedding.tuples.reservoir import Bounds, Reservoir, Score
from tests.naive.reservoir import NaiveReservoir, Tuple

TABLE_2 = {
    0: (0, 1 / 3, 1.0, 0.8333),
    1: (1, 1 / 3, 0.6667, 0.4444),
    2: (0, 1 / 3, 1.0, 0.8333),
    3: (0, 0.5, 1.0, 0.75),
    4: (0, 0.5, 1.0, 0.75),
}
"""By dropped tuple: delta+, rho-, Jaccard coefficient of the values, accuracy."""


def unit_tuples(values: list[int]) -> Intervals:
    return Intervals(np.array(values), np.arange(len(values)) + 1, np.arange(len(values)) + 2)


@pytest.mark.parametrize("dropped", TABLE_2)
def test_scores_and_accuracy_of_the_specifications_example(dropped: int) -> None:
    tuples, (extraneous, reduction, value, overall) = unit_tuples([1, 1, 1, 2, 2]), TABLE_2[dropped]
    scores = []
    for weights in ((1, 0), (0, 1), (1, 1)):
        reservoir = Reservoir(Score(*weights), Bounds(memory=5))
        reservoir.arrive(tuples, np.arange(5, dtype=np.uint64))
        scores.append(at.score_of(reservoir._tables, dropped))
    assert scores == pytest.approx([extraneous, reduction, extraneous + reduction])
    exact, left = coalesced(tuples), coalesced(tuples.rows(np.arange(5) != dropped))
    assert (value_accuracy(exact, left), accuracy(exact, left)) == pytest.approx((value, overall), abs=5e-5)


@pytest.mark.parametrize(("dropped", "expected"), [(0, 0.8889), (1, 0.5833), (2, 0.8889), (3, 0.6667), (4, 0.6667)])
def test_accuracy_of_the_example_with_three_values(dropped: int, expected: float) -> None:
    tuples = unit_tuples([1, 1, 1, 2, 3])
    assert accuracy(coalesced(tuples), coalesced(tuples.rows(np.arange(5) != dropped))) == pytest.approx(expected, abs=5e-5)


def test_the_paper_drops_what_leaves_most_accuracy() -> None:
    reservoir = Reservoir(Score(1, 1), Bounds(memory=4))
    assert reservoir.arrive(unit_tuples([1, 1, 1, 2, 2]), np.array([4, 0, 2, 1, 3], np.uint64))[-1] in {0, 2}


@given(st.sampled_from(["cals", "cals-v", "cals-i", "rand"]), st.integers(0, 2**32), st.integers(0, 40))
def test_gate_drops_what_the_scan_drops(name: str, seed: int, count: int) -> None:
    chance = np.random.default_rng(seed)
    length, run = chance.integers(1, 4, 80), np.cumsum(chance.random(80) < 0.25)
    end, here = np.cumsum(length), np.sort(chance.permutation(80)[:40])
    whole = np.bincount(run, length).astype(np.int64)
    tuples = JudgedTuples(identities(np.zeros(40, np.int64), here), run[here], (end - length)[here], end[here], whole[run[here]])
    kept = method(name).train(None, Training(seed)).gate(count / 40).keep(tuples)
    model = method(name).train(None, Training(seed))
    assert isinstance(model, TupleModel)
    naive = NaiveReservoir(model.score.value_weight, model.score.interval_weight, memory=40)
    naive.extents = [(0, int(extent)) for extent in whole]
    ties = (shuffled(tuples.identity, seed) >> np.uint64(1)).tolist()
    naive.held = [  # places in the stream are places in the run, up to where the run begins
        Tuple(k, 0, int(tuples.start[k]), int(tuples.end[k]), ties[k], int(tuples.run[k]), int(here[k])) for k in range(40)
    ]
    gone = {naive.drop() for _ in range(count)}
    assert np.flatnonzero(~kept).tolist() == sorted(gone)


def test_random_reservoir_keeps_every_tuple_of_a_window_alike() -> None:
    counts = np.zeros(40)
    for seed in range(400):
        model = method("rand").train(None, Training(seed))
        assert isinstance(model, TupleModel)
        reservoir = model.reservoir(Bounds(memory=10))
        reservoir.arrive(unit_tuples([1] * 40), model.ties(identities(np.zeros(40, np.int64), np.arange(40))))
        counts[reservoir.kept()] += 1
    assert counts.sum() == 4000
    assert abs(counts - 100).max() < 5 * (400 * 0.25 * 0.75) ** 0.5


def test_time_window_and_memory_of_one() -> None:
    reservoir = Reservoir(Score(1, 1), Bounds(memory=1, window_span=3))
    assert reservoir.arrive(unit_tuples([1, 2, 3]), np.array([2, 9, 4], np.uint64)).tolist() == [-1, 0, 2]
    reservoir.expire(3)
    assert len(reservoir) == 0


def test_memory_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one tuple"):
        Reservoir(Score(1, 1), Bounds(memory=0))
