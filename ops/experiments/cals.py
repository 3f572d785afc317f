"""The experiments of the CALS paper (Al-Kateb and Lee, JCSE 5(4) 2011, section IV) on this project's shedders of tuples.

    python -m ops.experiments.cals FOLDER [--quick] [--seeds N] [--recordings FOLDER]

Accuracy (equation 5 of the paper, as restored) over the memory ratio, the coalescing probability and the interval threshold, on synthetic streams and on quantised
sensor series (ROOM-CLIMATE, ULB-LIB; left out where the recordings are missing). Writes a plot per figure (PNG and SVG), all figures and the verdicts on claim S11 of the
specification (``cals.json``) to FOLDER, and prints the verdicts. Windows of 1,000 tuples that do not overlap, five per seed, or all that a series has; and on the synthetic streams sliding ones, as the paper's example query has them: a new one every 67 tuples.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from app.local.recordings import default_folder
from ops.experiments.cals_streams import SERIES, coalescing_probability, recorded, synthetic
from ops.experiments.plain_figures import read, write
from ops.experiments.shedding_figures import interval
from shedding.identity import identities
from shedding.interface import Training
from shedding.registry import method
from shedding.tuples.cals import TupleModel
from shedding.tuples.intervals import Intervals, accuracy, coalesced
from shedding.tuples.reservoir import Bounds, Reservoir

RANDOM = "rand anew"
"""Draws among all tuples in memory at every arrival, so that older tuples are fewer; `rand` keeps every tuple of a window alike. The paper's text allows both
readings. This one is the stronger baseline, and what claims are measured against."""
METHODS = ("cals", "cals-i", "cals-v", "rand", RANDOM)
WINDOW = 1_000
"""Tuples; the paper's is lost."""
WINDOWS = 5
"""Of each seed's stream."""
SLIDE = round(WINDOW / 15)
"""Tuples; the paper's query has windows of 15 minutes that slide by one."""
SLIDING, SLIDING_COALESCING = "sliding", "sliding coalescing"
RATIOS = tuple(round(0.1 * k, 1) for k in range(1, 10))
PROBABILITIES = (*RATIOS, 0.95)
RATIO, PROBABILITY = 0.3, 0.7
"""Where they are not varied."""
THRESHOLDS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Interval thresholds as multiples of the mean length of an exact coalesced tuple."""
MEAN_DURATION = 5.5


@dataclass(frozen=True, slots=True)
class Figure:
    """Accuracy of one method at one point, of each seed (of each series for recordings)."""

    plot: str
    method: str
    x: float
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.accuracies))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim."""

    claim: str
    verdict: str
    numbers: str


def window_accuracies(name: str, tuples: Intervals, memory: int, shortest: int, seed: int) -> list[float]:
    """Accuracy of each whole window of a stream."""
    found = []
    for start, kept in zip(range(0, len(tuples), WINDOW), kept_of(name, tuples, memory, seed), strict=False):
        window = tuples.rows(slice(start, start + WINDOW))
        found.append(accuracy(coalesced(window).at_least(shortest), coalesced(window.rows(kept)).at_least(shortest)))
    return found


def kept_of(name: str, tuples: Intervals, memory: int, seed: int) -> Iterator[np.ndarray]:
    """What memory holds at the end of each whole window, as places in the window."""
    starts = range(0, len(tuples) - WINDOW + 1, WINDOW)
    if name == RANDOM:
        chance = np.random.default_rng([seed, memory])
        for _ in starts:
            yield drawn_anew(memory, chance)
        return
    reservoir, ties = _reservoir(name, len(tuples), Bounds(memory), seed)
    for start in starts:
        part = slice(start, start + WINDOW)
        reservoir.arrive(tuples.rows(part), ties[part])
        yield reservoir.kept() - start
        reservoir.clear()


def _reservoir(name: str, count: int, bounds: Bounds, seed: int) -> tuple[Reservoir, np.ndarray]:
    """A method's memory, and the ties of so many tuples."""
    model = method(name).train(None, Training(seed))
    if not isinstance(model, TupleModel):
        raise TypeError(name)
    return Reservoir(model.score, bounds), model.ties(identities(np.zeros(count, np.int64), np.arange(count)))


