"""The shedding experiments on a clock: the operator really works, decisions are really paid for, latencies are those of real queues (specification 7.3, item 1 b).

    python -m ops.experiments.wall_clock FOLDER [--clock wall|processor] [--quick] [--only NAME] [--seeds N] [--judge]

Both papers: gSPICE's Q1 and Q3 on DS1, its Q4 on GF-2015 and Q6 on POR-SUI-2019 (played again and again), pSPICE's Q1. One thread, on one core where the system allows it; events arrive as the clock
says, at 120 and 200 % of a capacity that is measured without shedding before each run, and again behind it (`ops.experiments.wall_steady`); the bound is 1 s, shedding begins at 0.8 s, and the queue has that length when a run begins.
``--clock processor`` counts the time that this thread works instead of the time that passes: for machines that are busy with other things. Writes plots (PNG, SVG), all points
(``wall.json``) and tables with verdicts (``wall.md``), named by the clock; none of it is virtual time.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.cep.door import hide, pairs_by, pairs_met
from app.evaluation.contest import Contest, Terms
from app.evaluation.deciding import Candidates
from app.evaluation.features import Features
from app.evaluation.operator import Operator, Outcome, candidate_items
from app.evaluation.paced import CLOCKS, Clock, EventDetector, Pace, PacedCourse, Worker, paced, pinned
from app.evaluation.partial_matches import MatchOperator
from app.evaluation.quality import Quality
from app.evaluation.shares import Asked, as_asked, of_candidates
from app.evaluation.wall_clock import (
    EventShedding,
    MatchDetector,
    MatchShedding,
    PairShedding,
    WholeStream,
    WindowsApart,
    batch_for,
    throughput,
)
from app.evaluation.windows import EventWindows, shed_window
from app.events.batch import EventBatch
from app.query.plan import Plan
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.gspice import PANE_STOCKS, all_symbols
from ops.experiments.shedding_command import Paper, Size, command
from ops.experiments.shedding_figures import Plot, Point
from ops.experiments.wall_steady import steady
from ops.experiments.wall_verdicts import means, wall_verdicts
from shedding.events.baseline import drop_shares
from shedding.interface import Method, Model
from shedding.panes import Pane
from shedding.partial_matches.hspice import HspiceModel
from shedding.registry import method

SECONDS = 5.0
"""How long events arrive in a run; those that wait at its beginning come on top."""
MEASURED_S = 0.5
"""A capacity is measured for so long at least: behind selection a round takes a tenth of a second."""
MOST_EVENTS = 400_000
"""Of a run, which ends sooner where an operator is so fast (behind selection): all pairs of event and window are in memory."""
FULL = Size(10, 20_000, 12_000)
"""Events to learn from, and to measure the capacity with."""
QUICK = Size(3, 12_000, 8_000)
RATES = (1.2, 2.0)
LEADERS = 0.4
"""Share of quotes that open a window of pSPICE's Q1: 50 times as many as in virtual time, because this engine holds an event against a partial match in 30 ns."""
MATCH_WINDOW = 5_000
MATCH_SIZE = (8_000, 8_000)
"""Events to learn from and to measure the capacity with, where partial matches are dropped."""
BATCH_S, MATCH_BATCH_S = 0.005, 0.1
"""Of the operator's work without shedding; partial matches are looked at once in a batch, as in the application, whose batches take 200 ms and more. (At 50 ms looks of `stateful` took 13.7 % of the work at 200 %, two seeds.)"""
COURSE_S = 0.1
OF_MATCHES, OF_PAIRS = ("pspice", "stateful", "pm-random"), ("e-bl", "hspice")
BINS = 20
"""Of a window, as hSPICE has them."""
STOCKS_SHARE = 0.001
"""By which a price must have moved for a quote of GF-2015; moves of twice that count."""

Methods = Mapping[str, Method[Any] | None]


@dataclass(frozen=True, slots=True)
class Setting:
    """A query, its streams, and who takes part.

    Attributes:
        plan: the query.
        learning: stream to learn from and to measure the capacity with.
        judging: (events) → the stream that is judged, of so many events.
        methods: by the name of the line.
        rates: multiples of the capacity.
        apart: whether windows are processed apart; otherwise the engine gets the whole stream.
        selected: shedders stand behind selection: what no item takes by itself costs next to nothing, and drop ratios are shares of the rest, as in the application.
    """

    plan: Plan
    learning: EventBatch
    judging: Callable[[int], EventBatch]
    methods: Methods
    rates: Sequence[float] = RATES
    apart: bool = True
    selected: bool = False


def _methods(*names: str, pane: Pane | None = None) -> dict[str, Method[Any] | None]:
    settings = {} if pane is None else {"pane": pane}
    return {name: method(name, **(settings if name == "gspice" else {})) for name in names}


def _operator(setting: Setting, batch: EventBatch, windows: EventWindows | None) -> WindowsApart | WholeStream:
    return WholeStream(setting.plan, batch) if windows is None else WindowsApart(setting.plan, batch, windows)


