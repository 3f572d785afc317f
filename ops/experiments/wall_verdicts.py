"""What became of claims on a clock, and the table of its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ops.experiments.gspice_verdicts import far_apart
from ops.experiments.shedding_figures import Point, Points, difference, gap_told, surely_least
from ops.experiments.shedding_verdicts import Verdict, decided, default_method, rising, verdict

_COLUMNS = {
    "lost": "lost, %",
    "wrong": "wrong, %",
    "dropped": "dropped, %",
    "latency_ms": "greatest latency, ms",
    "p99_ms": "1 % exceed, ms",
    "plateau_ms": "median of the later half, ms",
    "late": "above the bound, %",
    "shedding": "deciding, % of the work",
    "capacity": "capacity, events/s",
    "unsteady": "another one behind the run, by %",
}
MATCH_CURVES = ("pspice", "stateful", "hspice", "pm-random", "e-bl", "bl")
OURS = ("prefix", "stateful")
DECIDING = 10.0
"""Percent of the work that decisions may take, by the house's own claim."""
LATE_SHARE = 1.0
"""Percent of the events that may exceed the bound for the shape to hold: a pause of the machine is no fault of the shedder."""


def means(clock: str) -> Callable[[Points], str]:
    """The table of all runs on a clock, means over the seeds with their intervals."""

    def table(points: Points) -> str:
        rows = [f"| {clock} clock | rate, % | " + " | ".join(_COLUMNS.values()) + " |", "|---" * (len(_COLUMNS) + 2) + "|"]
        figures = dict.fromkeys(one.figure for one in points.all if not one.figure.endswith("-course"))
        for figure in figures:
            for x in sorted({one.x for one in points.all if one.figure == figure}):
                for curve in points.curves(figure):
                    values = [points.told(figure, curve, x, what) for what in _COLUMNS]
                    rows.append(f"| {figure}, {curve} | {x:g} | " + " | ".join(values) + " |")
        return "\n".join(rows)

    return table


def wall_verdicts(clock: str) -> Callable[[Points], Sequence[Verdict]]:
    """On S1, S2, S5, S8 and S10, E3, E4 and E-d, what deciding takes, and the default method. The other claims compare what shedders choose, which takes no clock."""

    def judged(points: Points) -> list[Verdict]:
        return decided(
            [
                _s1(clock, ("Q1", "Q3"), ""),
                _s1(clock, ("Q1-selection",), ", behind selection"),
                _s2(clock),
                _recordings(clock),
                _s5(clock),
                _s8(clock),
                _s10(clock),
                _deciding(clock),
                _default(clock),
            ],
            points,
        )

    return judged


def _listed(points: Points, figure: str, curves: Sequence[str], x: float, what: str) -> str:
    return f"{figure} at {x:g}: " + ", ".join(f"{curve} {points.told(figure, curve, x, what)}" for curve in curves)


def _runs(clock: str, points: Points) -> list[Point]:
    """Those on this clock, without their courses over time."""
    return [one for one in points.all if one.figure.startswith(f"{clock}-") and not one.figure.endswith("-course")]


