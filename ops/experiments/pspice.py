"""The pSPICE paper's experiments (E-a to E-f of the specification, section 3.6) on generated streams, POR-SUI-2019 and KCM-2026.

    nice -n 10 python -m ops.experiments.pspice FOLDER [--quick] [--only NAME] [--seeds N]

Writes plots (PNG, SVG), all points (``pspice.json``), and tables with verdicts (``pspice.md``), which it prints as well.

A window per opening event is what ``within`` spans from it. *Fixed*: partial matches are limited to their mean number without shedding, divided by the rate; E-BL drops the share
of events (in windows) that exceeds the capacity. *Queue*: virtual time, where the work for an event grows with the partial matches that it is held against; 1,000 quotes per second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import process_time_ns
from typing import Any

import numpy as np

from app.bucket.recording import rows_between
from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.evaluation.quality import Quality
from app.evaluation.shared_matches import SharedOperator, several
from app.evaluation.timing import TimedModel
from app.evaluation.windows import OpenedOperator
from app.events.batch import EventBatch
from app.query.plan import Plan
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.shedding_command import Paper, Size, command
from ops.experiments.shedding_figures import Plot, Point
from ops.experiments.shedding_runs import candidates, judged, shedders
from ops.experiments.shedding_verdicts import BY_WINDOW, PROBABILITY, pspice_verdicts
from shedding.interface import Training
from shedding.registry import method

INTERVAL = 10
"""Events between two looks at the queue; in virtual time every event looks, as in the paper's algorithm 1."""
CAPACITY = 1000 * data.OF_USE
"""Events per second that the operator manages without shedding: 1,000 quotes."""
Q1_WINDOWS = (3500, 5000, 6000, 10_000)
Q2_WINDOWS = (7000, 14_000)
"""The paper has six each; the smallest and greatest match probabilities are among these."""
FACTORS = (1, 4, 16)
USUAL = ("pspice", "pm-random", "e-bl")


FULL = Size(10, 1_500, 3_000)
QUICK = Size(2, 1_200, 2_000)


def terms(seed: int, *, fixed: bool = True) -> Terms:
    """What shedders share."""
    return Terms(CAPACITY, seed=seed, fixed=fixed, opened=True, interval=1 if not fixed else 50, match_interval=INTERVAL if fixed else 1)


def contest(plan: Plan, batch: EventBatch, learning: int, seed: int, *, fixed: bool = True) -> Contest:
    """A contest on one stream."""
    return Contest(plan, rows_between(batch, 0, learning), rows_between(batch, learning, len(batch)), terms(seed, fixed=fixed))


def _steps(size: Size, seed: int) -> EventBatch:
    return data.steps(size.learning + size.judging, seed)


def _players(count: int, players: EventBatch, seed: int) -> Contest:
    """Q3, on the events that its items take: nobody far from the ball."""
    plan = queries.p3(count)
    batch = candidates(plan, players)
    return contest(plan, batch, len(batch) // 2, seed)


def _probability(one: Contest, figure: str, x: float) -> Point:
    """Complete matches per partial match without shedding."""
    begun = len(np.unique(OpenedOperator(one.plan, one.judging).windows.window))
    return Point(figure, PROBABILITY, x, one.terms.seed, 100 * len(one.truth) / max(1, begun), true=len(one.truth))


def _with_windows(points: Iterator[Point]) -> Iterator[Point]:
    """For E-BL also what is lost when a window's match counts as found whatever events it binds.

    A window has one match at most, and dropping events completes none that was incomplete: every match with other events stands for a true one.
    """
    for point in points:
        yield point
        if point.curve == "e-bl":
            yield replace(point, curve=BY_WINDOW, lost=point.lost - point.wrong, wrong=0.0)


def _varied(figure: str, one: Contest, x: float, rate: float = 1.2) -> Iterator[Point]:
    yield _probability(one, figure, x)
    yield from _with_windows(judged(one, figure, shedders(*USUAL), (rate,), x))


def e_a(size: Size, seed: int) -> Iterator[Point]:
    """E-a: quality over match probability, which the window or the number of events varies."""
    batch = _steps(size, seed)
    for events in Q1_WINDOWS:
        yield from _varied("Ea-Q1", contest(queries.p1(events), batch, size.learning, seed), events)
    for events in Q2_WINDOWS:
        yield from _varied("Ea-Q2", contest(queries.p2(events), batch, size.learning, seed), events)
    for name, players in _soccer(size, seed):
        for count in (2, 4, 6):
            yield from _varied(f"Ea-Q3-{name}", _players(count, players, seed), count)


def e_a_buses(size: Size, seed: int) -> Iterator[Point]:
    """E-a with buses; of the recording, seeds take different stretches."""
    half = 8 * size.learning
    streams = {"generated": data.buses(2 * half, seed)}
    if data.recording(data.BUSES["KCM-2026"]) is not None:
        everything = data.bus_recording("KCM-2026")
        first = seed * 4000
        streams["KCM-2026"] = rows_between(everything, first, first + 2 * half)
    for name, batch in streams.items():
        for count in (3, 10):
            yield from _varied(f"Ea-Q4-{name}", contest(queries.p4(count), batch, len(batch) // 2, seed), count)


def _soccer(size: Size, seed: int) -> Iterator[tuple[str, EventBatch]]:
    yield "generated", data.duel_events(*data.soccer_positions(size.judging // 2, seed), seed)
    if data.recording(data.POR_SUI_2019) is not None:
        yield "POR-SUI-2019", data.duel_events(*data.por_sui_2019(), seed)


def e_b(size: Size, seed: int) -> Iterator[Point]:
    """E-b: quality over the rate."""
    one = contest(queries.p1(5000), _steps(size, seed), size.learning, seed)
    yield from _with_windows(judged(one, "Eb-Q1", shedders(*USUAL, "stateful"), (1.2, 1.6, 2.0)))
    for name, players in _soccer(size, seed):
        one = _players(4, players, seed)
        yield from _with_windows(judged(one, f"Eb-Q3-{name}", shedders(*USUAL), (1.2, 1.6, 2.0)))


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
    yield from judged(one, "Ed-Q1", shedders(*USUAL), (1.2, 2.0))


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
            timed = TimedModel(one.train(method(name)))
            (_,) = one.standings(method(name), timed, (1.2,))
            yield Point("Ee", name, events, seed, 100 * timed.spent_ns / matching)
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs, draws, judges."""
    command(Paper("pspice", __doc__, EXPERIMENTS, FULL, QUICK, PLOTS, pspice_verdicts), arguments)


if __name__ == "__main__":
    main()
