"""SHARP's experiment: verdicts follow from the points and can fail; a small run gives points of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.experiments import sharp, shedding_own
from ops.experiments.sharp_verdicts import COMPARED, EVERY, PAIRS, WORK, sharp_verdicts
from ops.experiments.shedding_command import Size
from ops.experiments.shedding_figures import Point, Points, kept

LOST = {"stateful": 3.0, "prefix": 40.0, "pm-random": 94.0, "random": 99.0, "oracle": 0.0}


def made(**other: float) -> Points:
    lost = {**LOST, **other}
    points = []
    for seed in range(3):
        points += [Point(pair, curve, bound, seed, value) for pair in PAIRS for curve, value in lost.items() for bound in sharp.BOUNDS]
        points += [Point(pair + WORK, "stateful", bound, seed, bound) for pair in PAIRS for bound in sharp.BOUNDS]
        points += [Point("Q3+Q4" + EVERY, "stateful", bound, seed, 50.0) for bound in COMPARED]
    return Points(points)


def statuses(points: Points) -> dict[str, str]:
    return {one.claim: one.status for one in sharp_verdicts(points)}


def test_verdicts_follow_from_the_points() -> None:
    assert set(statuses(made()).values()) == {"reproduced"}
    worse = statuses(made(stateful=28.0, prefix=40.0))
    assert worse["SHARP 1"] == "not reproduced"
    assert worse["SHARP 2"] == "reproduced"
    assert worse["SHARP 3, Q5+Q6"] == "reproduced", "72 % are reported there"
    assert worse["SHARP 3, Q3+Q4"] == "not reproduced"
    assert statuses(made(random=1.0))["SHARP 5, Q1+Q2"] == "not reproduced"
    assert sharp_verdicts(Points([])) == []
    few = statuses(Points(one for one in made().all if one.seed == 0))
    assert set(few.values()) == {"not judged: 1 of 3 seeds"}


def test_a_small_run_gives_points_of_every_kind() -> None:
    size = Size(1, 1500, 600)
    points = Points([*sharp.of_matches("Q5+Q6", size, 0), *sharp.of_events("Q5+Q6", size, 0)])
    assert set(points.curves("Q5+Q6")) == {*sharp.MATCHES, *sharp.EVENTS, "oracle"}
    assert points.xs("Q5+Q6", "stateful") == sorted(sharp.BOUNDS)
    assert points.mean("Q5+Q6", "oracle", 50) < points.mean("Q5+Q6", "pm-random", 50)
    assert points.mean("Q5+Q6" + WORK, "random", 10) < 30


def test_the_table_of_own_methods_says_where_they_lose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = {("prefix", 1): 10.0, ("prefix", 2): 50.0, ("bl", 1): 20.0, ("bl", 2): 30.0, ("oracle", 1): 0.0}
    kept([Point("F", curve, x, seed, value) for (curve, x), value in lost.items() for seed in range(4)], tmp_path, "gspice")
    shedding_own.main([str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| F | prefix | 4 | 1 of 2 | 30.0 | 25.0 | 50.0 ± 0.0 against bl 30.0 ± 0.0 at 2, difference [20.0, 20.0] |"
    ]