def drawn_anew(memory: int, chance: np.random.Generator) -> np.ndarray:
    """Places in a window that are kept when each arrival drives out any tuple in memory, itself included, with equal probability."""
    held = np.arange(memory)
    for place, victim in zip(range(memory, WINDOW), chance.integers(0, memory + 1, WINDOW - memory), strict=True):
        if victim < memory:
            held[victim] = place
    return np.sort(held)


def sliding_accuracies(name: str, tuples: Intervals, memory: int, seed: int) -> list[float]:
    """Accuracy of each window that slides over a stream: memory goes from window to window, and what has left the window makes room."""
    found = []
    for stop, kept in sliding_kept(name, tuples, memory, seed):
        window = tuples.rows(slice(stop - WINDOW, stop))
        found.append(accuracy(coalesced(window), coalesced(window.rows(kept - (stop - WINDOW)))))
    return found


def sliding_kept(name: str, tuples: Intervals, memory: int, seed: int) -> Iterator[tuple[int, np.ndarray]]:
    """Where each whole window ends, and the places in the stream of what memory holds then."""
    if name == RANDOM:
        yield from sliding_anew(len(tuples), memory, np.random.default_rng([seed, memory]))
        return
    reservoir, ties = _reservoir(name, len(tuples), Bounds(memory, window_tuples=WINDOW), seed)
    for stop in range(SLIDE, len(tuples) + 1, SLIDE):
        part = slice(stop - SLIDE, stop)
        reservoir.arrive(tuples.rows(part), ties[part])
        if stop >= WINDOW:
            yield stop, reservoir.kept()


