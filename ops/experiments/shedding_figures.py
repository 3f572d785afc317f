"""What the shedding experiments measure, averaged over seeds, drawn and written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from time import process_time
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import t

LEAST_SEEDS = 3
"""Of fewer runs nothing is said: tables put their means in brackets, and verdicts leave them out."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run.

    Attributes:
        figure: which plot.
        curve: which line of it.
        x: where on it.
        seed: of the stream.
        lost: false negatives, percent of the true composite events.
        wrong: false positives, percent of the same.
        true: composite events without shedding.
        dropped: share of candidates that were dropped, percent.
        latency_ms: the greatest in virtual time; the plateau is the median of the second half.
        decision_ns: processor time per decision.
        p99_ms: the latency that one event of a hundred exceeds.
        late: share of the events above the bound, percent.
        shedding: share of the operator's busy time that decisions took, percent; on a clock only.
        capacity: events per second without shedding, measured on a clock; 0 in virtual time.
        unsteady: by how much the capacity was another one behind the run, percent; on a clock only.
    """

    figure: str
    curve: str
    x: float
    seed: int
    lost: float
    wrong: float = 0.0
    true: int = 0
    dropped: float = 0.0
    latency_ms: float = 0.0
    plateau_ms: float = 0.0
    decision_ns: float = 0.0
    p99_ms: float = 0.0
    late: float = 0.0
    shedding: float = 0.0
    capacity: float = 0.0
    unsteady: float = 0.0


class Points:
    """All runs of an experiment.

    Attributes:
        all: in the order of their runs.
        fewest: of the seeds that a value had which was asked for so far; none: infinite.
    """

    def __init__(self, points: Iterable[Point]) -> None:
        self.all = list(points)
        self.fewest = float("inf")
        self._by: dict[tuple[str, str, float], dict[int, Point]] = defaultdict(dict)
        for one in self.all:
            self._by[one.figure, one.curve, one.x][one.seed] = one

    def curves(self, figure: str) -> list[str]:
        """Names of the lines of a plot, in the order of their first points."""
        return list(dict.fromkeys(one.curve for one in self.all if one.figure == figure))

    def xs(self, figure: str, curve: str) -> list[float]:
        """Where a line has points.

        Raises:
            KeyError: it has none.
        """
        found = sorted({one.x for one in self.all if one.figure == figure and one.curve == curve})
        if not found:
            raise KeyError(f"{figure}: nothing measured for {curve}")
        return found

    def values(self, figure: str, curve: str, x: float, what: str = "lost") -> np.ndarray:
        """float64 (seeds,), by seed.

        Raises:
            KeyError: nothing was measured there.
        """
        runs = self._by.get((figure, curve, x))
        if not runs:
            raise KeyError(f"{figure}: nothing measured for {curve} at {x}")
        self.fewest = min(self.fewest, len(runs))
        return np.array([getattr(runs[seed], what) for seed in sorted(runs)], dtype=np.float64)

    def pair(self, figure: str, one: str, other: str, x: float, what: str = "lost") -> tuple[np.ndarray, np.ndarray]:
        """Values of two lines at a point, float64 (seeds,), by the seeds that both have.

        Raises:
            KeyError: no seed has both.
        """
        runs = [self._by.get((figure, curve, x), {}) for curve in (one, other)]
        seeds = sorted(set(runs[0]) & set(runs[1]))
        if not seeds:
            raise KeyError(f"{figure}: nothing measured for {one} and {other} at {x}")
        self.fewest = min(self.fewest, len(seeds))
        first, second = (np.array([getattr(own[seed], what) for seed in seeds], dtype=np.float64) for own in runs)
        return first, second

    def growth(self, figure: str, curve: str, first: float, last: float) -> tuple[float, float, float]:
        """By how much more is lost at one point of a line than at an earlier one, with the interval, by the seeds that both have.

        Raises:
            KeyError: no seed has both.
        """
        before, after = (self._by.get((figure, curve, x), {}) for x in (first, last))
        seeds = sorted(set(before) & set(after))
        if not seeds:
            raise KeyError(f"{figure}: nothing measured for {curve} from {first} to {last}")
        self.fewest = min(self.fewest, len(seeds))
        gap = np.array([after[seed].lost - before[seed].lost for seed in seeds])
        return (float(gap.mean()), *interval(gap))

    def mean(self, figure: str, curve: str, x: float, what: str = "lost") -> float:
        """Over the seeds."""
        return float(self.values(figure, curve, x, what).mean())

    def line(self, figure: str, curve: str, what: str = "lost") -> list[float]:
        """The means along a line."""
        return [self.mean(figure, curve, x, what) for x in self.xs(figure, curve)]

    def interval(self, figure: str, curve: str, x: float, what: str = "lost") -> tuple[float, float]:
        """Of the mean, 95 %."""
        return interval(self.values(figure, curve, x, what))

    def told(self, figure: str, curve: str, x: float, what: str = "lost") -> str:
        """The mean as `mean_told` has it."""
        return mean_told(self.values(figure, curve, x, what))

    def told_line(self, figure: str, curve: str, what: str = "lost") -> str:
        """The same along a line."""
        return ", ".join(self.told(figure, curve, x, what) for x in self.xs(figure, curve))

    def enough(self) -> Points:
        """Those of settings that were run with enough seeds; all of a figure where none was."""
        few = {key for key, runs in self._by.items() if len(runs) < LEAST_SEEDS}
        sure = {figure for figure, curve, x in self._by if (figure, curve, x) not in few}
        return Points(one for one in self.all if one.figure not in sure or (one.figure, one.curve, one.x) not in few)


def mean_told(runs: np.ndarray) -> str:
    """The mean, and half of its 95 % interval; in brackets and without interval where there are too few seeds.

    >>> mean_told(np.array([1.0, 2.0, 3.0])), mean_told(np.array([1.0, 2.0]))
    ('2.0 ± 2.5', '(1.5)')
    """
    if len(runs) < LEAST_SEEDS:
        return f"({_short(runs.mean())})"
    low, high = interval(runs)
    return f"{_short(runs.mean())} ± {_short((high - low) / 2)}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def interval(values: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean, by Student's t; of differences by seed it is the paired one.

    (Percentiles of resampled means, before, were no wider than from the least to the greatest of three seeds, which hold the mean in three of four cases.)

    >>> [round(end, 2) for end in interval(np.array([1.0, 2.0, 3.0]))], interval(np.array([2.0, 2.0]))
    ([-0.48, 4.48], (2.0, 2.0))
    """
    mean, runs = float(values.mean()), len(values)
    half = 0.0 if runs < 2 else float(t.ppf(0.975, runs - 1) * values.std(ddof=1) / np.sqrt(runs))
    return mean - half, mean + half