def _s1(clock: str, names: Sequence[str], label: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        figures = [f"{clock}-{name}" for name in names]
        numbers = "lost, " + "; ".join(_listed(points, figure, ("gspice", "espice", "bl"), 200, "lost") for figure in figures)
        numbers += "; dropped, " + "; ".join(_listed(points, figure, ("gspice", "espice", "bl"), 200, "dropped") for figure in figures)
        text = f"gSPICE loses at most 3 % at 200 %, eSPICE and BL at least 25 % ({', '.join(names)})"
        kept, ordered = far_apart(points, [(figure, 200) for figure in figures], ("espice", "bl"))
        return verdict(f"S1, {clock} clock{label}", text, numbers, figures=kept, shape=ordered)

    return rule


def _s2(clock: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        figures = [f"{clock}-{name}" for name in ("Q1", "Q3")]
        gaps = [difference(points, figure, "espice", "gspice", 200, "wrong") for figure in figures]
        numbers = "wrong, " + "; ".join(_listed(points, figure, ("gspice", "espice", "bl"), 200, "wrong") for figure in figures)
        text = "eSPICE has fewer false positives than gSPICE (Q1, Q3 at 200 %)"
        return verdict(f"S2, {clock} clock", text, numbers, figures=all(gap[2] < 0 for gap in gaps), shape=all(gap[0] < 0 for gap in gaps))

    return rule


def _recordings(clock: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        figures = [f"{clock}-Q4-x2-GF-2015", f"{clock}-Q6-POR-SUI-2019"]
        best = [surely_least(points, figure, "gspice", ("espice", "bl"), 200) for figure in figures]
        numbers = "; ".join(_listed(points, figure, ("gspice", "espice", "bl"), 200, "lost") for figure in figures)
        return verdict(f"E3, E4, {clock} clock", "gSPICE loses least on stocks and soccer", numbers, figures=all(best), shape=any(best))

    return rule


def _s5(clock: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        runs = [one for one in _runs(clock, points) if one.curve in {"gspice", "pspice"}]
        if not runs:
            raise KeyError(clock)
        most, late = max(one.latency_ms for one in runs), max(one.late for one in runs)
        plateaus = sorted(one.plateau_ms for one in runs)
        numbers = (
            f"{len(runs)} runs of gspice and pspice: greatest latency {most:.0f} ms, plateau {plateaus[0]:.0f} to {plateaus[-1]:.0f} ms, "
            f"{sum(one.late > 0 for one in runs)} runs with events above the bound (at most {late:.1f} % of a run)"
        )
        text = "latency stays at 80 % of the bound and never exceeds it"
        calm = plateaus[-1] <= 850
        return verdict(f"S5, E-d, {clock} clock", text, numbers, figures=calm and most <= 1000, shape=calm and late <= LATE_SHARE)

    return rule


def _s8(clock: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        figure = f"{clock}-pSPICE-Q1"
        xs = points.xs(figure, "pspice")
        gaps = {x: difference(points, figure, "pspice", "pm-random", x) for x in xs}
        best = all(surely_least(points, figure, "pspice", ("pm-random", "e-bl"), x) for x in xs)
        numbers = "; ".join(_listed(points, figure, MATCH_CURVES, x, "lost") for x in xs)
        numbers += "; pspice minus pm-random " + ", ".join(map(gap_told, gaps.values()))
        text = "what pSPICE loses grows with the rate and is least at all rates"
        below = all(gap[2] < 0 for gap in gaps.values())
        return verdict(f"S8, {clock} clock", text, numbers, figures=best and rising(points.line(figure, "pspice")), shape=below)

    return rule


def _s10(clock: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        figure = f"{clock}-pSPICE-Q1"
        xs = points.xs(figure, "pspice")
        own, events = (points.line(figure, name, "shedding") for name in ("pspice", "e-bl"))
        numbers = "; ".join(_listed(points, figure, MATCH_CURVES, x, "shedding") for x in xs)
        below = [o < e for o, e in zip(own, events, strict=True)]
        text = "deciding about partial matches takes less of the work than deciding about events"
        return verdict(f"S10, {clock} clock", text, numbers, figures=all(below), shape=any(below))

    return rule


def _deciding(clock: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        own = {one.figure: one.curve for one in _runs(clock, points) if one.curve in OURS}
        shares = {(figure, x): points.mean(figure, curve, x, "shedding") for figure, curve in own.items() for x in points.xs(figure, curve)}
        if not shares:
            raise KeyError(clock)
        numbers = "; ".join(_listed(points, figure, (own[figure],), x, "shedding") for figure, x in shares)
        cheap = [share <= DECIDING for share in shares.values()]
        text = f"deciding takes at most {DECIDING:g} % of the work ({' and '.join(OURS)}, ours)"
        return verdict(f"deciding, {clock} clock", text, numbers, figures=all(cheap), shape=any(cheap))

    return rule


def _default(clock: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        figures = list(dict.fromkeys(one.figure for one in _runs(clock, points)))
        return replace(default_method(points, figures), claim=f"default, {clock} clock")

    return rule
