"""The SASE paper's workload families: every optimisation switched off leaves the matches as they are; plots and figures are written."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from ops.experiments import sase_families as sase

SAME = ("domain-size", "window-push-down", "types", "second-equivalence", "selectivity")
"""Families whose curves differ by how a query is evaluated, not by what it says."""


@pytest.mark.parametrize("name", SAME)
def test_switches_change_no_match(name: str) -> None:
    found: dict[float, set[int]] = defaultdict(set)
    for workload in sase.FAMILIES[name].workloads():
        if workload.domain <= 300:
            _, count, matches = sase.once(replace(workload, window=400, domain=min(workload.domain, 15), domain_2=3), 1500)
            assert count == 1500
            found[workload.x].add(matches)
    assert len(found) >= 3
    assert all(len(numbers) == 1 for numbers in found.values()), found
    assert max(max(numbers) for numbers in found.values()) > 0


def test_figures_and_plots_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sase_families", str(tmp_path), "--only", "length", "--events", "500", "--repeats", "1"])
    sase.main()
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [figure["x"] for figure in figures] == [2, 3, 4, 5, 6]
    assert all(figure["m_events_per_s"] > 0 for figure in figures)
    assert (tmp_path / "length.png").stat().st_size > 1000


def test_the_readme_names_every_family() -> None:
    text = (Path(sase.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in sase.FAMILIES)
