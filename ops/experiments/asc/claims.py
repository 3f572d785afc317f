"""What the paper says of its figures 6 to 9, as numbers that code can judge."""

from __future__ import annotations

from collections.abc import Callable

from ops.experiments.asc.figures import Figures
from ops.experiments.asc.measure import ARROWS_KNOWN, FIGURE_6, FIGURE_7, MACRO_KNOWN, THRESHOLDS
from ops.experiments.asc.verdicts import Claim, rank_correlation
from ops.experiments.asc.workloads import Q3

NEAR, ROUGHLY = 0.05, 0.15
"""What "approximates the best order" means: so much above it."""
TREND = -0.6
"""A trend over places that is not more than noise would leave: rank correlation, sign turned so that less is better."""
PAPERS_FIGURE_7 = next(iter(FIGURE_7))
FIGURE_9 = tuple(f"mu = {threshold:g}" for threshold in THRESHOLDS)


def claims(figures: Figures) -> list[Claim]:
    """All claims for which there are figures."""
    found: list[Claim] = []
    for number, judge in {6: _sequences, 7: _attributes, 8: _micro_arrows, 9: _adaptation}.items():
        if figures.workloads(number):
            found += judge(figures)
    return found


def _sequences(figures: Figures) -> list[Claim]:
    found = []
    papers = [workload.name for workload in FIGURE_6[:3]]
    for on in figures.workloads(6):
        against = _against(figures, 6, on, 0.0)
        says = "" if on in papers else "(not in the paper) "
        for scheme in ("Macro", "Hybrid"):
            found += [
                Claim(
                    6,
                    f"{says}{scheme} costs less than Ticket Routing",
                    on,
                    "cost relative to it, less 1",
                    against(scheme, "Ticket Routing"),
                ),
                Claim(
                    6,
                    f"{says}{scheme} approximates SEQ best",
                    on,
                    "cost relative to it, less 1",
                    against(scheme, "SEQ best"),
                    NEAR,
                    ROUGHLY,
                ),
            ]
        found += [*_ours(figures, 6, on, 0.0, on), *_all_known(figures, 6, on, 0.0, on)]
        if on != papers[0]:
            effect = "cost relative to it, less 1"
            found.append(Claim(6, f"{says}Hybrid costs less than SEQ best", on, effect, against("Hybrid", "SEQ best")))
        found.append(
            Claim(
                6,
                f"{says}Ticket Routing costs less than SEQ worst",
                on,
                "cost relative to it, less 1",
                against("Ticket Routing", "SEQ worst"),
            )
        )
        own = _against(figures, 6, on, 0.0, "constructs needed")
        for scheme in ("Macro", "Hybrid", "Macro (ours)", "Hybrid (ours)"):
            if not figures.places(6, on, scheme, "constructs needed"):
                continue
            effect = "constructs evaluated relative to it, less 1"
            says_own = f"(product's count) {scheme} approximates the best order"
            found.append(Claim(6, says_own, on, effect, own(scheme, "SEQ best"), NEAR, ROUGHLY))
    return found


def _against(figures: Figures, number: int, on: str, x: float, measure: str = "cost") -> Callable[[str, str], tuple[float, ...]]:
    def relative(scheme: str, other: str) -> tuple[float, ...]:
        pairs = zip(figures.of(number, on, scheme, measure, x), figures.of(number, on, other, measure, x), strict=True)
        return tuple(own / reference - 1 for own, reference in pairs)

    return relative


def _ours(figures: Figures, number: int, on: str, x: float, where: str) -> list[Claim]:
    """What this project's search adds; the paper claims nothing of it. Nothing where it did not take part."""
    if x not in figures.places(number, on, "Hybrid (ours)"):
        return []
    against, effect = _against(figures, number, on, x), "cost relative to it, less 1"
    others = {"SEQ best": "SEQ best", "Hybrid": "the paper's Hybrid"}
    return [
        Claim(number, f"(ours) Hybrid (ours) costs less than {name}", where, effect, against("Hybrid (ours)", other))
        for other, name in others.items()
    ]


