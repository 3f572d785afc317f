"""SHARP's workloads (arXiv 2507.04872, section 6.1; specification section 4) with all shedders, under bounds of 10 to 90 % of the unshedded latency.

    nice -n 10 python -m ops.experiments.sharp FOLDER [--quick] [--only NAME] [--seeds N] [--judge]

Writes plots (PNG, SVG), all points (``sharp.json``), and tables with verdicts (``sharp.md``), which it prints as well.

Latency in SHARP grows with the partial matches that an event is held against (its section 3.2: the engine must scan them all), and a bound is a share of the *average* latency
without shedding. So the work for an event is the number of live partial matches, and a bound of x % lets the mean over the judged stream be x % of what it is without shedding;
what was not used up in one place may be used in another (`AVERAGE_OVER` events). ``at every event`` is the strict reading: no event may meet more than x % of the mean.
Shedders of events must drop as much as brings the mean on the learning stream down to x %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from app.evaluation.contest import Contest, Terms
from app.evaluation.examination import BY_PARTIAL_MATCHES
from app.evaluation.quality import Quality
from app.query.text.keys import AUTO
from ops.experiments import sharp_streams as streams
from ops.experiments.rivals.budget import BudgetModel, Estimate, Judged, PriceModel
from ops.experiments.rivals.classes import icde20
from ops.experiments.rivals.satisfiability import Satisfiability
from ops.experiments.rivals.sketch import sharp
from ops.experiments.sharp_events import at_bounds
from ops.experiments.sharp_laws import LawsModel
from ops.experiments.sharp_oracle import Oracle
from ops.experiments.sharp_verdicts import BOUNDS, BY_PRICE, COMPARED, EVERY, INTERVALS, PAIRS, WORK, sharp_verdicts
from ops.experiments.shedding_command import Paper, Size, command
from ops.experiments.shedding_default import Auto
from ops.experiments.shedding_figures import Plot, Point
from ops.experiments.shedding_runs import divided, point_of, under
from shedding.interface import Model
from shedding.registry import method

FULL = Size(10, 10_000, 4_000)
QUICK = Size(3, 3_000, 1_000)
AVERAGE_OVER = 300
"""Events."""
FEW = 3
"""Seeds for the shedders of events, whose work must be measured at many drop ratios first."""
MATCHES = ("stateful", "pspice", "pspice-minus", "hspice", "pm-random")
STRICT = ("stateful", "pm-random")
EVENTS = ("prefix", "gspice", "gspice-tree", "gspice-forest", "espice", "bl", "e-bl", "random")


def contest(name: str, size: Size, seed: int) -> Contest:
    """One pair of queries on one stream; with twice the types and twice the window, twice as many events to learn from."""
    learning = size.learning * (2 if name == "Q3+Q4" else 1)
    batch = streams.stream_of(name, learning + size.judging, seed)
    share = learning / len(batch)
    one = Contest(streams.plan_of(name), *divided(batch, share), Terms(seed=seed, fixed=True, match_share=1.0, average_over=AVERAGE_OVER))
    if not one.calm or not len(one.truth):  # both are worked out once, before copies under other terms are made
        raise ValueError(f"{name}: nothing to find in {len(batch)} events")
    return one


def points(one: Contest, terms: Terms, model: Model[Any], figure: str, curve: str, bound: int) -> Iterator[Point]:  # noqa: PLR0917 - where in the points
    """What was lost, and how much work was left."""
    for standing in under(one, terms).standings(method("pm-random"), model, (100 / bound,)):
        yield point_of(standing, figure, curve, bound, terms.seed)
        yield Point(figure + WORK, curve, bound, terms.seed, 100 * standing.held)


def of_matches(name: str, size: Size, seed: int) -> Iterator[Point]:
    """Shedders of partial matches."""
    one = contest(name, size, seed)
    taking_part = {shedder: one.train(method(shedder)) for shedder in MATCHES}
    references: dict[str, Model[Any]] = {"oracle": Oracle.of(one), **({"laws": LawsModel()} if name == "Q3+Q4" else {})}
    for shedder, model in {**taking_part, **references}.items():
        for bound in BOUNDS if shedder == "stateful" else COMPARED:
            terms = replace(one.terms, match_interval=INTERVALS[bound], priced=True)
            yield from points(one, terms, model, name, shedder, bound)
            if shedder in STRICT and bound in COMPARED:
                yield from points(one, replace(terms, average_over=0, priced=False), model, name + EVERY, shedder, bound)


def of_default(name: str, size: Size, seed: int) -> Iterator[Point]:
    """The default method, `shedder: auto`, among the shedders of partial matches that compete there."""
    if seed < FEW:
        one = contest(name, size, seed)
        chosen = Auto({shedder: method(shedder) for shedder in BY_PARTIAL_MATCHES}).chosen(one)
        model = one.train(chosen)
        for bound in COMPARED:
            yield from points(one, replace(one.terms, match_interval=INTERVALS[bound], priced=True), model, name, AUTO, bound)


def of_rivals(name: str, size: Size, seed: int) -> Iterator[Point]:
    """Shedders of partial matches of ICDE'20 and SHARP, as published and by price, and pSPICE by price."""
    one = contest(name, size, seed)
    observed = one.match_observations
    assert observed.succession is not None
    models: dict[str, Model[Any]] = {}
    estimates: dict[str, Estimate] = {"icde20": icde20(observed, seed), "sharp": sharp(observed, seed)}
    for rival, estimate in estimates.items():
        models[rival] = BudgetModel(estimate)
        models[rival + BY_PRICE] = PriceModel.of(Judged(estimate), estimate.manifest, observed.sample, observed.succession)
    pspice: Any = one.train(method("pspice"))
    models["pspice" + BY_PRICE] = PriceModel.of(pspice, pspice.manifest, observed.sample, observed.succession)
    for rival, model in models.items():
        for bound in COMPARED:
            yield from points(one, replace(one.terms, match_interval=INTERVALS[bound], priced=True), model, name, rival, bound)


