"""A query whose events can be hidden from single partial matches, in virtual time.

The work for an event is that of `app.evaluation.partial_matches`, but for the partial matches that it is hidden from: ``cost_s + match_cost_s * partial matches * share of the pairs that meet``.

**Source:** hSPICE (Slo, Bhowmik, Rothermel, DEBS 2020); specification, section 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.bucket.matching import Found
from app.cep.door import RunsEngine, count_live, hide, pairs_by, pairs_met
from app.cep.matches import Matches
from app.evaluation.partial_matches import MatchCourse, MatchLoad, MatchOperator
from app.evaluation.virtual_time import Queue
from app.events.batch import EventBatch
from app.features.events import partitions_of
from app.features.partial_matches import BINS
from app.query.plan import Plan
from shedding.candidates import JudgedInMatches
from shedding.observations import PairObservations
from shedding.partial_matches.hspice import HspiceModel

RATIO_STEPS = 100
"""Drop ratios are rounded up to a multiple of 1/100, so that tables are made for few of them."""


class PairOperator:
    """A query for the runs evaluator, and a recording.

    Args:
        plan: with `Plan.runs`.
        batch: the recording, in total order.

    Raises:
        ValueError: see `app.cep.runs.hiding.pairs_by`.
    """

    def __init__(self, plan: Plan, batch: EventBatch) -> None:
        self._shape = pairs_by(plan, BINS)
        self._plan = plan
        self._operator = MatchOperator(plan, batch)
        self._batch = batch
        self._items = self._operator.items.astype(np.int64)

    def observations(self) -> PairObservations:
        """All pairs of a run without shedding: those that are alike (items that the event can be, newest item of the partial match, part of the window) in one row."""
        engine = RunsEngine(self._plan)
        hide(engine, np.zeros(self._shape))
        found = self._operator.feed(engine, 0, len(self._batch), ends=True)
        met = pairs_met(engine)[0]
        kind, state, place = np.nonzero(met)
        count = len(kind)
        pairs = JudgedInMatches(
            np.zeros(count, np.uint64), np.zeros(count, np.int32), kind.astype(np.int32), state.astype(np.int32), (place + 0.5) / BINS
        )
        use = self._used(found)[kind, state, place] * np.float64(self._plan.weight)
        return PairObservations(pairs, use.astype(np.float64), met[kind, state, place].astype(np.float64))

    def _used(self, found: Matches) -> NDArray[np.int64]:
        """int64 (kinds, states, bins): pairs that matches came of. Matches with the same beginning have its pairs together."""
        beginnings, rows, items = self._operator.beginnings_with(found)
        starts = beginnings.starts
        first = np.repeat(rows[starts[:-1]], np.diff(starts))
        later = np.setdiff1d(np.arange(len(rows)), starts[:-1], assume_unique=True)
        later = later[np.unique(beginnings.name[later], return_index=True)[1]]
        window, at = self._plan.within.size if self._plan.within is not None else 1, self._at
        place = (at[rows[later]] - at[first[later]]) * BINS // window
        used = np.zeros(self._shape, np.int64)
        np.add.at(used, (self._items[rows[later]], items[later - 1], np.minimum(place, BINS - 1)), 1)
        return used

    @property
    def _at(self) -> NDArray[np.int64]:
        """int64 (events,): where they are in windows: their times, or how many of their partition came before."""
        if self._plan.within is None or self._plan.within.unit == "ms":
            return self._batch.time
        key = partitions_of(self._plan, self._batch, np.arange(len(self._batch)))
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=~key[order[:1]]))
        place = np.empty(len(key), np.int64)
        place[order] = np.arange(len(key)) - np.repeat(starts, np.diff(starts, append=len(key)))
        return place

    def run(self, load: MatchLoad, model: HspiceModel | None) -> MatchCourse:
        """Lets the recording arrive at the load's rate.

        Args:
            load: rate and cost; what limits partial matches there limits those that an event is held against.
            model: decides which pairs to hide; None: nothing is hidden.

        Returns:
            ``dropped``: of the partial matches of an interval, as many as events of it were hidden from.
        """
        counts, dropped = [], []
        parts: list[Matches] = []
        engine = RunsEngine(self._plan)
        queue, saved, held = Queue(len(self._batch), load.rate, load.interval, load.begun_s), 0.0, 0.0
        before, asked = np.zeros(2), -1.0
        for start, stop in queue.intervals():
            live = count_live(engine)
            saved += load.interval * ((load.most or 0.0) - held)
            allowed = load.allowed(max(0.0, queue.waiting_s(start)), live, saved)
            ratio = 0.0 if model is None or live == 0 else float(np.ceil((1 - allowed / live) * RATIO_STEPS) / RATIO_STEPS)
            if ratio != asked:
                hide(engine, np.zeros(self._shape) if model is None else model.gate(ratio).hidden(0, self._shape), self._seed(model))
                before, asked = np.zeros(2), ratio
            parts.append(self._operator.feed(engine, start, stop, ends=stop == len(self._batch)))
            now = np.array([one.sum() for one in pairs_met(engine)], np.float64)
            (met, hidden), before = now - before, now
            gone = hidden / met if met else 0.0
            counts.append(live)
            dropped.append(round(live * gone))
            held = live * (1 - gone)
            queue.work(start, np.full(stop - start, load.cost_s + load.match_cost_s * held + load.shedding_s * live * (ratio > 0)))
        return MatchCourse(
            self._operator.outcome(parts), queue.latency_s, np.array(counts, np.int64), np.array(dropped, np.int64), stay=True
        )

    def shed(self, model: HspiceModel, drop_ratio: float) -> list[Found]:
        """Matches when this share of the pairs is hidden."""
        engine = RunsEngine(self._plan)
        hide(engine, model.gate(drop_ratio).hidden(0, self._shape), self._seed(model))
        return [self._operator.fed(engine, 0, len(self._batch), ends=True)]

    @staticmethod
    def _seed(model: HspiceModel | None) -> int:
        return 0 if model is None else model.manifest.seed
