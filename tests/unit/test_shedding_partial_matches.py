"""pSPICE on the specification's golden test (3.1), its selection against sorting, and the time that `pspice-minus` leaves out."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shedding.candidates import JudgedInMatches, JudgedMatches
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import MatchObservations, PairObservations
from shedding.partial_matches.hspice import HspiceModel
from shedding.partial_matches.markov import Chain, chain_of, prospects
from shedding.partial_matches.pspice import PspiceModel
from shedding.partial_matches.selection import all_but_least
from shedding.registry import method

CHAIN = np.array([[2 / 3, 1 / 3, 0, 0], [0, 2 / 3, 1 / 3, 0], [0, 0, 2 / 3, 1 / 3], [0, 0, 0, 1]])
"""seq(A; B; C) of three equally frequent types: the states before A, B, C, and the complete one."""
COMPLETION = {
    1: (0, 0, 0.333333),
    2: (0, 0.111111, 0.555556),
    3: (0.037037, 0.259259, 0.703704),
    5: (0.209877, 0.539095, 0.868313),
    10: (0.700859, 0.895951, 0.982658),
}
SECONDS = {
    1: (1.333333, 1.666667, 2),
    2: (2.777778, 3.444444, 3.333333),
    3: (4.333333, 5.074074, 4.222222),
    10: (12.615540, 10.288997, 5.895951),
}
"""With rewards 1 for staying and 2, 3, 4 for going on from the three states."""


def golden_steps() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps in just the golden test's proportions: states before and after, seconds."""
    rows = [(state, state, 1.0) for state in range(3) for _ in range(2)] + [(state, state + 1, state + 2.0) for state in range(3)]
    before, after, spent = zip(*rows, strict=True)
    return np.array(before, np.int32), np.array(after, np.int32), np.array(spent)


def test_transitions_are_counted_and_the_complete_state_absorbs() -> None:
    chain = chain_of(*golden_steps(), 4)
    np.testing.assert_allclose(chain.transitions, CHAIN)
    assert chain.step_s == pytest.approx([4 / 3, 5 / 3, 2, 0])
    assert chain.seen.tolist() == [True, True, True, False]


@pytest.mark.parametrize("bin_size", [1, 2, 5])
def test_completion_and_processing_time_are_those_of_the_specification(bin_size: int) -> None:
    completion, seconds = prospects(chain_of(*golden_steps(), 4), 10 // bin_size, bin_size)
    for remaining in range(0, 11, bin_size):
        k = remaining // bin_size
        if remaining in COMPLETION:
            assert completion[k, :3] == pytest.approx(COMPLETION[remaining], abs=6e-7)
        if remaining in SECONDS:
            assert seconds[k, :3] == pytest.approx(SECONDS[remaining], abs=6e-7)
    assert completion[:, 3].tolist() == [1.0] * len(completion)
    assert seconds[:, 3].tolist() == [0.0] * len(seconds)


@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 30))
def test_prospects_are_those_of_matrix_powers_and_of_value_iteration(seed: int, states: int, remaining: int) -> None:
    chance = np.random.default_rng(seed)
    matrix, rewards = chance.dirichlet(np.ones(states + 1), states)[:, :states], chance.random((states, states))
    matrix[-1], rewards[-1] = np.eye(states)[-1], 0
    value = np.zeros(states)
    for _ in range(remaining):
        value = np.array([sum(matrix[i, j] * (rewards[i, j] + value[j]) for j in range(states)) for i in range(states)])
    completion, seconds = prospects(Chain(matrix, (matrix * rewards).sum(axis=1), np.ones(states, bool)), 1, remaining)
    np.testing.assert_allclose(completion[1], np.linalg.matrix_power(matrix, remaining)[:, -1])
    np.testing.assert_allclose(seconds[1], value, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 2**32), st.integers(0, 32))
def test_selection_is_that_of_sorting(seed: int, count: int) -> None:
    chance = np.random.default_rng(seed)
    utilities, ties = chance.choice([0.0, 0.25, 0.5, 1.0], 30), chance.permutation(30).astype(np.uint64)
    order = sorted(range(30), key=lambda k: (utilities[k], ties[k]))
    kept = all_but_least(utilities, ties, count)
    assert np.flatnonzero(~kept).tolist() == sorted(order[:count])


@given(st.integers(0, 2**32), st.integers(1, 300), st.floats(0, 1))
def test_of_candidates_that_nothing_tells_apart_any_may_go(seed: int, candidates: int, share: float) -> None:
    chance = np.random.default_rng(seed)
    utilities, ties = chance.choice([0.0, 0.5, np.inf], candidates), chance.integers(0, 3, candidates).astype(np.uint64)
    keys = sorted(zip(utilities.tolist(), ties.tolist(), strict=True))
    count = round(share * candidates)
    kept = all_but_least(utilities, ties, count)
    assert sorted(zip(utilities[~kept].tolist(), ties[~kept].tolist(), strict=True)) == keys[:count]


def test_selection_takes_no_longer_where_all_are_alike() -> None:
    """In time that grows with the square, a hundred thousand that are alike would take a minute."""
    chance = np.random.default_rng(0)
    seconds = {}
    for name, ties in (("alike", np.zeros(100_000, np.uint64)), ("apart", chance.permutation(100_000).astype(np.uint64))):
        begin = perf_counter()
        assert np.count_nonzero(all_but_least(np.ones(100_000), ties, 50_000)) == 50_000
        seconds[name] = perf_counter() - begin
    assert seconds["alike"] < 50 * seconds["apart"]


