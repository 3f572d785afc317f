"""The pSPICE paper's experiments (E-a to E-f of the specification, section 3.6) on generated streams, POR-SUI-2019 and KCM-2026.

    nice -n 10 python -m ops.experiments.pspice FOLDER [--quick] [--only NAME] [--seeds N]

Writes plots (PNG, SVG), all points (``pspice.json``), and tables with verdicts (``pspice.md``), which it prints as well.

A window per opening event is what ``within`` spans from it. *Fixed*: partial matches are limited, on average, to their mean number without shedding, divided by the rate; E-BL drops the share
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
from app.evaluation.timing import TimedModel
from app.evaluation.windows import OpenedOperator
from app.events.batch import EventBatch
from app.query.plan import Plan
from app.query.text.keys import AUTO
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.gspice import four_symbols
from ops.experiments.pspice_ablations import ablated
from ops.experiments.pspice_verdicts import pspice_verdicts
from ops.experiments.shared_matches import SharedOperator, several
from ops.experiments.shedding_command import Paper, Size, command
from ops.experiments.shedding_default import Auto, Longer
from ops.experiments.shedding_figures import Plot, Point, Points, known
from ops.experiments.shedding_runs import Shedders, candidates, judged, shedders, under
from ops.experiments.shedding_verdicts import BY_PAIR, BY_WINDOW, PROBABILITY, own_table
from shedding.interface import Training
from shedding.registry import METHODS, method

INTERVAL = 10
"""Events between two looks at the queue; in virtual time every event looks, as in the paper's algorithm 1."""
CAPACITY = 1000 * data.OF_USE
"""Events per second that the operator manages without shedding: 1,000 quotes."""
AVERAGE_OVER = 100
"""In fixed mode: events, fewer than a window has, within which what was not used of the limit may be used. On average, because a limit of 1.4 partial matches would otherwise be one of 1."""
SOCCER_HZ = 5
"""Samples per second. With one a second Q3 has one to three partial matches at a time, and there is nothing to choose."""
FEW = 3
"""Seeds of what lies between other settings, of recordings that are too short for more, and where the processor's clock is read."""
Q1_WINDOWS, Q1_BETWEEN = (3500, 5000, 6000, 10_000), (4500, 5500)
Q2_WINDOWS, Q2_BETWEEN = (7000, 14_000), (6000, 7500, 8000, 12_000)
DEFENDERS, DEFENDERS_BETWEEN = (2, 4, 6), (3, 5)
LATE_BUSES, BUSES_BETWEEN = (3, 10), (4, 7, 8)
FACTORS, FACTORS_BETWEEN = (1, 4, 16), (2, 8, 12)
RATES, RATES_BETWEEN = (1.2, 1.6, 2.0), (1.4, 1.8)
PAPERS = ("pspice", "pm-random", "e-bl")
USUAL = (*PAPERS, "hspice", "stateful", "prefix")


FULL = Size(10, 1_500, 3_000)
QUICK = Size(3, 1_200, 2_000)


def terms(seed: int, *, fixed: bool = True) -> Terms:
    """What shedders share."""
    every, looks = (50, INTERVAL) if fixed else (1, 1)
    return Terms(
        CAPACITY, seed=seed, fixed=fixed, opened=True, interval=every, match_interval=looks, average_over=AVERAGE_OVER if fixed else 0
    )


def with_default(*names: str, longer: Longer | None = None) -> Shedders:
    """These methods, and the default one among those of them that learn and count their work alike; ``longer``: see `Auto`."""
    among = [name for name in names if METHODS[name].learns and name not in BY_PAIR]
    return {**shedders(*names), AUTO: Auto({name: method(name) for name in among}, longer)}


def contest(plan: Plan, batch: EventBatch, learning: int, seed: int, *, fixed: bool = True) -> Contest:
    """A contest on one stream."""
    return Contest(plan, rows_between(batch, 0, learning), rows_between(batch, learning, len(batch)), terms(seed, fixed=fixed))