def _all_known(figures: Figures, number: int, on: str, x: float, where: str) -> list[Claim]:
    """Why the paper's Hybrid is above the best order: its searches again, when they lack no knowledge."""
    if x not in figures.places(number, on, MACRO_KNOWN):
        return []
    against, effect = _against(figures, number, on, x), "cost relative to it, less 1"
    return [
        Claim(number, f"(ablation: all is known) {scheme} costs no more than SEQ best", where, effect, against(scheme, "SEQ best"))
        for scheme in (MACRO_KNOWN, ARROWS_KNOWN)
    ]


def _attributes(figures: Figures) -> list[Claim]:
    return [one for on in figures.workloads(7) for one in _attributes_on(figures, on)]


def _attributes_on(figures: Figures, on: str) -> list[Claim]:
    places = [float(target.attributes) for target in Q3]
    says_own = "" if on == PAPERS_FIGURE_7 else "(not in the paper) "
    found = []
    for worse, better in (("Ticket Routing", "Hybrid"), ("Ticket Routing", "Macro"), ("Ticket Routing", "SEQ best")):
        gaps = [tuple(a - b for a, b in zip(figures.of(7, on, worse, x=x), figures.of(7, on, better, x=x), strict=True)) for x in places]
        falls = tuple(-rank_correlation(places, seed) for seed in zip(*gaps, strict=True))
        says = f"{says_own}the gap between {worse} and {better} grows with the number of p-attributes"
        found.append(Claim(7, says, on, "rank correlation, sign turned", falls, TREND))
    for target, x in zip(Q3, places, strict=True):
        effect = "cost relative to it, less 1"
        values = _against(figures, 7, on, x)("Hybrid", "SEQ best")
        found.append(Claim(7, f"{says_own}Hybrid costs less than SEQ best, {target.attributes} p-attributes", on, effect, values))
        where = f"{on}, {target.attributes} p-attributes"
        found += [*_ours(figures, 7, on, x, where), *_all_known(figures, 7, on, x, where)]
    return found


def _micro_arrows(figures: Figures) -> list[Claim]:
    found = []
    for on in figures.workloads(8):
        places = figures.places(8, on, "Hybrid")
        last = tuple(value - 1 for value in figures.of(8, on, "Hybrid", "relative cost", places[-1]))
        rises, falls = _trend(figures, on, "micro ratio", -1), _trend(figures, on, "relative cost", 1)
        found += [
            Claim(8, "the micro ratio rises with the deviation of ones", on, "rank correlation, sign turned", rises, TREND),
            Claim(8, "the relative cost of Hybrid falls with the deviation of ones", on, "rank correlation", falls, TREND),
            Claim(8, f"Hybrid costs less than Macro, deviation {places[-1]:g}", on, "cost relative to it, less 1", last),
        ]
    return found


def _trend(figures: Figures, on: str, measure: str, sign: int) -> tuple[float, ...]:
    places = figures.places(8, on, "Hybrid", measure)
    seeds = zip(*(figures.of(8, on, "Hybrid", measure, x) for x in places), strict=True)
    return tuple(sign * rank_correlation(places, seed) for seed in seeds)


def _adaptation(figures: Figures) -> list[Claim]:
    found = []
    for on in figures.workloads(9):
        always = FIGURE_9[0]
        before, after = figures.of(9, on, always, "excess before"), figures.of(9, on, always, "excess after")
        jumps = tuple(b - a for b, a in zip(before, after, strict=True))
        effect = "excess over SEQ best before the boundary, less that behind it"
        found += [
            Claim(9, "the cost jumps when a part ends", on, effect, jumps),
            Claim(
                9,
                "rearranged, it comes close to the optimum",
                on,
                "excess over SEQ best at the end of parts, mu = 0",
                before,
                NEAR,
                ROUGHLY,
            ),
            Claim(9, "smaller mu: more rearrangements", on, "rank correlation", _over_thresholds(figures, on, "rearrangements", 1), TREND),
            Claim(9, "smaller mu: lower cost", on, "rank correlation, sign turned", _over_thresholds(figures, on, "excess", -1), TREND),
            Claim(9, "smaller mu: more overhead", on, "rank correlation", _over_thresholds(figures, on, "planning, ms", 1), TREND),
        ]
    return found


def _over_thresholds(figures: Figures, on: str, measure: str, sign: int) -> tuple[float, ...]:
    seeds = zip(*(figures.of(9, on, scheme, measure) for scheme in FIGURE_9), strict=True)
    return tuple(sign * rank_correlation(THRESHOLDS, seed) for seed in seeds)