def _windows(setting: Setting, batch: EventBatch) -> EventWindows | None:
    return EventWindows.of(shed_window(setting.plan), batch) if setting.apart else None


def _measuring(setting: Setting, clock: Clock) -> Callable[[int], float]:
    """(events of a batch) → events per second without shedding: the median of as many rounds as `MEASURED_S` has room for."""
    windows = _windows(setting, setting.learning)

    def throughput_of(batch: int) -> float:
        rounds: list[float] = []
        until = clock.now() + MEASURED_S
        while not rounds or clock.now() < until:
            operator = _operator(setting, setting.learning, windows)
            rounds.append(throughput(len(setting.learning), batch, lambda start, stop, own=operator: own.feed(start, stop, None), clock))  # type: ignore[misc]
        return float(np.median(rounds))

    return throughput_of


def _calibrated(measured: Callable[[int], float], batch_s: float = BATCH_S) -> tuple[float, int]:
    """Events per second, and events of a batch: twice, as the first look takes small batches, which where events cost little are dear themselves."""
    batch, capacity = 100, 0.0
    for _ in range(2):
        capacity = measured(batch)
        batch = batch_for(capacity, batch_s)
    return capacity, batch


def events_shed(setting: Setting, figure: str, seed: int, clock: Clock) -> Iterator[Point]:
    """Shedders of events, and of events in windows."""
    contest = Contest(setting.plan, setting.learning, rows_between(setting.learning, 0, 0), Terms(seed=seed))
    models = {name: contest.train(one) if one is not None else None for name, one in setting.methods.items()}
    measured = _measuring(setting, clock)
    capacity, size = _calibrated(measured)
    stream = setting.judging(_needed(capacity, max(setting.rates)))
    windows, truth = _windows(setting, stream), Operator(setting.plan, stream).run()
    judged = Features.of(setting.plan).judged(stream)
    taken, asked = _behind_selection(setting, stream, models)

    def run(rate: float, name: str, capacity: float) -> Iterator[Point]:
        pace = Pace(rate * capacity, capacity, size, begun_s=0.8)
        events, one = min(len(stream), _needed(capacity, rate)), setting.methods[name]
        pairs = windows if one is not None and one.level == "events per window" else None
        candidates = Candidates(judged, pairs, getattr(models[name], "pane", None), taken, asked[name])
        worker = EventShedding(_operator(setting, stream, windows), candidates, models[name], EventDetector(pace), clock)
        course = _run(events, pace, worker, clock)
        yield from _points(figure, name, pace, seed, course, _quality(truth, worker.operator.outcome(), events), worker.dropped)

    for rate, name in product(setting.rates, setting.methods):
        yield from steady(partial(measured, size), partial(run, rate, name))


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


@cache
def _match_models() -> dict[str, tuple[Method[Any], Model[Any]]]:
    """Shedders for pSPICE's Q1; learned once for all seeds, from a stream of its own: every step of a thousand partial matches takes its time to observe."""
    learning = data.steps(MATCH_SIZE[0], 2_000, LEADERS)
    contest = Contest(queries.p1(MATCH_WINDOW, LEADERS), learning, rows_between(learning, 0, 0), Terms(opened=True))
    return {name: (one, contest.train(one)) for name in (*OF_MATCHES, *OF_PAIRS, "bl") for one in (method(name),)}


def _hidden(plan: Plan, model: Model[Any], known: EventBatch) -> Callable[[float], NDArray[np.float64]]:
    """By drop ratio which share of the pairs to hide; of a shedder of events in windows (E-BL) the share that an event of such a kind loses: a window is a partial match here, and what opens it is in no pair."""
    shape = pairs_by(plan, BINS)
    if isinstance(model, HspiceModel):
        return lambda ratio: model.gate(ratio).hidden(0, shape)
    kinds, types = candidate_items(plan, known).astype(np.int64), Features.of(plan).judged(known).type
    count = np.maximum(1, np.bincount(kinds, minlength=shape[0]))

    def by_type(ratio: float) -> NDArray[np.float64]:
        lost = drop_shares(model.repetition, model.frequency, ratio)[types]
        return np.broadcast_to((np.bincount(kinds, lost, shape[0]) / count)[:, None, None], shape)

    return by_type


def _asking_s(plan: Plan, known: EventBatch, size: int, clock: Clock) -> float:
    """What it takes to ask for a pair whether it is hidden: the least of three rounds with, less that without."""

    def fed(operator: WholeStream) -> float:
        began = clock.now()
        for start in range(0, len(known), size):
            operator.feed(start, min(start + size, len(known)), None)
        return clock.now() - began

    without, asking, met = np.inf, np.inf, 1
    for _ in range(3):
        without = min(without, fed(WholeStream(plan, known)))
        operator = WholeStream(plan, known)
        hide(operator.engine, np.zeros(pairs_by(plan, BINS)))
        asking = min(asking, fed(operator))
        met = max(1, int(pairs_met(operator.engine)[0].sum()))
    return max(0.0, (asking - without) / met)


