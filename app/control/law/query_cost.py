"""What a query costs: its work per event, or per event and partial match, as its owners measured it, and what its candidates are of the stream.

The work is that of the slowest owner, in time of the processor: a batch is over when its last owner is done, and what others do on the machine is no cost of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import log, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.control.law.elasticity import Elasticity
from app.control.law.fullness import Fullness
from app.control.law.running import NEWEST, followed, remembered, smoothed
from shedding.detector_matches import Curve, fitted

FADING = 0.05
"""How much of what a query's composite events were late is forgotten with a batch in which it has none."""
MOST_OFFSET_MS = 60_000.0
"""Later ones waited for something else."""
FEED_MS = 1.0
"""Of a query's work in a batch, what there is whatever is in the batch: calls and arrays. Taken for work per event, ten events would foretell a burst of them a hundred times too dear."""
LEVELS = 2.0
"""Samples of the cost by partial matches are means, by numbers of them: so many to twice as many. What was seen of few and of many partial matches is remembered while a steady overload shows neither."""
FEW_EVENTS = 1000.0
"""Which are as much as half of what any number of them says."""
NOTHING = 1e-3
"""Of the dearest events: what cheaper ones are told apart by, since the curve is to miss none by much of what it costs."""
NEAR = 2.0
"""So many times as many partial matches, or fewer, get cheaper with those that are seen."""
LEAST_SPREAD = 3.0
"""The most partial matches of the samples by the fewest: below, they say nothing about how the cost grows, and it is taken to be in proportion."""
NO_EFFECT = 0.1
"""Of what was asked: when less than this is dropped, shedding is in vain (all events are guarded, say)."""
SLOWEST_TURN = 0.1
"""Of the state at least so much is taken to be replaced in a batch: what live events are said to be may be partial matches."""
SLOW = 0.15
"""Weight of the newest batch in what is known of a query's scatter."""
SOON, FOR_LONG = 0.1, 0.015
"""The same of its lumps, where the batch is one, and where it is none: one in thirty batches is enough to be late once in a hundred, and a mean forgets it before the next. At first they are forgotten as a mean of all batches would: a process that is still warming up has surprises that do not come again, and a minute later they would still be taken for what shedding must make room for."""
NOISY = 0.35
"""Of its scatter: batches whose costs miss what was known by so little on average miss it by chance."""
SURE = 0.6
"""The same, above which costs by partial matches are taken to go somewhere: all that is remembered moves with them."""
AGREEING = 0.2
"""Of what the curve misses a batch's cost by, so much must be missed by what was seen with about so many partial matches as well."""
MOST_MOVE = 0.5
"""How much of the way that goes in one batch."""
LUMPY = 1.5
"""So many times as much more as batches typically cost when they cost more is reckoned with."""
MOST_LUMPY = 0.8
"""Of what is expected, so much more at most: where it is not known how work follows what is kept, every change of the ratio is a surprise, and no reason to keep less."""
MOST_OFF = 2.0
"""As a logarithm: a batch that was foretold worse than that says only that something is different now, and must not be remembered as scatter for minutes."""
LEAST_GAIN = 0.2
"""Of what a batch counts in a query's costs: a batch of a noisy query."""
FOLLOWED = 1.3
"""So many times what is kept, or less: what the state was made from. Then it has followed, and work says what that share costs."""
LEAST_RETAINED = 0.02
"""Of what there would be without shedding: below, there is nothing left to be measured."""
TURNED = 0.5
"""Of the state replaced in a batch: it is what the batch's ratio made of it."""
FORGIVEN = 0.003
"""Of what is missing: so fast a shedder that dropped less than it was asked to gets another chance while it is not asked; and one whose verdicts cost more than it saved."""
UNJUDGED = 0.5
"""Of an event's work, what verdicts on what it leads to are taken for before there were any, and again some minutes after the last: whom they would make dearer than shedding makes it cheaper is asked only where more than that is to be had."""


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """One query in one batch.

    Attributes:
        candidates: events that it could use, shed ones included.
        shed: of them.
        work_ms: that the slowest owner spent on it, time of the processor.
        matches: partial matches that an event was held against on average, as far as known.
        reference: where partial matches are shed, how many there would be without; else 0.
        asked: the drop ratio under which the batch ran; where events went as well as partial matches, 1 and the share of these.
        latency_ms: of its composite events, broker time of the last constituent to the end of matching, on average; None without any.
        judging_ms: of its work, what there is only because it sheds: verdicts on what it found.
    """

    candidates: int = 0
    shed: int = 0
    work_ms: float = 0.0
    matches: float = 0.0
    reference: int = 0
    asked: float = 0.0
    latency_ms: float | None = None
    judging_ms: float = 0.0


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


