"""The pSPICE paper's experiments (E-a to E-f of the specification, section 3.6) on generated streams, POR-SUI-2019 and KCM-2026.

    nice -n 10 python -m ops.experiments.pspice FOLDER [--quick] [--only NAME] [--seeds N]

Writes plots (PNG, SVG), all points (``pspice.json``), and tables with verdicts (``pspice.md``), which it prints as well.

A window per opening event is what ``within`` spans from it. *Fixed*: partial matches are limited to their mean number without shedding, divided by the rate; E-BL drops the share
of events (in windows) that exceeds the capacity. *Queue*: virtual time, where the work for an event grows with the partial matches that it is held against, 1,000 events per second.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time, process_time_ns
from typing import Any

import numpy as np

from app.bucket.recording import rows_between
from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.evaluation.quality import Quality
from app.evaluation.shared_matches import SharedOperator, several
from app.evaluation.windows import OpenedOperator
from app.events.batch import EventBatch
from app.query.plan import Plan
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.shedding_figures import Plot, Point, Points, read, written
from ops.experiments.shedding_runs import RATES, judged, shedders
from ops.experiments.shedding_verdicts import pspice_verdicts
from shedding.interface import Training
from shedding.registry import method

INTERVAL = 40
"""Events between two looks at the queue."""
Q1_WINDOWS = (3500, 4500, 5000, 5500, 6000, 10_000)
Q2_WINDOWS = (6000, 7000, 7500, 8000, 12_000, 14_000)
FACTORS = (1, 4, 8, 16)
USUAL = ("pspice", "pm-random", "e-bl")
PROBABILITY = "match probability"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: streams, events to learn from, events to be judged by."""

    seeds: int
    learning: int
    judging: int


FULL = Size(10, 20_000, 30_000)
QUICK = Size(2, 15_000, 20_000)


def terms(seed: int, *, fixed: bool = True) -> Terms:
    """What shedders share."""
    return Terms(seed=seed, fixed=fixed, overloaded=not fixed, opened=True, match_interval=INTERVAL)


def contest(plan: Plan, batch: EventBatch, learning: int, seed: int, *, fixed: bool = True) -> Contest:
    """A contest on one stream."""
    return Contest(plan, rows_between(batch, 0, learning), rows_between(batch, learning, len(batch)), terms(seed, fixed=fixed))


def _steps(size: Size, seed: int) -> EventBatch:
    return data.steps(size.learning + size.judging, seed)


def _probability(one: Contest, figure: str, x: float) -> Point:
    """Complete matches per partial match without shedding."""
    begun = len(np.unique(OpenedOperator(one.plan, one.judging).windows.window))
    return Point(figure, PROBABILITY, x, one.terms.seed, 100 * len(one.truth) / max(1, begun), true=len(one.truth))


def _varied(figure: str, one: Contest, x: float, rate: float = 1.2) -> Iterator[Point]:
    yield _probability(one, figure, x)
    yield from judged(one, figure, shedders(*USUAL), (rate,), x)


