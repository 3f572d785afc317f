"""The paper's figures, drawn from ours: mean over seeds, bars are one standard deviation."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from ops.experiments.asc.figures import Figures, deviation, mean

COLOURS = {
    "SEQ worst": "#b2182b",
    "random order": "#bbbbbb",
    "Ticket Routing": "#e08214",
    "Macro": "#4393c3",
    "Hybrid": "#053061",
    "Hybrid (ours)": "#762a83",
    "SEQ best": "#1b7837",
    "naive, row loop": "#888888",
    "naive, numpy": "#555555",
}
BARS = tuple(COLOURS)[:7]


def draw_all(figures: Figures, folder: Path) -> None:
    """PNG and SVG of every figure that was measured."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "asc"  # the same figures give the same file
    for name, (number, draw) in _DRAWN.items():
        if figures.workloads(number):
            canvas = draw(figures)
            for ending in ("png", "svg"):
                canvas.savefig(folder / f"{name}.{ending}", dpi=110, metadata={"Date": None} if ending == "svg" else None)
            plt.close(canvas)


def _sequences(figures: Figures) -> plt.Figure:
    canvas, axes = plt.subplots(figsize=(10, 4.5))
    _grouped(axes, figures, 6, "cost", BARS)
    axes.set_ylabel("constructs evaluated per tuple")
    axes.set_title("Cost of evaluation sequences (paper: figure 6), mu = 0", fontsize=10)
    axes.legend(fontsize=8, ncols=3)
    return _tidy(canvas, axes)


def _times(figures: Figures) -> plt.Figure:
    canvas, axes = plt.subplots(figsize=(10, 4.5))
    _grouped(axes, figures, 6, "ns per event", tuple(COLOURS))
    axes.set_ylabel("ns per event, CPU")
    axes.set_title("Time of evaluation along the last sequence of each scheme, searches left out", fontsize=10)
    axes.legend(fontsize=8, ncols=3)
    return _tidy(canvas, axes)


def _grouped(axes: Axes, figures: Figures, number: int, measure: str, schemes: tuple[str, ...]) -> None:
    workloads = figures.workloads(number)
    present = [scheme for scheme in schemes if figures.places(number, workloads[0], scheme, measure)]
    for place, scheme in enumerate(present):
        values = [figures.of(number, on, scheme, measure) for on in workloads]
        at = np.arange(len(workloads)) + (place - (len(present) - 1) / 2) * 0.8 / len(present)
        bars = [deviation(value) for value in values]
        axes.bar(
            at, [mean(value) for value in values], 0.8 / len(present), yerr=bars, label=scheme, color=COLOURS[scheme], error_kw={"lw": 0.8}
        )
    axes.set_xticks(range(len(workloads)), [on.replace(" on ", "\non ").replace(", ", "\n") for on in workloads], fontsize=8)


def _attributes(figures: Figures) -> plt.Figure:
    canvas, axes = plt.subplots(figsize=(7, 4.5))
    on = figures.workloads(7)[0]
    for scheme in (one for one in BARS if figures.places(7, on, one)):
        places, means, bars = figures.curve(7, on, scheme)
        axes.errorbar(places, means, bars, marker="o", capsize=2, label=scheme, color=COLOURS[scheme])
    axes.set_xlabel("p-attributes (query sets Q3 on D2)")
    axes.set_ylabel("constructs evaluated per tuple")
    axes.set_title("Cost by number of p-attributes (paper: figure 7), mu = 0", fontsize=10)
    axes.legend(fontsize=8)
    return _tidy(canvas, axes)


def _micro_arrows(figures: Figures) -> plt.Figure:
    canvas, axes = plt.subplots(figsize=(7, 4.5))
    for on, line in zip(figures.workloads(8), ("-", "--"), strict=True):
        for measure, label, colour in (("micro ratio", "micro ratio ξ", "#e08214"), ("relative cost", "relative cost ω", "#053061")):
            places, means, bars = figures.curve(8, on, "Hybrid", measure)
            axes.errorbar(places, means, bars, marker="o", ls=line, capsize=2, label=f"{label}, {on}", color=colour)
    axes.axhline(1, color="#bbbbbb", lw=0.8)
    axes.set_ylim(0.4, 1.05)
    axes.set_xlabel("standard deviation of ones")
    axes.set_title("Effect of micro-arrows (paper: figure 8)", fontsize=10)
    axes.legend(fontsize=8)
    return _tidy(canvas, axes)


def _adaptation(figures: Figures) -> plt.Figure:
    canvas, (axes, below) = plt.subplots(2, 1, figsize=(8, 7), height_ratios=(2, 1))
    on = figures.workloads(9)[0]
    schemes = list(dict.fromkeys(key.scheme for key in figures.values if key.figure == 9 and key.measure == "trace"))
    for scheme in schemes:
        places, means, _ = figures.curve(9, on, scheme, "trace")
        axes.plot(
            places, means, label=scheme, lw=1.2, color="#1b7837" if scheme == "SEQ best" else None, ls="--" if scheme == "SEQ best" else "-"
        )
    axes.set_xlabel("tuples")
    axes.set_ylabel("constructs evaluated per tuple")
    axes.set_title("Adaptive rearrangement (paper: figure 9), D1 and D2 in turn", fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(visible=True, alpha=0.3)
    names = [scheme for scheme in schemes if scheme != "SEQ best"]
    counts = [figures.of(9, on, scheme, "rearrangements") for scheme in names]
    below.bar(range(len(names)), [mean(c) for c in counts], 0.5, yerr=[deviation(c) for c in counts], color="#4393c3")
    below.set_xticks(range(len(names)), names, fontsize=9)
    below.set_ylabel("rearrangements")
    return _tidy(canvas, below)


def _tidy(canvas: plt.Figure, axes: Axes) -> plt.Figure:
    axes.grid(visible=True, axis="y", alpha=0.3)
    canvas.tight_layout()
    return canvas


_DRAWN = {
    "sequences": (6, _sequences),
    "times": (6, _times),
    "attributes": (7, _attributes),
    "micro-arrows": (8, _micro_arrows),
    "adaptation": (9, _adaptation),
}
