"""Would a match exist without shedding? It is looked for again among all events, the shed ones included.

A composite event is false when shedding hid what would have prevented it: an event of a negated item, one that contiguity or the way to the next match would have
had to take, one that ends a closure. Whatever the reason is: with the hidden events in their places the query does not find it. So the query itself is asked, over the
events of the match's partition and time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from app.audit.digests import match_digests
from app.audit.memory import FOREVER, KeysOf, Memory, Recalled
from app.cep.matches import Matches
from app.events.batch import EventBatch, take
from app.query.plan import QUERY_STREAM, Plan
from app.query.text.keys import EVENT_SHEDDERS, WINDOW_SHEDDERS

MOST_EVENTS = 200_000
"""That are looked through again in one step of a bucket; matches beyond are unverifiable."""
MOST_SEARCHED = 200_000
"""Events that are looked through for refuting ones in one step; false positives beyond are told without."""
UNBOUNDED_MS = FOREVER // 4


class Verdict(IntEnum):
    """On one composite event."""

    UNTOUCHED = 0
    """Nothing was shed that it could have met; nothing is told."""
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


Rematch = Callable[[EventBatch, NDArray[np.uint64]], Matches]
"""What the query finds in these events, all time being over. Bitmaps are of the group."""


def can_be_false(plan: Plan) -> bool:
    """Whether a query can find what it would not have found with more events: not when it takes any events that fit, and forbids none."""
    negated = any(item.negated for item in plan.items)
    if plan.temporal is not None or plan.draining is not None:
        return False
    return plan.runs is not None or (negated and plan.shedding.allow_false_positives)


def is_sampled(plan: Plan) -> bool:
    """Whether a control sample of partitions says what shedding costs the query.

    It sheds events; it has partitions that events belong to, and reads no other queries, whose sample would be of other partitions; and taking events away only makes it find
    a match more easily: not where matches depend on those before them, or events open windows.
    """
    keyed = bool(plan.equivalence) and plan.ranks != "stream" and not any(item.lacks for item in plan.items)
    runs, shedding = plan.runs, plan.shedding
    alone = runs is None or (runs.after == "no-skip" and (runs.window is None or runs.window.opener < 0))
    sheds = shedding.latency_bound_ms is not None and shedding.shedder in (*EVENT_SHEDDERS, *WINDOW_SHEDDERS)
    return sheds and keyed and alone and plan.temporal is None and plan.draining is None and not reads_queries(plan)


def reads_queries(plan: Plan) -> bool:
    """Whether it reads other queries' composite events: what these have lost or made up nobody here knows."""
    return any(stream.startswith(QUERY_STREAM) for stream in plan.streams)


def is_audited(plan: Plan) -> bool:
    """Whether verdicts are given on what the query finds: it may shed, and shedding can make it find what is not so."""
    return plan.shedding.latency_bound_ms is not None and can_be_false(plan)


