"""What is committed of the experiments holds together: verdicts follow from committed points, and what has no points is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ops.experiments import shedding_figures
from ops.experiments.sharp_verdicts import sharp_verdicts
from ops.experiments.shedding_figures import Points, read
from ops.experiments.shedding_verdicts import gspice_verdicts, pspice_verdicts
from ops.experiments.wall_verdicts import wall_verdicts

EXPERIMENTS = Path(shedding_figures.__file__).parent
RESULTS = EXPERIMENTS / "results"
JUDGES: dict[str, Callable[[Points], Sequence[object]]] = {
    "gspice": gspice_verdicts,
    "pspice": pspice_verdicts,
    "sharp": sharp_verdicts,
    "wall": wall_verdicts("wall"),
}
COMMITTED = [name for name in JUDGES if (RESULTS / f"{name}.json").exists()]


@pytest.mark.parametrize("name", COMMITTED)
def test_verdicts_follow_from_the_committed_points(name: str) -> None:
    judged = [str(one) for one in JUDGES[name](read(RESULTS, name))]
    written = [line for line in (RESULTS / f"{name}.md").read_text(encoding="utf-8").splitlines() if line.startswith("* **")]
    assert judged
    assert written == judged


def test_results_without_points_are_named() -> None:
    """Their pages are of a run whose points were not kept, so nothing can be worked out again from them."""
    readme = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    (line,) = [one for one in readme.splitlines() if one.startswith("**Pages without points**")]
    assert {name for name in JUDGES if f"`{name}`" in line} == set(JUDGES) - set(COMMITTED)
