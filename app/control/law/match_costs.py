"""What an event costs by how many partial matches it is held against: remembered of many of them while shedding leaves few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import log, log2

import numpy as np

from app.control.law.fullness import Fullness
from app.control.law.running import smoothed
from shedding.detector_matches import Curve, fitted

LEVELS = 2.0
"""Samples are means, by numbers of partial matches: so many to twice as many. What was seen of few and of many partial matches is remembered while a steady overload shows neither."""
SLOW = 0.15
"""How fast what a sample's events say is forgotten, by those of the newest batch."""
FEW_EVENTS = 1000.0
"""Which are as much as half of what any number of them says."""
NOTHING = 1e-3
"""Of the dearest events: what cheaper ones are told apart by, since the curve is to miss none by much of what it costs."""
NEAR = 2.0
"""So many times as many partial matches, or fewer, get cheaper with those that are seen."""
LEAST_SPREAD = 3.0
"""The most partial matches of the samples by the fewest: below, they say nothing about how the cost grows, and it is taken to be in proportion."""
SURE = 0.6
"""Where so much of what surprises goes to one side, costs are taken to go somewhere: all that is remembered moves with them."""
AGREEING = 0.2
"""Of what the curve misses a batch's cost by, so much must be missed by what was seen with about so many partial matches as well."""
MOST_MOVE = 0.5
"""How much of the way that goes in one batch."""


@dataclass(slots=True)
class Sample:
    """What an event costs with about so many partial matches; goes through snapshots as its fields, of which earlier versions knew the first two.

    Attributes:
        events: that say so, the newest counting most.
        raised: how many times as dear as was seen they are taken for, since others got dearer.
    """

    matches: float
    each_ms: float
    events: float = FEW_EVENTS
    raised: float = 1.0


@dataclass(slots=True)
class MatchCosts:
    """Of a query whose partial matches are shed; goes through snapshots as its fields.

    Attributes:
        samples: what events cost with so many partial matches, by levels of `LEVELS`.
        fullness: how many partial matches there are, of those without shedding, by the share that is kept of those that are made: longer ones are made of kept ones, so they may be as few as its square; or more, where shedding began while the state was still growing.
    """

    samples: list[Sample] = field(default_factory=list)
    fullness: Fullness = field(default_factory=Fullness)

    def curve(self) -> Curve | None:
        """What fits the samples; None while all batches had equally many partial matches."""
        return _curve_of(tuple((one.matches, one.each_ms, one.events) for one in self.samples))

    def by_ratio(self, reference: float, matches: float, each_ms: float, most: float) -> Callable[[float], float]:
        """Work per event by drop ratio: by the curve, or in proportion where there is none. It is fitted once; a decision asks it hundreds of times.

        Args:
            reference: partial matches without shedding.
            matches: of late.
            each_ms: what an event costs with so many.
            most: share of the partial matches that may be gone.
        """
        curve, known = self.curve(), self.fullness.by_share()

        def left(ratio: float) -> float:
            kept = 1 - min(ratio, most)
            return reference * (kept if known is None else known(kept))

        if curve is not None:
            return lambda ratio: curve.latency_s(left(ratio))
        return lambda ratio: each_ms * left(ratio) / matches if matches > 0 else each_ms

    def learn(self, matches: float, spent_ms: float, kept: int) -> None:
        """A batch counts by its events: where hardly any were kept, what is spent on ending partial matches is taken for theirs."""
        sample = self._sample(matches)
        if sample is None:
            self.samples.append(Sample(matches, spent_ms / kept, float(kept)))
            return
        known = (1 - SLOW) * sample.events + kept
        sample.matches = smoothed(sample.matches, matches, kept / known)
        sample.each_ms = smoothed(sample.each_ms, spent_ms / kept, kept / known)
        sample.raised = smoothed(sample.raised, 1.0, kept / known)
        sample.events = known

    def move(self, matches: float, each_ms: float, known_ms: float, signal: float) -> None:
        """What makes events dearer at this number of partial matches makes them dearer at others, which shedding may have to come to now. Where they are cheaper than was known, those with many more are what was seen of them, and no cheaper: that will show when they come.

        Args:
            matches: of a batch.
            each_ms: what its events cost.
            known_ms: what the curve says.
            signal: see `Surprises`.
        """
        step = min(MOST_MOVE, max(0.0, (signal - SURE) / (1 - SURE)))
        times = self._surely(matches, each_ms, each_ms / known_ms) ** step
        for sample in self.samples:
            own = times if sample.matches <= NEAR * matches else max(times, 1 / sample.raised)
            sample.each_ms, sample.raised = sample.each_ms * own, max(1.0, sample.raised * own)

    def _surely(self, matches: float, each_ms: float, times: float) -> float:
        """So many times dearer than the curve says, where it is also dearer than what was seen with about so many partial matches; else once: a curve that misses its own samples is no reason to move them."""
        sample = self._sample(matches)
        if sample is None or sample.each_ms <= 0 or times == 1:
            return 1.0
        return times if log(each_ms / sample.each_ms) / log(times) >= AGREEING else 1.0

    def _sample(self, matches: float) -> Sample | None:
        """Of the level of so many partial matches."""
        level = round(LEVELS * log2(max(1.0, matches)))
        return next((one for one in self.samples if round(LEVELS * log2(max(1.0, one.matches))) == level), None)


@lru_cache(maxsize=256)
def _curve_of(samples: tuple[tuple[float, float, float], ...]) -> Curve | None:
    """By partial matches, work and events of each sample. A decision asks several times for the same ones."""
    counts, spent, events = np.array(samples, dtype=np.float64).reshape(-1, 3).T
    if len(counts) < 3 or counts.max() < LEAST_SPREAD * max(counts.min(), 1.0) or spent.max() <= 0:
        return None
    curve = fitted(counts, spent, events / (events + FEW_EVENTS) / np.square(np.maximum(spent, NOTHING * spent.max())))
    return curve if curve.slope > 0 else None
