"""Latency, ratio, recall and precision over the rates, a picture per workload; and ratios over time, one per run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

PANELS = (("p99_ms", "p99 of the detection latency, ms"), ("drop_ratio", "drop ratio"), ("recall", "recall"), ("precision", "precision"))


def draw(figures: Mapping[str, Any], folder: Path) -> None:
    """Writes ``<workload>.svg`` into the folder: a panel per figure, a line per shedder (of several queries the first with a bound); and ``<workload>-<shedder>.svg``.

    Args:
        figures: as `overload.json` has them.
        folder: made where it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for workload in dict.fromkeys(row["workload"] for row in figures["runs"]):
        over_rates(figures, workload).savefig(folder / f"{workload}.svg")
    for run, ratios in figures["ratios"].items():
        _over_time(run, ratios).savefig(folder / f"{run.replace('/', '-')}.svg")


def over_rates(figures: Mapping[str, Any], workload: str) -> Figure:
    """A panel per figure, a line per shedder, of the workload's first query with a bound."""
    rows = [row for row in figures["runs"] if row["workload"] == workload and row["rate"] != "all"]
    query = next(row["query"] for row in rows if row["bound_ms"] is not None)
    rows = [row for row in rows if row["query"] == query]
    figure = Figure(figsize=(14, 3.6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for shedder in dict.fromkeys(row["shedder"] for row in rows):
            line = [row for row in rows if row["shedder"] == shedder]
            axes.plot([row["rate"] for row in line], [row[name] for row in line], marker="o", label=shedder)
        if name == "p99_ms":
            axes.axhline(rows[0]["bound_ms"], linestyle="--", color="grey")
        axes.set(title=title, xlabel="input, of the capacity")
        axes.set_ylim(bottom=0)
    figure.axes[0].legend()
    figure.suptitle(f"{workload}: {query}")
    return figure


def _over_time(run: str, ratios: Mapping[str, list[tuple[float, float]]]) -> Figure:
    figure = Figure(figsize=(14, 3.6), layout="constrained")
    axes = figure.subplots()
    for query, line in ratios.items():
        axes.step([at for at, _ in line], [ratio for _, ratio in line], where="post", label=query)
    axes.set(title=f"{run}: drop ratio of every batch", xlabel="s since the input began", ylim=(0, 1))
    axes.legend()
    return figure