def two_queries(factor: float) -> MatchObservations:
    """Equal chains; a step of the first takes ``factor`` times as long."""
    before, after, spent = golden_steps()
    query = np.repeat(np.array([0, 1], np.int32), len(before))
    seconds = np.concatenate([factor * spent, spent])
    return MatchObservations(
        query, np.tile(before, 2), np.tile(after, 2), seconds, np.array([4, 4], np.int32), np.ones(2), np.array([100.0, 100.0])
    )


def trained(name: str, observations: MatchObservations, **settings: int) -> PspiceModel:
    model = method(name, **settings).train(observations, Training(3))
    assert isinstance(model, PspiceModel)
    return model


def matches(query: list[int], state: list[int], remaining: list[float]) -> JudgedMatches:
    identity = identities(np.zeros(len(query), np.int64), np.arange(len(query)))
    return JudgedMatches(identity, np.array(query, np.int32), np.array(state, np.int32), np.array(remaining, np.float64))


def test_costly_queries_lose_partial_matches_first_unless_time_is_left_out() -> None:
    some = matches([0, 1], [1, 1], [50.0, 50.0])
    costly, cheap = trained("pspice", two_queries(16)).utilities(some)
    assert cheap == pytest.approx(16 * costly)
    assert np.ptp(trained("pspice-minus", two_queries(16)).utilities(some)) == 0


def test_utility_is_probability_over_time_both_by_their_largest() -> None:
    model = trained("pspice", two_queries(1), bins=100)
    some = matches([0, 0, 0], [0, 1, 2], [10.0, 10.0, 10.0])
    completion, seconds = np.array(COMPLETION[10]), np.array(SECONDS[10])
    found = model.utilities(some)
    np.testing.assert_allclose(found / found[0], completion / seconds / (completion[0] / seconds[0]), rtol=1e-5)


def test_utilities_between_bins_are_interpolated_and_those_beyond_the_window_are_the_last() -> None:
    model = trained("pspice", two_queries(1), bins=10)
    at = dict(zip([0, 10, 13, 20, 100, 250], model.utilities(matches([0] * 6, [1] * 6, [0, 10, 13, 20, 100, 250])), strict=True))
    assert at[0] == 0
    assert at[13] == pytest.approx(0.7 * at[10] + 0.3 * at[20])
    assert at[250] == at[100]


def test_a_state_that_was_never_left_in_training_is_not_worthless() -> None:
    before, after, spent = golden_steps()
    early = before < 2
    some = MatchObservations(
        np.zeros(early.sum(), np.int32), before[early], after[early], spent[early], np.array([4], np.int32), np.ones(1), np.array([100.0])
    )
    first, second, third = trained("pspice", some).utilities(matches([0, 0, 0], [0, 1, 2], [50.0, 50.0, 50.0]))
    assert third == max(first, second)


def test_states_and_queries_that_the_model_does_not_know_are_kept_longest() -> None:
    model = trained("pspice", two_queries(1))
    asked = matches([0, 7, 0, -1], [1, 1, 9, 1], [50.0] * 4)
    assert np.isinf(model.utilities(asked)).tolist() == [False, True, True, True]
    assert model.gate(0.25).keep(asked).tolist() == [False, True, True, True]


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(ValueError, match="no steps"):
        method("pspice").train(None, Training())


def pairs(rows: list[tuple[int, int, float]]) -> JudgedInMatches:
    """Of type, state, position."""
    types, states, positions = zip(*rows, strict=True)
    count = len(rows)
    identity = identities(np.ones(count, np.int64), np.arange(count))
    return JudgedInMatches(identity, np.zeros(count, np.int32), np.array(types, np.int32), np.array(states, np.int32), np.array(positions))


def test_hspice_counts_use_per_encounter_and_hides_just_the_useless_pairs() -> None:
    rows = [(0, 0, 0.1)] * 4 + [(0, 1, 0.1)] * 4 + [(1, 0, 0.1)] * 4 + [(1, 1, 0.9)] * 4
    use = np.array([1, 1, 0, 0] + [0] * 4 + [0] * 4 + [1, 1, 1, 0], np.float64)
    model = method("hspice", bins=2, ties="literal").train(PairObservations(pairs(rows), use), Training())
    assert isinstance(model, HspiceModel)
    asked = pairs([(0, 0, 0.1), (0, 1, 0.1), (1, 1, 0.9), (1, 1, 0.1), (4, 0, 0.5)])
    assert model.utilities(asked).tolist() == [0.5, 0.0, 0.75, 0.75, 5 / 16]
    assert model.gate(0.5).keep(asked).tolist() == [True, False, True, True, True]
    assert model.gate(0.75).keep(asked).tolist() == [False, False, True, True, False]


def test_hspice_takes_its_share_of_every_part_of_a_window() -> None:
    chance = np.random.default_rng(1)
    position = chance.random(4000)
    some = pairs([(0, 0, float(one)) for one in position])
    model = method("hspice", bins=20, parts=2).train(PairObservations(some, (position > 0.5).astype(float)), Training())
    kept = model.gate(0.5).keep(some)
    assert abs(kept[position < 0.5].mean() - 0.5) < 0.05
    assert abs(kept[position > 0.5].mean() - 0.5) < 0.05
    whole = method("hspice", bins=20).train(PairObservations(some, (position > 0.5).astype(float)), Training()).gate(0.5).keep(some)
    assert whole[position > 0.5].mean() > 0.97


def test_random_choice_draws_anew_as_the_window_goes_on() -> None:
    gate, count = method("pm-random").train(None, Training(1)).gate(0.5), 4000
    once, later = (gate.keep(matches([0] * count, [1] * count, [left] * count)) for left in (50.0, 49.0))
    assert abs(once.mean() - 0.5) < 0.04
    assert abs((once & later).mean() - 0.25) < 0.04
    np.testing.assert_array_equal(once, gate.keep(matches([0] * count, [1] * count, [50.0] * count)))
