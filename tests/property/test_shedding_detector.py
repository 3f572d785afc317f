from __future__ import annotations

from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shedding.detector import Load, detected, drop_ratio_for, longest_queue, parts_of_window, smoothed
from shedding.detector_matches import SHAPES, Curve, fitted, matches_to_drop
from shedding.drift import mean_squared_difference

POSITIVE = st.floats(0.1, 1e5)
CURVES = st.builds(Curve, st.sampled_from(sorted(SHAPES)), st.floats(0, 0.1), st.floats(0, 0.01))


@given(POSITIVE, POSITIVE, st.floats(0, 1e5), st.floats(1, 1e5), st.floats(0.01, 10), st.floats(0.05, 0.95))
def test_drop_orders_are_those_of_the_definition(
    rate: float, throughput: float, queue: float, size: float, bound: float, safety: float
) -> None:
    orders = detected(Load(rate, throughput, queue, size), bound, safety)
    most = ceil(bound * throughput)
    assert orders.shedding == (queue >= safety * most)
    if orders.shedding:
        assert orders.drops_per_part == pytest.approx(max(0.0, rate - throughput) * (size / orders.parts) / rate)
        assert rate * (1 - orders.drop_ratio) == pytest.approx(min(rate, throughput))
    else:
        assert orders.drop_ratio == orders.drops_per_part == 0
    free = max((1 - safety) * most, 1)
    assert size / orders.parts <= free * (1 + 1e-6)
    assert orders.parts == 1 or size / (orders.parts - 1) > free * (1 - 1e-6)


def test_worked_figures() -> None:
    assert longest_queue(1.0, 1000) == 1000
    orders = detected(Load(rate=2000, throughput=1000, queue=800, window_size=500), 1.0)
    assert (orders.shedding, orders.drop_ratio, orders.parts) == (True, 0.5, 3)
    assert not detected(Load(2000, 1000, 799, 500), 1.0).shedding
    assert drop_ratio_for(0, 10) == 0
    assert parts_of_window(200, 1000) == 1
    assert smoothed(smoothed(None, 10), 20, 0.25) == 12.5


def test_queue_settles_below_the_bound_in_virtual_time() -> None:
    """Twice what can be processed: with the detector the queue stays at about the safety's share of the longest, never beyond it."""
    rate, throughput, bound, step = 2000.0, 1000.0, 1.0, 0.01
    queue, longest = 0.0, []
    for _ in range(5000):
        orders = detected(Load(rate, throughput, queue, 100), bound)
        queue = max(0.0, queue + rate * step * (1 - orders.drop_ratio) - throughput * step)
        longest.append(queue)
    assert max(longest) <= longest_queue(bound, throughput)
    assert min(longest[1000:]) >= 0.75 * longest_queue(bound, throughput)


@given(CURVES, st.integers(0, 10**6), st.floats(0, 0.5), CURVES, st.floats(0, 0.05))
def test_as_many_partial_matches_go_as_must_and_no_more(
    processing: Curve, count: int, queued: float, shedding: Curve, buffer: float
) -> None:
    bound = 1.0
    dropped = matches_to_drop(count, queued, processing, shedding, bound, buffer_s=buffer)
    left = bound - queued - shedding.latency_s(count) - buffer
    assert 0 <= dropped <= count
    late = processing.latency_s(count) > left
    if not late:
        assert dropped <= 1, "at most what rounding makes of the bound itself"
    if dropped:
        assert processing.latency_s(count - dropped) <= left * (1 + 1e-9) + 1e-12 or dropped == count or processing.slope == 0
        assert processing.latency_s(count - dropped + 1) > left * (1 - 1e-9) - 1e-12


@settings(max_examples=30)
@given(st.sampled_from(sorted(SHAPES)), st.floats(0, 0.1), st.floats(1e-6, 1e-2))
def test_curve_finds_the_shape_that_made_the_samples(shape: str, offset: float, slope: float) -> None:
    counts = np.linspace(5, 5000, 40)
    curve = fitted(counts, offset + slope * SHAPES[shape](counts))
    assert curve.shape == shape
    assert curve.slope == pytest.approx(slope, rel=1e-6)
    assert curve.count(curve.latency_s(300.0)) == pytest.approx(300, rel=1e-6)


def test_curves_never_fall() -> None:
    assert fitted(np.array([1.0, 2.0, 3.0]), np.array([5.0, 4.0, 3.0])).slope == 0
    assert fitted(np.array([7.0]), np.array([5.0])).latency_s(100) == 5
    assert Curve("linear", 1.0, 0.0).count(2.0) == inf
    assert Curve("linear", 1.0, 0.0).count(0.5) == 0
    falling_offset = fitted(np.array([10.0, 20.0]), np.array([1.0, 30.0]))
    assert falling_offset.latency_s(0) >= 0
    with pytest.raises(ValueError, match="samples"):
        fitted(np.empty(0), np.empty(0))


def test_drift_is_the_mean_squared_difference() -> None:
    then, now = np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([[0.7, 0.3], [0.0, 1.0]])
    assert mean_squared_difference(then, now) == pytest.approx(0.02)
    assert mean_squared_difference(np.empty(0), np.empty(0)) == 0
