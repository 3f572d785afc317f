"""Verdicts on the gSPICE paper's claims, S1 to S6 of the specification's section 7.4 and its figures, from the points of `ops.experiments.gspice`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from ops.experiments.shedding_figures import Points, difference, gap_told, interval, surely_least
from ops.experiments.shedding_verdicts import Verdict, decided, default_method, falling, rising, verdict

SYNTHETIC = ("E1-Q1", "E1-Q2", "E1-Q3")
RATES = (120, 140, 160, 180, 200)
EVERY_KEY = "gspice, every key"
NO_PANE = "gspice, no pane"
LEAST_BAD = 5.0
"""Points that a line must be above others to be called bad."""
SLIGHT = 0.25
"""Of what the others' losses grow by, at most so much is a slight growth."""
COMPARABLE = 2.0
"""Points between drop ratios that are called comparable."""


def _numbers(points: Points, figure: str, curves: Sequence[str], x: float, what: str = "lost") -> str:
    return f"{figure} at {x:g}: " + ", ".join(f"{curve} {points.told(figure, curve, x, what)}" for curve in curves)


def far_apart(points: Points, places: Sequence[tuple[str, float]], others: Sequence[str]) -> tuple[bool, bool]:
    """S1 at some places (figure, x): whether the whole intervals keep its figures, 3 % and 25 %, and whether the means keep the order."""
    own = [points.interval(figure, "gspice", x) for figure, x in places]
    theirs = [points.interval(figure, name, x) for figure, x in places for name in others]
    most = max(points.mean(figure, "gspice", x) for figure, x in places)
    least = min(points.mean(figure, name, x) for figure, x in places for name in others)
    return max(high for _, high in own) <= 3 and min(low for low, _ in theirs) >= 25, most < least


