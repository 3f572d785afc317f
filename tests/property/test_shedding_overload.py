"""The law of shedding: a plateau instead of a border, and who gives how much where several queries share what there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.evaluation.virtual_time import Course, Load, overload
from shedding.overload import QueueLaw, Share, drop_ratio, highest_level, least_level, water_filled

SHARES = st.lists(st.builds(Share, st.just(0.0) | st.floats(0.1, 1e4), st.floats(0.1, 10), st.floats(0, 1)), min_size=1, max_size=6)


def course(factor: float, effect: float = 1.0, events: int = 60_000, cost_noise: float = 0.0) -> Course:
    """A shedder that drops by chance, or only a share of what it is asked to; events may cost more or less than is known."""
    chance = np.random.default_rng(7)

    def keep(ratio: float, start: int, stop: int) -> np.ndarray:
        passes = chance.random(stop - start) >= ratio * effect
        return passes * np.exp(chance.normal(-(cost_noise**2) / 2, cost_noise, stop - start))

    return overload(events, Load(factor * 1000, 1 / 1000), keep)


@pytest.mark.parametrize("factor", [1.05, 1.2, 1.4, 2.0, 5.0])
@pytest.mark.parametrize("cost_noise", [0.0, 0.5])
def test_a_steady_overload_has_a_steady_ratio_at_the_plateau(factor: float, cost_noise: float) -> None:
    found = course(factor, cost_noise=cost_noise)
    settled = found.ratio[len(found.ratio) // 2 :]
    assert settled.mean() == pytest.approx(1 - 1 / factor, abs=0.03)
    assert settled.std() < 0.05
    assert found.latency_s.max() <= 1.0
    assert np.median(found.latency_s[len(found.latency_s) // 2 :]) == pytest.approx(0.8, abs=0.06)


def test_below_the_plateau_there_is_no_dead_zone() -> None:
    ratios = [QueueLaw(1.0).ratio(2000, 1000, waiting) for waiting in np.linspace(0.0, 1.0, 101)]
    steps = np.diff(ratios)
    assert (steps >= 0).all()
    assert steps.max() < 0.03, "no border"
    assert QueueLaw(1.0).ratio(900, 1000, 0.8) == 0, (
        "nothing goes where everything can be processed, however long the queue is that it allows"
    )


@pytest.mark.parametrize("effect", [0.8, 0.95])
def test_a_shedder_that_drops_too_little_is_asked_for_more_and_the_bound_holds(effect: float) -> None:
    found = course(1.6, effect)
    assert found.latency_s.max() <= 1.0
    assert found.ratio[-100:].mean() * effect == pytest.approx(1 - 1 / 1.6, abs=0.02)


@given(st.floats(0, 1e6), st.floats(1e-3, 1e6))
def test_what_is_kept_is_what_can_be_processed(capacity: float, arriving: float) -> None:
    assert arriving * (1 - drop_ratio(capacity, arriving)) == pytest.approx(min(capacity, arriving), rel=1e-6, abs=1e-6 * arriving)


@given(SHARES, st.floats(0, 1))
def test_the_least_level_saves_enough_and_no_more(shares: list[Share], part: float) -> None:
    possible = sum(one.work * one.most for one in shares)
    assume(possible > 1e-3)
    wanted = part * possible

    def saved(ratios: object) -> float:
        return sum(one.work * ratio for one, ratio in zip(shares, ratios, strict=True))  # type: ignore[call-overload]

    level = least_level(shares, lambda ratios: 1 + (wanted * (1 - 1e-9) - saved(ratios)) / possible)
    ratios = water_filled(shares, level)
    assert saved(ratios) == pytest.approx(wanted, rel=1e-5, abs=1e-5 * possible)
    assert level <= highest_level(shares) * (1 + 1e-9)
    assert all(0 <= ratio <= one.most for ratio, one in zip(ratios, shares, strict=True))


@given(
    drops=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 3)), min_size=1, max_size=5),
    exponent=st.floats(0.2, 4),
    start=st.floats(0.05, 3),
    jumps=st.booleans(),
)
def test_the_least_level_is_found_where_what_is_left_bends_and_jumps(
    drops: list[tuple[float, float]], exponent: float, start: float, *, jumps: bool
) -> None:
    """Against halving, from the definition: the least level at which at most 1 is left."""
    looks = 0

    def left(level: float) -> float:
        value = start * (1 - level) ** exponent
        return value + sum(more * (level < at if jumps else max(0.0, at - level)) for at, more in drops)

    def excess(ratios: Sequence[float]) -> float:
        nonlocal looks
        looks += 1
        return left(ratios[0])

    found = least_level([Share(1.0)], excess)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if left(middle) <= 1 else (middle, high)
    assert left(found) <= 1
    assert found == pytest.approx(0.0 if left(0.0) <= 1 else high, abs=1e-5)
    assert looks < 64


def test_few_looks_find_the_least_level_where_nothing_jumps() -> None:
    """Halving alone looks 24 times; each look of the watchdog asks for all that a batch would take."""

    def looks(factor: float, exponent: float) -> int:
        seen: list[float] = []

        def excess(ratios: Sequence[float]) -> float:
            seen.extend(ratios)
            return factor * (1 - ratios[0]) ** exponent

        least_level([Share(1.0)], excess)
        return len(seen)

    assert np.mean([looks(factor, exponent) for factor in np.linspace(1.05, 8, 50) for exponent in (0.3, 0.7, 1.0, 2.0)]) < 12


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0.5, 4)), min_size=2, max_size=4), st.floats(0.1, 0.9), st.integers(0, 999))
def test_no_other_ratios_that_save_as_much_cost_less(shares: list[tuple[float, float]], part: float, seed: int) -> None:
    """The optimisation rule: the least sum of weight * ratio²."""
    own = [Share(work, weight) for work, weight in shares]
    wanted = part * sum(one.work for one in own)
    best = water_filled(own, least_level(own, lambda r: 2 - sum(o.work * x for o, x in zip(own, r, strict=True)) / wanted))
    other = np.random.default_rng(seed).random(len(own))
    other *= wanted / max(1e-9, sum(o.work * x for o, x in zip(own, other, strict=True)))
    assume((other <= 1).all())
    loss = [sum(o.weight * x * x for o, x in zip(own, ratios, strict=True)) for ratios in (best, other)]
    assert loss[0] <= loss[1] * (1 + 1e-6)
