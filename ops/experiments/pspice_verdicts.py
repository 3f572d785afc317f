"""Verdicts on the pSPICE paper's claims, S7 to S10 of the specification's section 7.4, latency and model building, from the points of `ops.experiments.pspice`."""

from __future__ import annotations

from collections.abc import Callable

from ops.experiments.shedding_figures import Points, difference, gap_told, surely_least
from ops.experiments.shedding_verdicts import (
    BY_WINDOW,
    FORESEEING,
    NOTHING_FREE,
    PROBABILITY,
    Verdict,
    decided,
    default_method,
    falling,
    rising,
    verdict,
)


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


def _s8(figure: str, *, own: str = "pspice", events: str = "e-bl", ablation: str = "") -> Callable[[Points], Verdict]:
    """Which line is lower at every rate.

    Args:
        figure: over rates.
        own: the line of pSPICE.
        events: that of E-BL.
        ablation: what is otherwise in one of them.
    """

    def rule(points: Points) -> Verdict:
        others = ("pm-random", events)
        lines = {name: points.line(figure, name) for name in (own, *others)}
        line, xs = lines[own], points.xs(figure, own)
        sure = [surely_least(points, figure, own, others, x) for x in xs]
        gaps = {name: [difference(points, figure, own, name, x) for x in xs] for name in others}
        numbers = f"lost at {', '.join(f'{x:g}' for x in xs)} %: " + "; ".join(f"{name} {points.told_line(figure, name)}" for name in lines)
        numbers += f". Least beyond doubt at {sum(sure)} of {len(xs)} rates; less " + "; less ".join(
            f"{name} {', '.join(map(gap_told, gap))}" for name, gap in gaps.items()
        )
        text = "what pSPICE loses grows with the rate and is least at all rates" + (f" ({ablation})" if ablation else "")
        first = line[0] < min(lines[name][0] for name in others)
        changed = ", ".join(name for name in (own, events) if name in {NOTHING_FREE, FORESEEING})
        return verdict(
            f"S8, {figure}" + (f", ablation: {changed}" if changed else ""),
            text,
            numbers,
            figures=rising(line) and all(sure),
            shape=rising(line) and first,
        )

    return rule


def _s8_ablations(figure: str) -> list[Callable[[Points], Verdict]]:
    """What E-BL has that pSPICE has not, taken from it, and the other way about."""
    return [
        _s8(figure, events=NOTHING_FREE, ablation="E-BL has nothing to drop for free: events that open windows are none of the others'"),
        _s8(figure, own=FORESEEING, ablation="in place of pSPICE's chain what really becomes of each partial match"),
    ]


def _s9(points: Points) -> Verdict:
    xs = points.xs("Ec", "pspice")
    gaps = [difference(points, "Ec", "pspice", "pspice-minus", x) for x in xs]
    numbers = "; ".join(
        f"factor {x:g}: pspice {points.told('Ec', 'pspice', x)}, without time {points.told('Ec', 'pspice-minus', x)} (difference {gap_told(gap)})"
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


def _latency(figure: str) -> Callable[[Points], Verdict]:
    def rule(points: Points) -> Verdict:
        rates = points.xs(figure, "pspice")
        most = max(float(points.values(figure, "pspice", x, "latency_ms").max()) for x in rates)
        plateaus = [points.mean(figure, "pspice", x, "plateau_ms") for x in rates]
        listed = ", ".join(f"{x:g}" for x in rates)
        numbers = f"greatest latency {most:.0f} ms, plateau {', '.join(f'{one:.0f}' for one in plateaus)} ms at {listed} %, bound 1000 ms"
        text = "latency stays at 80 % of the bound and never exceeds it (virtual time)"
        calm = all(abs(one - 800) <= 50 for one in plateaus)
        return verdict(f"E-d, {figure}", text, numbers, figures=calm and most <= 1000, shape=most <= 1000)

    return rule


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
    virtual = ("Ed-Q1", "Ed-Q3-generated", "Ed-Q3-POR-SUI-2019")
    ablations = [rule for figure in ("Eb-Q3-generated", "Eb-Q3-POR-SUI-2019") for rule in _s8_ablations(figure)]
    return decided([*map(_s7, varied), *map(_s8, rates), *ablations, _s9, _s10, *map(_latency, virtual), _building, default_method], points)