def turned_by(kept: ArrayLike, held: ArrayLike) -> NDArray[np.float64]:
    """Share of a state of so many events, or partial matches, that is replaced by a batch in which so many events are kept; for each of as many.

    >>> turned_by([500, 10_000, 10], 2000).tolist()
    [0.25, 1.0, 0.1]
    """
    return np.minimum(np.maximum(kept / np.maximum(1.0, held), SLOWEST_TURN), 1.0)


@dataclass(slots=True)
class QueryCost:
    """What is known of one query; all of it goes through `snapshot`.

    Attributes:
        share: candidates per record of its streams.
        base_ms: work in a batch that has nothing to do with events.
        spent_ms: the rest of it, the newest batches counting most.
        events: that it was spent on. Sums, not a mean of means: a large batch says more about an event than ten small ones.
        offered: the same with those that were shed.
        judging: ms per candidate that verdicts take while it sheds; None before there were any.
        whole: how many events that are kept, and held against a state that was made from all events, they come to.
        elasticity: how its work follows the share that is kept.
        retained: share of its events that its state was made from: what an event costs depends on what it is held against, and that follows the drop ratio a window later.
        effect: share of what it was asked to drop that it did drop.
        offset_ms: by how much its composite events are later than the batches explain.
        reference: partial matches without shedding.
        matches: partial matches when that was measured.
        newest_matches: in the batch before.
        samples: what events cost with so many partial matches, by levels of `LEVELS`.
        fullness: how many partial matches there are, of the reference, by the share that is kept of those that are made: longer ones are made of kept ones, so they may be as few as its square; or more, where shedding began while the state was still growing.
        bias: by how much an event cost more than was known, as a logarithm, on average.
        scatter: the same without its sign.
        lumps: by how much more events cost at times, as the square of a logarithm: soon where they do, and for long.
        foretold: batches whose costs could be compared with what was known.
    """

    share: float | None = None
    base_ms: float = 0.0
    spent_ms: float = 0.0
    events: float = 0.0
    offered: float = 0.0
    judging: float | None = None
    whole: float = 0.0
    elasticity: Elasticity = field(default_factory=Elasticity)
    retained: float = 1.0
    effect: float = 1.0
    offset_ms: float = 0.0
    reference: float = 0.0
    matches: float = 0.0
    newest_matches: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    fullness: Fullness = field(default_factory=Fullness)
    bias: float = 0.0
    scatter: float = 0.0
    lumps: float = 0.0
    foretold: int = 0

    def learn(
        self,
        seen: QueryObservation,
        consumed: int,
        explained_ms: float | None,
        *,
        warm: bool,
        reads_others: bool = False,
        judged: bool = False,
    ) -> None:
        """Takes a batch into account.

        Args:
            seen: of the query.
            consumed: records of its streams.
            explained_ms: how late composite events are on average by what is known of the batch; None where nothing can be said.
            reads_others: whether it reads other queries' composite events alone: what they are counts as the stream.
            warm: whether the processes are; until then only what is cheaper than before is believed.
            judged: whether verdicts are given on what it finds while it sheds.
        """
        candidates = seen.candidates or (consumed if reads_others and seen.work_ms > 0 else 0)
        if consumed > 0:
            self.share = followed(self.share, candidates / consumed)
        self._learn_work(seen, candidates - seen.shed, warm=warm, judged=judged)
        self.reference = float(seen.reference)
        self._learn_effect(seen)
        if seen.latency_ms is None:
            self.offset_ms *= 1 - FADING
        elif explained_ms is not None:
            self.offset_ms = followed(self.offset_ms, max(0.0, min(seen.latency_ms - explained_ms, MOST_OFFSET_MS)))

    def _learn_work(self, seen: QueryObservation, kept: int, *, warm: bool, judged: bool) -> None:
        base = min(seen.work_ms, FEED_MS)
        self.base_ms = followed(self.base_ms or None, base)
        if kept <= 0:
            return
        offered = kept if seen.reference else kept + seen.shed
        self._learn_judging(seen, offered, warm=warm, judged=judged)
        curve = self._curve() if seen.reference else None
        known_ms = self.whole_ms if curve is None else curve.latency_s(seen.matches)
        passed, turned = kept / offered, float(turned_by(kept, seen.matches))
        spent = max(0.0, seen.work_ms - base - seen.judging_ms)
        whole = offered * self.elasticity.left(passed, self._met(seen, passed, turned))
        each_ms = spent / whole
        # else it is no more than what there is whatever is in a batch: a quiet night of these says nothing of the next burst
        telling = spent > 0 or known_ms * whole > FEED_MS
        if warm and telling:
            keep = 1 - NEWEST * self._gain(each_ms, known_ms)
            if curve is not None and min(each_ms, known_ms) > 0:
                move = min(MOST_MOVE, max(0.0, (self._signal - SURE) / (1 - SURE)))
                self._scale_levels(seen.matches, self._surely(seen.matches, each_ms, each_ms / known_ms) ** move)
            self._add(keep, spent, kept, offered, whole)
            left = max(LEAST_RETAINED, passed)
            if not seen.reference and max(self.retained, left) <= FOLLOWED * min(self.retained, left):
                self.elasticity.learn(passed, spent / offered)
        elif telling and (self.events == 0 or each_ms < known_ms):
            self._add(0.0, spent, kept, offered, whole)
        if seen.reference and warm:
            self._learn_level(seen.matches, spent, kept)
            self._learn_reference(seen, self.newest_matches, turned)
        self.matches = seen.matches if known_ms == 0 or not warm else followed(self.matches, seen.matches)
        self.newest_matches = seen.matches

    def _learn_judging(self, seen: QueryObservation, offered: int, *, warm: bool, judged: bool) -> None:
        """Verdicts while it sheds; while it does not they are forgotten."""
        if seen.asked == 0 and self.judging is not None:
            self.judging += FORGIVEN * (UNJUDGED * self.whole_ms * judged - self.judging)
        elif seen.asked > 0 and warm:
            self.judging = followed(self.judging, seen.judging_ms / offered)

    def _met(self, seen: QueryObservation, passed: float, turned: float) -> float:
        """What share of all events the state was made from that the batch's events met, as it follows the share that passed."""
        before = self.retained
        self.retained = max(LEAST_RETAINED, before + turned * (passed - before))
        return (before + self.retained) / 2 if seen.matches else 1.0

    def _add(self, keep: float, spent_ms: float, kept: int, offered: int, whole: float) -> None:
        """A batch more, of which as much of the older ones is kept as is said."""
        self.spent_ms, self.events = keep * self.spent_ms + spent_ms, keep * self.events + kept
        self.offered, self.whole = keep * self.offered + offered, keep * self.whole + whole

    def _learn_level(self, matches: float, spent_ms: float, kept: int) -> None:
        """Counts by its events: where hardly any were kept, what is spent on ending partial matches is taken for theirs."""
        sample = self._sample(matches)
        if sample is None:
            self.samples.append(Sample(matches, spent_ms / kept, float(kept)))
            return
        known = (1 - SLOW) * sample.events + kept
        sample.matches = smoothed(sample.matches, matches, kept / known)
        sample.each_ms = smoothed(sample.each_ms, spent_ms / kept, kept / known)
        sample.raised = smoothed(sample.raised, 1.0, kept / known)
        sample.events = known

    def _sample(self, matches: float) -> Sample | None:
        """Of the level of so many partial matches."""
        level = round(LEVELS * log2(max(1.0, matches)))
        return next((one for one in self.samples if round(LEVELS * log2(max(1.0, one.matches))) == level), None)

    def _surely(self, matches: float, each_ms: float, times: float) -> float:
        """So many times dearer than the curve says, where it is also dearer than what was seen with about so many partial matches; else once: a curve that misses its own samples is no reason to move them."""
        sample = self._sample(matches)
        if sample is None or sample.each_ms <= 0 or times == 1:
            return 1.0
        return times if log(each_ms / sample.each_ms) / log(times) >= AGREEING else 1.0

    def _scale_levels(self, matches: float, times: float) -> None:
        """What makes events dearer at this number of partial matches makes them dearer at others, which shedding may have to come to now. Where they are cheaper than was known, those with many more are what was seen of them, and no cheaper: that will show when they come."""
        for sample in self.samples:
            own = times if sample.matches <= NEAR * matches else max(times, 1 / sample.raised)
            sample.each_ms, sample.raised = sample.each_ms * own, max(1.0, sample.raised * own)

    def _learn_reference(self, seen: QueryObservation, before: float, turned: float) -> None:
        """What a batch's ratio left of the reference, where the state has followed it: one that fills up again behind shedding has not."""
        if seen.asked == 0 and FOLLOWED * seen.matches < seen.reference:
            return
        if (
            seen.asked <= 1
            and min(seen.matches, before) > 0
            and (turned >= TURNED or max(seen.matches, before) <= FOLLOWED * min(seen.matches, before))
        ):
            self.fullness.learn(1 - seen.asked, seen.matches / seen.reference)

    def _gain(self, each_ms: float, before_ms: float) -> float:
        """How much a batch counts: little while costs only scatter, all while they go somewhere (Trigg and Leach 1967, the tracking signal)."""
        if before_ms <= 0 or each_ms <= 0:
            return 1.0
        off = max(-MOST_OFF, min(MOST_OFF, log(each_ms / before_ms)))
        self.bias, self.scatter = smoothed(self.bias, off, SLOW), smoothed(self.scatter, abs(off), SLOW)
        more = max(0.0, off) ** 2
        self.foretold += 1
        self.lumps = smoothed(self.lumps, more, SOON if more > self.lumps else max(FOR_LONG, 1 / (1 + self.foretold)))
        return min(1.0, max(LEAST_GAIN, (self._signal - NOISY) / NOISY)) if self.scatter > 0 else 1.0

    def judging_ms(self, *, judged: bool) -> float:
        """Per candidate, of verdicts while it sheds; see `learn`."""
        return UNJUDGED * self.whole_ms * judged if self.judging is None else self.judging

    @property
    def _signal(self) -> float:
        """0 where costs only scatter, 1 where they all go to one side."""
        return abs(self.bias) / self.scatter if self.scatter > 0 else 0.0

    @property
    def lumpy(self) -> float:
        """By how much more its work is at times, as a share of what is expected."""
        return min(MOST_LUMPY, LUMPY * sqrt(self.lumps))

    @property
    def per_event_ms(self) -> float:
        """Work per event that reaches it."""
        return self.spent_ms / self.events if self.events else 0.0

    @property
    def whole_ms(self) -> float:
        """Work per event if all are kept, and were."""
        return self.spent_ms / self.whole if self.whole else 0.0

    def _learn_effect(self, seen: QueryObservation) -> None:
        if seen.asked > 0.05 and seen.candidates > 100 and not seen.reference:
            self.effect = followed(self.effect, min(1.0, seen.shed / seen.candidates / seen.asked))
        else:
            self.effect += FORGIVEN * (1 - self.effect)

    def candidates(self, records: float) -> float:
        """Of so many records of its streams."""
        return (self.share or 0.0) * records

    def by_matches(self, most: float = 1.0) -> Callable[[float], float]:
        """Work per event when such a share of the partial matches is gone, and not more than ``most``: by the curve that fits what was seen, or in proportion while all batches had equally many.

        The curve is fitted once; a decision asks it hundreds of times.
        """
        curve, each, share_left = self._curve(), self.per_event_ms, self._left()

        def left(ratio: float) -> float:
            return share_left(min(ratio, most))

        if curve is not None:
            return lambda ratio: curve.latency_s(left(ratio))
        return lambda ratio: each * left(ratio) / self.matches if self.matches > 0 else each

    def _left(self) -> Callable[[float], float]:
        """Partial matches by drop ratio."""
        known = self.fullness.by_share()
        if known is None:
            return lambda ratio: self.reference * (1 - ratio)
        return lambda ratio: self.reference * known(1 - ratio)

    def _curve(self) -> Curve | None:
        return _curve_of(tuple((one.matches, one.each_ms, one.events) for one in self.samples))


