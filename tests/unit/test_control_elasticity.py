"""How work follows what is kept, as it is learned."""

from __future__ import annotations

import json

import numpy as np
import pytest

from app.control.law.elasticity import JOINED, LEAST, Elasticity, left
from app.control.law.query_cost import QueryObservation
from app.control.law.query_costs import QueryCosts
from app.control.law.sharing import next_step


@pytest.mark.parametrize("power", [0.2, 0.5, 1.0, 1.6])
def test_the_power_of_what_was_kept_is_found(power: float) -> None:
    chance, known = np.random.default_rng(1), Elasticity()
    for kept in [0.9, 0.7, 0.5, 0.3, 0.2, 0.1] * 10:
        known.learn(kept, 0.01 * kept**power * float(np.exp(chance.normal(0, 0.1))))
    assert known.exponent == pytest.approx(power, abs=0.08)
    assert known.left(0.3, 1.0) == pytest.approx(0.3 ** min(1.0, power), rel=0.2)
    assert known.left(0.3, 0.3) == pytest.approx(0.3**power, rel=0.2)


def test_what_is_flat_and_then_steep_is_known_as_such() -> None:
    """Work that falls with the fifth root of what is kept, and below a sixteenth in proportion."""

    def work(kept: float) -> float:
        return 0.01 * max(kept, 1 / 16) ** 0.2 * min(1.0, 16 * kept)

    chance, known = np.random.default_rng(1), Elasticity()
    for kept in [*[0.9, 0.6, 0.4, 0.2, 0.1] * 6, *[0.05, 0.03, 0.045, 0.02] * 50]:
        known.learn(kept, work(kept) * float(np.exp(chance.normal(0, 0.1))))
    assert known.left(0.1, 1.0) == pytest.approx(work(0.1) / work(1.0), rel=0.2), "long ago, and not forgotten"
    assert known.left(0.02, 1.0) / known.left(0.05, 1.0) == pytest.approx(work(0.02) / work(0.05), rel=0.2)
    assert known.left(0.1, 1.0) > 2.5 * 0.1**known.exponent, "one exponent would be that of where it was last"


def test_a_load_has_what_is_left_of_many_queries_at_once() -> None:
    chance, several = np.random.default_rng(2), [Elasticity() for _ in range(4)]
    for one in several:
        for kept in chance.uniform(0.02, 1, 50):
            one.learn(kept, kept ** chance.uniform(0.1, 1.9))
    part, met = chance.uniform(0, 1, 4), chance.uniform(0, 1, 4)
    curve = np.array([one.curve for one in several])
    for holds in (True, False):
        found = left(part, met if holds else np.ones(4), curve)
        assert found == pytest.approx([one.left(a, b if holds else 1.0) for one, a, b in zip(several, part, met, strict=True)])
    assert left(np.array([0.0]), np.array([1.0]), curve[:1]).tolist() == [0.0], "of nothing nothing"


def test_one_ratio_alone_says_nothing() -> None:
    known = Elasticity()
    for _ in range(100):
        known.learn(0.4, 0.01)
    assert known.exponent == JOINED


def test_work_that_grows_when_less_is_kept_leaves_something_to_be_gained() -> None:
    known = Elasticity()
    for kept in [0.9, 0.5, 0.1] * 20:
        known.learn(kept, 0.01 / kept)
    assert known.exponent == LEAST
    known.learn(0.0, 0.0)
    known.learn(0.0, 1.0)
    assert LEAST <= known.exponent <= JOINED


def test_dearer_events_that_raise_the_ratio_are_not_taken_for_shedding_in_vain() -> None:
    """Events cost up to a third more or less as time goes by, and so much is kept that the work stays the same: by the samples alone it would not depend on what is kept."""
    known = Elasticity()
    for batch in range(600):
        cost = 1.25 + 0.2 * float(np.sin(batch / 40))
        known.learn(1 / cost, 0.01)
    assert min(1.0, known.exponent) > 0.7


def test_a_long_overload_at_one_ratio_does_not_forget_what_others_cost() -> None:
    known = Elasticity()
    for kept in [*[0.9, 0.6, 0.35, 0.2, 0.1] * 3, *[0.05] * 3000]:
        known.learn(kept, 0.01 * kept**0.3)
    assert known.exponent == pytest.approx(0.3, abs=0.1)


def test_a_snapshot_goes_on() -> None:
    first, second = QueryCosts({"q": ("s",)}), QueryCosts({"q": ("s",)})
    events = ((1_000, 100), (1_000, 500), (1_000, 900), (1_000, 300), (1_000, 950))

    def learn(costs: QueryCosts, offered: int, shed: int) -> None:
        seen = QueryObservation(offered, shed, work_ms=0.05 * (offered - shed) ** 0.5, asked=shed / offered)
        costs.learn({"q": seen}, {"s": offered}, offered, None)

    for offered, shed in events:
        learn(first, offered, shed)
    second.restore(json.loads(json.dumps(first.snapshot())))
    for offered, shed in events:
        assert second["q"] == first["q"]
        assert second["q"].elasticity.curve.tolist() == first["q"].elasticity.curve.tolist()
        learn(first, offered, shed)
        learn(second, offered, shed)
    assert first["q"].elasticity.work is not None


@pytest.mark.parametrize("step", [0.01, 0.02, 0.1])
def test_steps_never_keep_more_and_stay_where_they_are(step: float) -> None:
    for ratio in np.linspace(0, 0.9999, 997):
        there = next_step(float(ratio), step)
        assert ratio - 0.01 * step <= there < 1
        assert next_step(there, step) == pytest.approx(there, abs=1e-9)
        if there <= 0.998:
            assert next_step(round(there, 6), step) == pytest.approx(there, abs=1e-6), "as it is written: one step was two"
        assert 1 - there >= (1 - ratio) * 0.9 - step
