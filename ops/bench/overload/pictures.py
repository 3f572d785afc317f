"""Latency, ratio, recall and precision over the rates, a picture per workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ops.bench.overload.judged import Row

PANELS = (("p99_ms", "p99 of the detection latency, ms"), ("drop_ratio", "drop ratio"), ("recall", "recall"), ("precision", "precision"))


def draw(rows: Sequence[Row], folder: Path) -> None:
    """Writes ``<workload>.svg`` into the folder: a panel per figure, a line per shedder; of several queries the first with a bound."""
    folder.mkdir(parents=True, exist_ok=True)
    for workload in sorted({row.workload for row in rows}):
        own = [row for row in rows if row.workload == workload and row.rate != "all"]
        query = next(row.query for row in own if row.bound_ms is not None)
        figure = Figure(figsize=(14, 3.6), layout="constrained")
        for axes, (name, title) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
            for shedder in dict.fromkeys(row.shedder for row in own):
                line = [row for row in own if row.shedder == shedder and row.query == query]
                axes.plot([row.rate for row in line], [getattr(row, name) for row in line], marker="o", label=shedder)
            if name == "p99_ms":
                axes.axhline(next(row.bound_ms or 0 for row in own if row.query == query), linestyle="--", color="grey")
            axes.set(title=title, xlabel="input, of the capacity", ylim=(0, None))
        figure.axes[0].legend()
        figure.suptitle(f"{workload}: {query}")
        figure.savefig(folder / f"{workload}.svg")
