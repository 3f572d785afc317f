"""The CALS experiment: every method sees the same windows, all files are written, and the paper's main claim shows on one seed already."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from ops.experiments import cals
from ops.experiments.cals_streams import DOMAIN, coalescing_probability, synthetic


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.95])
def test_synthetic_stream_has_the_probability_and_lengths_it_says(probability: float) -> None:
    stream = synthetic(20_000, probability, 3)
    assert abs(coalescing_probability(stream) - probability) < 4 * 0.5 / 20_000**0.5
    assert (stream.start[1:] == stream.end[:-1]).all()
    lengths = stream.end - stream.start
    assert set(lengths.tolist()) == set(range(1, 11))
    assert 0 <= stream.value.min() <= stream.value.max() < DOMAIN


@pytest.mark.parametrize("name", cals.METHODS)
def test_memory_holds_just_its_size_at_the_end_of_every_window(name: str) -> None:
    held = list(cals.kept_of(name, synthetic(2_500, 0.7, 1), 200, 5))
    assert len(held) == 2
    assert all(len(set(one.tolist())) == 200 and 0 <= one.min() <= one.max() < cals.WINDOW for one in held)


@pytest.mark.parametrize("name", cals.METHODS)
def test_where_windows_slide_memory_holds_tuples_of_the_window_and_no_more_than_its_size(name: str) -> None:
    stream = synthetic(2_500, 0.7, 1)
    held = list(cals.sliding_kept(name, stream, 200, 5))
    assert [stop for stop, _ in held] == [stop for stop in range(cals.SLIDE, 2_501, cals.SLIDE) if stop >= cals.WINDOW]
    assert all(stop - cals.WINDOW <= one.min() <= one.max() < stop and len(set(one.tolist())) == len(one) <= 200 for stop, one in held)
    assert np.mean([len(one) for _, one in held]) > 190, "what leaves the window makes room for what comes"


def test_drawing_anew_forgets_the_oldest_first() -> None:
    held = np.concatenate([cals.drawn_anew(100, np.random.default_rng(seed)) for seed in range(20)])
    assert (held >= 900).mean() > 0.5 > (held < 500).mean()


@pytest.mark.slow
def test_figures_verdicts_and_plots_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cals", str(tmp_path), "--seeds", "1", "--recordings", str(tmp_path)])
    cals.main()
    found = json.loads((tmp_path / "cals.json").read_text(encoding="utf-8"))
    mean = {(one["plot"], one["method"], one["x"]): np.mean(one["accuracies"]) for one in found["figures"]}
    assert all(mean["memory", "cals", ratio] > 1.2 * mean["memory", cals.RANDOM, ratio] for ratio in cals.RATIOS)
    assert mean["coalescing", "cals", 0.95] > 6 * mean["coalescing", cals.RANDOM, 0.95]
    assert {one["verdict"] for one in found["verdicts"]} <= {"reproduced", "partly", "shape reproduced", "not reproduced", "shown"}
    assert all(mean["sliding", "cals", ratio] > mean["sliding", cals.RANDOM, ratio] for ratio in cals.RATIOS)
    for plot in ("memory", "coalescing", "threshold", "advantage", "sliding", "sliding-coalescing"):
        assert (tmp_path / f"{plot}.png").stat().st_size > 1000
        assert (tmp_path / f"{plot}.svg").stat().st_size > 1000
