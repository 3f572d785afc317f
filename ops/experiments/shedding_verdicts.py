"""The specification's claims S1 to S10 (section 7.4), decided by code from the measured points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.query.text.keys import AUTO
from ops.experiments.shedding_figures import LEAST_SEEDS, Points, difference

SYNTHETIC = ("E1-Q1", "E1-Q2", "E1-Q3")
RATES = (120, 140, 160, 180, 200)


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


def _numbers(points: Points, figure: str, curves: Sequence[str], x: float, what: str = "lost") -> str:
    return f"{figure} at {x:g}: " + ", ".join(f"{curve} {points.told(figure, curve, x, what)}" for curve in curves)


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
    """Where a method of this project loses fewer matches than the best of others, and where more; paired 95 % intervals over the seeds decide.

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
                means = f"{points.told(figure, own, x)} | {points.told(figure, best, x)} ({best})"
                rows.append(f"| {figure} | {x:g} | {means} | {gap[0]:.1f} [{gap[1]:.1f}, {gap[2]:.1f}] | {words[-1]} |")
        counts = f"fewer in {words.count('fewer')}, more in {words.count('more')}, no difference beyond doubt in {words.count('')} settings"
        return "\n".join([*rows, "", f"{own}: {counts}."])

    return table


NEAR = 2.0
"""Points of harm by which the default method may be behind the best other."""
PUBLISHED = (
    *("gspice", "gspice-tree", "gspice-forest", "espice", "e-bl", "bl", "random"),
    *("pspice", "pspice-minus", "pm-random", "icde20", "sharp", "darling"),
)


BY_PAIR = ("hspice",)
"""Who decides about every pair of an event and a live partial match leaves all partial matches alive, and pays nothing for an event that it hides from one, of which most would not have fitted; so it is told beside the others and not compared with them."""


def default_method(points: Points) -> Verdict:
    """Against the best other at every setting: lost and wrong composite events together. Those of `BY_PAIR` are told apart.

    Raises:
        KeyError: it was not run.
    """
    gaps, ahead, hidden = [], 0, 0
    for figure in dict.fromkeys(one.figure for one in points.all if one.curve == AUTO):
        others = [one for one in points.curves(figure) if one not in {AUTO, "oracle", PROBABILITY, BY_WINDOW}]
        for x in points.xs(figure, AUTO):
            known = {other: _harms(points, figure, other, x) for other in others if x in points.xs(figure, other)}
            apart = [known.pop(other) for other in BY_PAIR if other in known]
            hidden += any(own > theirs + NEAR for own, theirs in apart)
            best = min(known, key=lambda other: known[other][1])
            gaps.append((known[best][0] - known[best][1], figure, x, *known[best], best))
            ahead += all(own <= theirs for other, (own, theirs) in known.items() if other in PUBLISHED)
    if not gaps:
        raise KeyError("the default method was not run")
    gap, figure, x, own, least, best = max(gaps)
    beyond = sum(one[0] > NEAR for one in gaps)
    numbers = f"at most {gap:.1f} points more harm (lost and wrong) than the best other, in {figure} at {x:g}: {own:.1f} against {best} {least:.1f}; more than {NEAR:g} in {beyond} of {len(gaps)} settings; no more than the best published in {ahead}"
    if hidden:
        numbers += f"; hSPICE, by its own count of work, is ahead by more than {NEAR:g} in {hidden}"
    return verdict(
        "default",
        f"shedder: auto (ours) does at most {NEAR:g} points more harm than the best other in every setting",
        numbers,
        figures=beyond == 0,
        shape=beyond <= len(gaps) / 10,
    )


def _harms(points: Points, figure: str, other: str, x: float) -> tuple[float, float]:
    """Of the default and of another method, by the seeds that both have."""
    lost, wrong = (points.pair(figure, AUTO, other, x, what) for what in ("lost", "wrong"))
    return float((lost[0] + wrong[0]).mean()), float((lost[1] + wrong[1]).mean())


# --- gSPICE ------------------------------------------------------------------------------------------------------------------------------------------------------------------------------


EVERY_KEY = "gspice, every key"
NO_PANE = "gspice, no pane"
LEAST_BAD = 5.0
"""Points that a line must be above others to be called bad."""