def sliding_anew(count: int, memory: int, chance: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    """The same where an arrival for which there is no room drives out any tuple in memory, itself included, with equal probability."""
    held: list[int] = []
    for place, which in enumerate(chance.random(count).tolist()):
        if held and held[0] <= place - WINDOW:
            held.pop(0)
        held.append(place)
        if len(held) > memory:
            held.pop(int(which * len(held)))
        if (place + 1) % SLIDE == 0 and place + 1 >= WINDOW:
            yield place + 1, np.array(held)


@cache
def stream_of(probability: float, seed: int) -> Intervals:
    """The stream that all methods see."""
    return synthetic(WINDOW * WINDOWS, probability, seed)


def synthetic_figure(
    plot: str, name: str, x: float, seeds: int, *, ratio: float = RATIO, probability: float = PROBABILITY, longer: float = 0.0
) -> Figure:
    """One point."""
    shortest = round(longer * MEAN_DURATION / (1 - probability))
    means = [
        float(np.mean(window_accuracies(name, stream_of(probability, seed), round(ratio * WINDOW), shortest, seed)))
        for seed in range(seeds)
    ]
    return Figure(plot, name, x, tuple(means))


def sliding_figure(plot: str, name: str, x: float, seeds: int, *, ratio: float = RATIO, probability: float = PROBABILITY) -> Figure:
    """One point, of sliding windows."""
    memory = round(ratio * WINDOW)
    means = [float(np.mean(sliding_accuracies(name, stream_of(probability, seed), memory, seed))) for seed in range(seeds)]
    return Figure(plot, name, x, tuple(means))


def synthetic_figures(seeds: int) -> list[Figure]:
    """The three figures, two of them with sliding windows as well, and the advantage over RAND at every pair of ratio and probability."""
    figures = []
    for name in METHODS:
        figures += [synthetic_figure("memory", name, ratio, seeds, ratio=ratio) for ratio in RATIOS]
        figures += [synthetic_figure("coalescing", name, p, seeds, probability=p) for p in PROBABILITIES]
        figures += [synthetic_figure("threshold", name, longer, seeds, longer=longer) for longer in THRESHOLDS]
        figures += [sliding_figure(SLIDING, name, ratio, seeds, ratio=ratio) for ratio in RATIOS]
        figures += [sliding_figure(SLIDING_COALESCING, name, p, seeds, probability=p) for p in PROBABILITIES]
    for name in ("cals", RANDOM):
        for ratio in (0.1, 0.3, 0.5, 0.7):
            figures += [synthetic_figure(f"advantage {ratio}", name, p, seeds, ratio=ratio, probability=p) for p in PROBABILITIES]
    return figures


def recorded_figures(folder: Path) -> list[Figure]:
    """Accuracy over the memory ratio on sensor series."""
    figures = []
    for series in SERIES:
        streams = [stream for stream in recorded(series, folder) if len(stream) >= WINDOW]
        p = float(np.mean([coalescing_probability(stream) for stream in streams]))
        for name in METHODS:
            for ratio in RATIOS:
                found = [float(np.mean(window_accuracies(name, one, round(ratio * WINDOW), 0, 0))) for one in streams]
                figures.append(Figure(f"{series.name} (p = {p:.2f})", name, ratio, tuple(found)))
    return figures


class Results:
    """Figures by plot, method and x."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._found = {(one.plot, one.method, one.x): one for one in figures}

    def mean(self, plot: str, name: str, x: float) -> float:
        """Mean accuracy at a point."""
        return self._found[plot, name, x].mean

    def told(self, plot: str, name: str, x: float) -> str:
        """The same with half of its 95 % interval."""
        return _told(np.array(self._found[plot, name, x].accuracies))

    def gap(self, plot: str, better: str, worse: str, x: float) -> str:
        """Mean difference of two methods, paired, with half of its interval."""
        one, other = (np.array(self._found[plot, name, x].accuracies) for name in (better, worse))
        return _told(one - other)

    def above(self, plot: str, better: str, worse: str, x: float) -> bool:
        """Whether the interval of the paired difference is above 0."""
        pair = [np.array(self._found[plot, name, x].accuracies) for name in (better, worse)]
        return interval(pair[0] - pair[1])[0] > 0

    def advantage(self, ratio: float, p: float) -> float:
        """Accuracy of CALS over that of RAND."""
        return self.mean(f"advantage {ratio}", "cals", p) / self.mean(f"advantage {ratio}", RANDOM, p)

    def advantage_told(self, ratio: float, p: float) -> str:
        """The same with half of its 95 % interval, from seeds drawn anew together."""
        one, other = (np.array(self._found[f"advantage {ratio}", name, p].accuracies) for name in ("cals", RANDOM))
        drawn = np.random.default_rng(0).integers(0, len(one), (2000, len(one)))
        low, high = np.percentile(one[drawn].mean(axis=1) / other[drawn].mean(axis=1), [2.5, 97.5])
        return f"{self.advantage(ratio, p):.1f} ± {(high - low) / 2:.1f}"


def _told(values: NDArray[np.float64], digits: int = 3) -> str:
    low, high = interval(values) if len(values) > 1 else (values.mean(), values.mean())
    return f"{values.mean():.{digits}f} ± {(high - low) / 2:.{digits}f}"


def order_verdicts(results: Results, plot: str = "memory", by_probability: str = "coalescing", told: str = "") -> list[Verdict]:
    """CALS highest, RAND lowest, at every memory ratio.

    Args:
        results: all figures.
        plot: over the memory ratio.
        by_probability: over the coalescing probability.
        told: of which windows, in the claims.
    """
    verdicts = []
    for claim, better, worse in (
        ("CALS above CALS-I at every memory ratio", "cals", "cals-i"),
        ("CALS above CALS-V at every memory ratio", "cals", "cals-v"),
        ("CALS above RAND at every memory ratio", "cals", RANDOM),
        ("CALS-I above RAND at every memory ratio", "cals-i", RANDOM),
        ("CALS-V above RAND at every memory ratio", "cals-v", RANDOM),
    ):
        where = [ratio for ratio in RATIOS if results.above(plot, better, worse, ratio)]
        verdict = "reproduced" if len(where) == len(RATIOS) else "partly" if where else "not reproduced"
        gaps = [results.mean(plot, better, ratio) - results.mean(plot, worse, ratio) for ratio in RATIOS]
        numbers = f"p = {PROBABILITY}: significant at {len(where)} of {len(RATIOS)} ratios; difference {min(gaps):+.3f} to {max(gaps):+.3f}"
        verdicts.append(Verdict(claim + told, verdict, numbers))
    distance = max(abs(results.mean(plot, "cals-v", ratio) - results.mean(plot, "cals-i", ratio)) for ratio in RATIOS)
    apart = {p: abs(results.mean(by_probability, "cals-v", p) - results.mean(by_probability, "cals-i", p)) for p in PROBABILITIES}
    nearest = min(apart, key=lambda p: apart[p])
    close = "reproduced" if distance <= 0.1 else "not reproduced"
    numbers = f"p = {PROBABILITY}: up to {distance:.3f} (close: 0.1); memory {RATIO}: nearest at p = {nearest} ({apart[nearest]:.3f})"
    return [*verdicts, Verdict("CALS-V and CALS-I close to each other" + told, close, numbers)]


def sliding_verdicts(results: Results) -> list[Verdict]:
    """The order where windows slide, and what the coalescing probability does then."""
    at = {p: results.mean(SLIDING_COALESCING, "cals", p) / results.mean(SLIDING_COALESCING, RANDOM, p) for p in (0.5, 0.9, 0.95)}
    growth = Verdict(
        f"{GROWS}, sliding windows",
        _grown(at),
        f"memory {RATIO}: " + ", ".join(f"{advantage:.1f} at p = {p}" for p, advantage in at.items()),
    )
    return [*order_verdicts(results, SLIDING, SLIDING_COALESCING, ", sliding windows"), growth]


GROWS = "CALS / RAND grows with p, to >= 5 at 0.9 and about 10 at 0.95"


def _grown(at: Mapping[float, float]) -> str:
    """The verdict on `GROWS`, by the advantages at p = 0.5, 0.9 and 0.95."""
    grows = at[0.95] > at[0.9] > at[0.5]
    return "reproduced" if grows and at[0.9] >= 5 and at[0.95] >= 8 else "shape reproduced" if grows else "not reproduced"


def trend_verdicts(results: Results) -> list[Verdict]:
    """What the coalescing probability, memory and the threshold do."""
    at = {p: results.advantage(RATIO, p) for p in (0.5, 0.9, 0.95)}
    by_memory = [results.advantage(ratio, 0.9) for ratio in (0.1, 0.3, 0.5, 0.7)]
    values = [results.mean("coalescing", "cals-v", p) for p in PROBABILITIES]
    intervals = [results.mean("coalescing", "cals-i", p) for p in PROBABILITIES]
    spread, peak = max(values) - min(values), PROBABILITIES[int(np.argmax(intervals))]
    gaps = [results.mean("threshold", "cals", longer) - results.mean("threshold", RANDOM, longer) for longer in THRESHOLDS]
    calm = max(longer for k, longer in enumerate(THRESHOLDS) if np.ptp(gaps[: k + 1]) <= 0.1)
    return [
        Verdict(
            GROWS,
            _grown(at),
            f"memory {RATIO}: " + ", ".join(f"{results.advantage_told(RATIO, p)} at p = {p}" for p in at),
        ),
        Verdict(
            "CALS / RAND grows as memory shrinks",
            "reproduced"
            if all(a > b for a, b in pairwise(by_memory))
            else "partly"
            if by_memory[0] == max(by_memory)
            else "not reproduced",
            "p = 0.9: " + ", ".join(f"{results.advantage_told(ratio, 0.9)} at {ratio}" for ratio in (0.1, 0.3, 0.5, 0.7)),
        ),
        Verdict(
            "CALS-V hardly depends on p",
            "reproduced" if spread <= 0.1 else "not reproduced",
            f"memory {RATIO}: {min(values):.3f} to {max(values):.3f} (hardly: within 0.1)",
        ),
        Verdict(
            "CALS-I falls beyond p of about 0.5",
            "reproduced" if 0.4 <= peak <= 0.6 and intervals[-1] < 0.75 * max(intervals) else "not reproduced",
            f"memory {RATIO}: peak {results.told('coalescing', 'cals-i', peak)} at p = {peak}, {results.told('coalescing', 'cals-i', 0.95)} at 0.95",
        ),
        Verdict(
            "The threshold barely changes the differences",
            "reproduced" if np.ptp(gaps) <= 0.1 else "partly" if calm >= 0.25 else "not reproduced",
            f"CALS - RAND stays within 0.1 up to a threshold of {calm} mean lengths: "
            + ", ".join(f"{results.gap('threshold', 'cals', RANDOM, longer)} at {longer}" for longer in THRESHOLDS),
        ),
        Verdict(
            "Adverse: at p = 0.1 coalescing says little",
            "shown",
            ", ".join(f"{name} {results.told('coalescing', name, 0.1)}" for name in METHODS),
        ),
    ]


def recorded_verdicts(figures: Sequence[Figure], results: Results) -> list[Verdict]:
    """The order on each recorded series."""
    verdicts = []
    for plot in dict.fromkeys(one.plot for one in figures):
        wins = sum(all(results.mean(plot, "cals", ratio) >= results.mean(plot, name, ratio) for name in METHODS) for ratio in RATIOS)
        numbers = ", ".join(f"{name} {results.told(plot, name, RATIO)}" for name in METHODS)
        verdict = "reproduced" if wins == len(RATIOS) else "partly"
        verdicts.append(Verdict(f"CALS highest on {plot}", verdict, f"at {wins} of {len(RATIOS)} ratios; at {RATIO}: {numbers}"))
    return verdicts


def verdicts_of(figures: Sequence[Figure]) -> list[Verdict]:
    """On all claims; series that were recorded stand beside the synthetic ones."""
    results = Results(figures)
    synthetic_plots = {"memory", "coalescing", "threshold", SLIDING, SLIDING_COALESCING}
    sensors = [one for one in figures if one.plot not in synthetic_plots and not one.plot.startswith("advantage")]
    return [*order_verdicts(results), *trend_verdicts(results), *sliding_verdicts(results), *recorded_verdicts(sensors, results)]


def draw(figures: Sequence[Figure], folder: Path) -> None:
    """Mean accuracy, with standard deviation over seeds, a line for each method."""
    labels = {"coalescing": "coalescing probability", SLIDING_COALESCING: "coalescing probability", "threshold": "threshold / mean length"}
    for plot in dict.fromkeys(one.plot for one in figures if not one.plot.startswith("advantage")):
        canvas, axes = plt.subplots(figsize=(6, 4))
        for name in METHODS:
            mine = [one for one in figures if (one.plot, one.method) == (plot, name)]
            spread = [float(np.std(one.accuracies)) for one in mine]
            axes.errorbar([one.x for one in mine], [one.mean for one in mine], spread, marker="o", capsize=2, label=name)
        finish(axes, canvas, labels.get(plot, "memory ratio"), "accuracy", folder / (plot.split(" (")[0].replace(" ", "-")))
    results, (canvas, axes) = Results(figures), plt.subplots(figsize=(6, 4))
    for ratio in (0.1, 0.3, 0.5, 0.7):
        axes.plot(PROBABILITIES, [results.advantage(ratio, p) for p in PROBABILITIES], marker="o", label=f"memory ratio {ratio}")
    finish(axes, canvas, "coalescing probability", "accuracy of CALS / RAND", folder / "advantage")


def finish(axes: plt.Axes, canvas: plt.Figure, x: str, y: str, path: Path) -> None:
    """Labels, and both files."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    canvas.tight_layout()
    for kind in ("png", "svg"):
        canvas.savefig(f"{path}.{kind}", dpi=110)
    plt.close(canvas)


def main() -> None:
    """Measures, draws, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="three seeds")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--recordings", type=Path, default=default_folder())
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    figures = synthetic_figures(3 if arguments.quick else arguments.seeds)
    sensors = recorded_figures(arguments.recordings) if (arguments.recordings / "sensors").is_dir() else []
    everything = [*figures, *sensors]
    write(arguments.folder / "cals.json", everything, [])
    everything, _ = read(arguments.folder / "cals.json", Figure)  # judged is what is written, to six digits
    verdicts = verdicts_of(everything)
    write(arguments.folder / "cals.json", everything, verdicts)
    for one in verdicts:
        print(f"{one.verdict:18}{one.claim}\n{'':18}{one.numbers}")
    draw(everything, arguments.folder)


if __name__ == "__main__":
    main()
