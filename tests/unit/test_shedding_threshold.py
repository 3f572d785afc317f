from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shedding.identity import identities
from shedding.threshold import utility_shares

UTILITIES = st.lists(st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0]), min_size=1, max_size=30)


def some_identities(count: int) -> np.ndarray:
    return identities(np.zeros(count, np.int64), np.arange(count))


@settings(max_examples=60)
@given(UTILITIES, st.integers(1, 99))
def test_literal_threshold_is_the_least_utility_whose_share_reaches_the_ratio(sample: list[float], percent: int) -> None:
    ratio = Fraction(percent, 100)
    wanted = min(u for u in sample if Fraction(sum(v <= u for v in sample), len(sample)) >= ratio)
    cut = utility_shares(np.array(sample)).cut(percent / 100, ties="literal")
    assert cut.utility == wanted
    assert cut.keep(np.array(sample), some_identities(len(sample))).tolist() == [u > wanted for u in sample]


@settings(max_examples=30)
@given(UTILITIES, st.floats(0.01, 0.99), st.integers(0, 5))
def test_split_ties_drop_as_many_as_asked(sample: list[float], ratio: float, seed: int) -> None:
    many = np.array(sample * 2000)
    kept = utility_shares(np.array(sample)).cut(ratio, seed=seed).keep(many, some_identities(len(many)))
    assert abs((1 - kept.mean()) - ratio) < 4 * 0.5 / 2000**0.5
    dropped, stays = many[~kept], many[kept]
    assert not len(dropped) or not len(stays) or dropped.max() <= stays.min()


def test_ratio_of_the_edges_needs_no_sample() -> None:
    shares, utilities = utility_shares(np.empty(0)), np.array([-1.0, 5.0])
    assert shares.cut(0.0).keep(utilities, some_identities(2)).all()
    assert shares.cut(0.5).keep(utilities, some_identities(2)).all(), "what is not known is not dropped"
    assert not shares.cut(1.0).keep(utilities, some_identities(2)).any()


def test_weights_count_as_repetition() -> None:
    repeated = utility_shares(np.array([1.0, 2.0, 2.0, 2.0, 5.0]))
    weighted = utility_shares(np.array([1.0, 2.0, 5.0, 9.0]), np.array([1.0, 3.0, 1.0, 0.0]))
    np.testing.assert_array_equal(repeated.utility, weighted.utility)
    np.testing.assert_allclose(repeated.cumulative, weighted.cumulative)
