"""The command of a paper's experiments: which of them, how much, and into which folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ops.experiments.shedding_figures import Plot, Point, Points, read, run, written


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run.

    Attributes:
        seeds: streams.
        learning: events to learn from.
        judging: events to be judged by.
    """

    seeds: int
    learning: int
    judging: int


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's experiments.

    Attributes:
        name: of the files that are written.
        about: the help.
        experiments: by name; each yields the points of one seed.
        full: how much is run.
        quick: how much with ``--quick``.
        plots: what is drawn.
        verdicts: on all points.
        table: one more table of all points.
    """

    name: str
    about: str | None
    experiments: Mapping[str, Callable[[Size, int], Iterator[Point]]]
    full: Size
    quick: Size
    plots: Sequence[Plot]
    verdicts: Callable[[Points], Sequence[object]]
    table: Callable[[Points], str] | None = None


def command(paper: Paper, given: Sequence[str] | None) -> None:
    """Runs, draws, judges."""
    parser = argparse.ArgumentParser(description=paper.about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="three seeds and shorter streams")
    parser.add_argument("--judge", action="store_true", help="only draw and judge the points that an earlier run wrote")
    parser.add_argument("--resume", action="store_true", help="keep the points that an earlier run wrote, if any, and run what misses")
    parser.add_argument("--seeds", type=int, help="so many streams")
    parser.add_argument("--only", default="", help="the experiment of this name, or all whose names contain this")
    arguments = parser.parse_args(given)
    size = paper.quick if arguments.quick else paper.full
    names = [arguments.only] if arguments.only in paper.experiments else [name for name in paper.experiments if arguments.only in name]
    taking_part = {name: partial(paper.experiments[name], size) for name in names}
    if arguments.judge:
        points = read(arguments.folder, paper.name)
    else:
        there = (arguments.folder / f"{paper.name}.json").exists()
        before = read(arguments.folder, paper.name).all if arguments.resume and there else []
        run(taking_part, arguments.seeds or size.seeds, arguments.folder, paper.name, before)
        points = read(arguments.folder, paper.name)  # judged is what is written, to six digits
    extra = [] if paper.table is None else [paper.table(points)]
    written(points, paper.plots, arguments.folder, lambda found: [*extra, *paper.verdicts(found)], paper.name)
