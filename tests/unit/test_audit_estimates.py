"""Intervals that hold what they promise, and samples that are what they say."""

import numpy as np
import pytest

from app.audit.estimates import precision_of_verdicts, recall_of_sample, wilson
from app.audit.heavy_hitters import HeavyHitters
from app.audit.sample import GROUPS, Sample, counted, group_of, in_sample


@pytest.mark.parametrize("recall", [0.02, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("clustered", [0.0, 1.0])
def test_nineteen_of_twenty_intervals_contain_the_true_recall(recall, clustered):
    """Partitions with 1 to 60 composite events each, which live and die one by one, or (clustered) partition by partition."""
    chance, held, runs = np.random.default_rng(7), 0, 400
    for _ in range(runs):
        keys = chance.integers(0, 1 << 63, 300, dtype=np.uint64)
        sizes = np.minimum(60, chance.geometric(0.1, 300))
        of_key = np.clip(recall + clustered * min(recall, 1 - recall) * chance.uniform(-1, 1, 300), 0, 1)
        each = np.repeat(keys, sizes)
        survives = chance.random(len(each)) < np.repeat(of_key, sizes)
        estimate = recall_of_sample(counted(each, survives, np.ones(len(each))))
        held += estimate.lower <= recall <= estimate.upper
    assert 0.93 * runs <= held


def heavy(chance):
    """Composite events of partitions of which some have a hundred times as many as others, and how many of them stay."""
    found = (chance.pareto(1.1, 200) * 10).astype(np.int64)
    return found, chance.binomial(found, chance.beta(2, 2, 200))


def giants(chance):
    """One event now and then completes thousands of matches at once, and its loss is the loss of all of them."""
    bursts = chance.poisson(4, 200)
    size = (chance.pareto(0.9, bursts.sum()) * 20).astype(np.int64)
    left = np.where(chance.random(len(size)) < 0.7, chance.binomial(size, 0.55), 0)
    of = np.repeat(np.arange(200), bursts)
    return np.bincount(of, size, 200).astype(np.int64), np.bincount(of, left, 200).astype(np.int64)


@pytest.mark.parametrize(("world", "least"), [(heavy, 0.92), (giants, 0.87)])
def test_intervals_hold_for_the_partitions_outside_of_the_sample_however_uneven_they_are(world, least):
    """Twenty of two hundred partitions are in the sample; without leaving groups out in turn three of five intervals held."""
    chance, held, runs = np.random.default_rng(5), 0, 1000
    for _ in range(runs):
        found, left = world(chance)
        sampled, groups = chance.random(200) < 0.1, chance.integers(0, GROUPS, 200)
        estimate = recall_of_sample(
            np.stack([np.bincount(groups[sampled], one[sampled], GROUPS) for one in (found, left)]).astype(np.int64)
        )
        true = left[~sampled].sum() / found[~sampled].sum()
        held += estimate is None or estimate.lower <= true <= estimate.upper
    assert least * runs <= held


def test_an_interval_is_not_empty_where_nothing_was_lost():
    counts = np.zeros((2, GROUPS), np.int64)
    counts[:, :5] = 10
    estimate = recall_of_sample(counts)
    assert (estimate.value, estimate.upper) == (1.0, 1.0)
    assert 0.4 < estimate.lower < 0.7, "five groups of partitions are not many"
    counts[1] = 0
    assert recall_of_sample(counts).upper == pytest.approx(1 - estimate.lower)
    assert recall_of_sample(np.zeros((2, GROUPS), np.int64)) is None


def test_more_partitions_make_an_interval_narrower():
    narrow, wide = wilson(0.4, 1000), wilson(0.4, 10)
    assert narrow.upper - narrow.lower < (wide.upper - wide.lower) / 5


def test_precision_is_uncertain_by_what_cannot_be_verified_alone():
    estimate = precision_of_verdicts(200, 20, 0)
    assert (estimate.lower, estimate.value, estimate.upper) == (0.9, 0.9, 0.9)
    assert precision_of_verdicts(0, 0, 0) is None
    assert precision_of_verdicts(10, 0, 10).lower == 0.0


def test_the_sample_and_its_groups_are_independent_and_of_the_right_size():
    keys = np.random.default_rng(1).integers(0, 1 << 63, 200_000, dtype=np.uint64)
    sample = in_sample(keys, 0.01)
    assert sample.mean() == pytest.approx(0.01, rel=0.1)
    assert not (in_sample(keys, 0.001) & ~sample).any(), "a smaller sample is part of a larger one"
    assert not in_sample(keys, 0.0).any()
    assert in_sample(keys, 1.0).all()
    shares = np.bincount(group_of(keys[in_sample(keys, 0.3)]), minlength=GROUPS) / in_sample(keys, 0.3).sum()
    assert shares == pytest.approx(1 / GROUPS, rel=0.1)


def test_who_is_in_the_sample_changes_with_the_turns():
    sample, keys = Sample(0.1, before_ms=100), np.random.default_rng(3).integers(0, 1 << 63, 2000, dtype=np.uint64)
    times = np.arange(0, 8000, 10)
    held = np.array([HeavyHitters(sample).hold(keys, np.full(len(keys), time)) for time in times])
    assert held.mean() == pytest.approx(0.1, rel=0.05), "as many are in it"
    assert held.mean(axis=1).std() < 0.01, "at all times"
    assert held.any(axis=0).mean() == pytest.approx(1 - 0.9**21, abs=0.03), "and everybody comes to it: 20 turns and a piece of one"
    changes = np.count_nonzero(np.diff(held, axis=0), axis=0)
    assert changes.mean() == pytest.approx(19.975 * 2 * 0.1 * 0.9, rel=0.05), "and stays for a turn"
    assert not HeavyHitters(Sample(0.0, 100)).hold(keys, times[:1].repeat(len(keys))).any()


def test_a_match_is_in_the_sample_if_all_that_it_can_have_to_do_with_is():
    sample, keys = Sample(0.5, before_ms=7, after_ms=3), np.arange(50, dtype=np.uint64)
    for end in range(200):
        whole = HeavyHitters(sample).hold_whole(keys, np.full(50, end))
        moments = np.array([[*sample.turns(keys, np.full(50, end + moved))] for moved in range(-7, 4)])
        assert whole.tolist() == ((moments == moments[0]).all(axis=0) & HeavyHitters(sample).hold(keys, np.full(50, end))).tolist()


def test_intervals_hold_where_a_few_partitions_have_most_and_lose_least():
    """Of the benchmark's stocks a few have most composite events, and `gspice` and `prefix` leave more of theirs. A sample that is always the same does not know: a third of its intervals miss."""
    chance, runs, turns = np.random.default_rng(11), 300, 20
    held = {"for ever": 0, "in turns": 0}
    for _ in range(runs):
        sizes = np.sort(chance.pareto(0.8, 200) * 3)[::-1]
        of_key = np.clip(0.95 * np.exp(-np.arange(200) / 12), 0.02, 1)
        found = chance.poisson(np.repeat(sizes, turns).reshape(200, turns) / turns)
        left = chance.binomial(found, of_key[:, None])
        keys = chance.integers(0, 1 << 63, 200, dtype=np.uint64)
        cells = {
            "for ever": np.repeat(keys, turns),
            "in turns": Sample(0.1, 25).turns(np.repeat(keys, turns), np.tile(100 * np.arange(turns), 200)),
        }
        for name, cell in cells.items():
            sampled = in_sample(cell, 0.1).reshape(200, turns)
            counts = np.zeros((2, GROUPS), np.int64)
            for row, one in enumerate((found, left)):
                np.add.at(counts[row], group_of(cell).reshape(200, turns)[sampled], one[sampled])
            estimate, true = recall_of_sample(counts), left[~sampled].sum() / found[~sampled].sum()
            held[name] += estimate is None or estimate.lower <= true <= estimate.upper
    assert held["in turns"] >= 0.9 * runs
    assert held["for ever"] < 0.75 * runs


@pytest.mark.slow
def test_intervals_are_narrow_where_a_few_partitions_have_most_and_are_looked_at_more_often():
    """A sample of 1 % for 200 turns, in which what a partition keeps differs from turn to turn; against one that looks at all equally often."""
    chance, runs, turns = np.random.default_rng(12), 100, 200
    held, widths = {"equally": 0, "heavy": 0}, {"equally": [], "heavy": []}
    for _ in range(runs):
        sizes = np.sort(chance.pareto(0.8, 200) * 3)[::-1]
        of_key = np.clip(0.95 * np.exp(-np.arange(200) / 12), 0.02, 1)
        found = chance.poisson(np.repeat(sizes, turns).reshape(200, turns))
        left = chance.binomial(found, np.clip(of_key[:, None] * chance.uniform(0.5, 1.5, (200, turns)), 0, 1))
        keys, sample = chance.integers(0, 1 << 63, 200, dtype=np.uint64), Sample(0.01, 25)
        counts = {name: np.zeros((2, GROUPS)) for name in held}
        heavies = {name: HeavyHitters(sample) for name in held}
        for turn in range(turns):
            times = np.full(200, 100 * turn + 99)
            for name, heavy in heavies.items():
                heavy.choose_heavy(100 * turn, more=name == "heavy")
                heavy.let_go(100 * (turn - 2))
                rows = np.flatnonzero(heavy.hold(keys, times))
                weights, groups = 1 / heavy.often(keys[rows], times[rows]), group_of(sample.turns(keys, times))[rows]
                for row, one in enumerate((found, left)):
                    np.add.at(counts[name][row], groups, weights * one[rows, turn])
                heavy.note(0, np.repeat(keys, left[:, turn]))
        for name, known in counts.items():
            estimate, true = recall_of_sample(known), left.sum() / found.sum()
            held[name] += estimate.lower <= true <= estimate.upper
            widths[name].append(estimate.upper - estimate.lower)
    assert held["heavy"] >= 0.93 * runs
    assert np.median(widths["heavy"]) < 0.6 * np.median(widths["equally"])
