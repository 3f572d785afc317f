"""A query whose partial matches can be dropped, step by step, in virtual time.

The work for an event grows with the partial matches that it is held against: ``cost_s + match_cost_s * partial matches``.

**Source:** pSPICE (Slo, Bhowmik, Rothermel, IEEE BigData 2019), sections III and IV.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.bucket.matching import Found
from app.bucket.recording import rows_between
from app.cep.cells.arrays import FOREVER
from app.cep.door import LiveRuns, RunsEngine, bound_events, end_runs, live_runs
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.evaluation.branching import Beginnings, Branches, furthest
from app.evaluation.looks import Looks, first_keys
from app.evaluation.negations import Negations
from app.evaluation.operator import Operator, Outcome
from app.evaluation.virtual_time import Queue
from app.evaluation.windows import event_ms, window_events
from app.events.batch import EventBatch, place_numbers
from app.features.events import candidate_items, partitions_of
from app.features.partial_matches import Describing, known_matches, progress_of_items
from app.query.plan import Plan
from shedding.candidates import JudgedMatches
from shedding.interface import Gate, Model, Priced
from shedding.observations import MatchObservations
from shedding.overload import QueueLaw

_LOOKS = 16
"""In the span of a window, partial matches are looked at so often, to see what becomes of them."""
_STEPS = 50
"""Where partial matches branch, the steps of so many events per window are observed."""


@dataclass(frozen=True, slots=True)
class MatchLoad:
    """A stream's rate and an operator's speed, where partial matches are what costs.

    Attributes:
        rate: arriving events per second.
        cost_s: work for an event alone, s.
        match_cost_s: work for holding an event against one partial match, s.
        shedding_s: work for deciding about one partial match, s.
        bound_s: the latency bound, s.
        safety: share of the bound that may be used.
        interval: events between two looks at the queue.
        most: partial matches that may live at a time, whatever the queue; None: by the queue.
        begun_s: how long the first event waits.
        average_over: with ``most``, events over which what was not used up may be used later, so that it holds on average; 0: at every look.
        usual: partial matches without shedding, on average: models with prices then drop by the price at which ``most`` are left on average; 0: models drop by rank.
    """

    rate: float
    cost_s: float
    match_cost_s: float
    shedding_s: float = 0.0
    bound_s: float = 1.0
    safety: float = 0.8
    interval: int = 10
    most: float | None = None
    begun_s: float = 0.0
    average_over: int = 0
    usual: float = 0.0

    def allowed(self, waiting_s: float, matches: int, saved: float = 0.0) -> int:
        """How many partial matches may live: as many as let events take as long as the law allows.

        Deviates from pSPICE (equations 4 to 6), which lets the queue grow to the safe length and then gives the event at hand what is left; `shedding.overload` says why.

        Args:
            waiting_s: s.
            matches: that live.
            saved: with ``average_over``, how many fewer were held against events so far than allowed, summed over events.
        """
        if self.most is not None:
            return min(matches, max(0, int(self._share(saved))))
        left_s = QueueLaw(self.bound_s, self.safety).work_s(self.rate, waiting_s) - self.cost_s
        if self.match_cost_s * matches <= left_s:
            return matches
        return int(np.clip((left_s - self.shedding_s * matches) / self.match_cost_s, 0, matches))

    def gate(self, model: Model[JudgedMatches], allowed: int, matches: int, saved: float) -> Gate[JudgedMatches]:
        """What decides now: by rank as many as are too many, or by price whatever is not worth it."""
        if self.usual and isinstance(model, Priced):
            return model.priced(min(1.0, max(0.0, 1.0 - self._share(saved) / self.usual)))
        return model.gate(1.0 - allowed / matches)

    def _share(self, saved: float) -> float:
        return (self.most or 0.0) + (saved / self.average_over if self.average_over else 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class MatchCourse:
    """What happened.

    Attributes:
        outcome: the composite events.
        latency_s: float64 (events,).
        matches: int64 (intervals,), partial matches at the beginning of each interval, before shedding.
        dropped: int64 (intervals,), how many of them were dropped.
        stay: they were only hidden from the events of the interval, and are there at the next one.
    """

    outcome: Outcome
    latency_s: NDArray[np.float64]
    matches: NDArray[np.int64]
    dropped: NDArray[np.int64]
    stay: bool = False

    @property
    def held(self) -> float:
        """Partial matches that an event was held against, on average: those after shedding, and those that came until the next look."""
        left = self.matches - self.dropped
        if self.stay:
            return float(left.mean()) if len(left) else 0.0
        return float((left + np.append(self.matches[1:], left[-1:])).mean() / 2) if len(left) else 0.0


class MatchOperator:
    """A query for the runs evaluator, and a recording.

    Args:
        plan: with `Plan.runs`.
        batch: the recording, in total order.
        kept: bool (events,), which events can be bound; None: all.
    """

    def __init__(self, plan: Plan, batch: EventBatch, kept: NDArray[np.bool_] | None = None) -> None:
        self.plan, self.batch = plan, batch
        self._items = candidate_items(plan, batch)
        if kept is not None:
            self._items = np.where(kept, self._items, np.uint64(0))
        self._interesting = np.flatnonzero(self._items)
        self._operator = Operator(plan, batch)
        self._progress = progress_of_items(plan)
        self._event_ms = event_ms(batch)
        self._describing = Describing.of(plan)
        self._negations = Negations.of(plan, partitions_of(plan, batch, np.arange(len(batch))), self._items)
        self.branches = branching(plan)

    @property
    def items(self) -> NDArray[np.uint64]:
        """uint64 (events,), bit i: the event can be item i."""
        return self._items

    def run(self, load: MatchLoad, model: Model[JudgedMatches] | None) -> MatchCourse:
        """Lets the recording arrive at the load's rate.

        Args:
            load: rate and cost.
            model: decides which partial matches to drop; None: nothing is dropped, whatever the latency.
        """
        counts, dropped = [], []
        parts: list[Matches] = []
        engine = RunsEngine(self.plan)
        queue, saved, alive = Queue(len(self.batch), load.rate, load.interval, load.begun_s), 0.0, 0
        for start, stop in queue.intervals():
            live = live_runs(engine)
            saved += load.interval * ((load.most or 0.0) - (alive + len(live)) / 2)
            allowed = load.allowed(max(0.0, queue.waiting_s(start)), len(live), saved)
            gone = 0
            if model is not None and (load.usual or allowed < len(live)):
                gate = load.gate(model, allowed, len(live), saved)
                gone = end_runs(engine, live, gate.keep(self.judged(engine, live, start)))
                queue.decide(start, load.shedding_s * len(live))
            counts.append(len(live))
            dropped.append(gone)
            parts.append(self.feed(engine, start, stop, ends=stop == len(self.batch)))
            alive = len(live) - gone
            queue.work(start, np.full(stop - start, load.cost_s + load.match_cost_s * alive))
        return MatchCourse(self.outcome(parts), queue.latency_s, np.array(counts, np.int64), np.array(dropped, np.int64))

    def shed(self, model: Model[JudgedMatches], drop_ratio: float, every: int) -> list[Found]:
        """Matches when this share of the live partial matches is dropped before every so many events."""
        gate, engine, found = model.gate(drop_ratio), RunsEngine(self.plan), []
        for start in range(0, len(self.batch), every):
            live = live_runs(engine)
            end_runs(engine, live, gate.keep(self.judged(engine, live, start)))
            found.append(self.fed(engine, start, min(len(self.batch), start + every), ends=start + every >= len(self.batch)))
        return [one for one in found if one.news]

    def judged(self, engine: RunsEngine, live: LiveRuns, row: int) -> JudgedMatches:
        """Partial matches as shedders see them before the event of this row is fed; ``remaining`` in events of the stream, by the recording's mean rate where the window is in time.

        What they bound is told as in the application (`Describing`), and beside it whether an event came since that a negation asks for.
        """
        now_ms = int(self.batch.time[min(row, len(self.batch) - 1)])
        known = known_matches(live, self._progress, 1 / self._event_ms, now_ms)
        if self.branches:
            known = replace(known, identity=Beginnings.of(*self._bound(engine, live)).whole)
        return self._describing.described(known, engine, live, self._since(live, row))

    def _since(self, live: LiveRuns, row: int) -> NDArray[np.float64] | None:
        if not self._negations.places:
            return None
        return self._negations.since(self._operator.rows(live.newest[:, 0], live.newest[:, 1]), row)

    def _bound(self, engine: RunsEngine, live: LiveRuns) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Starts, items and rows of what live partial matches bound."""
        bound = bound_events(engine, live)
        return bound.starts, bound.items, self._operator.rows(bound.places[:, 0], bound.places[:, 1])

    def observations(self, match_cost_s: float = 1.0) -> MatchObservations:
        """Every step of every partial match, event by event; where they branch, the steps at some events."""
        if self.branches:
            return self._of_branches(match_cost_s)
        before_all, after_all = [], []
        complete = len(self.plan.positive) - 1
        completed = self._completed()
        engine = RunsEngine(self.plan)
        stop, live = 0, live_runs(engine)
        known = _States.of(live, self._progress)
        looks = Looks(int(self.window_events() / _LOOKS))
        while stop < len(self.batch):
            start, stop = stop, self._uneventful(stop, live)
            self.feed(engine, start, stop, ends=False)
            before, live = live, live_runs(engine)
            now = _States.of(live, self._progress)
            gone = ~np.isin(known.first, now.first, assume_unique=True)
            looks.end(known.first[gone], completed, stop)
            if looks.due(stop) and len(live):
                looks.look(self.judged(engine, live, stop), first_keys(live), stop)
            for states in known.steps(now, gone, completed, complete):
                before_all.append(np.tile(states[0], stop - start))
                after_all.append(np.tile(states[1], stop - start))
            if gone.any():
                died = known.died(gone, completed, self._outlived(before, start, stop))  # at one of these events
                before_all.append(died)
                after_all.append(np.full(len(died), -1, np.int32))
            known = now
        return self._observations(before_all, after_all, match_cost_s, looks.outcomes(self.plan.weight, match_cost_s))

    def _observations(
        self,
        before_all: Sequence[NDArray[np.int32]],
        after_all: Sequence[NDArray[np.int32]],
        match_cost_s: float,
        outcomes: tuple[JudgedMatches, NDArray[np.float64], NDArray[np.float64]],
    ) -> MatchObservations:
        before, after = (np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32) for parts in (before_all, after_all))
        return MatchObservations(
            np.zeros(len(before), np.int32),
            before,
            after,
            np.full(len(before), match_cost_s),
            np.array([len(self.plan.positive)], np.int32),
            np.array([self.plan.weight]),
            np.array([self.window_events()]),
            *outcomes,
        )

    def _of_branches(self, match_cost_s: float) -> MatchObservations:
        """A partial match that takes an event goes on as its child: its state after the event is the furthest of its children's."""
        window, end = self.window_events(), len(self.batch)
        seen = np.arange(0, end, max(1, int(window / _STEPS)))
        looks = {*range(0, end, max(1, int(window / _LOOKS))), end}
        engine, branches, start = RunsEngine(self.plan), Branches(), 0
        before_all, after_all = [], []
        live = live_runs(engine)
        known = Beginnings.of(*self._bound(engine, live))
        states = self._progress[live.item]
        for stop in sorted({*seen.tolist(), *(seen + 1).tolist(), *looks} - {0}):
            matches = self.feed(engine, start, stop, ends=False)
            complete, _ = self._beginnings_of(matches)
            branches.found(complete)
            live = live_runs(engine)
            now, before = Beginnings.of(*self._bound(engine, live)), known.whole
            if stop == start + 1:
                new = ~np.isin(now.whole, before) & now.longer
                after = furthest(before, states, now.parents(new), self._progress[live.item][new])
                after = furthest(before, after, complete.parents(), np.full(len(complete.parents()), len(self.plan.positive) - 1))
                still = np.isin(before, now.whole)
                before_all.append(states[still])
                after_all.append(after[still])
            if stop in looks:
                branches.look(self.judged(engine, live, stop), now, stop)
            start, known, states = stop, now, self._progress[live.item]
        sample, succession = branches.outcomes(self.plan.weight, match_cost_s)
        totals = succession.totals(np.ones(len(sample), np.bool_))
        return replace(self._observations(before_all, after_all, match_cost_s, (sample, *totals)), succession=succession)

    def beginnings(self) -> tuple[Beginnings, NDArray[np.int64]]:
        """Of all matches without shedding, and the row of the event that each of them ends with."""
        return self._beginnings_of(self.feed(RunsEngine(self.plan), 0, len(self.batch), ends=True))

    def _beginnings_of(self, matches: Matches) -> tuple[Beginnings, NDArray[np.int64]]:
        return self.beginnings_with(matches)[:2]

    def beginnings_with(self, matches: Matches) -> tuple[Beginnings, NDArray[np.int64], NDArray[np.int64]]:
        """Beginnings of matches, the row of the event that each ends with, and the item that this is."""
        bound = matches.constituents([item.index for item in self.plan.positive])
        rows = self._operator.rows(matches.events.source[bound.rows], matches.events.offset[bound.rows])
        return Beginnings.of(bound.starts, bound.items, rows), rows, bound.items

    def _uneventful(self, start: int, live: LiveRuns) -> int:
        """The row up to which no event is of interest and no partial match runs out of window; at least the next one."""
        waiting = np.searchsorted(self._interesting, start)
        stop = int(self._interesting[waiting]) if waiting < len(self._interesting) else len(self.batch)
        stop = min(stop, start + int(live.events_left.min(initial=FOREVER)) - 1)
        if live.window_ms is not None and len(live):
            stop = min(stop, int(np.searchsorted(self.batch.time, int(live.begun_ms.min()) + live.window_ms)))
        return max(start + 1, min(stop, len(self.batch)))

    def _outlived(self, live: LiveRuns, start: int, stop: int) -> NDArray[np.int64]:
        """Of partial matches that lived before these rows, those whose windows may be over behind them, as `first_keys`; all of them where nobody knows, beside ``window:``."""
        over = (live.events_left <= stop - start) | (live.time_left_ms(int(self.batch.time[stop - 1])) == 0)
        return first_keys(live)[over | (self.plan.within is None)]

    def window_events(self) -> float:
        """Events of the stream in a window of the query, the mean where the window is in time."""
        return window_events(self.plan, self.batch)

    def _completed(self) -> NDArray[np.int64]:
        """Which partial matches become composite events, as `first_keys`; an engine tells some of them later, when earlier ones have ended."""
        found = self._operator.run()
        first = found.rows[found.starts[:-1]]
        return np.unique(place_numbers(self.batch.source[first], self.batch.offset[first]))

    def outcome(self, parts: Sequence[Matches]) -> Outcome:
        """What was found step by step, as an outcome."""
        return self._operator.outcome(parts)

    def feed(self, engine: RunsEngine, start: int, stop: int, *, ends: bool) -> Matches:
        """Gives an engine of the query the rows ``start..stop``; ``ends``: nothing comes after them."""
        return self.fed(engine, start, stop, ends=ends).matches

    def fed(self, engine: RunsEngine, start: int, stop: int, *, ends: bool) -> Found:
        """The same with what the engine tells beside matches."""
        part = rows_between(self.batch, start, stop)
        newest_ms = int(part.time[-1]) if len(part) else 0
        watermarks = Watermarks(FOREVER, end_ms=newest_ms) if ends else Watermarks(newest_ms)
        matches, tally = engine.feed(part, self._items[start:stop], watermarks)
        return Found(0, matches, tally, part, engine.timeouts)


