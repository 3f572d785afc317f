"""Work that is measured: a shedder that keeps what is dear must drop more until its bound holds, and as much work is saved as by any other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from app.evaluation import work
from app.evaluation.virtual_time import Load, overload
from app.evaluation.work import Kept, WorkCurve, measured

EVENTS = 4000
COST = np.where(np.arange(EVENTS) % 4 == 0, 7.0, 1.0)
"""Of each event; a quarter of them makes seven tenths of the work."""


def match(kept: Kept | None) -> float:
    """Seconds of a processor that does nothing else."""
    return 1e-9 * float(COST.sum() if kept is None else COST[kept].sum())


def cheap_first(ratio: float) -> Kept:
    kept = np.ones(EVENTS, dtype=bool)
    kept[np.argsort(COST, kind="stable")[: round(ratio * EVENTS)]] = False
    return kept


def dear_first(ratio: float) -> Kept:
    kept = np.ones(EVENTS, dtype=bool)
    kept[np.argsort(-COST, kind="stable")[: round(ratio * EVENTS)]] = False
    return kept


def test_the_curve_is_what_matching_what_is_left_takes() -> None:
    curve = measured(EVENTS, cheap_first, match)
    assert curve.event_ns == pytest.approx(COST.mean())
    for ratio in work.RATIOS:
        left = cheap_first(ratio)
        assert curve.dearness(ratio) == pytest.approx(COST[left].mean() / COST.mean())
    assert curve.least_ratio(0.8) == pytest.approx(0.5)
    assert measured(EVENTS, dear_first, match).least_ratio(0.8) == pytest.approx(0.2 / 0.7 * 0.25, abs=0.001)


@pytest.mark.parametrize(("first", "least", "most"), [(cheap_first, 0.45, 0.55), (dear_first, 0.05, 0.1)])
def test_under_overload_as_much_work_goes_whoever_sheds(first: Callable[[float], Kept], least: float, most: float) -> None:
    curve, rate = measured(EVENTS, first, match), 1 / 0.8
    masks = {}

    def keep(ratio: float, start: int, stop: int) -> np.ndarray:
        kept = masks.setdefault(ratio, first(ratio))
        return kept[np.arange(start, stop) % EVENTS].astype(float)

    found = overload(60_000, Load(1000 * rate, 1 / 1000, dearness=curve.dearness), keep)
    settled = found.ratio[len(found.ratio) // 2 :]
    assert least < settled.mean() < most
    kept = found.kept.reshape(len(found.ratio), -1).mean(axis=1)
    worked = kept * [curve.dearness(ratio) for ratio in found.ratio.tolist()]
    assert worked[len(worked) // 2 :].mean() == pytest.approx(0.8, abs=0.02)
    assert found.latency_s.max() <= 1.0


def test_a_processor_that_becomes_slower_changes_nothing() -> None:
    """A neighbour is busy for a while: whatever is matched takes 1.7 times as long."""
    calls = count()

    def slower(kept: Kept | None) -> float:
        return match(kept) * (1.7 if 20 < next(calls) < 60 else 1.0)

    curve, undisturbed = measured(EVENTS, cheap_first, slower), measured(EVENTS, cheap_first, match)
    assert next(calls) > 60
    assert curve.work.tolist() == pytest.approx(undisturbed.work.tolist())


def test_where_nothing_less_is_worked_there_is_no_ratio_that_is_enough() -> None:
    flat = WorkCurve(1.0, np.array([0.0, 0.95]), np.array([1.0, 0.9]), np.array([1.0, 0.05]))
    assert flat.least_ratio(0.5) == 1.0
