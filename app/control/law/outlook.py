"""What is known before a batch: what it holds, what waits behind it, what that takes. From it follow the goals that ratios must meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from app.control.law.costs import CostModel
from app.control.law.lateness import free_of
from app.control.law.load import Load, records_of
from app.control.law.query_cost import NO_EFFECT
from app.control.law.query_costs import QueryCosts
from app.control.law.sharing import Goal, Ratios

HORIZON = 4
"""Batches over which what waits too much is made up for: one would follow the noise of every batch, many would let latencies stay above the plateau."""
RECOVERY_BOUNDS = 2.0
"""Latency bounds in which an unshed backlog may clear itself."""
CLOSE_TO_BEST = 1.25
"""Out of reach, a latency is good enough when it is so many times the best that there is: the last tenth of a second costs most of the events where what batches take anyway is what is too long."""
ADMITTED = 0.95
"""Of the bound: a batch is let in as far as its oldest event will not be older than that when it is over."""
EASED = 0.95
"""Of the bound, where latency is kept at most when hardly anything else can be."""
LESS = 0.8
"""Of what is kept: so far it is looked how work follows."""
LONGEST_RELAXED = 10.0
"""Where a batch grows whatever is shed, it is kept below so many times its length: further on nobody waits for its matches any more."""

Records = Mapping[str, float]
"""By stream."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """A batch that is to be decided, and what is known of costs.

    Attributes:
        records: of the batch, by stream.
        waiting: the same with what it leaves behind.
        rates: records per ms.
        age_ms: how long the batch's oldest event has waited.
        span_ms: time in which what waits has come, where some of it has waited for longer than a bound; else 0. See `app.control.law.load.Filling`.
    """

    costs: QueryCosts
    model: CostModel
    pace: float
    records: Records
    waiting: Records
    rates: Records
    age_ms: float
    largest_batch: int
    span_ms: float = 0.0

    def duration_ms(self, load: Load, ratios: NDArray[np.float64]) -> float:
        """Of a batch of so many records; more than fit into one take several."""
        return self.durations_ms(load, ratios)[0]

    def durations_ms(self, load: Load, ratios: NDArray[np.float64]) -> tuple[float, float]:
        """The same, and that of one whose work is more than expected by as much as it often is."""
        more_ms = (max(1, ceil(load.records / self.largest_batch)) - 1) * self.model.fixed_ms
        taken = load.taken(ratios)
        usual_ms = self.pace * (self.model.duration_ms(load.records, taken.shipped, taken.work_ms) + more_ms)
        return usual_ms, usual_ms + self.pace * self.model.per_work * taken.lumps_ms

    def unshed_ms(self, records: Records, *, settled: bool = True) -> float:
        """The same where nothing is shed; see `QueryCosts.load`."""
        return self.duration_ms(self.costs.load(records, settled=settled), self.costs.rows({}))

    @cached_property
    def waits(self) -> Load:
        """What waits, held against the states as they are: each decision asks several times."""
        return self.costs.load(self.waiting, settled=False, span_ms=self.span_ms)

    @cached_property
    def batch(self) -> Load:
        """The batch itself, likewise."""
        part = sum(self.records.values()) / max(1.0, sum(self.waiting.values()))
        return self.costs.load(self.records, settled=False, span_ms=part * self.span_ms)

    def saved_ms(self, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (queries,): of what waits, what each query saves at these ratios: its own work and its part of shipping, less the verdicts that shedding it brings about."""
        load, model, none = self.waits, self.model, np.zeros_like(ratios)
        work = model.per_work * (load.work_ms(none) - load.work_ms(ratios) - load.candidates * load.judging_ms)
        shipping = model.per_shipped_ms * self.costs.overlap * (load.handed_over(none) - load.handed_over(ratios))
        saved = np.where(load.effect >= NO_EFFECT, work + shipping, 0.0)
        rows = list(load.by_matches)
        saved[rows] = work[rows]
        return saved

    def worthwhile(self, ratios: Ratios) -> dict[str, float]:
        """Without those of queries whose verdicts take what shedding saves: they are paid at any ratio, so a small one makes batches longer."""
        paid = self.saved_ms(self.costs.rows(ratios)) > 0
        vain = {query for query, no in zip(self.costs.queries, (self.waits.judging_ms > 0) & ~paid, strict=True) if no}
        return {query: ratio for query, ratio in ratios.items() if query not in vain}

    @property
    def rate(self) -> float:
        """Records of all streams per ms."""
        return sum(self.rates.values())

    def length_ms(self, plateau_ms: float) -> float:
        """How long a batch may take so that the latency stays at the plateau: half of it, or less where batches are full earlier."""
        filled_ms = self.largest_batch / self.rate if self.rate > 0 else plateau_ms
        return max(1.0, min(plateau_ms / 2, filled_ms))

    def during(self, length_ms: float) -> dict[str, float]:
        """Records that arrive in so long."""
        return {stream: rate * length_ms for stream, rate in self.rates.items()}

    def ahead(self, length_ms: float) -> dict[str, float]:
        """Records of one of the next `HORIZON` batches of this length, when what waits too much is spread over them. That less waits lets nothing more in: batches come to this length by themselves."""
        steady = self.during(length_ms)
        streams = sorted({*steady, *self.waiting})
        extra = {one: max(0.0, self.waiting.get(one, 0.0) - steady.get(one, 0.0)) / HORIZON for one in streams}
        return {one: steady.get(one, 0.0) + extra[one] for one in streams}

    def clears_itself(self, length_ms: float, bound_ms: float) -> bool:
        """Whether the rate needs no shedding, and what waits is gone soon without."""
        unshed = self.unshed_ms(self.during(length_ms))
        load = (unshed - self.pace * self.model.fixed_ms) / length_ms
        crowded = self.duration_ms(self.waits, self.costs.rows({})) if self.span_ms else 0.0
        return unshed <= length_ms and max(self.unshed_ms(self.waiting), crowded) <= RECOVERY_BOUNDS * bound_ms * (1 - load)

    def beyond(self, plateau_ms: float) -> float:
        """By what share batches that shed nothing would be longer than the plateau allows; below 0 where they would not."""
        length_ms = self.length_ms(plateau_ms)
        return self.unshed_ms(self.during(length_ms)) / length_ms - 1

    def free_ms(self, queries: Sequence[str], plateau_ms: float, bound_ms: float, missed: float, ratios: Ratios) -> float:
        """What of the plateau coming batches may take together, where these queries shed events for it. Those that shed partial matches leave no room: what one batch ends of them is missing for a window.

        Args:
            queries: that have the bound.
            plateau_ms: see `app.control.law.lateness.free_of`.
            bound_ms: see there.
            missed: see there.
            ratios: that hold.
        """
        if missed <= 0 or not self.costs.of_matches.isdisjoint(queries):
            return plateau_ms
        coming = self.costs.load(self.during(self.length_ms(plateau_ms)))
        exponent = self._exponent(coming, {query: ratios.get(query, 0.0) for query in queries})
        return free_of(plateau_ms, bound_ms, self.pace * self.model.fixed_ms, missed, exponent)

    def _exponent(self, load: Load, ratios: Ratios) -> float:
        """The power of what these queries keep with which their work goes, from these ratios on."""
        own, less = [query in ratios for query in self.costs.queries], {query: 1 - LESS * (1 - ratio) for query, ratio in ratios.items()}
        before, after = (float(load.work_ms(self.costs.rows(one))[own].sum()) for one in (ratios, less))
        return log(after / before) / log(LESS) if 0 < after < before else 0.0

    def goal(
        self, queries: Sequence[str], plateau_ms: float, bound_ms: float, free_ms: float | None = None, *, strict: bool = True
    ) -> Goal:
        """A bound, as what the next batches and this one may take.

        Args:
            queries: that have it.
            plateau_ms: where the latency is to settle.
            bound_ms: what it must not exceed.
            free_ms: what of the plateau coming batches may take, where that is less; whether the bound can be kept is asked without.
            strict: whether it can be kept; otherwise no single batch is admitted by it, since its events are late anyway.
        """
        latest_ms, free_ms = ADMITTED * bound_ms, plateau_ms if free_ms is None else free_ms
        longest_ms, length_ms = (self.length_ms(one) if strict else one / 2 for one in (plateau_ms, free_ms))
        lumpy_ms = latest_ms * longest_ms / plateau_ms
        if self.clears_itself(length_ms, bound_ms):
            return Goal(tuple(queries), plateau_ms, free_ms, _nothing, _nothing, _nothing, self._unmoved, self._unmoved)
        steady, coming = self.costs.load(self.during(longest_ms)), self.ahead(length_ms)
        # a state that is fuller than it will be costs now, one that is emptier will fill
        ahead = [self.costs.load(coming, settled=settled) for settled in (True, False)]
        admitted_ms = max(length_ms, latest_ms - self.age_ms) if strict else LONGEST_RELAXED * length_ms

        def too_long(load: Load, rows: NDArray[np.float64], may_ms: float) -> float:
            usual_ms, longer_ms = self.durations_ms(load, rows)
            return max(usual_ms / may_ms, longer_ms / lumpy_ms)

        def excess(ratios: Ratios) -> float:
            rows = self.costs.rows(ratios)
            return max(too_long(one, rows, length_ms) for one in ahead)

        def admission(ratios: Ratios) -> float:
            return self.duration_ms(self.batch, self.costs.rows(ratios)) / admitted_ms

        def at_length(ratios: Ratios) -> float:
            return too_long(steady, self.costs.rows(ratios), longest_ms)

        def relaxed(most: Ratios) -> Goal:
            best_ms = self.best_ms(length_ms, self.costs.rows(most))
            return self.goal(queries, 2 * best_ms, 2 * best_ms * bound_ms / plateau_ms, strict=False)

        def eased(most: Ratios) -> Goal:
            best_ms = min(self.best_ms(length_ms, self.costs.rows(most)), EASED * bound_ms / 2)
            return self.goal(queries, max(free_ms, 2 * best_ms), bound_ms)

        return Goal(tuple(queries), plateau_ms, free_ms, excess, admission, at_length, relaxed, eased)

    def arrivals_per_s(self, streams: Sequence[str]) -> float:
        """Records that arrive on these streams; on all of them, where they are other queries' composite events."""
        return 1000 * records_of(streams, self.rates)

    def backlog(self, streams: Sequence[str]) -> float:
        """Records of these streams that wait, those of the batch among them."""
        return records_of(streams, self.waiting)

    def capacity_per_s(self, streams: Sequence[str], plateau_ms: float) -> float | None:
        """Records per second of these streams with which batches are just as long as they may be, by what events cost now, if all streams grow alike; None where that is no number. For reports: no decision asks for it."""
        length_ms = self.length_ms(plateau_ms)
        empty_ms, full_ms = (self.unshed_ms(records, settled=False) for records in ({}, self.during(length_ms)))
        if self.rate <= 0 or full_ms <= empty_ms:
            return None
        return round(max(0.0, self.arrivals_per_s(streams) * (length_ms - empty_ms) / (full_ms - empty_ms)), 1)

    def best_ms(self, length_ms: float, most: NDArray[np.float64]) -> float:
        """How long batches are, and a little more, when everything is shed that may be: what is kept of a bound that cannot be."""
        nothing = self.duration_ms(self.costs.load({}), most)
        growth = (self.duration_ms(self.costs.load(self.during(length_ms)), most) - nothing) / length_ms
        longest = LONGEST_RELAXED * length_ms
        return min(longest, CLOSE_TO_BEST * nothing / (1 - growth)) if growth < 1 else longest

    def _unmoved(self, _: Ratios) -> Goal:
        raise AssertionError("a goal that asks for nothing is in reach")


def _nothing(_: Ratios) -> float:
    return 0.0