def _s1(prefix: str, label: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        own = [points.mean(f"{prefix}-{query}", "gspice", 200) for query in ("Q1", "Q3")]
        others = [points.mean(f"{prefix}-{query}", name, 200) for query in ("Q1", "Q3") for name in ("espice", "bl")]
        numbers = "; ".join(_numbers(points, f"{prefix}-{query}", ("gspice", "espice", "bl"), 200) for query in ("Q1", "Q3"))
        text = f"gSPICE loses at most 3 % on Q1 and Q3 at 200 %, eSPICE and BL at least 25 % ({label})"
        return verdict(f"S1, {label}", text, numbers, figures=max(own) <= 3 and min(others) >= 25, shape=max(own) < min(others))

    return rule


def _capacities(points: Points) -> Verdict:
    capacities = points.xs("E1-capacity", "gspice")
    own, others = (points.line("E1-capacity", name) for name in ("gspice", "espice"))
    numbers = f"lost at {', '.join(f'{x:g}' for x in capacities)} events/s: gspice {points.told_line('E1-capacity', 'gspice')}; espice {points.told_line('E1-capacity', 'espice')}"
    text = "gSPICE loses at most 3 % on Q1 at 200 % whatever the operator's capacity, eSPICE at least 25 % (virtual time)"
    return verdict("S1, capacities", text, numbers, figures=max(own) <= 3 and min(others) >= 25, shape=max(own) < min(others))


def _pane(figure: str, own: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        gaps = {k: difference(points, figure, own, NO_PANE, k) for k in points.xs(figure, own)}
        less, more = sum(gap[2] < 0 for gap in gaps.values()), sum(gap[1] > 0 for gap in gaps.values())
        listed = ", ".join(f"{k:g}: {gap[0]:.1f} [{gap[1]:.1f}, {gap[2]:.1f}]" for k, gap in gaps.items())
        numbers = (
            f"less is lost with it in {less}, more in {more} of {len(gaps)} settings; with less without, by k: {listed}. Lost: "
            + "; ".join(f"{name} {points.told_line(figure, name)}" for name in (own, NO_PANE, "espice", "bl"))
        )
        text = f"the predecessor pane tells what type and value do not: less is lost with it ({figure}, v <= k of ten, 200 %, {own})"
        return verdict(f"pane, {figure}, {own}", text, numbers, figures=less == len(gaps), shape=less > len(gaps) / 2 and not more)

    return rule


def _s2(own: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        gaps = {(figure, x): difference(points, figure, "espice", own, x, "wrong") for figure in SYNTHETIC for x in RATES}
        below = sum(gap[2] < 0 for gap in gaps.values())
        above = sum(gap[1] > 0 for gap in gaps.values())
        numbers = f"below in {below}, above in {above} of {len(gaps)} settings (paired 95 % intervals); " + "; ".join(
            _numbers(points, figure, ("espice", own, "bl"), 200, "wrong") for figure in SYNTHETIC
        )
        mean = np.mean([gap[0] for gap in gaps.values()])
        text = f"eSPICE has fewer false positives than gSPICE on Q1 to Q3 ({own})"
        return verdict(f"S2, {own}", text, numbers, figures=below == len(gaps), shape=bool(mean < 0) and below > above)

    return rule


def _s3(own: str, figure: str = "E6") -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        lines = {name: points.line(figure, name) for name in (own, "gspice-tree", "gspice-forest")}
        table, tree, forest = lines.values()
        order = table[0] < table[-1] and tree[0] < tree[-1] and forest[0] <= forest[-1] + 0.5
        forests = np.mean(forest) < np.mean(tree)
        tables = np.mean(table) < np.mean(tree)
        numbers = "lost on DS5, 6, 7, 8: " + "; ".join(f"{name} {points.told_line(figure, name)}" for name in lines)
        parts = f"skew helps: {order}; forest below tree: {forests}; table below tree: {tables} (means). "
        text = f"less is lost on DS5 than on DS8; forest and table lose less than the tree ({own})"
        return verdict(
            f"S3, {own}" if figure == "E6" else f"S3, {figure}, {own}", text, parts + numbers, figures=bool(forests and tables), shape=order
        )

    return rule


def _million(own: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        few, many = (points.line(figure, own) for figure in ("E6-k8", "E6-k8-million"))
        told = [points.told_line(figure, own) for figure in ("E6-k8", "E6-k8-million")]
        numbers = f"lost on DS5, 6, 7, 8: {told[0]} with 30,000 to learn from, {told[1]} with a million; no pane {points.told_line('E6-k8-million', NO_PANE)}"
        text = f"with a million events to learn from less is lost, and less on DS5 than on DS8 (v <= 8, {own})"
        less = float(np.mean(many)) < float(np.mean(few))
        return verdict(f"S3, a million, {own}", text, numbers, figures=less and many[0] < many[-1], shape=less)

    return rule


def _s4(own: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        line = points.line("E5-Q1", own)
        numbers = f"lost {points.told_line('E5-Q1', own)}; wrong {points.told_line('E5-Q1', own, 'wrong')} at panes of 5 to 320 events"
        shape = min(line[-2:]) > 2 * max(line[:2]) + 1
        text = f"with long panes more is lost, with short ones little changes (Q1, {own})"
        return verdict(f"S4, {own}", text, numbers, figures=max(line[:3]) <= 3, shape=shape)

    return rule


def _s4_stocks(stream: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        line = points.line(f"E5-Q4-{stream}", "gspice")
        numbers = f"lost {points.told_line(f'E5-Q4-{stream}', 'gspice')} at panes of 10 to 1600 events"
        flat = max(line[1:]) - min(line[1:]) <= 5
        text = f"bad with very short panes, flat afterwards (Q4 on {stream})"
        return verdict(f"S4, {stream}", text, numbers, figures=flat, shape=line[0] > max(line[1:]) + LEAST_BAD)

    return rule


def _s5(points: Points) -> Verdict:
    figures = [f"E1-queue-{query}" for query in ("Q1", "Q2", "Q3")]
    own = [(figure, x) for figure in figures for x in points.xs(figure, "gspice")]
    most = max(float(points.values(figure, "gspice", x, "latency_ms").max()) for figure, x in own)
    plateaus = [points.mean(figure, "gspice", x, "plateau_ms") for figure, x in own]
    numbers = f"greatest latency {most:.0f} ms, plateau {min(plateaus):.0f} to {max(plateaus):.0f} ms, bound 1000 ms"
    text = "latency stays at 80 % of the bound and never exceeds it (virtual time)"
    return verdict("S5", text, numbers, figures=most <= 1000 and all(abs(p - 800) <= 50 for p in plateaus), shape=most <= 1000)


def _s6(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        with_credit, without = (points.line(figure, name, "wrong") for name in ("gspice", "gspice, no credit"))
        collapse = max(with_credit) < 0.5 * max(without)
        low = [difference(points, figure, "espice", "gspice", x) for x in (120, 140)]
        rates = ", ".join(f"{x:g}" for x in points.xs(figure, "gspice"))
        numbers = (
            f"wrong at {rates} %: {points.told_line(figure, 'gspice', 'wrong')} with credit, {points.told_line(figure, 'gspice, no credit', 'wrong')} without; "
            f"eSPICE minus gSPICE lost at 120, 140 %: {', '.join(f'{gap[0]:.1f} [{gap[1]:.1f}, {gap[2]:.1f}]' for gap in low)}"
        )
        text = "false positives collapse when abandoned partial matches are forwarded; eSPICE loses no more than gSPICE at 120 and 140 %"
        return verdict(f"S6, {figure}", text, numbers, figures=all(gap[0] <= 0 for gap in low), shape=collapse)

    return rule


def _stocks(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        own, espice, bl = (points.line(figure, name) for name in ("gspice", "espice", "bl"))
        ratios = [(max(e / max(g, 0.1) for e, g in zip(other, own, strict=True))) for other in (espice, bl)]
        best = all(g <= e and g <= b for g, e, b in zip(own, espice, bl, strict=True))
        numbers = f"eSPICE loses up to {ratios[0]:.1f} times as much (paper: 2), BL up to {ratios[1]:.1f} times (paper: 7.2); " + "; ".join(
            _numbers(points, figure, ("gspice", "espice", "bl"), x) for x in (120, 200)
        )
        grows = all(line[-1] > line[0] for line in (own, espice, bl))
        text = "more is lost at higher rates, gSPICE loses least"
        return verdict(f"E3, {figure}", text, numbers, figures=best and grows and ratios[1] >= 2, shape=best)

    return rule


def _stocks_wrong(figure: str, humped: Sequence[str], growing: Sequence[str]) -> Callable[[Points], Verdict]:
    """Figure 7: false positives of some rise with the rate, of others from 120 to 140 % only."""

    def rule(points: Points) -> Verdict:
        lines = {name: points.line(figure, name, "wrong") for name in ("gspice", "espice", "bl")}
        as_told = {name: rising(lines[name], 0.5) and lines[name][-1] > lines[name][0] for name in growing}
        as_told |= {name: lines[name][1] > lines[name][0] and falling(lines[name][1:], 0.5) for name in humped}
        rates = ", ".join(f"{x:g}" for x in points.xs(figure, "gspice"))
        numbers = f"wrong at {rates} %: " + "; ".join(f"{name} {points.told_line(figure, name, 'wrong')}" for name in lines)
        text = "false positives" + (f" of {' and '.join(growing)} rise slightly with the rate;" if growing else "")
        text += f" of {', '.join(humped)} rise{'s' if len(humped) == 1 else ''} from 120 to 140 % and fall{'s' if len(humped) == 1 else ''} then (figure 7)"
        return verdict(
            f"E3, false positives, {figure}", text, numbers, figures=all(as_told.values()), shape=2 * sum(as_told.values()) > len(as_told)
        )

    return rule


def _soccer_wrong(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        own, espice, bl = (points.line(figure, name, "wrong") for name in ("gspice", "espice", "bl"))
        falls, rises = falling(espice, 0.5) and espice[-1] < espice[0], rising(bl, 0.5) and bl[-1] > bl[0]
        numbers = "wrong: " + "; ".join(f"{name} {points.told_line(figure, name, 'wrong')}" for name in ("gspice", "espice", "bl"))
        numbers += f". eSPICE falls: {falls}, BL rises: {rises}"
        text = "gSPICE invents almost nothing, eSPICE slightly less with the rate, BL slightly more (figure 8b)"
        return verdict(
            f"E4, false positives, {figure}",
            text,
            numbers,
            figures=max(own) <= 2 and falls and rises,
            shape=max(own) <= min(max(espice), max(bl)),
        )

    return rule


def _soccer(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        own, espice, bl = (points.line(figure, name) for name in ("gspice", "espice", "bl"))
        wrong = max(points.line(figure, "gspice", "wrong"))
        best = all(g <= e and g <= b for g, e, b in zip(own, espice, bl, strict=True))
        numbers = f"gSPICE wrong at most {wrong:.1f}; " + "; ".join(
            _numbers(points, figure, ("gspice", "espice", "bl"), x) for x in (120, 200)
        )
        return verdict(f"E4, {figure}", "gSPICE loses least and invents almost nothing", numbers, figures=best and wrong <= 2, shape=best)

    return rule


def gspice_verdicts(points: Points) -> list[Verdict]:
    """On S1 to S6, the paper's stock and soccer figures, and whether its idea, the pane, does it."""
    streams = ("GF-2015", "GF-2015 at 0.2 %", "generated")
    both = [rule(own) for rule in (_s2, _s3, _s4) for own in (EVERY_KEY, "gspice")]
    more = [rule for own in (EVERY_KEY, "gspice") for rule in (_s3(own, "E6-k8"), _million(own))]
    pane = [_pane(f"E2-{query}", own) for query in ("Q1", "Q3") for own in (EVERY_KEY, "gspice")]
    stocks = [_stocks(f"E3-{query}-{stream}") for stream in streams for query in ("Q4", "Q4-x2")]
    wrong = [_stocks_wrong(f"E3-{query}-{stream}", ("bl",), ("gspice", "espice")) for stream in streams for query in ("Q4", "Q4-x2")]
    wrong += [_stocks_wrong(f"E3-{query}-{stream}", ("gspice", "espice", "bl"), ()) for stream in streams for query in ("Q5", "Q5-x2")]
    soccer = [rule(f"E4-{stream}") for stream in ("POR-SUI-2019", "generated") for rule in (_soccer, _soccer_wrong)]
    negations = [_s6("negation"), *(_s6(f"E3-{query}-{stream}") for stream in streams for query in ("Q5", "Q5-x2"))]
    panes = [_s4_stocks(stream) for stream in streams]
    first = [_s1("E1", "fixed"), _s1("E1-queue", "virtual time"), _capacities]
    return decided([*first, *pane, *both, *more, *panes, _s5, *negations, *stocks, *wrong, *soccer, default_method], points)


# --- pSPICE ------------------------------------------------------------------------------------------------------------------------------------------------------------------------------

PROBABILITY = "match probability"
BY_WINDOW = "e-bl, by window"
"""E-BL, where any match of a window counts as the window's; see `ops.experiments.pspice`."""


def _s7(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        xs = sorted(points.xs(figure, "pspice"), key=lambda x: points.mean(figure, PROBABILITY, x))
        chance = [points.mean(figure, PROBABILITY, x) for x in xs]
        own, coin, events = ([points.mean(figure, name, x) for x in xs] for name in ("pspice", "pm-random", BY_WINDOW))
        low = [k for k, value in enumerate(chance) if value <= 60]
        if not low:
            raise KeyError(f"{figure}: no match probability up to 60 %")
        better = all(own[k] < coin[k] for k in low)
        sure = sum(difference(points, figure, "pspice", "pm-random", xs[k])[2] < 0 for k in low)
        gaps = [c - o for c, o in zip(coin, own, strict=True)]
        shrinking = chance[-1] >= 80 and gaps[-1] <= 5
        crossing = chance[-1] >= 80 and own[0] < events[0] and events[-1] < own[-1]
        rows = "; ".join(
            f"{p:.0f} %: pspice {points.told(figure, 'pspice', x)}, pm-random {points.told(figure, 'pm-random', x)}, e-bl by window {points.told(figure, BY_WINDOW, x)}"
            for p, x in zip(chance, xs, strict=True)
        )
        numbers = f"by match probability, lost at {rows}. Below pm-random beyond doubt in {sure} of {len(low)} settings up to 60 %. "
        numbers += f"Gap at {chance[-1]:.0f} %: {gaps[-1]:.1f}; E-BL falls: {falling(events, 3)}, and wins there: {crossing}"
        text = "pSPICE loses less than random dropping of partial matches up to 60 % match probability, about the same near 90 %; E-BL falls and wins at high match probability"
        return verdict(f"S7, {figure}", text, numbers, figures=shrinking and crossing and falling(events, 3), shape=better)

    return rule


def _s8(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        lines = {name: points.line(figure, name) for name in ("pspice", "pm-random", "e-bl")}
        own, *others = lines.values()
        best = all(o < min(values) for o, *values in zip(own, *others, strict=True))
        xs = ", ".join(f"{x:g}" for x in points.xs(figure, "pspice"))
        numbers = f"lost at {xs} %: " + "; ".join(f"{name} {points.told_line(figure, name)}" for name in lines)
        text = "what pSPICE loses grows with the rate and is least at all rates"
        return verdict(
            f"S8, {figure}", text, numbers, figures=rising(own) and best, shape=rising(own) and own[0] < min(line[0] for line in others)
        )

    return rule


def _s9(points: Points) -> Verdict:
    xs = points.xs("Ec", "pspice")
    gaps = [difference(points, "Ec", "pspice", "pspice-minus", x) for x in xs]
    numbers = "; ".join(
        f"factor {x:g}: pspice {points.told('Ec', 'pspice', x)}, without time {points.told('Ec', 'pspice-minus', x)} (difference {gap[0]:.1f} [{gap[1]:.1f}, {gap[2]:.1f}])"
        for x, gap in zip(xs, gaps, strict=True)
    )
    text = "remaining processing time makes no difference where queries cost the same, and saves results where one costs 16 times as much"
    better = gaps[-1][2] < 0
    return verdict("S9", text, numbers, figures=better and abs(gaps[0][0]) <= 2, shape=better)


def _s10(points: Points) -> Verdict:
    own, events = points.line("Ee", "pspice"), points.line("Ee", "e-bl")
    below = sum(o < e for o, e in zip(own, events, strict=True))
    numbers = f"percent of the time for matching: pspice {points.told_line('Ee', 'pspice')}; e-bl {points.told_line('Ee', 'e-bl')}"
    text = "deciding about partial matches takes less than deciding about events, and less of the time the larger the window"
    return verdict("S10", text, numbers, figures=below == len(own) and own[-1] < own[0], shape=2 * below > len(own) and own[-1] < own[0])


def _latency(points: Points) -> Verdict:
    rates = points.xs("Ed-Q1", "pspice")
    most = max(float(points.values("Ed-Q1", "pspice", x, "latency_ms").max()) for x in rates)
    numbers = f"greatest latency {most:.0f} ms at {', '.join(f'{x:g}' for x in rates)} %"
    return verdict("E-d", "the bound of 1000 ms is never exceeded (virtual time)", numbers, figures=most <= 1000, shape=most <= 1000)


def _building(points: Points) -> Verdict:
    line = points.line("Ef", "pspice")
    numbers = f"{points.told_line('Ef', 'pspice')} ms at windows of {', '.join(f'{x:g}' for x in points.xs('Ef', 'pspice'))} events (paper: 1,000 to 2,400)"
    return verdict(
        "E-f", "building a model takes longer for longer windows", numbers, figures=line[-1] <= 2400, shape=line[-1] > 1.2 * line[0]
    )


def pspice_verdicts(points: Points) -> list[Verdict]:
    """On S7 to S10, latency and model building."""
    varied = ("Ea-Q1", "Ea-Q2", "Ea-Q3-generated", "Ea-Q3-POR-SUI-2019", "Ea-Q4-generated", "Ea-Q4-KCM-2026", "Ea-Q4-MTA-2017")
    rates = ("Eb-Q1", "Eb-Q3-generated", "Eb-Q3-POR-SUI-2019", "Ed-Q1")
    return decided([*map(_s7, varied), *map(_s8, rates), _s9, _s10, _latency, _building, default_method], points)