def is_watched(plan: Plan, sample: float) -> bool:
    """Whether what is shed of a query's events is of interest to the buckets."""
    return is_audited(plan) or (sample > 0 and is_sampled(plan))


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Of each match what it has to do with: partition, and times, both ends included; int64 (matches,)."""

    keys: NDArray[np.uint64]
    since: NDArray[np.int64]
    until: NDArray[np.int64]

    def of(self, which: NDArray[np.intp]) -> _Spans:
        return _Spans(self.keys[which], self.since[which], self.until[which])


class Judge:
    """Judges the matches of one query.

    Args:
        plan: its plan.
        own: uint64 (words,), its bits in the group's bitmaps.
        reach_ms: longest time between two events that have to do with one match; `UNBOUNDED_MS` without a bound.
        keys_of: how the group is partitioned.
        rematch: asks the query again.
    """

    def __init__(self, plan: Plan, own: NDArray[np.uint64], reach_ms: int, keys_of: KeysOf, rematch: Rematch) -> None:
        self._own, self._keys_of, self._rematch = own, keys_of, rematch
        self._positive = [item.index for item in plan.positive]
        self._reach = reach_ms
        self._opener = -1 if plan.runs is None or plan.runs.window is None else plan.runs.window.opener
        runs = plan.runs
        whole = runs is not None and (
            runs.window is not None or runs.longest or runs.after != "no-skip" or any(item.negated for item in plan.items)
        )
        self._looks_back, self._looks_ahead = whole or plan.items[0].negated, whole or plan.items[-1].negated
        self._depends = reads_queries(plan) or (runs is not None and runs.after != "no-skip")

    def verdicts(self, matches: Matches, keys: NDArray[np.uint64], memory: Memory) -> Verdicts:
        """One verdict per match.

        Args:
            matches: that the query found just now.
            keys: uint64 (matches,), hashes of their partition keys.
            memory: of the group.
        """
        codes, refuted_by = np.zeros(len(matches), np.uint8), np.full((len(matches), 2), -1, np.int64)
        spans = self._spans(matches, keys)
        if memory.touched(self._own):
            self._judge(matches, spans, memory, codes, refuted_by)
        codes[(codes != Verdict.FALSE_POSITIVE) & (spans.since < memory.shed_before_ms)] = Verdict.UNVERIFIABLE
        return Verdicts(codes, refuted_by)

    def _judge(self, matches: Matches, spans: _Spans, memory: Memory, codes: NDArray[np.uint8], refuted_by: NDArray[np.int64]) -> None:
        recalled = memory.recall(np.unique(spans.keys), int(spans.since.min()), int(spans.until.max()))
        touched = np.flatnonzero(self._touched(spans, recalled))
        codes[touched] = Verdict.UNVERIFIABLE
        known = touched[spans.since[touched] >= memory.whole_from_ms]
        if not len(known) or memory.blind or self._depends:
            return
        asked = self._of_keys(recalled, spans.keys[known])
        if len(asked.batch) > MOST_EVENTS:
            return
        digests = self._digests(matches)
        found = self._found(asked.batch, asked.kept | asked.shed)
        right = np.isin(digests[known], found)
        codes[known[right]] = Verdict.CONFIRMED
        left = MOST_SEARCHED
        for place in known[~right].tolist():
            codes[place] = Verdict.FALSE_POSITIVE
            own = self._within(recalled, spans.of(np.array([place])))
            left -= _steps(own.shed) * len(own.batch)
            if left >= 0:
                refuted_by[place] = self._refuting(own, digests[place])

    def _spans(self, matches: Matches, keys: NDArray[np.uint64]) -> _Spans:
        bound = matches.constituents(self._positive)
        times, starts = matches.events.time[bound.rows], bound.starts[:-1]  # every match binds something
        first, last = np.minimum.reduceat(times, starts), np.maximum.reduceat(times, starts)
        since = first - self._reach if self._looks_back else first
        return _Spans(keys, since, np.maximum(last, first + self._reach) if self._looks_ahead else last)

    def _touched(self, spans: _Spans, recalled: Recalled) -> NDArray[np.bool_]:
        """Whether an event was shed in a match's partition and time."""
        shed = np.flatnonzero((recalled.shed & self._own).any(axis=1))
        times = recalled.batch.time[shed]
        keys, everywhere = self._keys_of(take(recalled.batch, shed))
        anywhere = np.sort(times[everywhere])
        touched = np.searchsorted(anywhere, spans.until, "right") > np.searchsorted(anywhere, spans.since, "left")
        # per partition: ranks of all times in one number with the partition's, so that one sorted array answers for all
        known, own = np.unique(keys[~everywhere], return_inverse=True)
        place = np.minimum(np.searchsorted(known, spans.keys), max(0, len(known) - 1))
        there = np.isin(spans.keys, known)
        moments = np.unique(times[~everywhere])
        width = len(moments) + 1
        ranked = np.sort(own * width + np.searchsorted(moments, times[~everywhere]))
        first = place * width + np.searchsorted(moments, spans.since, "left")
        last = place * width + np.searchsorted(moments, spans.until, "right")
        return touched | (there & (np.searchsorted(ranked, last, "left") > np.searchsorted(ranked, first, "left")))

    def _digests(self, matches: Matches) -> NDArray[np.uint64]:
        return match_digests(matches, self._positive, opened=self._opener >= 0)

    def _of_keys(self, recalled: Recalled, keys: NDArray[np.uint64]) -> Recalled:
        there, everywhere = self._keys_of(recalled.batch)
        return _some(recalled, np.flatnonzero(np.isin(there, keys) | everywhere))

    def _within(self, recalled: Recalled, span: _Spans) -> Recalled:
        own = self._of_keys(recalled, span.keys)
        return _some(own, np.flatnonzero((own.batch.time >= span.since[0]) & (own.batch.time <= span.until[0])))

    def _found(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return self._digests(self._rematch(batch, bitmaps))

    def _refuting(self, own: Recalled, digest: np.uint64) -> tuple[int, int]:
        """Source and offset of the first shed event with which the match is no longer found; -1 where it takes more than what is there.

        Args:
            own: the events that the match has to do with.
            digest: of the match.
        """
        hidden = np.flatnonzero((own.shed & self._own).any(axis=1))
        low, high = 0, len(hidden) + 1  # with `low` of them it is found, with `high` not
        while high - low > 1:
            middle = (low + high) // 2
            bitmaps = own.kept.copy()
            bitmaps[hidden[:middle]] |= own.shed[hidden[:middle]]
            low, high = (middle, high) if digest in self._found(own.batch, bitmaps) else (low, middle)
        if high > len(hidden):
            return -1, -1
        refuting = hidden[high - 1]
        return int(own.batch.source[refuting]), int(own.batch.offset[refuting])


def _steps(shed: NDArray[np.uint64]) -> int:
    """How often a query is asked to find the refuting event, at most."""
    return int(np.count_nonzero(shed.any(axis=1))).bit_length() + 1


def _some(recalled: Recalled, rows: NDArray[np.intp]) -> Recalled:
    return Recalled(take(recalled.batch, rows), recalled.kept[rows], recalled.shed[rows])