def matches_shed(figure: str, seed: int, clock: Clock) -> Iterator[Point]:
    """pSPICE's Q1: shedders of partial matches, and one that drops whole events."""
    plan, measure, models = queries.p1(MATCH_WINDOW, LEADERS), MATCH_SIZE[1], _match_models()
    known = data.steps(measure, seed + 1_000, LEADERS)
    setting = Setting(plan, known, lambda events: data.steps(events, seed, LEADERS), {}, apart=False)
    measured = _measuring(setting, clock)
    capacity, size = _calibrated(measured, MATCH_BATCH_S)
    stream = setting.judging(_needed(capacity, max(RATES)))
    truth, matches, judged = Operator(plan, stream).run(), MatchOperator(plan, stream), Features.of(plan).judged(stream)
    hidden, asking_s = {name: _hidden(plan, models[name][1], known) for name in OF_PAIRS}, _asking_s(plan, known, size, clock)

    def run(rate: float, name: str, capacity: float) -> Iterator[Point]:
        pace = Pace(rate * capacity, capacity, size, begun_s=0.8)
        events, operator, (one, model) = min(len(stream), _needed(capacity, rate)), WholeStream(plan, stream), models[name]
        worker: EventShedding | MatchShedding | PairShedding
        if name in OF_PAIRS:
            worker = PairShedding(operator, hidden[name], EventDetector(pace), clock, asking_s)
        elif one.level == "events":
            worker = EventShedding(operator, Candidates(judged), model, EventDetector(pace), clock)
        else:
            free = MatchShedding(WholeStream(plan, known), MatchOperator(plan, known), None, None, clock)
            for start in range(0, measure, size):
                free.work(start, min(start + size, measure), 0.0)
            worker = MatchShedding(operator, matches, model, MatchDetector(pace, free.samples), clock)
        course = _run(events, pace, worker, clock)
        yield from _points(figure, name, pace, seed, course, _quality(truth, operator.outcome(), events), worker.dropped)

    for rate, name in product(RATES, models):
        yield from steady(partial(measured, size), partial(run, rate, name))


def _needed(capacity: float, rate: float) -> int:
    """Events of a run: those that have arrived when it begins, and those that arrive in its time.

    >>> _needed(10_000.0, 2.0), _needed(1_000_000.0, 2.0)
    (116000, 400000)
    """
    return min(MOST_EVENTS, int((SECONDS + 0.8) * rate * capacity))


def _run(events: int, pace: Pace, worker: Worker, clock: Clock) -> PacedCourse:
    gc.collect()
    return paced(events, pace, worker, clock)


def _quality(truth: Outcome, found: Outcome, events: int) -> Quality:
    return Quality.of(truth.before(events), found)


def _points(  # noqa: PLR0917 - what a run is
    figure: str, curve: str, pace: Pace, seed: int, course: PacedCourse, quality: Quality, dropped: float
) -> Iterator[Point]:
    """The run as a point, and of the first seed at the highest rate its greatest latencies over time."""
    latency, rate = course.latency_s * 1000, round(100 * pace.rate / pace.capacity)
    yield Point(
        figure,
        curve,
        rate,
        seed,
        100 * quality.false_negatives,
        100 * quality.false_positives,
        quality.true,
        100 * dropped,
        float(latency.max()),
        float(np.median(latency[len(latency) // 2 :])),
        p99_ms=float(np.percentile(latency, 99)),
        late=100 * float(np.mean(course.latency_s > pace.bound_s)),
        shedding=100 * course.deciding_s / course.busy_s,
        capacity=pace.capacity,
    )
    if seed == 0 and rate == round(100 * max(RATES)):
        tenth = (np.arange(len(latency)) / pace.rate // COURSE_S).astype(np.int64)
        for number in range(int(tenth[-1]) + 1):
            yield Point(f"{figure}-course", curve, round(COURSE_S * number, 1), 0, float(latency[tenth == number].max()))


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
    taking_part = _methods("gspice", "espice", "bl", pane=PANE_STOCKS)
    plan, learning = queries.g4(four, 2, blind=True), rows_between(batch, 0, learn)
    return Setting(plan, learning, lambda events: data.looped(rest, events), taking_part, RATES[-1:], selected=True)


def _soccer(size: Size, seed: int) -> Setting:
    batch = data.duel_events(*data.por_sui_2019(), seed)
    learn = int(0.75 * len(batch))
    rest = rows_between(batch, learn, len(batch))
    taking_part = _methods("gspice", "espice", "bl", pane=Pane(events=200))
    return Setting(
        queries.g6(blind=True), rows_between(batch, 0, size.learning), lambda events: data.looped(rest, events), taking_part, RATES[-1:]
    )


SETTINGS: dict[str, Callable[[Size, int], Setting]] = {
    "Q1": _letters(queries.g1, ("gspice", "prefix", "espice", "bl")),
    "Q3": _letters(queries.g3, ("gspice", "espice", "bl"), rates=RATES[-1:]),
    "Q1-selection": _letters(queries.g1, ("gspice", "espice", "bl"), blind=False, rates=RATES[-1:]),
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
