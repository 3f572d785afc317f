"""Would a match exist without shedding? It is looked for again among all events, the shed ones included.

A composite event is false when shedding hid what would have prevented it: an event of a negated item, one that contiguity or the way to the next match would have
had to take, one that ends a closure. Whatever the reason is: with the hidden events in their places the query does not find it. So the query itself is asked, over the
events of the match's partition and time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.audit.copies import Copies
from app.audit.digests import match_digests
from app.audit.lean import Lean
from app.audit.memory import FOREVER, NEVER, KeysOf, Kind, Memory, Recalled
from app.audit.sample import Sample
from app.audit.spans import Places, Spans, covered
from app.cep.matches import Matches
from app.events.batch import EventBatch, take
from app.query.plan import Catalog, Limits, Ordered, Plan, Runs, Take
from app.query.planning.alternatives import another_may_stand_in, beside_the_pattern
from app.query.reach import emission_delay_ms, goes_by_others, reach_ms
from app.query.sampling import reads_queries, why_no_sample

MOST_EVENTS = 200_000
"""That are looked through again in one step of a bucket, partition by partition, those first whose matches take the fewest; matches beyond are unverifiable."""
STEPS = 12
"""Questions that a search for a refuting event takes, about: a span has some thousand events at most."""
ASKING = 2_000
"""Events that a question costs beside those that it is about: an engine is made for it."""
MOST_SEARCHED = 500_000
"""Events that are looked through for refuting ones in one step; false positives beyond are told without."""
UNBOUNDED_MS = FOREVER // 4


class Verdict(IntEnum):
    """On one composite event."""

    UNTOUCHED = 0
    """Nothing was shed that could have prevented it; nothing is told."""
    CONFIRMED = 1
    FALSE_POSITIVE = 2
    UNVERIFIABLE = 3


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """On the matches of one query in one step.

    Attributes:
        codes: uint8 (matches,), of `Verdict`.
        refuted_by: int64 (matches, 2), source and offset of the event that refutes a false positive; -1 where none is known.
    """

    codes: NDArray[np.uint8]
    refuted_by: NDArray[np.int64]

    def of(self, which: NDArray[np.intp]) -> Verdicts:
        """Those on some of the matches."""
        return Verdicts(self.codes[which], self.refuted_by[which])

    @property
    def told(self) -> NDArray[np.intp]:
        """The matches of which there is something to tell."""
        return np.flatnonzero(self.codes != Verdict.UNTOUCHED)


@dataclass(frozen=True, slots=True)
class Ended:
    """Partial matches of a query that were ended.

    Attributes:
        before_ms: all their events are before this time.
        known_until_ms: all events before this time have come.
    """

    before_ms: int = NEVER
    known_until_ms: int = FOREVER


NONE_ENDED = Ended()
Rematch = Callable[[EventBatch, NDArray[np.uint64]], Matches]
"""What the query finds in these events, all time being over: matches, or timeouts. Bitmaps are of the group."""
Judged = Literal["matches", "timeouts"]


def can_be_false(plan: Plan) -> bool:
    """Whether a query can find what it would not have found with more events: not when it takes any events that fit, and forbids none, whoever matches it."""
    negated = any(item.negated for item in plan.items)
    if plan.temporal is not None or plan.draining is not None:
        return False
    follows = plan.runs is not None and (negated or not _takes_any_sequence(plan, plan.runs))
    return follows or (negated and plan.shedding.allow_false_positives)


def _takes_any_sequence(plan: Plan, runs: Runs) -> bool:
    """Whether it is a sequence of single events, any that fit, within some time at most: runs that could as well be stacks (shedders of partial matches want runs)."""
    parts = runs.pattern.parts if isinstance(runs.pattern, Ordered) else (runs.pattern,)
    single = all(isinstance(part, Take) and part == Take(part.item) for part in parts)
    return single and runs.limits == Limits() and not any(beside_the_pattern(plan, runs))


def cares_for_distances_only(plan: Plan, reach_ms: int) -> bool:
    """Whether a query finds the same in events that are all moved to another time, and what is far enough from each other has nothing to do with each other."""
    clock = plan.runs is not None and plan.runs.window is not None
    return reach_ms < UNBOUNDED_MS and not clock and not _speaks_of((plan.items, plan.joins, plan.runs), "time")


def control_sample(plan: Plan, share: float) -> Sample | None:
    """The control sample of partitions that says what shedding costs the query; None where there is none: `app.query.sampling` says why."""
    reach = reach_ms(plan)
    if not share or reach is None or why_no_sample(plan) is not None:
        return None
    back, ahead = _looks(plan)
    return Sample(share, reach * (1 + back), reach * ahead)


def control_samples(catalog: Catalog, queries: Iterable[int]) -> dict[int, Sample]:
    """By query (index in `Catalog.plans`), those that have one."""
    samples = {query: control_sample(catalog.plans[query], catalog.sample) for query in queries}
    return {query: sample for query, sample in samples.items() if sample is not None}


def by_sample(samples: Mapping[int, Sample]) -> dict[Sample, list[int]]:
    """The queries of each sample: those that reach equally far have one, of which events are asked once."""
    queries: dict[Sample, list[int]] = {}
    for query, sample in samples.items():
        queries.setdefault(sample, []).append(query)
    return queries


def _looks(plan: Plan) -> tuple[bool, bool]:
    """Whether events before, and behind, those that a match binds can have to do with it."""
    whole = goes_by_others(plan)
    return whole or plan.items[0].negated, whole or plan.items[-1].negated


def others_follow(plan: Plan) -> bool:
    """Whether a query can find something else in the place of what a partial match that was ended would have become."""
    runs = plan.runs
    return can_be_false(plan) and runs is not None and (runs.after != "no-skip" or runs.longest or another_may_stand_in(plan))


def is_audited(plan: Plan) -> bool:
    """Whether verdicts are given on what the query finds: it may shed, and shedding can make it find what is not so."""
    if plan.shedding.state_bytes is not None and others_follow(plan):
        return True
    return plan.shedding.latency_bound_ms is not None and can_be_false(plan)


class Judge:
    """Judges the matches of one query, or its timeouts.

    Args:
        plan: its plan.
        own: uint64 (words,), its bits in the group's bitmaps.
        reach_ms: longest time between two events that have to do with one match; `UNBOUNDED_MS` without a bound.
        keys_of: how the group is partitioned.
        rematch: asks the query again.
        lean: knows what decides, and is worth asking about; None: all of it.
        judged: what `rematch` finds, and what it is asked about.
    """

    def __init__(  # noqa: PLR0917 - the query, and what asks it
        self,
        plan: Plan,
        own: NDArray[np.uint64],
        reach_ms: int,
        keys_of: KeysOf,
        rematch: Rematch,
        lean: Lean | None = None,
        judged: Judged = "matches",
    ) -> None:
        self._judged = judged
        self._own, self._keys_of, self._rematch, self._lean = own, keys_of, rematch, lean
        self._deciding = own if lean is None else lean.negated
        self._positive = [item.index for item in plan.positive]
        self._reach = reach_ms
        self._delay_ms = emission_delay_ms(plan) or 0
        self._opener = -1 if plan.runs is None or plan.runs.window is None else plan.runs.window.opener
        runs = plan.runs
        self._looks_back, self._looks_ahead = _looks(plan)
        self._movable = cares_for_distances_only(plan, reach_ms)
        self._depends = reads_queries(plan) or (runs is not None and runs.after != "no-skip")

    def verdicts(self, matches: Matches, keys: NDArray[np.uint64], memory: Memory, ended: Ended = NONE_ENDED) -> Verdicts:
        """One verdict per match.

        Args:
            matches: that the query found just now.
            keys: uint64 (matches,), hashes of their partition keys.
            memory: of the group.
            ended: partial matches of the query. What has to do with their events is asked again, and if it is false, no shed event is to blame.
        """
        told = Verdicts(np.zeros(len(matches), np.uint8), np.full((len(matches), 2), -1, np.int64))
        spans = self._spans(matches, keys)
        doubted = spans.since < ended.before_ms
        if doubted.any() or memory.touched(self._deciding):
            self._judge(matches, spans, memory, doubted, told)
        early = doubted & (spans.until - self._delay_ms >= ended.known_until_ms)  # nothing was left that it would have had to wait for
        told.codes[early & (told.codes != Verdict.FALSE_POSITIVE)] = Verdict.UNVERIFIABLE
        told.codes[(told.codes != Verdict.FALSE_POSITIVE) & (spans.since < memory.shed_before_ms)] = Verdict.UNVERIFIABLE
        return told

    def _judge(self, matches: Matches, spans: Spans, memory: Memory, doubted: NDArray[np.bool_], told: Verdicts) -> None:
        codes = told.codes
        touched = np.flatnonzero(doubted | self._touched(spans, _recalled(memory, spans, "shed")))
        codes[touched] = Verdict.UNVERIFIABLE
        known = touched[spans.since[touched] >= memory.whole_from_ms]
        if not len(known) or memory.blind or self._depends:
            return
        asked = self._within(_recalled(memory, spans.of(known)), spans.of(known))
        if self._lean is not None:
            asked = self._lean.of(asked, matches, matches.constituents(self._positive), known)
        if len(asked.batch) > MOST_EVENTS:
            known = known[self._affordable(asked, spans.of(known))]
            if not len(known):
                return
            asked = self._within(asked, spans.of(known))
        digests = self._digests(matches)
        found = self._digests(self._rematch(asked.batch, asked.kept | asked.shed))
        right = np.isin(digests[known], found)
        codes[known[right]] = Verdict.CONFIRMED
        false = known[~right]
        codes[false] = Verdict.FALSE_POSITIVE
        by_events = false[~doubted[false]]
        if len(by_events):
            told.refuted_by[by_events] = self._refuting(asked, spans.of(by_events), digests[by_events])

    def _spans(self, matches: Matches, keys: NDArray[np.uint64]) -> Spans:
        bound = matches.constituents(self._positive)
        times, starts = matches.events.time[bound.rows], bound.starts[:-1]  # every match binds something
        first, last = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
        since = first - self._reach if self._looks_back else first
        if self._judged == "timeouts":  # until the end of the window anything may complete, or end, what it has bound
            return Spans(keys, since, np.maximum(last, matches.time))
        return Spans(keys, since, np.maximum(last, first + self._reach) if self._looks_ahead else last)

    def _touched(self, spans: Spans, recalled: Recalled) -> NDArray[np.bool_]:
        """Whether an event was shed in a match's partition and time that can decide about it."""
        shed = np.flatnonzero((recalled.shed & self._deciding).any(axis=1))
        if not len(shed):
            return np.zeros(len(spans.keys), np.bool_)
        batch = take(recalled.batch, shed)
        return Places(batch.time, *self._keys_of(batch)).counted(spans) > 0

    def _digests(self, matches: Matches) -> NDArray[np.uint64]:
        return match_digests(matches, self._positive, opened=self._opener >= 0)

    def _within(self, recalled: Recalled, spans: Spans) -> Recalled:
        """The events that some of the matches have to do with."""
        keys, everywhere = self._keys_of(recalled.batch)
        return _some(recalled, np.flatnonzero(covered(spans, keys, everywhere, recalled.batch.time)))

    def _affordable(self, asked: Recalled, spans: Spans) -> NDArray[np.bool_]:
        """Matches that are asked about where all are too many, bool (matches,): those of partitions that have few events for each of their matches, and where one alone is too large its earliest."""
        keys, everywhere = self._keys_of(asked.batch)
        partitions, of_match, matches = np.unique(spans.keys, return_inverse=True, return_counts=True)
        place = np.minimum(np.searchsorted(partitions, keys), len(partitions) - 1)
        own = ~everywhere & (partitions[place] == keys)
        events = np.bincount(place[own], minlength=len(partitions))
        most, cheapest = MOST_EVENTS - np.count_nonzero(everywhere), np.argsort(events / matches, kind="stable")
        fitting = cheapest[events[cheapest] <= most]
        if len(fitting):
            return np.isin(of_match, fitting[np.cumsum(events[fitting]) <= most])
        first = of_match == cheapest[0]
        mine = np.flatnonzero(everywhere | (own & (place == cheapest[0])))
        return first & (spans.until < asked.batch.time[mine[MOST_EVENTS]])

    def _refuting(self, asked: Recalled, spans: Spans, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Source and offset of the first shed event with which each of the matches is no longer found, int64 (matches, 2); -1 where it takes more than what is looked through."""
        refuted_by = np.full((len(digests), 2), -1, np.int64)
        own = Places(asked.batch.time, *self._keys_of(asked.batch))
        events = own.counted(spans)
        cheapest = np.argsort(events, kind="stable")
        costs = np.cumsum(events[cheapest] + (0 if self._movable else ASKING)) * STEPS
        affordable = cheapest[costs <= MOST_SEARCHED]
        for some in [affordable] if self._movable else affordable[:, None]:
            if len(some):
                copies = Copies.of(asked, [own.of(spans, k) for k in some.tolist()], self._own, self._reach if self._movable else 0)
                refuted_by[some] = self._bisected(copies, digests[some])
        return refuted_by

    def _bisected(self, copies: Copies, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """As `_refuting`: which of the shed events must be back in their places, the first of each copy in total order, until its match is gone."""
        low, high = np.zeros_like(copies.hidden), copies.hidden + 1  # with `low` of them it is found, with `high` not
        while (open_ := high - low > 1).any():
            middle = (low + high) // 2
            matches = self._rematch(*copies.some(open_, middle))
            of = copies.copy_of(matches.time)
            found = np.zeros(len(digests), np.bool_)
            found[of[self._digests(matches) == digests[of]]] = True
            low, high = np.where(open_ & found, middle, low), np.where(open_ & ~found, middle, high)
        return copies.places(high)


def _recalled(memory: Memory, spans: Spans, kind: Kind | None = None) -> Recalled:
    """Of the partitions and times of matches."""
    return memory.recall(np.unique(spans.keys), int(spans.since.min()), int(spans.until.max()), kind)


def _speaks_of(part: object, name: str) -> bool:
    """Whether a name occurs anywhere in a part of a plan."""
    if isinstance(part, str):
        return part == name
    inner = part if isinstance(part, tuple) else tuple(getattr(part, field.name) for field in fields(part)) if is_dataclass(part) else ()
    return any(_speaks_of(one, name) for one in inner)


def _some(recalled: Recalled, rows: NDArray[np.intp]) -> Recalled:
    return Recalled(take(recalled.batch, rows), recalled.kept[rows], recalled.shed[rows])