def _settings(main: tuple[Any, ...], between: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
    return main + between if seed < FEW else main


def _steps(size: Size, seed: int) -> EventBatch:
    return data.steps(size.learning + size.judging, seed)


def _longer(size: Size, seed: int) -> Longer:
    """Steps of another stretch than those that are judged by."""
    return lambda times: data.steps(times * size.learning, seed + 1_000)


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


def _varied(figure: str, one: Contest, x: float, taking_part: Sequence[str] = USUAL, longer: Longer | None = None) -> Iterator[Point]:
    if not known(figure, PROBABILITY, x, one.terms.seed):
        yield _probability(one, figure, x)
    yield from _with_windows(judged(one, figure, with_default(*taking_part, longer=longer), (1.2,), x))


def e_a(size: Size, seed: int) -> Iterator[Point]:
    """E-a: quality over match probability, which the window or the number of events varies."""
    batch, longer = _steps(size, seed), _longer(size, seed)
    for events in _settings(Q1_WINDOWS, Q1_BETWEEN, seed):
        yield from _varied("Ea-Q1", contest(queries.p1(events), batch, size.learning, seed), events, longer=longer)
    for events in _settings(Q2_WINDOWS, Q2_BETWEEN, seed):
        yield from _varied("Ea-Q2", contest(queries.p2(events), batch, size.learning, seed), events, longer=longer)
    for name, players in _soccer(size, seed):
        # generated games differ so much that three of them say nothing: those of three defenders lose 10, 11 and 50 % by `prefix`
        for count in DEFENDERS + DEFENDERS_BETWEEN if name == "generated" else _settings(DEFENDERS, DEFENDERS_BETWEEN, seed):
            yield from _varied(f"Ea-Q3-{name}", _players(count, players, seed), count)


def e_a_buses(size: Size, seed: int) -> Iterator[Point]:
    """E-a with buses; of recordings, seeds take different stretches, which overlap in the shorter one (MTA-2017).

    `prefix` takes no part: nine of ten calls are on time, and an event shedder that sees that loses nothing; so would selection.
    """
    half = 8 * size.learning
    streams = {"generated": data.buses(2 * half, seed)}
    for name in ("KCM-2026", "MTA-2017"):
        if data.recording(data.BUSES[name]) is not None and (name != "MTA-2017" or seed < FEW):
            everything = data.bus_recording(name)
            first = min(seed * 4000, len(everything) - 2 * half - (FEW - seed) * 1000)
            streams[name] = rows_between(everything, first, first + 2 * half)
    for name, batch in streams.items():
        for count in LATE_BUSES if name == "MTA-2017" or seed else (*LATE_BUSES, *BUSES_BETWEEN):
            one = contest(queries.p4(count), batch, len(batch) // 2, seed)
            yield from _varied(f"Ea-Q4-{name}", one, count, taking_part=(*PAPERS, "hspice", "stateful"))


def _soccer(size: Size, seed: int) -> Iterator[tuple[str, EventBatch]]:
    yield "generated", data.duel_events(*data.soccer_positions(size.judging // 2, seed, SOCCER_HZ), seed)
    if data.recording(data.POR_SUI_2019) is not None:
        yield "POR-SUI-2019", data.duel_events(*data.por_sui_2019(1000 // SOCCER_HZ), seed)


def e_b(size: Size, seed: int) -> Iterator[Point]:
    """E-b: quality over the rate; on soccer with what S8 may fail by."""
    one = contest(queries.p1(5000), _steps(size, seed), size.learning, seed)
    yield from _with_windows(judged(one, "Eb-Q1", with_default(*USUAL, longer=_longer(size, seed)), _settings(RATES, RATES_BETWEEN, seed)))
    for name, players in _soccer(size, seed):
        one, rates = _players(4, players, seed), _settings(RATES, RATES_BETWEEN, seed)
        yield from _with_windows(judged(one, f"Eb-Q3-{name}", with_default(*USUAL), rates))
        yield from ablated(one, f"Eb-Q3-{name}", rates)


def e_c(size: Size, seed: int) -> Iterator[Point]:
    """E-c: Q1 and Q2 in one operator, Q1's steps cost a multiple."""
    batch = _steps(size, seed)
    learning, judging = rows_between(batch, 0, size.learning), rows_between(batch, size.learning, len(batch))
    plans = (queries.p1(10_000), queries.p2(10_000))
    observed = [MatchOperator(plan, learning).observations() for plan in plans]
    operators = [MatchOperator(plan, judging) for plan in plans]
    truths = [Operator(plan, judging).run() for plan in plans]
    for factor in _settings(FACTORS, FACTORS_BETWEEN, seed):
        if known("Ec", "pspice-minus", factor, seed):
            continue
        shared = SharedOperator(operators, (factor, 1))
        calm = shared.run(MatchLoad(1.0, 0.0, 0.0, bound_s=np.inf, interval=INTERVAL), None).burden.mean()
        for name in ("pspice", "pspice-minus"):
            model: Any = method(name).train(several(observed, shared.factors), Training(seed))
            course = shared.run(MatchLoad(1.0, 0.0, 0.0, interval=INTERVAL, most=calm / 1.2, average_over=AVERAGE_OVER), model)
            parts = [Quality.of(truth, outcome) for truth, outcome in zip(truths, course.outcomes, strict=True)]
            true, found = sum(part.true for part in parts), sum(part.both for part in parts)
            yield Point("Ec", name, factor, seed, 100 * (1 - found / max(1, true)), true=true)


def e_d(size: Size, seed: int) -> Iterator[Point]:
    """E-d: latency and quality in virtual time."""
    one = contest(queries.p1(5000), _steps(size, seed), size.learning, seed, fixed=False)
    yield from judged(one, "Ed-Q1", with_default(*USUAL, longer=_longer(size, seed)), (1.2, 1.4, 2.0))
    for name, players in _soccer(size, seed):
        one = _players(4, players, seed)
        yield from judged(
            under(one, replace(terms(seed, fixed=False), match_interval=INTERVAL)), f"Ed-Q3-{name}", with_default(*USUAL), (1.2, 2.0)
        )


def own_methods(size: Size, seed: int) -> Iterator[Point]:
    """gSPICE's streams with a window per opening event, for shedders of partial matches beside those of events, in both modes; events that the query's items take."""
    streams = {"DS1": (queries.g1(within="250 s"), data.letters("DS1", 4 * (size.learning + size.judging), seed))}
    if data.recording(data.GF_2015) is not None:
        batch, four = four_symbols(seed)
        streams["GF-2015"] = (queries.g4_rising(four, 2, within="15 min"), batch)
    for name, (plan, everything) in streams.items():
        batch = candidates(plan, everything)
        for fixed in (True, False):
            one = contest(plan, batch, int(0.4 * len(batch)), seed, fixed=fixed)
            one = under(one, replace(one.terms, match_interval=INTERVAL))
            figure = f"own-{name}" if fixed else f"own-queue-{name}"
            yield from judged(one, figure, with_default(*USUAL, "gspice"), (1.2, 2.0))


def e_e(size: Size, seed: int) -> Iterator[Point]:
    """E-e: time for decisions, percent of the time for matching; E-f: time to build a model. Of the processor."""
    if seed >= 3:
        return
    batch = _steps(size, seed)
    for events in (3500, 5000, 6000, 10_000):
        one = contest(queries.p1(events), batch, size.learning, seed, fixed=False)
        operator = MatchOperator(one.plan, one.judging)
        began = process_time_ns()
        operator.run(MatchLoad(1.0, 0.0, 0.0, bound_s=np.inf, interval=INTERVAL), None)
        matching = process_time_ns() - began
        for name in PAPERS:
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
    "own": own_methods,
}

_VARIED = {
    "Ea-Q1": "window, events",
    "Ea-Q2": "window, events",
    "Ea-Q3-generated": "defenders",
    "Ea-Q3-POR-SUI-2019": "defenders",
    "Ea-Q4-generated": "buses",
    "Ea-Q4-KCM-2026": "buses",
    "Ea-Q4-MTA-2017": "buses",
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


def _own(points: Points) -> str:
    """Where our methods win and lose."""
    others = (*PAPERS, "hspice", "gspice")
    return own_table("stateful", others)(points) + "\n\n" + own_table("prefix", (*others, "stateful"))(points)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs, draws, judges."""
    command(Paper("pspice", __doc__, EXPERIMENTS, FULL, QUICK, PLOTS, pspice_verdicts, _own), arguments)


if __name__ == "__main__":
    main()
