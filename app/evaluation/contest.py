"""Shedders side by side: the same query, recording, capacity and detector, at several rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.evaluation.decided import Asking, KeptEvents, KeptPairs
from app.evaluation.observing import event_observations, opened_observations, window_observations
from app.evaluation.operator import Operator, Outcome
from app.evaluation.pairs import PairOperator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.evaluation.quality import Quality
from app.evaluation.shares import Asked, as_asked, of_candidates
from app.evaluation.timing import TimedModel
from app.evaluation.virtual_time import Load, overload
from app.evaluation.windows import EventWindows, OpenedOperator, WindowedOperator
from app.evaluation.work import WorkCurve, measured
from app.events.batch import EventBatch, take
from app.features.events import Features, candidate_items, protected_events
from app.features.positions import shed_window, windowed
from app.query.plan import Plan
from shedding.candidates import JudgedEvents
from shedding.interface import MATCH_LEVELS, Level, Method, Model, Priced, Training
from shedding.observations import MatchObservations
from shedding.partial_matches.hspice import HspiceModel
from shedding.registry import METHODS

LEVELS: tuple[Level, ...] = ("events", "events per window", "events per partial match", "partial matches")
"""What operators here can drop."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one shedder did at one rate.

    Attributes:
        shedder: its name.
        rate: arriving events as a multiple of the capacity.
        asked: mean drop ratio that the detector asked for while there was overload.
        dropped: share of the candidates that were dropped.
        quality: against the answer without shedding.
        latency_s: float64 (events,), in virtual time.
        bound_s: the latency bound.
        decision_ns: processor time per decision, ns; 0 where nothing was decided. The only figure that is not virtual.
        held: partial matches that events were held against, as a share of those without shedding, where partial matches are what is shed.
    """

    shedder: str
    rate: float
    asked: float
    dropped: float
    quality: Quality
    latency_s: NDArray[np.float64] = field(repr=False)
    bound_s: float
    decision_ns: float
    held: float = 1.0

    @property
    def late_share(self) -> float:
        """Share of the events whose latency exceeded the bound."""
        return float(np.mean(self.latency_s > self.bound_s)) if len(self.latency_s) else 0.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What all shedders of a contest share.

    Attributes:
        capacity: events per second that the operator manages without shedding (virtual).
        bound_s: the latency bound.
        safety: share of the bound at which the queue settles.
        interval: events between two looks at the queue.
        match_share: of the work for an event, how much is spent on partial matches, when these are what is shed.
        seed: of all chance.
        fixed: drop what exceeds the capacity from the first event on, whatever the queue.
        overloaded: the queue has the safe length when the first event arrives; without it, it takes a while until anything is shed.
        event_ns: what the operator really works on an event, ns; 0: decisions cost nothing in virtual time. Otherwise they cost their measured
            share of it, and the result is not the same every time.
        opened: methods that drop events from windows see a window for every event that can begin a match (a query with ``within``), and cannot drop
            that event from it.
        match_interval: events between two looks at the queue, when partial matches are what is shed.
        average_over: with ``fixed``, events over which partial matches are limited on average; 0: at every look.
        priced: models with prices drop by price, see `MatchLoad.usual`.
        selected: the operator stands behind selection, as in the application: only candidates (events that some item takes by itself) arrive at it, cost and can be dropped, and drop
            ratios are shares of them; shedders see all events, and panes and windows hold them. For windows in time.
        measured: events cost what matching those that are left really takes (`WorkCurve`), and decisions what they really take, so the result is not the same every time. With ``fixed`` so much goes
            that just the excess of the *work* is saved. Of shedders of events and of events in windows.
        own_share: of the work on an event, how much is the query's own; the rest (reading, other queries of the application) is there whatever is dropped. For shedders of events it wants ``measured``.
    """

    capacity: float = 1000.0
    bound_s: float = 1.0
    safety: float = 0.8
    interval: int = 50
    match_share: float = 0.9
    seed: int = 0
    fixed: bool = False
    overloaded: bool = False
    event_ns: float = 0.0
    opened: bool = False
    match_interval: int = 10
    average_over: int = 0
    priced: bool = False
    selected: bool = False
    measured: bool = False
    own_share: float = 1.0

    @property
    def begun_s(self) -> float:
        """How long the first event waits."""
        return self.safety * self.bound_s if self.overloaded else 0.0

    def shedding_s(self, decision_ns: float) -> float:
        """Virtual work of a decision that really takes so long."""
        return decision_ns / self.event_ns / self.capacity if self.event_ns else 0.0

    def charging(self, event_ns: float) -> Terms:
        """With decisions that cost what they take, beside an operator that really works so long on an event."""
        return replace(self, event_ns=event_ns)