@lru_cache(maxsize=256)
def _curve_of(samples: tuple[tuple[float, float, float], ...]) -> Curve | None:
    """By partial matches, work and events of each sample. A decision asks seven times for the same ones."""
    counts, spent, events = np.array(samples, dtype=np.float64).reshape(-1, 3).T
    if len(counts) < 3 or counts.max() < LEAST_SPREAD * max(counts.min(), 1.0) or spent.max() <= 0:
        return None
    curve = fitted(counts, spent, events / (events + FEW_EVENTS) / np.square(np.maximum(spent, NOTHING * spent.max())))
    return curve if curve.slope > 0 else None


def restored(values: Mapping[str, Any]) -> QueryCost:
    """Of what an earlier version wrote, what it says; that version took work for that of a join."""
    parts = {
        "elasticity": remembered(Elasticity, values.get("elasticity", {})),
        "fullness": remembered(Fullness, values.get("fullness", {})),
        "samples": [Sample(*one) if isinstance(one, list) else remembered(Sample, one) for one in values.get("samples", [])],
    }
    known: QueryCost = remembered(QueryCost, {**values, **parts})
    known.offered = known.offered or known.events
    if known.events and not known.whole:
        kept = known.events / known.offered
        known.whole = known.offered * known.elasticity.left(kept, known.retained)
    return known