def difference(  # noqa: PLR0917 - where in the points
    points: Points, figure: str, one: str, other: str, x: float, what: str = "lost"
) -> tuple[float, float, float]:
    """Mean of ``one`` minus ``other`` and its paired interval."""
    first, second = points.pair(figure, one, other, x, what)
    gap = first - second
    return (float(gap.mean()), *interval(gap))


def surely_least(points: Points, figure: str, one: str, others: Sequence[str], x: float) -> bool:
    """Whether a line loses less than all others at a point beyond doubt: all of each paired interval is below 0."""
    return all(difference(points, figure, one, other, x)[2] < 0 for other in others)


def gap_told(gap: tuple[float, float, float]) -> str:
    """A difference with its interval.

    >>> gap_told((-1.0, -2.25, 0.25))
    '-1.0 [-2.2, 0.2]'
    """
    return f"{gap[0]:.1f} [{gap[1]:.1f}, {gap[2]:.1f}]"


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure: which points, what of them, how the axes are called, and whether there is a table of it as well."""

    figure: str
    title: str
    x: str
    what: str = "lost"
    y: str = "false negatives, %"
    log: bool = False
    tabled: bool = True


def draw(points: Points, plot: Plot, folder: Path) -> None:
    """Lines with one standard deviation, as PNG and SVG."""
    mpl.use("Agg")
    canvas, axes = plt.subplots(figsize=(6, 4))
    for curve in points.curves(plot.figure):
        xs = points.xs(plot.figure, curve)
        runs = [points.values(plot.figure, curve, x, plot.what) for x in xs]
        axes.errorbar(xs, [run.mean() for run in runs], [run.std() for run in runs], marker="o", capsize=2, label=curve)
    if plot.log:
        axes.set_xscale("log")
    axes.set_title(plot.title, fontsize=10)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    canvas.tight_layout()
    name = plot.figure if plot.what == "lost" else f"{plot.figure}-{plot.what}"
    for ending in ("png", "svg"):
        canvas.savefig(folder / f"{name}.{ending}", dpi=110)
    plt.close(canvas)


def table(points: Points, figure: str, what: str = "lost") -> str:
    """Means with their intervals as a Markdown table, one row per line of the plot."""
    curves = points.curves(figure)
    xs = sorted({x for curve in curves for x in points.xs(figure, curve)})
    rows = [f"| {figure}, {what} | " + " | ".join(f"{x:g}" for x in xs) + " |", "|---" * (len(xs) + 1) + "|"]
    for curve in curves:
        own = set(points.xs(figure, curve))
        rows.append(f"| {curve} | " + " | ".join(points.told(figure, curve, x, what) if x in own else "" for x in xs) + " |")
    return "\n".join(rows)


def written(points: Points, plots: Sequence[Plot], folder: Path, verdicts: Callable[[Points], Sequence[object]], name: str) -> None:
    """Everything into the folder: plots, points, tables, verdicts; tables and verdicts are printed as well."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [plot for plot in plots if points.curves(plot.figure)]
    for plot in drawn:
        draw(points, plot, folder)
    judged = list(verdicts(points))
    text = "\n\n".join([*(table(points, plot.figure, plot.what) for plot in drawn if plot.tabled), *map(str, judged)])
    (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    print(text)


def kept(points: Iterable[Point], folder: Path, name: str) -> None:
    """Writes the points: a line of JSON per curve, with what is not zero everywhere, six digits each; small enough to be committed."""
    folder.mkdir(parents=True, exist_ok=True)
    curves: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for one in points:
        curves[one.figure, one.curve].append(one)
    lines = [json.dumps({"figure": figure, "curve": curve, **_columns(own)}) for (figure, curve), own in curves.items()]
    (folder / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


_NAMED = ("figure", "curve")
_ALWAYS = ("x", "seed", "lost")


def _columns(points: Sequence[Point]) -> dict[str, list[float]]:
    names = [one.name for one in fields(Point) if one.name not in _NAMED]
    found = {name: [_rounded(getattr(one, name)) for one in points] for name in names}
    return {name: column for name, column in found.items() if name in _ALWAYS or any(column)}


def _rounded(value: float) -> float:
    short = float(f"{value:.6g}")
    return int(short) if short == int(short) else short


KNOWN: ContextVar[frozenset[tuple[str, str, float, int]]] = ContextVar("KNOWN", default=frozenset())
"""Figure, curve, x and seed of points that an earlier run has found already (``--resume``): `ops.experiments.shedding_runs.judged` leaves them out."""


def known(figure: str, curve: str, x: float, seed: int) -> bool:
    """Whether an earlier run has found this point."""
    return (figure, curve, x, seed) in KNOWN.get()


def run(
    experiments: Mapping[str, Callable[[int], Iterator[Point]]], seeds: int, folder: Path, name: str, before: Sequence[Point] = ()
) -> Points:
    """All experiments seed by seed; what there is, is written after every experiment, so that a run can be stopped, judged (``--judge``) and gone on with (``--resume``).

    Args:
        experiments: (seed) → points.
        seeds: how many.
        folder: for the points.
        name: of their file.
        before: points of an earlier run, which stay.
    """
    found: list[Point] = list(before)
    KNOWN.set(frozenset((one.figure, one.curve, one.x, one.seed) for one in before))
    for seed in range(seeds):
        for one, experiment in experiments.items():
            began = process_time()
            found += [point for point in experiment(seed) if not known(point.figure, point.curve, point.x, point.seed)]
            print(f"seed {seed}, {one}: {process_time() - began:.1f} s of the processor", flush=True)
            kept(found, folder, name)
    return Points(found)


def read(folder: Path, name: str) -> Points:
    """The points of an earlier run."""
    lines = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return Points(one for line in lines for one in _curve(line))


def _curve(line: dict[str, Any]) -> Iterator[Point]:
    columns = {key: values for key, values in line.items() if key not in _NAMED}
    for row in zip(*columns.values(), strict=True):
        yield Point(line["figure"], line["curve"], **dict(zip(columns, row, strict=True)))
