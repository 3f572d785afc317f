"""A query's events, cut in two: models are learned from the one part, and judged on the other as the application would shed there, at equal work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.evaluation.calibration import calibrated
from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.shed_query import ShedQuery
from app.evaluation.windows import window_events
from app.evaluation.work import LEAST_TIMES, in_turn
from app.events.batch import EventBatch, concatenate
from app.features.batches import JudgedBatch
from app.features.events import Features, candidate_items, protected_events
from shedding.candidates import JudgedEvents
from shedding.identity import identities
from shedding.interface import Model
from shedding.registry import METHODS, unlearned

Part = TypeVar("Part")
LEARN = 0.7
"""Share of the events that is learned from."""
ENOUGH = 200
"""Composite events, by which two methods that lose a third and four tenths of them are told apart nine times of ten; with fewer all of them are judged by, see `judged_by`."""
RATES = (1.3, 1.8)
"""Multiples of the capacity at which models are judged."""
TIMED_AT = (*RATES, 3.0)
"""And at which it is found what work becomes of what is left: with much of it gone a percent of the time tells most."""
TIMED_S = 0.01
"""Of the processor: matching that takes less cannot be compared."""
POWERS = (0.2, 2.5)
"""By which work follows the share of the events that is kept: what is dear is kept, … a sequence of three of which each is dropped alike."""
MOST = 0.99
"""The most that the watchdog asks for by default."""
MOST_STEPS = 20_000
"""Events that shedders of partial matches learn from: they are followed event by event. The newest ones, or where these hold few composite events, of which alone anything is learned, an earlier stretch (see `stretch_with`)."""
LOOKS, LOOKS_A_WINDOW, AVERAGE_OVER = 500, 16, 100
"""Looks at the partial matches while shedders of them are judged, at most; while a window passes (in the application a new one waits that long for its look, on average); and events over which their number is kept, on average, at least: there may be one or two at a time."""


def judged_by(events: int, part: Callable[[int, int], Part], true: Callable[[Part], int]) -> list[Part]:
    """The parts that are judged by: the last one, or each third in turn where that has too few composite events.

    Args:
        events: in all.
        part: of these rows; learned is from the others.
        true: its composite events.
    """
    last = part(int(events * LEARN), events)
    return [last] if true(last) >= ENOUGH else [part(*cut) for cut in thirds(events)]


def thirds(events: int) -> list[tuple[int, int]]:
    """Where each third of so many events begins and ends.

    >>> thirds(10)
    [(0, 3), (3, 6), (6, 10)]
    """
    cuts = [events * part // 3 for part in range(4)]
    return list(pairwise(cuts))


def stretch_with(ends: NDArray[np.int64], events: int, most: int) -> tuple[int, int]:
    """The newest stretch of so many events in which `ENOUGH` composite events end; where there is none, the newest of those in which most do.

    Args:
        ends: ascending rows of the events that composite events end with.
        events: in all.
        most: how long a stretch is.

    >>> stretch_with(np.array([5, 6, 7, 90]), 100, 20), stretch_with(np.arange(0, 1000, 2), 1000, 500), stretch_with(np.array([], np.int64), 100, 20)
    ((0, 20), (500, 1000), (80, 100))
    """
    if events <= most or not len(ends):
        return max(0, events - most), events
    stops = np.append(np.maximum(ends + 1, most), events)
    held = np.searchsorted(ends, stops) - np.searchsorted(ends, stops - most)
    enough = np.flatnonzero(held >= min(ENOUGH, held.max()))
    stop = int(stops[enough[-1]])
    return stop - most, stop


def parted(batch: EventBatch, start: int, stop: int) -> tuple[EventBatch, EventBatch]:
    """What is learned from, before and behind these rows, and the rows, which are judged by."""
    before, judged, behind = (rows_between(batch, *cut) for cut in ((0, start), (start, stop), (stop, len(batch))))
    if not len(behind):
        return before, judged
    return (concatenate([before, behind]) if len(before) else behind), judged


class Split:
    """A query's events, cut in two.

    Args:
        query: with all events.
        start: of what is judged by.
        stop: behind it; learned is from what is before and behind.
        seed: of all chance.
    """

    def __init__(self, query: ShedQuery, start: int, stop: int, seed: int) -> None:
        batch = query.batch
        self._query, self._seed = query, seed
        self._learning, self._judging = parted(batch, start, stop)
        self._contests: dict[bool, Contest] = {}
        self._models: dict[str, Model[Any]] = {}
        self._features, self._judged = Features.of(query.plan), JudgedBatch(self._judging)

    def with_all(self) -> Split:
        """One that learns from all events."""
        return Split(self._query, len(self._query.batch), len(self._query.batch), self._seed)

    @cached_property
    def true(self) -> int:
        """Composite events of what is judged by."""
        return len(self._contest("random").truth)

    def seen_by(self, model: Model[Any]) -> float:
        """Share of the events that are judged by which are of the time that a model has learned from."""
        times, known = self._judging.time, model.manifest
        return float(((times >= known.first_ms) & (times <= known.last_ms)).mean()) if len(times) else 0.0

    @cached_property
    def _is_candidate(self) -> NDArray[np.bool_]:
        """Of what is judged by."""
        return candidate_items(self._query.plan, self._judging) != 0

    def trained(self, shedder: str) -> Model[Any]:
        """A model of what is learned from."""
        if shedder not in self._models:
            contest = self._contest(shedder)
            model = contest.train(self._query.method(shedder))
            # by what it has seen: of partial matches a stretch, in which events may come faster than on average
            self._models[shedder] = calibrated(model, self._query.plan_for(shedder), contest.learning)
        return self._models[shedder]

    def harm(self, model: Model[Any]) -> float:
        """See `Lesson.harm`."""
        name = model.manifest.method
        if METHODS[name].of_matches:
            found = [one.quality for one in self._contest(name).standings(self._query.method(name), model, RATES)]
            return sum(one.harm for one in found) / len(found)
        own = calibrated(model, self._query.plan, self._judging, share=1.0)
        power = self._power(own)
        return sum(self._harm_at(own, 1.0 - rate ** (-1.0 / power)) for rate in RATES) / len(RATES)

    def _harm_at(self, model: Model[Any], share: float) -> float:
        return self._contest("random").quality_of(self._kept(model, min(MOST, share))).harm

    def _power(self, model: Model[Any]) -> float:
        """By which work follows the share of the candidates that is kept (as the watchdog has it, `app.control.law.elasticity`).

        Events do not cost the same: who keeps those that are worth most may keep those that cost most, and must then drop more of them than chance would. So what is left is matched when as much
        of the events goes as of the work should, at each of `TIMED_AT`, and the power is the slope through both logarithms. Where all of the matching is too short to be timed an event is an event.
        """
        if self._unshed_s < TIMED_S:
            return 1.0
        known = []
        for rate in TIMED_AT:
            kept = self._kept(model, 1.0 - 1.0 / rate)
            left = float(kept[self._is_candidate].mean())
            if 0 < left < 1:
                known.append((np.log(left), np.log(max(1e-9, in_turn(self._seconds, kept)[0]))))
        if not known:
            return 1.0
        return float(np.clip(sum(one * took for one, took in known) / sum(one * one for one, _ in known), *POWERS))

    @cached_property
    def _unshed_s(self) -> float:
        """Of the processor, to match all of what is judged by, when kernels are loaded and memory is there."""
        return min(self._seconds(None) for _ in range(LEAST_TIMES)) if self.true else 0.0

    def _seconds(self, kept: NDArray[np.bool_] | None) -> float:
        return self._contest("random").work_s(kept)

    def _kept(self, model: Model[Any], share: float) -> NDArray[np.bool_]:
        """Bool (events of what is judged by,): of the candidates just so many go, for every model.

        What must stay (negated items, where no false positive is allowed) stays, and is no part of what goes: who names nothing else has dropped nothing.
        A model that knows another stream may drop next to nothing of what it has never seen, whatever it is asked for. The watchdog would ask for more and more; here chance takes what is
        missing, or doing nothing would be judged to do no harm.
        """
        protected = self._protected
        kept = self._judged.kept(model, self._features, share) | protected
        free = float(np.count_nonzero(kept & self._is_candidate & ~protected))
        allowed = (1.0 - share) * np.count_nonzero(self._is_candidate) - np.count_nonzero(protected)
        too_many = min(1.0, 1.0 - allowed / free) if free else 0.0
        if too_many <= 0:
            return kept
        events = JudgedEvents(identities(self._judging.source, self._judging.offset), self._judging.time)
        return kept & unlearned("random", self._seed).gate(too_many).keep(events) | protected

    @cached_property
    def _protected(self) -> NDArray[np.bool_]:
        return protected_events(self._query.plan, self._judging)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Ascending rows of what is learned from, with which its composite events end."""
        if len(self._learning) <= MOST_STEPS:
            return np.zeros(0, np.int64)
        found = Operator(self._query.plan, self._learning).run()
        return np.sort(np.maximum.reduceat(found.rows, found.starts[:-1])) if len(found) else np.zeros(0, np.int64)

    @cached_property
    def _between_looks(self) -> int:
        """Events of what is judged by: a look at all of a large state costs what hundreds of events do (0.13 s where 140,000 partial matches are judged in 0.9 us each)."""
        events, plan = len(self._judging), self._query.as_runs
        window = window_events(plan, self._judging) if plan.within is not None else 0.0
        return int(max(events / LOOKS, min(events, window) / LOOKS_A_WINDOW))

    def _contest(self, shedder: str) -> Contest:
        of_matches = METHODS[shedder].of_matches
        if of_matches not in self._contests:
            learning, terms = self._learning, Terms(seed=self._seed, fixed=True)
            if of_matches:
                learning = rows_between(learning, *stretch_with(self._ends, len(learning), MOST_STEPS))
                interval = max(terms.match_interval, self._between_looks)
                terms = replace(terms, match_interval=interval, average_over=max(AVERAGE_OVER, interval))
            self._contests[of_matches] = Contest(self._query.plan_for(shedder), learning, self._judging, terms)
        return self._contests[of_matches]
