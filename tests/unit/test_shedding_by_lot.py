"""Shedders of partial matches that are asked about few at a time: what is not a whole number of them is rounded by lot."""

from __future__ import annotations

import numpy as np
import pytest

from shedding.candidates import JudgedMatches
from shedding.partial_matches.selection import all_but_share

LOOKS = 4_000


def few(identity: np.ndarray) -> JudgedMatches:
    return JudgedMatches(identity.astype(np.uint64))


@pytest.mark.parametrize("count", [1, 2, 4, 7])
@pytest.mark.parametrize("share", [0.1, 0.4, 0.5, 0.6, 0.9])
def test_as_many_go_as_are_asked_for_however_few_are_looked_at_together(count, share):
    rng = np.random.default_rng(count)
    gone, least_gone = 0, 0
    for identity in rng.integers(0, 2**63, (LOOKS, count)):
        utilities = rng.random(count)
        kept = all_but_share(utilities, few(identity), share, seed=3)
        gone += int((~kept).sum())
        least_gone += not kept[utilities.argmin()]
        assert utilities[~kept].max(initial=0.0) <= utilities[kept].min(initial=1.0), "the worst go first"
    assert gone / (LOOKS * count) == pytest.approx(share, abs=0.02)
    assert least_gone / LOOKS >= share - 0.02


def test_the_same_ones_have_the_same_answer_in_any_order_and_at_a_higher_share_no_other_ones_stay():
    rng = np.random.default_rng(1)
    for _ in range(200):
        identity, utilities = rng.integers(0, 2**63, 5), rng.random(5)
        order = rng.permutation(5)
        kept = all_but_share(utilities, few(identity), 0.5, seed=3)
        assert (all_but_share(utilities[order], few(identity[order]), 0.5, seed=3) == kept[order]).all()
        assert not (all_but_share(utilities, few(identity), 0.7, seed=3) & ~kept).any()


def test_none_and_all():
    identity = np.arange(3)
    assert all_but_share(np.zeros(3), few(identity), 0.0, seed=3).all()
    assert not all_but_share(np.zeros(3), few(identity), 1.0, seed=3).any()
    assert len(all_but_share(np.zeros(0), few(identity[:0]), 0.5, seed=3)) == 0