def of_events(name: str, size: Size, seed: int) -> Iterator[Point]:
    """Shedders of events, whole or in tumbling windows."""
    if seed >= FEW:
        return
    one = contest(name, size, seed)
    for shedder in EVENTS:
        taking_part = method(shedder)
        found = at_bounds(one, one.train(taking_part), COMPARED, by_window=taking_part.level == "events per window")
        yield from event_points(found, name, shedder, seed)


def of_darling(name: str, size: Size, seed: int) -> Iterator[Point]:
    """DARLING, which sheds events."""
    if seed < FEW:
        one = contest(name, size, seed)
        yield from event_points(at_bounds(one, Satisfiability.of(one, name, seed), COMPARED), name, "darling", seed)


def event_points(found: Iterator[tuple[float, Quality, float, float]], name: str, curve: str, seed: int) -> Iterator[Point]:
    """What shedders of events lost, invented, dropped, and how much work was left."""
    for bound, quality, dropped, held in found:
        yield Point(name, curve, bound, seed, 100 * quality.false_negatives, 100 * quality.false_positives, quality.true, 100 * dropped)
        yield Point(name + WORK, curve, bound, seed, 100 * held)


EXPERIMENTS: dict[str, Callable[[Size, int], Iterator[Point]]] = {
    f"{pair} {kind}": partial(run, pair)
    for pair in PAIRS
    for kind, run in (
        ("matches", of_matches),
        ("default", of_default),
        ("rivals", of_rivals),
        ("events", of_events),
        ("darling", of_darling),
    )
}

_BOUND = "bound, % of the unshedded latency"
PLOTS = [
    *(Plot(pair, f"{pair}: recall lost", _BOUND) for pair in PAIRS),
    *(Plot(pair + EVERY, f"{pair}: recall lost, the bound holds at every event", _BOUND) for pair in PAIRS),
    *(Plot(pair + WORK, f"{pair}: work left", _BOUND, y="% of the partial matches without shedding") for pair in PAIRS),
    *(Plot(pair, f"{pair}: invented", _BOUND, "wrong", "false positives, %") for pair in PAIRS[2:]),
]


def main(given: Sequence[str] | None = None) -> None:
    """Runs, draws, judges."""
    command(Paper("sharp", __doc__, EXPERIMENTS, FULL, QUICK, PLOTS, sharp_verdicts), given)


if __name__ == "__main__":
    main()
