"""What a batch finds in a state while it fills it, against a state to which events come one by one."""

from __future__ import annotations

import numpy as np
import pytest

from app.control.law.load import CROWDED, FEW, Filling, State

WINDOW_MS = 20_000.0
RATE = 0.1
"""Per ms, before the batch."""


def one(
    held: float, span_ms: float, *, full: float, born: float = 1.0, dense: float = RATE, window_ms: float = WINDOW_MS, retained: float = 1.0
) -> State:
    crowding = Filling(np.array([full]), np.array([dense]), np.array([born]), np.array([window_ms])).crowding(span_ms)
    return State(np.array([retained]), np.array([held]), crowding)


def crowd(state: State, kept: int) -> float:
    assert state.crowding is not None
    return float((state.held * state.crowding.stays + kept * state.crowding.adds)[0])


def simulated(held: int, before_per_ms: float, kept: int, span_ms: float, life_ms: float) -> float:
    """How many are there on average when an event comes: those before came evenly until the batch begins, its own come evenly after that."""
    earlier = -np.arange(held) / before_per_ms
    own = (np.arange(kept) + 0.5) * span_ms / kept
    looks = own[:: 1 + kept // 500]
    return float(np.mean([np.sum(earlier > time - life_ms) + np.sum((own < time) & (own > time - life_ms)) for time in looks]))


@pytest.mark.parametrize("span_ms", [500.0, 4_000.0, 20_000.0, 50_000.0, 160_000.0])
@pytest.mark.parametrize("life_ms", [12_000.0, WINDOW_MS])
@pytest.mark.parametrize("times", [1, 2, 20])
def test_what_a_batch_meets_is_what_was_there_and_what_it_brings_as_long_as_each_stays(span_ms: float, life_ms: float, times: int) -> None:
    """0.1 events per ms came; those of the batch are so many times as dense. Partial matches end with a window of 20 s, or before."""
    held, kept = round(RATE * life_ms), round(times * RATE * span_ms)
    state = one(held, span_ms, full=held)
    found = simulated(held, RATE, kept, span_ms, life_ms)
    assert crowd(state, kept) == pytest.approx(found / held, rel=0.03)
    if times == 1:
        assert found == pytest.approx(held, rel=0.03), "where nothing changes"
        assert state.met(np.array([1.0]), np.array([float(kept)]))[0] == 1.0


def test_a_state_that_was_still_filling_when_it_was_measured_goes_on_to_fill() -> None:
    """After 4 of 20 s it held 400."""
    state = one(400, 10_000.0, full=FEW, dense=RATE * FEW / 400)
    found = simulated(400, RATE, 20_000, 10_000.0, WINDOW_MS) / FEW
    assert 0.5 * found < crowd(state, 20_000) < found, "as long as things seemed to stay: 4 s"


def test_only_a_batch_that_fills_a_state_beyond_what_it_ever_held_is_reckoned_with_more() -> None:
    every, candidates = np.array([1.0]), np.array([80_000.0])
    full = RATE * WINDOW_MS
    assert one(full, 4_000.0, full=full).met(every, candidates)[0] > CROWDED
    assert one(full, 4_000.0, full=full).met(np.array([0.01]), candidates)[0] < 1, "of which little is kept"
    for nothing in ({"full": 0.0}, {"full": full, "dense": 0.0}, {"full": full, "born": 0.0}, {"full": full, "window_ms": float("nan")}):
        assert one(full, 4_000.0, **nothing).met(every, candidates)[0] == 1, "not all is known"
    assert State(np.array([1.0]), np.array([full])).met(every, candidates)[0] == 1, "nobody asked"


def test_what_is_reckoned_with_begins_where_nothing_more_is() -> None:
    full = RATE * WINDOW_MS
    state = one(full, 4_000.0, full=full)
    found = [float(state.met(np.array([1.0]), np.array([float(kept)]))[0]) for kept in range(1_000, 20_000, 10)]
    assert found[0] == 1 < found[-1]
    assert max(np.diff(found)) < 0.01
