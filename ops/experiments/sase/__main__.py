"""The experiments of the SASE paper (Wu, Diao, Rizvi, SIGMOD 2006, section 5): its own plans among themselves, and the product's engine beside them.

    python -m ops.experiments.sase FOLDER [--only NAME] [--events N] [--repeats N] [--judge]

Writes a plot per family (PNG), all figures with verdicts (``sase.json``), and prints both. A figure is million events per second that the processor worked on it (a
shared machine's clock says less), one core, behind a first window that is not counted; repeats take turns. The paper's plans are in `plans`, each optimisation a
switch; the product's are switched by `EngineOptions`, and build matches as columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from ops.experiments.plain_figures import read, write
from ops.experiments.sase.measure import Figure, measure
from ops.experiments.sase.verdicts import verdicts_of
from ops.experiments.sase.workloads import FAMILIES

FILE = "sase.json"


def plot(name: str, figures: Sequence[Figure], folder: Path) -> None:
    """One line per curve, throughput over what is varied."""
    family = FAMILIES[name]
    canvas, axes = plt.subplots(figsize=(7, 4.5))
    for curve in dict.fromkeys(figure.curve for figure in figures):
        points = {figure.x: max(figure.m_events_per_s) for figure in figures if figure.curve == curve}
        best = max(points.values()) if family.normalized else 1.0
        axes.plot(list(points), [value / best for value in points.values()], marker="o", label=curve)
    if not family.linear:
        axes.set_xscale("log")
    if not family.linear or family.normalized:
        axes.set_yscale("log")
    axes.set_title(family.title, fontsize=10)
    axes.set_xlabel(family.varied)
    axes.set_ylabel("normalized throughput" if family.normalized else "M events/s")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    canvas.tight_layout()
    canvas.savefig(folder / f"{name}.png", dpi=110)
    plt.close(canvas)


def main() -> None:
    """Measures, prints, plots, judges."""
    parser = argparse.ArgumentParser(
        prog="python -m ops.experiments.sase", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="families whose name contains this; the others stay in sase.json as they are")
    parser.add_argument("--events", type=int, help="at most so many per run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--judge", action="store_true", help="do not measure: judge what is there again")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    file: Path = arguments.folder / FILE
    chosen = [] if arguments.judge else [name for name in FAMILIES if arguments.only in name]
    figures = [one for one in read(file, Figure)[0] if one.family not in chosen] if file.exists() else []
    for name in chosen:
        print(f"{name}: {FAMILIES[name].title}", flush=True)
        measured = measure(name, arguments.events, arguments.repeats)
        for one in measured:
            speeds = f"{max(one.m_events_per_s):9.3f} ({min(one.m_events_per_s):.3f}–)"
            print(f"  {one.curve:38} {one.x:>10g} {speeds} M/s {one.matches / one.events:10.4f} matches/event", flush=True)
        plot(name, measured, arguments.folder)
        figures += measured
        write(file, figures, verdicts_of(figures))
    verdicts = verdicts_of(figures)
    write(file, figures, verdicts)
    print(*verdicts, sep="\n")


if __name__ == "__main__":
    main()
