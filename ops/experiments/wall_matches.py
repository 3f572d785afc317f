"""pSPICE's first query on a clock: shedders of partial matches, those that hide events from single ones, and one that drops whole events.

New partial matches are looked at as often as in the application (`app.cep.engine.LOOKS` times while a window passes), all of them before a batch where too many are left (`ops.experiments.clock.operators.MatchShedding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.cep.door import hide, pairs_by, pairs_met
from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.partial_matches import MatchOperator
from app.events.batch import EventBatch
from app.features.events import Features, candidate_items
from app.query.plan import Plan
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.clock.deciding import Candidates
from ops.experiments.clock.operators import EventShedding, MatchDetector, MatchShedding, PairShedding, WholeStream
from ops.experiments.clock.pace import Clock, EventDetector, Pace
from ops.experiments.shedding_figures import Point
from ops.experiments.wall_default import chosen, with_default
from ops.experiments.wall_runs import RATES, Setting, calibrated, measuring, needed, points_of, quality_of, run_of
from ops.experiments.wall_steady import steady
from shedding.events.baseline import drop_shares
from shedding.interface import Method, Model
from shedding.partial_matches.hspice import HspiceModel
from shedding.registry import method

LEADERS = 0.4
"""Share of quotes that open a window of pSPICE's Q1: 50 times as many as in virtual time, because this engine holds an event against a partial match in 30 ns."""
MATCH_WINDOW = 5_000
MATCH_SIZE = (8_000, 8_000)
"""Events to learn from and to measure the capacity with, where partial matches are dropped."""
MATCH_BATCH_S = 0.1
"""Of the operator's work without shedding; all partial matches are looked at once in a batch, as in the application, whose batches take 200 ms and more."""
OF_MATCHES, OF_PAIRS = ("pspice", "stateful", "pm-random"), ("e-bl", "hspice")
BINS = 20
"""Of a window, as hSPICE has them."""


def _match_learning() -> EventBatch:
    return data.steps(MATCH_SIZE[0], 2_000, LEADERS)


@cache
def _match_models() -> dict[str, tuple[Method[Any], Model[Any]]]:
    """Shedders for pSPICE's Q1; learned once for all seeds, from a stream of its own: every step of a thousand partial matches takes its time to observe."""
    learning = _match_learning()
    contest = Contest(queries.p1(MATCH_WINDOW, LEADERS), learning, rows_between(learning, 0, 0), Terms(opened=True))
    return {name: (one, contest.train(one)) for name in (*OF_MATCHES, *OF_PAIRS, "bl") for one in (method(name),)}


@cache
def _match_default() -> str:
    return chosen(queries.p1(MATCH_WINDOW, LEADERS), _match_learning(), (*OF_MATCHES, "bl"), seed=0)


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
    measured = measuring(setting, clock)
    capacity, size = calibrated(measured, MATCH_BATCH_S)
    stream = setting.judging(needed(capacity, max(RATES)))
    truth, matches, judged = Operator(plan, stream).run(), MatchOperator(plan, stream), Features.of(plan).judged(stream)
    hidden, asking_s = {name: _hidden(plan, models[name][1], known) for name in OF_PAIRS}, _asking_s(plan, known, size, clock)

    def run(rate: float, name: str, capacity: float) -> Iterator[Point]:
        pace = Pace(rate * capacity, capacity, size, begun_s=0.8)
        events, operator, (one, model) = min(len(stream), needed(capacity, rate)), WholeStream(plan, stream), models[name]
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
        course = run_of(events, pace, worker, clock)
        yield from points_of(figure, name, pace, seed, course, quality_of(truth, operator.outcome(), events), worker.dropped)

    for rate, name in product(RATES, models):
        yield from with_default(steady(partial(measured, size), partial(run, rate, name)), _match_default())
