"""What the benchmark says of its machine's speed."""

from __future__ import annotations

import time

import numpy as np

from ops.bench.overload.speed import EVERY_S, SpeedProbe, deviation


def test_the_probe_notes_all_the_time_until_it_is_ended() -> None:
    began_ms = time.time() * 1000
    with SpeedProbe() as probe:
        time.sleep(2)
    at_ms, speed = probe.speeds.T
    assert began_ms < at_ms[0] and at_ms[-1] < time.time() * 1000
    assert np.diff(at_ms).min() >= 900 * EVERY_S
    assert (speed > 0).all()


def test_what_changes_within_a_batch_is_no_deviation_from_batch_to_batch() -> None:
    at_ms = np.arange(0.0, 4000.0, 100.0)
    begins_ms = np.arange(0.0, 4001.0, 400.0)
    flickering, switching = 1 + (at_ms // 100) % 2, 1 + (at_ms // 2000) % 2
    assert deviation(np.stack([at_ms, flickering], axis=1), begins_ms) == 0
    assert deviation(np.stack([at_ms, switching], axis=1), begins_ms) == 0.5 / 1.5


def test_batches_without_a_piece_are_left_out() -> None:
    speeds = np.array([[50.0, 1.0], [350.0, 3.0]])
    assert deviation(speeds, np.array([0.0, 100.0, 200.0, 300.0, 400.0])) == 0.5
    assert deviation(speeds, np.array([0.0, 100.0])) is None