def e_a(size: Size, seed: int) -> Iterator[Point]:
    """E-a: quality over match probability, which the window or the number of events varies."""
    batch = _steps(size, seed)
    for events in Q1_WINDOWS:
        yield from _varied("Ea-Q1", contest(queries.p1(events), batch, size.learning, seed), events)
    for events in Q2_WINDOWS[::2]:
        yield from _varied("Ea-Q2", contest(queries.p2(events), batch, size.learning, seed), events)
    for name, players in _soccer(size, seed):
        for count in (2, 3, 4, 5, 6):
            yield from _varied(f"Ea-Q3-{name}", contest(queries.p3(count), players, len(players) // 2, seed), count)


def e_a_buses(size: Size, seed: int) -> Iterator[Point]:
    """E-a with buses; of the recording, seeds take different stretches."""
    streams = {"generated": data.buses(2 * size.learning, seed)}
    if data.recording(data.BUSES["KCM-2026"]) is not None:
        everything = data.bus_recording("KCM-2026")
        first = seed * 4000
        streams["KCM-2026"] = rows_between(everything, first, first + 2 * size.learning)
    for name, batch in streams.items():
        for count in (3, 7, 10):
            yield from _varied(f"Ea-Q4-{name}", contest(queries.p4(count), batch, len(batch) // 2, seed), count)


def _soccer(size: Size, seed: int) -> Iterator[tuple[str, EventBatch]]:
    yield "generated", data.duel_events(*data.soccer_positions(size.judging // 10, seed), seed)
    if data.recording(data.POR_SUI_2019) is not None:
        yield "POR-SUI-2019", data.duel_events(*data.por_sui_2019(), seed)


def e_b(size: Size, seed: int) -> Iterator[Point]:
    """E-b: quality over the rate."""
    one = contest(queries.p1(5000), _steps(size, seed), size.learning, seed)
    yield from judged(one, "Eb-Q1", shedders(*USUAL), RATES)
    for name, players in _soccer(size, seed):
        one = contest(queries.p3(4), players, len(players) // 2, seed)
        yield from judged(one, f"Eb-Q3-{name}", shedders(*USUAL), (1.2, 1.6, 2.0))


def e_c(size: Size, seed: int) -> Iterator[Point]:
    """E-c: Q1 and Q2 in one operator, Q1's steps cost a multiple."""
    batch = _steps(size, seed)
    learning, judging = rows_between(batch, 0, size.learning), rows_between(batch, size.learning, len(batch))
    plans = (queries.p1(10_000), queries.p2(10_000))
    observed = [MatchOperator(plan, learning).observations() for plan in plans]
    operators = [MatchOperator(plan, judging) for plan in plans]
    truths = [Operator(plan, judging).run() for plan in plans]
    for factor in FACTORS:
        shared = SharedOperator(operators, (factor, 1))
        calm = shared.run(MatchLoad(1.0, 0.0, 0.0, bound_s=np.inf, interval=INTERVAL), None).burden.mean()
        for name in ("pspice", "pspice-minus"):
            model: Any = method(name).train(several(observed, shared.factors), Training(seed))
            course = shared.run(MatchLoad(1.0, 0.0, 0.0, interval=INTERVAL, most=calm / 1.2), model)
            parts = [Quality.of(truth, outcome) for truth, outcome in zip(truths, course.outcomes, strict=True)]
            true, found = sum(part.true for part in parts), sum(part.both for part in parts)
            yield Point("Ec", name, factor, seed, 100 * (1 - found / max(1, true)), true=true)


def e_d(size: Size, seed: int) -> Iterator[Point]:
    """E-d: latency and quality in virtual time."""
    one = contest(queries.p1(5000), _steps(size, seed), size.learning, seed, fixed=False)
    yield from judged(one, "Ed-Q1", shedders(*USUAL), (1.2, 1.4, 2.0))


class Clocked:
    """A model that notes how long its gates' decisions take in all."""

    def __init__(self, model: Any) -> None:
        self.model, self.spent_ns = model, 0
        self.manifest = model.manifest

    def gate(self, ratio: float) -> Any:
        """Itself, as the gate of this ratio."""
        self._gate = self.model.gate(ratio)
        return self

    def keep(self, candidates: Any) -> np.ndarray:
        """Timed."""
        began = process_time_ns()
        kept = self._gate.keep(candidates)
        self.spent_ns += process_time_ns() - began
        return kept


def e_e(size: Size, seed: int) -> Iterator[Point]:
    """E-e: time for decisions, percent of the time for matching; E-f: time to build a model. Of the processor."""
    if seed >= 3:
        return
    batch = _steps(size, seed)
    for events in (3500, 6000, 10_000):
        one = contest(queries.p1(events), batch, size.learning, seed, fixed=False)
        operator = MatchOperator(one.plan, one.judging)
        began = process_time_ns()
        operator.run(MatchLoad(1.0, 0.0, 0.0, bound_s=np.inf, interval=INTERVAL), None)
        matching = process_time_ns() - began
        for name in USUAL:
            clocked: Any = Clocked(one.train(method(name)))
            (_,) = one.standings(method(name), clocked, (1.2,))
            yield Point("Ee", name, events, seed, 100 * clocked.spent_ns / matching)
    for events in (6000, 12_000, 24_000, 32_000):
        observed = MatchOperator(queries.p1(events), rows_between(batch, 0, size.learning)).observations()
        began = process_time_ns()
        method("pspice").train(observed, Training(seed))
        yield Point("Ef", "pspice", events, seed, (process_time_ns() - began) / 1e6)


EXPERIMENTS: dict[str, Callable[[Size, int], Iterator[Point]]] = {
    "ea": e_a,
    "ea-buses": e_a_buses,
    "eb": e_b,
    "ec": e_c,
    "ed": e_d,
    "ee": e_e,
}

_VARIED = {
    "Ea-Q1": "window, events",
    "Ea-Q2": "window, events",
    "Ea-Q3-generated": "defenders",
    "Ea-Q3-POR-SUI-2019": "defenders",
    "Ea-Q4-generated": "buses",
    "Ea-Q4-KCM-2026": "buses",
}
_RATE = "rate, % of the capacity"
PLOTS = [
    *(Plot(figure, f"{figure}, 120 %", x) for figure, x in _VARIED.items()),
    *(Plot(figure, figure, _RATE) for figure in ("Eb-Q1", "Eb-Q3-generated", "Eb-Q3-POR-SUI-2019")),
    Plot("Ec", "Q1 and Q2 in one operator", "cost of Q1, times"),
    Plot("Ed-Q1", "Q1, virtual time", _RATE),
    Plot("Ed-Q1", "Q1, virtual time: greatest latency", _RATE, "latency_ms", "ms"),
    Plot("Ee", "time for decisions", "window, events", y="% of the time for matching"),
    Plot("Ef", "time to build a model", "window, events", y="ms of the processor"),
]


def run(size: Size, only: str = "") -> Points:
    """All experiments whose name contains ``only``."""
    found: list[Point] = []
    for name, experiment in EXPERIMENTS.items():
        if only in name:
            began = process_time()
            for seed in range(size.seeds):
                found += experiment(size, seed)
            print(f"{name}: {process_time() - began:.0f} s of the processor", flush=True)
    return Points(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs, draws, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="two seeds and shorter streams")
    parser.add_argument("--judge", action="store_true", help="only draw and judge the points that an earlier run wrote")
    parser.add_argument("--seeds", type=int, help="so many streams")
    parser.add_argument("--only", default="", help="experiments whose name contains this")
    given = parser.parse_args(arguments)
    size = QUICK if given.quick else FULL
    seeds = given.seeds or size.seeds
    points = read(given.folder, "pspice") if given.judge else run(replace(size, seeds=seeds), given.only)
    written(points, PLOTS, given.folder, pspice_verdicts, "pspice")


if __name__ == "__main__":
    main()
