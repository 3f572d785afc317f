"""This project's own shedders against all others, figure by figure, from the points that earlier runs wrote.

python -m ops.experiments.shedding_own FOLDER [FOLDER ...]     # folders with gspice.json, pspice.json, sharp.json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from app.query.text.keys import AUTO
from ops.experiments.shedding_figures import LEAST_SEEDS, Point, Points, difference, mean_told, read
from ops.experiments.shedding_verdicts import BY_PAIR, BY_WINDOW, NO_SHEDDER

OWN = (AUTO, "prefix", "stateful")
_NO_SHEDDER = ("laws", *NO_SHEDDER)
_NO_QUALITY = ("-work", "Ee", "Ef", "E1-charged")
"""Figures that show something else than what is lost, or are read off the processor's clock."""
PAPERS = ("gspice", "pspice", "sharp")


def rows(points: Points) -> Iterator[str]:
    """A row of the table for each figure in which one of the own methods takes part, of settings that both ran with enough seeds."""
    enough = points.enough()
    known = Points([*enough.all, *_by_window(enough)])
    for figure in sorted({one.figure for one in known.all}):
        curves = known.curves(figure)
        own, others = [c for c in curves if c in OWN], [c for c in curves if c not in (*OWN, *_NO_SHEDDER, *BY_PAIR)]
        if not any(part in figure for part in _NO_QUALITY):
            yield from filter(None, (_row(known, figure, curve, others) for curve in own))


def _by_window(points: Points) -> Iterator[Point]:
    """Figures in which E-BL is also counted by windows (`ops.experiments.pspice`), with all shedders counted so."""
    figures = {one.figure for one in points.all if one.curve == BY_WINDOW}
    for one in points.all:
        if one.figure in figures and one.curve not in _NO_SHEDDER:
            yield replace(one, figure=f"{one.figure}, by window", lost=one.lost - one.wrong)


def _row(points: Points, figure: str, curve: str, others: Sequence[str]) -> str:
    gaps, seeds = [], set[int]()
    for x in points.xs(figure, curve):
        pairs = [(other, points.pair(figure, curve, other, x)) for other in others if x in points.xs(figure, other)]
        sure = [(float(theirs.mean()), other, own) for other, (own, theirs) in pairs if len(own) >= LEAST_SEEDS]
        if sure:
            least, other, own = min(sure, key=lambda one: one[:2])
            gaps.append((float(own.mean()) - least, x, other, float(own.mean()), least))
            seeds.add(len(own))
    if not gaps:
        return ""
    _, x, other, *_ = max(gaps)
    low, high = difference(points, figure, curve, other, x)[1:]
    own, theirs = points.pair(figure, curve, other, x)
    ahead = sum(gap[0] <= 0 for gap in gaps)
    return (
        f"| {figure} | {curve} | {'-'.join(map(str, sorted({min(seeds), max(seeds)})))} | {ahead} of {len(gaps)} | {np.mean([gap[3] for gap in gaps]):.1f} | {np.mean([gap[4] for gap in gaps]):.1f} | "
        f"{mean_told(own)} against {other} {mean_told(theirs)} at {x:g}, difference [{low:.1f}, {high:.1f}] |"
    )


def main(given: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    print("| figure | ours | seeds | best or equal | lost, mean | best other, mean | where it does worst |\n|---|---|---|---|---|---|---|")
    for folder in parser.parse_args(given).folders:
        for paper in PAPERS:
            if (folder / f"{paper}.json").exists():
                print("\n".join(rows(read(folder, paper))))


if __name__ == "__main__":
    main()
