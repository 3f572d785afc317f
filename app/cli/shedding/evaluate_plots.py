"""Plots of `cep evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib import pyplot as plt

from app.cli.shedding.evaluate_report import Judged
from app.cli.whole_files import whole_file
from app.evaluation.contest import Standing

_PLOTS: tuple[tuple[str, Callable[[Standing], float]], ...] = (
    ("recall, %", lambda one: 100 * one.quality.recall),
    ("false positives, % of the true ones", lambda one: 100 * one.quality.false_positives),
    ("greatest latency, ms", lambda one: 1000 * float(one.latency_s.max())),
    ("dropped, % of what could be", lambda one: 100 * one.dropped),
)


def draw(judged: Judged, file: Path) -> None:
    """Four plots over the input rate, one line per shedder."""
    plt.switch_backend("Agg")
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.5), constrained_layout=True)
    names = list(dict.fromkeys(one.shedder for one in judged.standings))
    for axis, (title, value) in zip(axes.flat, _PLOTS, strict=True):
        for name, marker in zip(names, "osD^v<>pXP*h" * 2, strict=False):
            own = [one for one in judged.standings if one.shedder == name]
            axis.plot([100 * one.rate for one in own], [value(one) for one in own], marker=marker, markersize=4, label=name)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("input rate, % of the capacity", fontsize=9)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[1, 0].axhline(1000 * judged.terms.bound_s, color="black", linestyle=":", linewidth=1, label="bound")
    figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="outside right center", fontsize=9)
    figure.suptitle(f"{judged.query}: {judged.judged:,} events, {judged.true:,} composite events")
    with whole_file(file) as path:
        figure.savefig(path, format=file.suffix.removeprefix("."), dpi=120)
    plt.close(figure)