class Contest:
    """A query, a recording to learn from and another to be judged by.

    Args:
        plan: of the query; for shedders of partial matches one for the runs evaluator.
        learning: recording in total order, streamed without overload.
        judging: recording in total order, disjoint from the other one.
        terms: what all shedders share.
    """

    def __init__(self, plan: Plan, learning: EventBatch, judging: EventBatch, terms: Terms) -> None:
        self.plan, self.learning, self.judging, self.terms = plan, learning, judging, terms
        self.features = Features.of(plan)

    @cached_property
    def truth(self) -> Outcome:
        """The composite events of the judging recording without shedding."""
        return self._answer(None)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """int64 (arriving,): rows of the judging recording that arrive at the operator; outcomes speak of these."""
        return self._arriving(self.judging)

    def _arriving(self, batch: EventBatch) -> NDArray[np.int64]:
        return np.flatnonzero(candidate_items(self.plan, batch)) if self.terms.selected else np.arange(len(batch))

    @cached_property
    def _arrived(self) -> EventBatch:
        return take(self.judging, self.rows) if self.terms.selected else self.judging

    @cached_property
    def _judged(self) -> JudgedEvents:
        """All events of the judging recording."""
        return self.features.judged(self.judging)

    @cached_property
    def _judged_arrived(self) -> JudgedEvents:
        return self.features.judged(self._arrived) if self.terms.selected else self._judged

    @cached_property
    def _protected(self) -> NDArray[np.bool_]:
        return protected_events(self.plan, self._arrived)

    @cached_property
    def _windows(self) -> EventWindows:
        windows = EventWindows.of(shed_window(self.plan), self.judging)
        return windows.of_rows(self.rows) if self.terms.selected else windows

    @cached_property
    def _windowed(self) -> WindowedOperator:
        return WindowedOperator(self.plan, self._arrived, self._windows)

    @cached_property
    def _opened(self) -> OpenedOperator:
        return OpenedOperator(self.plan, self._arrived)

    @cached_property
    def _opened_truth(self) -> Outcome:
        return self._opened.run()

    @cached_property
    def _plain(self) -> Operator:
        return Operator(self.plan, self._arrived)

    @cached_property
    def _matches(self) -> MatchOperator:
        return MatchOperator(self.plan, self._arrived)

    @cached_property
    def _pairs(self) -> PairOperator:
        return PairOperator(self.plan, self._arrived)

    def _answer(self, kept: NDArray[np.bool_] | None) -> Outcome:
        """Composite events when only some events are let through."""
        if not windowed(self.plan):
            return self._plain.run(kept)
        return self._windowed.run(None if kept is None else kept[self._windows.event])

    def _answer_to_pairs(self, kept: NDArray[np.bool_] | None) -> Outcome:
        """Composite events when only some pairs are let through; without explicit windows every event is in one pair."""
        return self._windowed.run(kept) if windowed(self.plan) else self._plain.run(kept)

    def _quality_of_pairs(self, kept: NDArray[np.bool_]) -> Quality:
        if self.terms.opened:
            return Quality.of(self._opened_truth, self._opened.run(kept))
        return Quality.of(self.truth, self._answer_to_pairs(kept))

    def quality_of(self, kept: NDArray[np.bool_]) -> Quality:
        """The answer when only these events are let through, and those that must not be dropped.

        Args:
            kept: bool (events that arrive at the operator,): those of the judging recording.
        """
        return Quality.of(self.truth, self._answer(kept | self._protected))

    def work_s(self, kept: NDArray[np.bool_] | None) -> float:
        """What the query's engine takes for these events, and those that must not be dropped; see `Operator.work_s`.

        Args:
            kept: as of `quality_of`; None: all.
        """
        staying = None if kept is None else kept | self._protected
        if not windowed(self.plan):
            return self._plain.work_s(staying)
        return self._windowed.work_s(None if staying is None else staying[self._windows.event])

    def _work_on_pairs_s(self, kept: NDArray[np.bool_] | None) -> float:
        return self._windowed.work_s(kept) if windowed(self.plan) else self._plain.work_s(kept)

    def train(self, method: Method[Any]) -> Model[Any]:
        """A model learned from the learning recording.

        Raises:
            ValueError: nothing can be learned, or the query has none of what the method drops.
        """
        if method.level not in LEVELS:
            raise ValueError(f"it sheds {method.level}, and queries are judged by {', '.join(LEVELS)}")
        training = Training(self.terms.seed, self.plan.fingerprint)
        if not METHODS[method.name].learns:
            return method.train(None, training)
        return _dated(method.train(self._observations(method), training), self.learning)

    def _observations(self, method: Method[Any]) -> object:
        if method.level == "events":
            return self._event_observations
        if method.level == "events per window":
            return self._window_observations
        if method.level == "events per partial match":
            return PairOperator(self.plan, self._learned).observations()
        return self.match_observations

    @cached_property
    def _event_observations(self) -> object:
        return event_observations(self.plan, self.features, self.learning)

    @cached_property
    def match_observations(self) -> MatchObservations:
        """What becomes of partial matches of the learning stream, step by step; worked out once."""
        return MatchOperator(self.plan, self._learned).observations()

    @property
    def _learned(self) -> EventBatch:
        """What of the learning recording arrives at the operator."""
        return take(self.learning, self._arriving(self.learning)) if self.terms.selected else self.learning

    @cached_property
    def _window_observations(self) -> object:
        observe = opened_observations if self.terms.opened else window_observations
        return observe(self.plan, self.features, self.learning)

    def standings(self, method: Method[Any], model: Model[Any], rates: Sequence[float]) -> Iterator[Standing]:
        """How a shedder does at some rates (multiples of the capacity)."""
        if method.level in MATCH_LEVELS:
            yield from (self._judge_matches(method, model, rate) for rate in rates)
            return
        curve = self._work(method, model) if self.terms.measured else None
        for rate in rates:
            yield self._judge_events(method, model, rate, curve)

    def _judge_events(self, method: Method[Any], model: Model[Any], rate: float, curve: WorkCurve | None) -> Standing:
        terms = self.terms if curve is None else self.terms.charging(curve.event_ns)
        fixed = max(0.0, 1.0 - 1.0 / rate) if terms.fixed else None
        if fixed and curve is not None:
            fixed = curve.least_ratio(1.0 / rate)
        timed = TimedModel(model)
        events, decisions = len(self.rows), self._decisions(method, model, timed)
        if terms.event_ns:
            decisions.of(1.0 - 1.0 / max(rate, 1.0))
        shedding_s = terms.shedding_s(timed.decision_ns * decisions.per_event(events))
        load = Load(
            rate * terms.capacity,
            1.0 / terms.capacity,
            shedding_s,
            terms.bound_s,
            terms.safety,
            terms.interval,
            fixed,
            terms.begun_s,
            None if curve is None else curve.dearness,
        )
        course = overload(events, load, decisions)
        asked = course.ratio[course.ratio > 0]
        if isinstance(decisions, KeptPairs):
            quality, dropped = self._quality_of_pairs(decisions.kept), 1.0 - float(decisions.kept.mean())
        else:
            quality, dropped = Quality.of(self.truth, self._answer(course.kept > 0)), 1.0 - float(course.kept.mean())
        return Standing(
            method.name,
            rate,
            float(asked.mean()) if len(asked) else 0.0,
            dropped,
            quality,
            course.latency_s,
            terms.bound_s,
            timed.decision_ns,
        )

    def _decisions(self, method: Method[Any], model: Model[Any], timed: TimedModel) -> KeptPairs | KeptEvents:
        protected, asked = self._protected, self._asked(method, model)
        if method.level != "events per window":
            rows = self.rows if self.terms.selected else slice(None)
            return KeptEvents(timed, Asking(self._judged, asked, rows), protected)
        opened = self.terms.opened
        windows = self._opened.windows if opened else self._windows
        staying = protected[windows.event] | self._opened.opening if opened else protected[windows.event]
        return KeptPairs(timed, windows, Asking(windows.judged(self._judged_arrived), asked, slice(None)), staying)

    def _work(self, method: Method[Any], model: Model[Any]) -> WorkCurve:
        decisions = self._decisions(method, model, TimedModel(model))
        match = self.work_s if isinstance(decisions, KeptEvents) else self._opened.work_s if self.terms.opened else self._work_on_pairs_s
        return measured(len(self.rows), decisions.of, match).within(self.terms.own_share)

    def _asked(self, method: Method[Any], model: Model[Any]) -> Asked:
        """The drop ratio to ask a model for, so that this share of what arrives at the operator goes: all shedders then save the same work, however well their thresholds fit this recording."""
        if not self.terms.selected:
            return as_asked
        if method.level == "events":
            return of_candidates(model, self._judged, self.rows)
        windows = self._opened.windows if self.terms.opened else self._windows
        return of_candidates(model, windows.judged(self._judged_arrived), np.arange(len(windows)))

    def _judge_matches(self, method: Method[Any], model: Model[Any], rate: float) -> Standing:
        terms = self.terms
        cost_s = 1.0 / terms.capacity
        calm = self.calm
        match_share = terms.own_share * terms.match_share
        match_cost_s = match_share * cost_s / max(calm, 1e-9)
        load = MatchLoad(
            rate * terms.capacity,
            (1 - match_share) * cost_s,
            match_cost_s,
            bound_s=terms.bound_s,
            safety=terms.safety,
            interval=terms.match_interval,
            most=calm / rate if terms.fixed else None,
            begun_s=terms.begun_s,
            average_over=terms.average_over,
            usual=calm if terms.priced and isinstance(model, Priced) else 0.0,
        )
        timed = TimedModel(model)
        course = self._pairs.run(load, model) if isinstance(model, HspiceModel) else self._matches.run(load, timed)
        shares = course.dropped[course.dropped > 0] / course.matches[course.dropped > 0]
        ever = max(1, int(course.dropped.sum()) + len(course.outcome))
        return Standing(
            method.name,
            rate,
            float(shares.mean()) if len(shares) else 0.0,
            float(course.dropped.sum()) / ever,
            Quality.of(self.truth, course.outcome),
            course.latency_s,
            terms.bound_s,
            timed.decision_ns,
            course.held / max(calm, 1e-9),
        )

    @cached_property
    def calm(self) -> float:
        """Partial matches that live at a time without shedding, on average."""
        load = MatchLoad(1.0, 0.0, 0.0, bound_s=np.inf, interval=self.terms.match_interval)
        return float(self._matches.run(load, None).matches.mean())


def _dated(model: Model[Any], learned: EventBatch) -> Model[Any]:
    """The model with the times of what it learned from, where its method does not see times: partial matches have none."""
    if model.manifest.last_ms or not len(learned):
        return model
    known: Any = model  # a dataclass, as all of them are
    dated: Model[Any] = replace(known, manifest=replace(model.manifest, first_ms=int(learned.time[0]), last_ms=int(learned.time[-1])))
    return dated