@dataclass(frozen=True, slots=True, eq=False)
class _States:
    """Live partial matches by their first event, ascending, and how far they came."""

    first: NDArray[np.int64]
    state: NDArray[np.int32]

    @staticmethod
    def of(live: LiveRuns, progress: NDArray[np.int32]) -> _States:
        key = first_keys(live)
        order = np.argsort(key)
        return _States(key[order], progress[live.item[order]])

    def steps(
        self, after: _States, gone: NDArray[np.bool_], finished: NDArray[np.int64], complete: int
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """(states before, states after) of those that went on, then of those that are ``gone`` since they were completed; the others died or ran out of window."""
        _, own, others = np.intersect1d(self.first, after.first, assume_unique=True, return_indices=True)
        yield self.state[own], after.state[others]
        done = gone & np.isin(self.first, finished, assume_unique=True)
        yield self.state[done], np.full(np.count_nonzero(done), complete, np.int32)

    def died(self, gone: NDArray[np.bool_], finished: NDArray[np.int64], outlived: NDArray[np.int64]) -> NDArray[np.int32]:
        """States of those that are gone, and neither complete nor out of window (``outlived``, as `first_keys`): what contiguity or UNTIL ended."""
        ended = np.concatenate([finished, outlived])
        return self.state[gone & ~np.isin(self.first, ended)]


def branching(plan: Plan) -> bool:
    """Whether partial matches that take an event also stay as they are: their first event does not tell them apart."""
    if plan.runs is None:
        return True
    ways = [plan.runs.ways[item.bound_to] for item in plan.positive[1:]]
    return any("skip-till-any-match" in (way.first, way.further) for way in ways)
