"""The shedding experiments on a clock: the operator really works, decisions are really paid for, latencies are those of real queues.

    python -m ops.experiments.wall_clock FOLDER [--clock wall|processor] [--quick] [--only NAME] [--seeds N] [--judge]

Both papers: gSPICE's Q1 and Q3 on DS1, its Q4 on GF-2015 and Q6 on POR-SUI-2019 (played again and again), pSPICE's Q1. One thread, on one core where the system allows it; events arrive as the clock
says, at 120 and 200 % of a capacity that is measured without shedding before each run, and again behind it (`ops.experiments.wall_steady`); the bound is 1 s, shedding begins at 0.8 s, and the queue has that length when a run begins.
``--clock processor`` counts the time that this thread works instead of the time that passes: for machines that are busy with other things. Writes plots (PNG, SVG), all points
(``wall.json``) and tables with verdicts (``wall.md``), named by the clock; none of it is virtual time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.shares import Asked, as_asked, of_candidates
from app.evaluation.windows import EventWindows
from app.events.batch import EventBatch
from app.features.events import Features, candidate_items
from app.features.positions import shed_window
from app.query.plan import Plan
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.clock.deciding import Candidates
from ops.experiments.clock.operators import EventShedding
from ops.experiments.clock.pace import CLOCKS, Clock, EventDetector, Pace, pinned
from ops.experiments.gspice import PANE_STOCKS, all_symbols
from ops.experiments.shedding_command import Paper, Size, command
from ops.experiments.shedding_figures import Plot, Point
from ops.experiments.wall_default import chosen, with_default
from ops.experiments.wall_matches import matches_shed
from ops.experiments.wall_runs import RATES, Setting, calibrated, measuring, needed, operator_of, points_of, quality_of, run_of, windows_of
from ops.experiments.wall_steady import steady
from ops.experiments.wall_verdicts import means, wall_verdicts
from shedding.interface import Method, Model
from shedding.panes import Pane
from shedding.registry import method

FULL = Size(10, 20_000, 12_000)
"""Events to learn from, and to measure the capacity with."""
QUICK = Size(3, 12_000, 8_000)
STOCKS_SHARE = 0.001
"""By which a price must have moved for a quote of GF-2015; moves of twice that count."""


def _methods(*names: str, pane: Pane | None = None) -> dict[str, Method[Any] | None]:
    settings = {} if pane is None else {"pane": pane}
    return {name: method(name, **(settings if name == "gspice" else {})) for name in names}


def events_shed(setting: Setting, figure: str, seed: int, clock: Clock) -> Iterator[Point]:
    """Shedders of events, and of events in windows."""
    contest = Contest(setting.plan, setting.learning, rows_between(setting.learning, 0, 0), Terms(seed=seed))
    models = {name: contest.train(one) if one is not None else None for name, one in setting.methods.items()}
    measured = measuring(setting, clock)
    capacity, size = calibrated(measured)
    stream = setting.judging(needed(capacity, max(setting.rates)))
    windows, truth = windows_of(setting, stream), Operator(setting.plan, stream).run()
    judged = Features.of(setting.plan).judged(stream)
    taken, asked = _behind_selection(setting, stream, models)

    def run(rate: float, name: str, capacity: float) -> Iterator[Point]:
        pace = Pace(rate * capacity, capacity, size, begun_s=0.8)
        events, one = min(len(stream), needed(capacity, rate)), setting.methods[name]
        pairs = windows if one is not None and one.level == "events per window" else None
        candidates = Candidates(judged, pairs, getattr(models[name], "pane", None), taken, asked[name])
        worker = EventShedding(operator_of(setting, stream, windows), candidates, models[name], EventDetector(pace), clock)
        course = run_of(events, pace, worker, clock)
        yield from points_of(figure, name, pace, seed, course, quality_of(truth, worker.operator.outcome(), events), worker.dropped)

    default = chosen(setting.plan, setting.learning, setting.methods, seed)
    for rate, name in product(setting.rates, setting.methods):
        yield from with_default(steady(partial(measured, size), partial(run, rate, name)), default)


def _behind_selection(
    setting: Setting, stream: EventBatch, models: Mapping[str, Model[Any] | None]
) -> tuple[NDArray[np.bool_] | None, dict[str, Asked]]:
    """What of the stream costs anything, and what each model is asked for so that a share of it goes."""
    if not setting.selected:
        return None, dict.fromkeys(models, as_asked)
    late = rows_between(setting.learning, int(0.8 * len(setting.learning)), len(setting.learning))
    judged, rows = Features.of(setting.plan).judged(late), np.flatnonzero(candidate_items(setting.plan, late))
    windows = EventWindows.of(shed_window(setting.plan), late)
    pairs = np.flatnonzero(np.isin(windows.event, rows))
    asked = {}
    for name, one in setting.methods.items():
        model, in_windows = models[name], one is not None and one.level == "events per window"
        seen, own = (windows.judged(judged), pairs) if in_windows else (judged, rows)
        asked[name] = as_asked if model is None else of_candidates(model, seen, own)
    return candidate_items(setting.plan, stream) != 0, asked


def _letters(
    query: Callable[..., Plan], names: Sequence[str], *, blind: bool = True, rates: Sequence[float] = RATES
) -> Callable[[Size, int], Setting]:
    def setting(size: Size, seed: int) -> Setting:
        learning = data.letters("DS1", size.learning, seed + 1_000)
        judging = partial(data.letters, "DS1", seed=seed)
        return Setting(query(blind=blind), learning, judging, _methods(*names), rates, selected=not blind)

    return setting


def _stocks(_size: Size, seed: int) -> Setting:
    """Panes and windows hold quotes of all symbols; what is matched, costs and can be dropped are those of four, a few in a hundred, so all of the first days is learned from."""
    batch, four = all_symbols(seed, STOCKS_SHARE)
    learn = int(0.6 * len(batch))
    rest = rows_between(batch, learn, len(batch))
    taking_part = _methods("gspice", "prefix", "espice", "bl", pane=PANE_STOCKS)
    plan, learning = queries.g4(four, 2, blind=True), rows_between(batch, 0, learn)
    return Setting(plan, learning, lambda events: data.looped(rest, events), taking_part, RATES[-1:], selected=True)


def _soccer(size: Size, seed: int) -> Setting:
    batch = data.duel_events(*data.por_sui_2019(), seed)
    learn = int(0.75 * len(batch))
    rest = rows_between(batch, learn, len(batch))
    taking_part = _methods("gspice", "prefix", "espice", "bl", pane=Pane(events=200))
    return Setting(
        queries.g6(blind=True), rows_between(batch, 0, size.learning), lambda events: data.looped(rest, events), taking_part, RATES[-1:]
    )


SETTINGS: dict[str, Callable[[Size, int], Setting]] = {
    "Q1": _letters(queries.g1, ("gspice", "prefix", "espice", "bl")),
    "Q3": _letters(queries.g3, ("gspice", "prefix", "espice", "bl"), rates=RATES[-1:]),
    "Q1-selection": _letters(queries.g1, ("gspice", "prefix", "espice", "bl"), blind=False, rates=RATES[-1:]),
    "Q4-x2-GF-2015": _stocks,
    "Q6-POR-SUI-2019": _soccer,
}
NEEDS = {"Q4-x2-GF-2015": data.GF_2015, "Q6-POR-SUI-2019": data.POR_SUI_2019}
MATCHES = "pSPICE-Q1"


def experiments(clock: str) -> dict[str, Callable[[Size, int], Iterator[Point]]]:
    """By name, on a clock."""

    def of_events(name: str, size: Size, seed: int) -> Iterator[Point]:
        if name not in NEEDS or data.recording(NEEDS[name]) is not None:
            yield from events_shed(SETTINGS[name](size, seed), f"{clock}-{name}", seed, CLOCKS[clock]())

    def of_matches(_size: Size, seed: int) -> Iterator[Point]:
        yield from matches_shed(f"{clock}-{MATCHES}", seed, CLOCKS[clock]())

    return {**{name: partial(of_events, name) for name in SETTINGS}, MATCHES: of_matches}


def plots(clock: str) -> list[Plot]:
    """What is drawn."""
    rated = [f"{clock}-Q1", f"{clock}-{MATCHES}"]
    over = "rate, % of the capacity"
    return [
        *(Plot(figure, f"{figure} clock", over) for figure in rated),
        *(Plot(figure, f"{figure} clock: latency that 1 % exceed", over, "p99_ms", "ms") for figure in rated),
        *(
            Plot(f"{clock}-{name}-course", f"{clock} clock, {name} at 200 %", "s", y="greatest latency, ms", tabled=False)
            for name in (*SETTINGS, MATCHES)
        ),
    ]


def main(given: Sequence[str] | None = None) -> None:
    """Runs, draws, judges."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    own, rest = parser.parse_known_args(given)
    with pinned() as core:
        print(f"{own.clock} clock, " + ("on any core" if core is None else f"on core {core}"), flush=True)
        command(
            Paper(own.clock, __doc__, experiments(own.clock), FULL, QUICK, plots(own.clock), wall_verdicts(own.clock), means(own.clock)),
            rest,
        )


if __name__ == "__main__":
    main()
