"""What verdicts of all papers have in common: how they are said, from how many seeds, and the rules that are about this project's own methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.query.text.keys import AUTO
from ops.experiments.shedding_figures import LEAST_SEEDS, Points, difference, gap_told, interval, mean_told


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim.

    Attributes:
        claim: its number.
        text: what it says.
        status: reproduced; shape reproduced: the order holds, a figure does not; not reproduced; or that there were too few seeds to say.
        numbers: what was measured.
    """

    claim: str
    text: str
    status: str
    numbers: str

    def __str__(self) -> str:
        return f"* **{self.claim}** {self.text}: **{self.status}**. {self.numbers}"


def verdict(claim: str, text: str, numbers: str, *, figures: bool, shape: bool) -> Verdict:
    """Reproduced when figures and shape hold, shape reproduced when only that does."""
    status = "reproduced" if figures and shape else "shape reproduced" if shape else "not reproduced"
    return Verdict(claim, text, status, numbers)


def rising(line: Sequence[float], tolerance: float = 1.0) -> bool:
    """Whether a line never falls by more than this many points."""
    return bool(np.all(np.diff(line) >= -tolerance))


def falling(line: Sequence[float], tolerance: float = 1.0) -> bool:
    """Whether a line never rises by more than this many points."""
    return rising([-value for value in line], tolerance)


def decided(rules: Sequence[Callable[[Points], Verdict]], points: Points) -> list[Verdict]:
    """The verdicts on claims whose points are there; those of too few seeds say so."""
    found, known = [], points.enough()
    seeds = len({one.seed for one in points.all})
    for rule in rules:
        known.fewest = seeds
        try:
            one = rule(known)
        except KeyError:
            continue
        if known.fewest < LEAST_SEEDS:
            found.append(replace(one, status=f"not judged: {known.fewest:.0f} of {LEAST_SEEDS} seeds"))
        else:
            found.append(replace(one, numbers=f"{one.numbers} ({known.fewest:.0f} seeds)"))
    return found


def own_table(own: str, others: Sequence[str], left_out: Sequence[str] = ()) -> Callable[[Points], str]:
    """Where a method of this project loses fewer matches than the best of others, and where more; paired 95 % intervals decide, over the seeds that both have, as the means beside them are.

    Args:
        own: the method.
        others: those of the papers.
        left_out: figures that count something else than lost matches.
    """

    def table(points: Points) -> str:
        rows = [f"| {own} against the best of {', '.join(others)} | at | {own} loses | best other loses | difference | |", "|---" * 6 + "|"]
        words = []
        for figure in dict.fromkeys(one.figure for one in points.all if one.curve == own and one.figure not in left_out):
            for x in points.xs(figure, own):
                there = [name for name in others if name in points.curves(figure) and x in points.xs(figure, name)]
                pairs = {name: points.pair(figure, own, name, x) for name in there}
                best = min(pairs, key=lambda name, found=pairs: found[name][1].mean(), default="")  # type: ignore[misc]
                if not best or len(pairs[best][0]) < LEAST_SEEDS:
                    continue
                gap = difference(points, figure, own, best, x)
                words.append("fewer" if gap[2] < 0 else "more" if gap[1] > 0 else "")
                means = f"{mean_told(pairs[best][0])} | {mean_told(pairs[best][1])} ({best})"
                rows.append(f"| {figure} | {x:g} | {means} | {gap_told(gap)} | {words[-1]} |")
        counts = f"fewer in {words.count('fewer')}, more in {words.count('more')}, no difference beyond doubt in {words.count('')} settings"
        return "\n".join([*rows, "", f"{own}: {counts}."])

    return table


PROBABILITY = "match probability"
BY_WINDOW = "e-bl, by window"
"""E-BL, where any match of a window counts as the window's; see `ops.experiments.pspice`."""
NOTHING_FREE, FORESEEING = "e-bl, nothing free", "pspice, foreseeing"
"""Ablations of pSPICE's S8; see `ops.experiments.pspice_ablations`."""
NO_SHEDDER = ("oracle", PROBABILITY, BY_WINDOW, NOTHING_FREE, FORESEEING)
NEAR = 2.0
"""Points of harm by which the default method may be behind the best other."""
PUBLISHED = (
    *("gspice", "gspice-tree", "gspice-forest", "espice", "e-bl", "bl", "random"),
    *("pspice", "pspice-minus", "pm-random", "icde20", "sharp", "darling"),
)


BY_PAIR = ("hspice",)
"""Who decides about every pair of an event and a live partial match leaves all partial matches alive, and pays nothing for an event that it hides from one, of which most would not have fitted; so it is told beside the others and not compared with them."""


def default_method(points: Points, figures: Sequence[str] | None = None, left_out: Sequence[str] = ()) -> Verdict:
    """Against the best other at every setting: lost and wrong composite events together, reproduced if the whole paired intervals keep the claim, in its shape if the means do in nine of ten settings. Those of `BY_PAIR` are told apart.

    Args:
        points: of an experiment. They count the seeds (`Points.fewest`), so they must be those that `decided` gives and no copy.
        figures: that count; None: all in which it was run.
        left_out: lines that are no shedder's, beside those of `NO_SHEDDER`.

    Raises:
        KeyError: it was not run.
    """
    gaps, ahead, hidden = [], 0, 0
    for figure in dict.fromkeys(one.figure for one in points.all if one.curve == AUTO and (figures is None or one.figure in figures)):
        others = [one for one in points.curves(figure) if one not in {AUTO, *NO_SHEDDER, *left_out}]
        for x in points.xs(figure, AUTO):
            known = {other: _harms(points, figure, other, x) for other in others if x in points.xs(figure, other)}
            apart = [known.pop(other) for other in BY_PAIR if other in known]
            hidden += any((own - theirs).mean() > NEAR for own, theirs in apart)
            best = min(known, key=lambda other: known[other][1].mean())
            own, theirs = known[best]
            gaps.append(((own - theirs).mean(), interval(own - theirs)[1], figure, x, own.mean(), theirs.mean(), best))
            ahead += all(own.mean() <= theirs.mean() for other, (own, theirs) in known.items() if other in PUBLISHED)
    if not gaps:
        raise KeyError("the default method was not run")
    gap, _, figure, x, mean, least, best = max(gaps)
    beyond, doubtful = (sum(one[which] > NEAR for one in gaps) for which in (0, 1))
    numbers = f"at most {gap:.1f} points more harm (lost and wrong) than the best other, in {figure} at {x:g}: {mean:.1f} against {best} {least:.1f}; more than {NEAR:g} in {beyond} of {len(gaps)} settings, not surely at most {NEAR:g} in {doubtful}; no more than the best published of those that were run in {ahead} (means)"
    if hidden:
        numbers += f"; hSPICE, by its own count of work, is ahead by more than {NEAR:g} in {hidden}"
    return verdict(
        "default",
        f"shedder: auto (ours) does at most {NEAR:g} points more harm than the best other in every setting",
        numbers,
        figures=doubtful == 0,
        shape=beyond <= len(gaps) / 10,
    )


def _harms(points: Points, figure: str, other: str, x: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the default and of another method, float64 (seeds,), by the seeds that both have."""
    lost, wrong = (points.pair(figure, AUTO, other, x, what) for what in ("lost", "wrong"))
    return lost[0] + wrong[0], lost[1] + wrong[1]
