"""What is committed of the experiments holds together: verdicts follow from committed points, and what has no points is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from ops.experiments import cals, plain_figures, pspice_simulation, shedding_figures
from ops.experiments.gspice_verdicts import gspice_verdicts
from ops.experiments.pspice_verdicts import pspice_verdicts
from ops.experiments.sase import measure as sase_measure
from ops.experiments.sase import verdicts as sase_verdicts
from ops.experiments.sharp_verdicts import sharp_verdicts
from ops.experiments.shedding_figures import Points, read
from ops.experiments.wall_verdicts import wall_verdicts

EXPERIMENTS = Path(shedding_figures.__file__).parent
RESULTS = EXPERIMENTS / "results"
JUDGES: dict[str, Callable[[Points], Sequence[object]]] = {
    "gspice": gspice_verdicts,
    "pspice": pspice_verdicts,
    "sharp": sharp_verdicts,
    "wall": wall_verdicts("wall"),
}
PLAIN: dict[str, tuple[type[Any], Callable[[Any], Sequence[Any]]]] = {
    "cals": (cals.Figure, cals.verdicts_of),
    "pspice_simulation": (pspice_simulation.Figure, pspice_simulation.verdicts_of),
    "sase": (sase_measure.Figure, sase_verdicts.verdicts_of),
}
COMMITTED = [name for name in JUDGES if (RESULTS / f"{name}.json").exists()]


@pytest.mark.parametrize("name", COMMITTED)
def test_verdicts_follow_from_the_committed_points(name: str) -> None:
    judged = [str(one) for one in JUDGES[name](read(RESULTS, name))]
    written = [line for line in (RESULTS / f"{name}.md").read_text(encoding="utf-8").splitlines() if line.startswith("* **")]
    assert judged
    assert written == judged


@pytest.mark.parametrize("name", [name for name in PLAIN if (RESULTS / f"{name}.json").exists()])
def test_plain_verdicts_follow_from_the_committed_figures(name: str) -> None:
    kind, judge = PLAIN[name]
    figures, written = plain_figures.read(RESULTS / f"{name}.json", kind)
    assert written
    assert [asdict(one) for one in judge(figures)] == written


def test_plain_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    figures = [cals.Figure("memory", "cals", 0.3, (1 / 3, 0.5)), cals.Figure("memory", "rand", 0.3, ())]
    plain_figures.write(tmp_path / "f.json", figures, [cals.Verdict("claim", "reproduced", "1 of 2")])
    again, verdicts = plain_figures.read(tmp_path / "f.json", cals.Figure)
    assert again == [cals.Figure("memory", "cals", 0.3, (0.333333, 0.5)), figures[1]]
    assert verdicts == [{"claim": "claim", "verdict": "reproduced", "numbers": "1 of 2"}]


TABLES: dict[str, tuple[str, tuple[int, ...], Callable[[str], tuple[str, str]]]] = {
    "| v <= k of ten |": ("gspice", (3, 4, 5, 6, 7, 8), lambda row: ("E2-Q1", row)),
    "| lost at 120 %, pSPICE's Q1, by match probability |": (
        "pspice",
        (3500, 5000, 6000, 10_000),
        lambda row: ("Ea-Q1", row.removesuffix(", by identity")),
    ),
    "| lost | DS5 | DS6 | DS7 | DS8 |": (
        "gspice",
        (5, 6, 7, 8),
        lambda row: (
            "E6-k8-million" if row.endswith(", a million") else "E6-k8",
            row.removesuffix(", 30,000").removesuffix(", a million").replace("no pane", "gspice, no pane"),
        ),
    ),
}
"""By its header a table of the README: which experiment's, where on the lines, and figure and curve of a row."""


@pytest.mark.parametrize("header", TABLES)
def test_tables_of_the_readme_are_what_the_committed_points_say(header: str) -> None:
    name, xs, place = TABLES[header]
    lines = (EXPERIMENTS / "README.md").read_text(encoding="utf-8").splitlines()
    (at,) = [k for k, line in enumerate(lines) if line.startswith(header)]
    rows = list(takewhile(lambda line: line.startswith("|"), lines[at + 2 :]))
    points = read(RESULTS, name)
    assert len(rows) > 3
    for row in rows:
        first, *cells = [cell.strip().strip("*") for cell in row.strip("|").split("|")]
        assert cells == [points.told(*place(first), x) for x in xs], first


def test_results_without_points_are_named() -> None:
    """Their pages are of a run whose points were not kept, so nothing can be worked out again from them."""
    readme = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    (line,) = [one for one in readme.splitlines() if one.startswith("**Pages without points**")]
    every = {*JUDGES, *PLAIN}
    assert {name for name in every if f"`{name}`" in line} == {name for name in every if not (RESULTS / f"{name}.json").exists()}
