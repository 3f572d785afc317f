"""This project's own shedders against all others, figure by figure, from the points that earlier runs wrote.

python -m ops.experiments.shedding_own FOLDER [FOLDER ...]     # folders with gspice.json, pspice.json, sharp.json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ops.experiments.shedding_figures import Points, read

OWN = ("prefix", "stateful")
_NO_SHEDDER = ("oracle", "match probability")
_NO_QUALITY = ("-work", "Ee", "Ef", "E1-charged")
"""Figures that show something else than what is lost, or are read off the processor's clock."""
PAPERS = ("gspice", "pspice", "sharp")


def rows(points: Points) -> Iterator[str]:
    """A row of the table for each figure in which one of the own methods takes part."""
    for figure in sorted({one.figure for one in points.all}):
        curves = points.curves(figure)
        own, others = [c for c in curves if c in OWN], [c for c in curves if c not in (*OWN, *_NO_SHEDDER)]
        if not own or not others or any(part in figure for part in _NO_QUALITY):
            continue
        for curve in own:
            gaps = []
            for x in points.xs(figure, curve):
                known = [(points.mean(figure, other, x), other) for other in others if x in points.xs(figure, other)]
                if known:
                    gaps.append((points.mean(figure, curve, x) - min(known)[0], x, points.mean(figure, curve, x), *min(known)))
            if gaps:
                worst = max(gaps)
                ahead = sum(gap[0] <= 0 for gap in gaps)
                mean = float(np.mean([gap[2] for gap in gaps])), float(np.mean([gap[3] for gap in gaps]))
                yield (
                    f"| {figure} | {curve} | {ahead} of {len(gaps)} | {mean[0]:.1f} | {mean[1]:.1f} | "
                    f"{worst[2]:.1f} against {worst[4]} {worst[3]:.1f} at {worst[1]:g} |"
                )


def main(given: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    print("| figure | ours | best or equal | lost, mean | best other, mean | where it does worst |\n|---|---|---|---|---|---|")
    for folder in parser.parse_args(given).folders:
        for paper in PAPERS:
            if (folder / f"{paper}.json").exists():
                print("\n".join(rows(read(folder, paper))))


if __name__ == "__main__":
    main()