def _s1(prefix: str, label: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        figures = [f"{prefix}-{query}" for query in ("Q1", "Q3")]
        numbers = "; ".join(_numbers(points, f"{prefix}-{query}", ("gspice", "espice", "bl"), 200) for query in ("Q1", "Q3"))
        text = f"gSPICE loses at most 3 % on Q1 and Q3 at 200 %, eSPICE and BL at least 25 % ({label})"
        kept, ordered = far_apart(points, [(figure, 200) for figure in figures], ("espice", "bl"))
        return verdict(f"S1, {label}", text, numbers, figures=kept, shape=ordered)

    return rule


def _capacities(points: Points) -> Verdict:
    capacities = points.xs("E1-capacity", "gspice")
    numbers = f"lost at {', '.join(f'{x:g}' for x in capacities)} events/s: gspice {points.told_line('E1-capacity', 'gspice')}; espice {points.told_line('E1-capacity', 'espice')}"
    text = "gSPICE loses at most 3 % on Q1 at 200 % whatever the operator's capacity, eSPICE at least 25 % (virtual time)"
    kept, ordered = far_apart(points, [("E1-capacity", x) for x in capacities], ("espice",))
    return verdict("S1, capacities", text, numbers, figures=kept, shape=ordered)


def _second(own: str) -> Callable[[Points], Verdict]:
    """Figure 4b."""

    def rule(points: Points) -> Verdict:
        figure, others = "E1-Q2", ("espice", "bl")
        rates = points.xs(figure, own)
        sure = [surely_least(points, figure, own, others, x) for x in rates]
        least = all(points.mean(figure, own, x) < min(points.mean(figure, name, x) for name in others) for x in rates)
        growth = {name: points.growth(figure, name, rates[0], rates[-1]) for name in (own, *others)}
        slightly = growth[own][1] > 0 and growth[own][2] <= SLIGHT * min(growth[name][1] for name in others)
        numbers = f"least beyond doubt at {sum(sure)} of {len(rates)} rates; grows from {rates[0]:g} to {rates[-1]:g} % by " + ", ".join(
            f"{gap_told(gap)} ({name})" for name, gap in growth.items()
        )
        numbers += "; lost " + "; ".join(f"{name} {points.told_line(figure, name)}" for name in growth)
        text = f"Q2: what gSPICE loses rises only slightly with the rate (at most a quarter as much as the others'), eSPICE and BL lose more at every rate ({own})"
        shape = least and growth[own][0] < min(growth[name][0] for name in others)
        return verdict(f"figure 4b, {own}", text, numbers, figures=all(sure) and slightly, shape=shape)

    return rule


def _dropped(points: Points) -> Verdict:
    """Figure 4d."""
    figure = "E1-charged"
    gaps = {x: [difference(points, figure, "gspice", name, x, "dropped") for name in ("bl", "espice")] for x in points.xs(figure, "gspice")}
    numbers = "; ".join(
        f"{_numbers(points, figure, ('gspice', 'espice', 'bl'), x, 'dropped')}, gspice less bl {gap_told(bl)}, less espice {gap_told(espice)}"
        for x, (bl, espice) in gaps.items()
    )
    text = f"Q1 with decisions charged: gSPICE drops about as much as BL (within {COMPARABLE:g} points), and less than eSPICE"
    kept = all(bl[1] >= -COMPARABLE and bl[2] <= COMPARABLE and espice[2] < 0 for bl, espice in gaps.values())
    nearer = all(espice[0] < 0 and abs(bl[0]) < -espice[0] for bl, espice in gaps.values())
    return verdict("figure 4d", text, numbers, figures=kept, shape=nearer)


def _charged(points: Points) -> Verdict:
    others = ("espice", "bl")
    numbers = _numbers(points, "E1-charged", ("gspice", "gspice-tree", "gspice-forest", *others), 200)
    text = (
        "gSPICE loses at most 3 % on Q1 at 200 %, eSPICE and BL at least 25 %, where decisions are charged with their time (virtual time)"
    )
    kept, ordered = far_apart(points, [("E1-charged", 200)], others)
    return verdict("S1, charged", text, numbers, figures=kept, shape=ordered)


def _trees_dropped(points: Points) -> Verdict:
    """Figure 10b."""
    figure, trees = "E6-charged", ("gspice-tree", "gspice-forest")
    gaps = {name: [difference(points, figure, name, "gspice", x, "dropped") for x in points.xs(figure, name)] for name in trees}
    flat = [gap for line in gaps.values() for gap in line]
    numbers = f"more in {sum(gap[0] > 0 for gap in flat)}, beyond doubt in {sum(gap[1] > 0 for gap in flat)} of {len(flat)} settings; dropped on DS5, 6, 7, 8: "
    numbers += "; ".join(f"{name} {points.told_line(figure, name, 'dropped')}" for name in ("gspice", *trees))
    numbers += "; more than the table " + "; ".join(f"{name} {', '.join(map(gap_told, line))}" for name, line in gaps.items())
    text = "trees and forests drop more than the table, as their decisions take longer (Q2 at 140 %, decisions charged)"
    return verdict("figure 10b", text, numbers, figures=all(gap[1] > 0 for gap in flat), shape=all(gap[0] > 0 for gap in flat))


def _pane(figure: str, own: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        gaps = {k: difference(points, figure, own, NO_PANE, k) for k in points.xs(figure, own)}
        less, more = sum(gap[2] < 0 for gap in gaps.values()), sum(gap[1] > 0 for gap in gaps.values())
        listed = ", ".join(f"{k:g}: {gap[0]:.1f} [{gap[1]:.1f}, {gap[2]:.1f}]" for k, gap in gaps.items())
        numbers = (
            f"less is lost with it in {less}, more in {more} of {len(gaps)} settings; lost with it less lost without, by k: {listed}. Lost: "
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
            f"eSPICE minus gSPICE lost at 120, 140 %: {', '.join(map(gap_told, low))}"
        )
        text = "false positives collapse when abandoned partial matches are forwarded; eSPICE loses no more than gSPICE at 120 and 140 %"
        return verdict(f"S6, {figure}", text, numbers, figures=all(gap[2] <= 0 for gap in low), shape=collapse)

    return rule


def _stocks(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        own, espice, bl = (points.line(figure, name) for name in ("gspice", "espice", "bl"))
        ratios = [(max(e / max(g, 0.1) for e, g in zip(other, own, strict=True))) for other in (espice, bl)]
        best = all(g <= e and g <= b for g, e, b in zip(own, espice, bl, strict=True))
        sure = [surely_least(points, figure, "gspice", ("espice", "bl"), x) for x in points.xs(figure, "gspice")]
        numbers = (
            f"least beyond doubt at {sum(sure)} of {len(sure)} rates; eSPICE loses up to {ratios[0]:.1f} times as much (paper: 2), BL up to {ratios[1]:.1f} times (paper: 7.2); "
            + "; ".join(_numbers(points, figure, ("gspice", "espice", "bl"), x) for x in (120, 200))
        )
        grows = all(line[-1] > line[0] for line in (own, espice, bl))
        text = "more is lost at higher rates, gSPICE loses least"
        return verdict(f"E3, {figure}", text, numbers, figures=all(sure) and grows and ratios[1] >= 2, shape=best)

    return rule


def _stocks_wrong(figure: str, humped: Sequence[str], growing: Sequence[str], *, ablation: bool = False) -> Callable[[Points], Verdict]:
    """Figure 7: false positives of some rise with the rate, of others from 120 to 140 % only.

    Args:
        ablation: with the paper's table in place of ours.
    """
    humped, growing = ([EVERY_KEY if ablation and name == "gspice" else name for name in names] for names in (humped, growing))

    def rule(points: Points) -> Verdict:
        lines = {name: points.line(figure, name, "wrong") for name in (EVERY_KEY if ablation else "gspice", "espice", "bl")}
        as_told = {name: rising(lines[name], 0.5) and lines[name][-1] > lines[name][0] for name in growing}
        as_told |= {name: lines[name][1] > lines[name][0] and falling(lines[name][1:], 0.5) for name in humped}
        rates = ", ".join(f"{x:g}" for x in points.xs(figure, "gspice"))
        numbers = f"wrong at {rates} %: " + "; ".join(f"{name} {points.told_line(figure, name, 'wrong')}" for name in lines)
        text = "false positives" + (f" of {' and '.join(growing)} rise slightly with the rate;" if growing else "")
        text += f" of {', '.join(humped)} rise{'s' if len(humped) == 1 else ''} from 120 to 140 % and fall{'s' if len(humped) == 1 else ''} then (figure 7)"
        return verdict(
            f"E3, false positives, {figure}{', ablation' * ablation}",
            text,
            numbers,
            figures=all(as_told.values()),
            shape=2 * sum(as_told.values()) > len(as_told),
        )

    return rule


def _wrong_at_all_rates(query: str) -> Callable[[Points], Verdict]:
    """Figure 7's ablation: where on its curve a shedder is at the paper's rates. Reproduced where the top is above both ends beyond doubt, in its shape where nothing beyond doubt falls before it or rises behind it."""
    figure, paper = f"E3-all-rates-{query}", (120, 200)

    def rule(points: Points) -> Verdict:
        told, sure, shapes = [], [], []
        for name in ("gspice", EVERY_KEY, "espice", "bl"):
            xs, line = points.xs(figure, name), points.line(figure, name, "wrong")
            top = int(np.argmax(line))
            runs = [points.values(figure, name, x, "wrong") for x in xs]
            sure.append(all(interval(runs[top] - end)[0] > 0 for end in (runs[0], runs[-1])))
            steps = [interval(after - before) for before, after in pairwise(runs)]
            turns = any(high < 0 for _, high in steps[:top]) or any(low > 0 for low, _ in steps[top:])
            shapes.append(0 < top < len(line) - 1 and not turns)
            rates = ", ".join(f"{points.mean(figure, name, x):.0f}" for x in paper)
            told.append(
                f"{name} {points.told_line(figure, name, 'wrong')}: most at {xs[top]:g} %, where {points.mean(figure, name, xs[top]):.0f} are lost ({rates} at {paper[0]}, {paper[1]} %)"
            )
        numbers = f"wrong at {', '.join(f'{x:g}' for x in points.xs(figure, 'gspice'))} %: " + "; ".join(told)
        text = "false positives of every shedder rise with the rate until many matches are lost and fall then, so whether 120 to 200 % show a rise or a fall is a matter of how much is lost there"
        return verdict(f"E3, false positives, E3-{query}, ablation: all rates", text, numbers, figures=all(sure), shape=all(shapes))

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
        rates = points.xs(figure, "gspice")
        wrong = max(points.line(figure, "gspice", "wrong"))
        surely = max(points.interval(figure, "gspice", x, "wrong")[1] for x in rates)
        best = all(g <= e and g <= b for g, e, b in zip(own, espice, bl, strict=True))
        sure = [surely_least(points, figure, "gspice", ("espice", "bl"), x) for x in rates]
        numbers = (
            f"least beyond doubt at {sum(sure)} of {len(sure)} rates; gSPICE wrong at most {wrong:.1f} (interval up to {surely:.1f}); "
            + "; ".join(_numbers(points, figure, ("gspice", "espice", "bl"), x) for x in (120, 200))
        )
        return verdict(
            f"E4, {figure}", "gSPICE loses least and invents almost nothing", numbers, figures=all(sure) and surely <= 2, shape=best
        )

    return rule


def gspice_verdicts(points: Points) -> list[Verdict]:
    """On S1 to S6, the paper's stock and soccer figures, and whether its idea, the pane, does it."""
    streams = ("GF-2015", "GF-2015 at 0.2 %", "generated")
    both = [rule(own) for rule in (_s2, _s3, _s4) for own in (EVERY_KEY, "gspice")]
    more = [rule for own in (EVERY_KEY, "gspice") for rule in (_s3(own, "E6-k8"), _million(own))]
    pane = [_pane(f"E2-{query}", own) for query in ("Q1", "Q3") for own in (EVERY_KEY, "gspice")]
    stocks = [_stocks(f"E3-{query}-{stream}") for stream in streams for query in ("Q4", "Q4-x2")]
    wrong = [
        _stocks_wrong(f"E3-{query}-{stream}", *patterns, ablation=ablation)
        for ablation in (False, True)
        for queries, patterns in ((("Q4", "Q4-x2"), (("bl",), ("gspice", "espice"))), (("Q5", "Q5-x2"), (("gspice", "espice", "bl"), ())))
        for stream in streams
        for query in queries
    ]
    wrong += [_wrong_at_all_rates(f"{query}-{stream}") for stream in streams for query in ("Q4", "Q4-x2", "Q5", "Q5-x2")]
    soccer = [rule(f"E4-{stream}") for stream in ("POR-SUI-2019", "generated") for rule in (_soccer, _soccer_wrong)]
    negations = [_s6("negation"), *(_s6(f"E3-{query}-{stream}") for stream in streams for query in ("Q5", "Q5-x2"))]
    panes = [_s4_stocks(stream) for stream in streams]
    first = [_s1("E1", "fixed"), _s1("E1-queue", "virtual time"), _capacities, _charged]
    first += [_second(EVERY_KEY), _second("gspice"), _dropped, _trees_dropped]
    return decided([*first, *pane, *both, *more, *panes, _s5, *negations, *stocks, *wrong, *soccer, default_method], points)
