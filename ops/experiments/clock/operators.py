"""Shedders before an operator that really works, on a clock: what they cost and what they lose when events do not wait.

Two operators. *Windows apart*: every window is processed by itself, as the papers' operators do; an event is held against the partial matches of each of its windows, and
shedders may drop it from some. *Whole stream*: the engine as the product runs it; partial matches can be ended. What an event is (its type as a number, its attributes, the number and position of its
windows) is known when it arrives, as decoding tells it; panes, utilities, selection, matching and the matches' columns are worked out while the clock runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.asc.selection import Selection
from app.bucket.matching import GroupMatching
from app.bucket.recording import rows_between
from app.cep.door import LiveRuns, RunsEngine, count_live, end_runs, hide_limits, limits_of, live_runs, new_runs, pairs_met
from app.cep.engine import LOOKS, Looking, Watermarks
from app.cep.matches import Matches
from app.evaluation.operator import Operator, Outcome
from app.evaluation.partial_matches import MatchOperator
from app.evaluation.windows import EventWindows, expanded, in_recording, partitioned_by_window
from app.events.batch import EventBatch
from app.query.plan import Catalog, Plan
from ops.experiments.clock.deciding import Candidates, Remembering
from ops.experiments.clock.pace import Clock, EventDetector, Pace, Step
from shedding.candidates import JudgedMatches, Mask
from shedding.detector_matches import Curve, fitted, matches_to_drop
from shedding.events.prefix import PrefixModel
from shedding.interface import Gate, Model

_WARM = 0.5
"""Share of a calibration that is not measured: windows and partial matches must be there first."""
_REFIT = 20
_RECENT = 100
_COUNTED, _ENOUGH = 10, 1000
"""Hidden pairs are counted every so many batches, and believed when there are so many: a batch takes milliseconds, and adding up all kinds of pairs one."""


class WorkingOperator(Protocol):
    """An operator that is fed batch by batch."""

    def feed(self, start: int, stop: int, kept: Mask | None) -> None:
        """Processes rows of the recording; ``kept``: bool (events,) or (pairs of event and window,), those that reach it."""
        ...

    def outcome(self) -> Outcome:
        """What was found so far."""
        ...


class WindowsApart:
    """A query with explicit windows, each of them processed by itself.

    Args:
        plan: with an explicit window.
        batch: the recording, in total order.
        windows: of the recording.
    """

    def __init__(self, plan: Plan, batch: EventBatch, windows: EventWindows) -> None:
        catalog = Catalog.of((partitioned_by_window(plan),))
        self._plan, self._batch, self._windows = plan, batch, windows
        self._selection, self._group = Selection(catalog, None), GroupMatching(catalog, catalog.groups[0].number)
        self._found: list[Matches] = []

    def feed(self, start: int, stop: int, kept: Mask | None) -> None:
        """See `WorkingOperator.feed`."""
        own = self._windows.between(start, stop)
        pairs = np.arange(own.start, own.stop)
        if kept is not None:
            pairs = pairs[kept if len(kept) == len(pairs) else kept[self._windows.event[own] - start]]
        part = expanded(self._batch, self._windows, pairs)
        found = self._group.feed_selected(part, self._selection.select(part), Watermarks(int(self._batch.time[stop - 1])))
        self._found += [one.matches for one in found if len(one.matches)]

    def outcome(self) -> Outcome:
        """See `WorkingOperator.outcome`."""
        return Operator(self._plan, self._batch).outcome([in_recording(one, self._batch, self._windows) for one in self._found])


class WholeStream:
    """The engine on the stream as it is.

    Args:
        plan: for the runs evaluator.
        batch: the recording, in total order.
    """

    def __init__(self, plan: Plan, batch: EventBatch) -> None:
        self._plan, self._batch, self.engine = plan, batch, RunsEngine(plan)
        self._selection = Selection(Catalog.of((plan,)), None)
        self._found: list[Matches] = []

    @property
    def matches(self) -> int:
        """Composite events so far."""
        return sum(map(len, self._found))

    def feed(self, start: int, stop: int, kept: Mask | None, looking: Looking | None = None) -> None:
        """See `WorkingOperator.feed`; what is dropped is still counted where events are counted. Whoever is ``looking`` sees partial matches meanwhile."""
        part = rows_between(self._batch, start, stop)
        rows, bits = self._selection.select(part).of_query(0)
        items = np.zeros(len(part), np.uint64)
        items[rows] = bits
        if kept is not None:
            items[~kept] = 0
        matches, _ = self.engine.feed(part, items, Watermarks(int(part.time[-1])), looking)
        if len(matches):
            self._found.append(matches)

    def outcome(self) -> Outcome:
        """See `WorkingOperator.outcome`."""
        return Operator(self._plan, self._batch).outcome(self._found)


class EventShedding:
    """Events, or pairs of event and window, are dropped before the operator.

    Args:
        operator: fresh.
        candidates: see there.
        model: None drops nothing, whatever the latency.
        detector: tells how much.
        clock: times decisions.

    Attributes:
        dropped: share so far of what costs anything.
    """

    def __init__(
        self, operator: WorkingOperator, candidates: Candidates, model: Model[Any] | None, detector: EventDetector, clock: Clock
    ) -> None:
        self.operator = operator
        self._memory = Remembering(model.shape) if isinstance(model, PrefixModel) else None
        self._candidates = candidates if self._memory is None else replace(candidates, pane=None)
        self._model, self._detector, self._clock = model, detector, clock
        self._gates: dict[float, Gate[Any]] = {}
        self._seen = self._lost = 0.0

    @property
    def dropped(self) -> float:
        return self._lost / max(1.0, self._seen)

    def work(self, start: int, stop: int, waiting_s: float) -> Step:
        """See `paced.Worker.work`."""
        began = self._clock.now()
        events, kept, ratio = stop - start, None, 0.0
        if self._model is not None and (ratio := self._detector.ratio(waiting_s)) > 0:
            kept = self._kept(self._gate(self._model, self._candidates.ratio(ratio)), start, stop)
        elif self._memory is not None:
            self._memory.pass_by(self._candidates.events, stop)
        decided = self._clock.now()
        self.operator.feed(start, stop, kept)
        passed = events * (1.0 if kept is None else self._candidates.passing(start, stop, kept))
        deciding_s = 0.0 if kept is None else decided - began
        self._detector.learn(events, passed, deciding_s, self._clock.now() - decided)
        self._seen, self._lost = self._seen + events, self._lost + events - passed
        return Step(ratio, deciding_s)

    def _kept(self, gate: Gate[Any], start: int, stop: int) -> Mask:
        events = self._candidates.between(start, stop)
        return gate.keep(events) if self._memory is None else self._memory.keep(gate, events, start)  # type: ignore[arg-type]

    def _gate(self, model: Model[Any], ratio: float) -> Gate[Any]:
        if ratio not in self._gates:
            self._gates[ratio] = model.gate(ratio)
        return self._gates[ratio]


Samples = list[tuple[int, float]]
"""Partial matches, and seconds that an event took with so many."""


class MatchDetector:
    """How many partial matches to drop, from what events really took with so many of them.

    So many that the queue comes to the safe length within the time that the free buffer lasts: of the partial matches stay as many as let events take that long. Deviates from pSPICE (equations 4 and 5),
    which lets the queue grow to the safe length and then gives the event at hand what is left: with events of some microseconds, one pause of the machine would drop every partial match there is; and as
    new ones come slowly, the queue would swing between too many and none.

    Args:
        pace: of the stream.
        known: samples of a run without shedding, from no partial matches to all.
    """

    def __init__(self, pace: Pace, known: Samples) -> None:
        self._pace, self._known, self._recent = pace, known, list[tuple[int, float]]()
        self._full = max([1, *(count for count, _ in known)])
        self._deciding: Samples = [(0, 0.0)]
        self._batches = 0
        self._refit()

    def drops(self, count: int, waiting_s: float) -> int:
        """How many of so many partial matches must go, before a batch whose first event has waited so long."""
        needed = self._needed(count, waiting_s)
        return matches_to_drop(count, 0.0, self._processing, self._shedding, 1 / needed) if needed > 0 else 0

    def ratio(self, count: int, waiting_s: float) -> float:
        """Which share of those that are made in the batch must go, so that as many stay as can be worked on: of what there would be without shedding."""
        needed = self._needed(count, waiting_s)
        if needed <= 0:
            return 0.0
        allowed = self._processing.count(max(0.0, 1 / needed - self._shedding.latency_s(count)))
        return float(np.clip(1.0 - allowed / self._full, 0.0, 1.0))

    def _needed(self, count: int, waiting_s: float) -> float:
        """Events per second."""
        pace = self._pace
        beyond_s = waiting_s + pace.batch * self._processing.latency_s(count) - pace.safety * pace.bound_s
        return pace.rate * (1 + beyond_s / ((1 - pace.safety) * pace.bound_s))

    def learn(self, seen: int, left: int, deciding_s: float, working_s: float) -> None:
        """What a batch took per event, with so many partial matches before and after the drop; ``deciding_s`` is 0 where nothing was decided."""
        self._recent = [*self._recent[1 - _RECENT :], (left, working_s)]
        if deciding_s:
            self._deciding = [*self._deciding[1 - _RECENT :], (seen, deciding_s)]
        self._batches += 1
        if self._batches % _REFIT == 0:
            self._refit()

    def _refit(self) -> None:
        self._processing, self._shedding = _curve([*self._known, *self._recent]), _curve(self._deciding)


def _curve(samples: Samples) -> Curve:
    counts, seconds = np.array(samples, np.float64).reshape(-1, 2).T
    return fitted(counts, seconds)


class MatchShedding:
    """Partial matches are dropped before a batch, and those that are made within it as they are made, as `app.owners.endings` does where windows are in time; here also those behind the last look of a batch.

    Args:
        operator: fresh.
        matches: knows what partial matches are to shedders; of the same plan and recording.
        model: None drops nothing.
        detector: tells how many; None where there is no model.
        clock: times decisions.

    Attributes:
        dropped: partial matches that were, as a share of them and of those that were not and are there or complete.
        looked: partial matches that were decided about, as often as they were.
        ended: of them, those that were dropped.
        samples: partial matches, and seconds that an event took, batch by batch.
    """

    def __init__(
        self,
        operator: WholeStream,
        matches: MatchOperator,
        model: Model[JudgedMatches] | None,
        detector: MatchDetector | None,
        clock: Clock,
    ) -> None:
        self.operator = operator
        self._matches, self._model, self._detector, self._clock = matches, model, detector, clock
        self._every = max(1.0, matches.window_events() / LOOKS)
        self.looked = self.ended = 0
        self._looking_s = 0.0
        self.samples: Samples = []

    @property
    def dropped(self) -> float:
        return self.ended / max(1, self.ended + count_live(self.operator.engine) + self.operator.matches)

    def work(self, start: int, stop: int, waiting_s: float) -> Step:
        """See `paced.Worker.work`."""
        began, engine = self._clock.now(), self.operator.engine
        alive, gone, ratio, looking = count_live(engine), 0, 0.0, None
        if self._model is not None and self._detector is not None:
            ratio = self._detector.ratio(alive, waiting_s)
            if ratio > 0:
                gone = self._end(self._model, ratio, new_runs(engine), start)
                looking = Looking(self._every, partial(self._look, self._model, ratio), in_events=True)
            if drops := self._detector.drops(alive - gone, waiting_s):
                gone += self._end(self._model, drops / (alive - gone), live_runs(engine), start)
        decided, before_s = self._clock.now(), self._looking_s
        self.operator.feed(start, stop, None, looking)
        looked_s = self._looking_s - before_s
        working_s = (self._clock.now() - decided - looked_s) / (stop - start)
        left, deciding_s = alive - gone, 0.0 if self._model is None else decided - began + looked_s
        self.samples.append((left, working_s))
        if self._detector is not None:
            self._detector.learn(alive, left, deciding_s / (stop - start) if gone or looking else 0.0, working_s)
        return Step(ratio, deciding_s)

    def _look(self, model: Model[JudgedMatches], ratio: float, then_ms: int) -> None:
        began = self._clock.now()
        row = int(np.searchsorted(self._matches.batch.time, then_ms))
        self._end(model, ratio, new_runs(self.operator.engine), row)
        self._looking_s += self._clock.now() - began

    def _end(self, model: Model[JudgedMatches], share: float, live: LiveRuns, row: int) -> int:
        if not len(live):
            return 0
        gone = end_runs(self.operator.engine, live, model.gate(share).keep(self._matches.judged(self.operator.engine, live, row)))
        self.looked, self.ended = self.looked + len(live), self.ended + gone
        return gone


class PairShedding:
    """Events are hidden from single partial matches, which the engine asks where both meet: that is work, deciding is finding the shares.

    Args:
        operator: fresh.
        hidden: by drop ratio the shares of pairs to hide, float64 (kinds, states, bins); see `app.cep.runs.hiding`.
        detector: tells how much.
        clock: times decisions.
        asking_s: what asking takes for a pair: the part of the engine's work that is a decision.

    Attributes:
        dropped: share of the pairs so far.
    """

    def __init__(
        self,
        operator: WholeStream,
        hidden: Callable[[float], NDArray[np.float64]],
        detector: EventDetector,
        clock: Clock,
        asking_s: float = 0.0,
    ) -> None:
        self.operator = operator
        self._hidden, self._detector, self._clock, self._asking_s = hidden, detector, clock, asking_s
        self._per_event, self._since = 0.0, 0
        self._limits: dict[float, NDArray[np.int64]] = {}
        self._asked, self._passing, self._batches = -1.0, 1.0, 0
        self._pairs, self._seen = np.zeros(2), np.zeros(2)

    @property
    def dropped(self) -> float:
        met, gone = self._pairs + self._newest()
        return float(gone / met) if met else 0.0

    def work(self, start: int, stop: int, waiting_s: float) -> Step:
        """See `paced.Worker.work`."""
        began = self._clock.now()
        ratio = self._detector.ratio(waiting_s)
        if ratio != self._asked:
            self._hide(ratio)
        decided = self._clock.now()
        self.operator.feed(start, stop, None)
        done, events = self._clock.now(), stop - start
        self._batches, self._since = self._batches + 1, self._since + events
        if self._batches % _COUNTED == 0:
            self._count()
        deciding_s = decided - began if ratio else 0.0
        self._detector.learn(events, events * self._passing, deciding_s, done - decided)
        return Step(ratio, deciding_s + self._asking_s * self._per_event * events)

    def _hide(self, ratio: float) -> None:
        if self._asked >= 0:
            self._count()
            self._pairs += self._newest()
        if ratio not in self._limits:
            self._limits[ratio] = limits_of(self._hidden(ratio))
        hide_limits(self.operator.engine, self._limits[ratio])
        self._asked, self._seen, self._since = ratio, np.zeros(2), 0

    def _count(self) -> None:
        """What passed since the last count; little says nothing."""
        now = self._newest()
        met, gone = now - self._seen
        if met >= _ENOUGH:
            self._passing, self._per_event, self._seen, self._since = 1.0 - gone / met, met / max(1, self._since), now, 0

    def _newest(self) -> NDArray[np.float64]:
        return np.array([one.sum() for one in pairs_met(self.operator.engine)], np.float64) if self._asked >= 0 else np.zeros(2)


def throughput(events: int, batch: int, feed: Callable[[int, int], None], clock: Clock) -> float:
    """Events per second that an operator manages, measured on the later ones of so many."""
    warm = int(events * _WARM) // batch * batch
    began = 0.0
    for start in range(0, events, batch):
        if start == warm:
            began = clock.now()
        feed(start, min(start + batch, events))
    return (events - warm) / (clock.now() - began)


def batch_for(capacity: float, seconds: float) -> int:
    """Events that an operator takes at a time: those that keep it busy for so long."""
    return int(np.clip(capacity * seconds, 20, 4000))
