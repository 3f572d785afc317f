"""Audits of one query group in a bucket: what it was fed and what was shed of it is remembered, and what it found is judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.asc.selected import Dispatch
from app.audit.lean import Lean
from app.audit.memory import Kind, Memory
from app.audit.verdicts import (
    UNBOUNDED_MS,
    Ended,
    Judge,
    Judged,
    Verdict,
    Verdicts,
    cares_for_distances_only,
    is_audited,
    others_follow,
)
from app.audit.verdicts import Rematch as Asking
from app.bucket import kernels
from app.bucket.chunk import compacted_batch, pack_events, unpack_events
from app.bucket.hold import FOREVER, NEVER
from app.bucket.lists import some_of
from app.bucket.matching import Clock, Found, no_clock
from app.bucket.rematch import Rematch
from app.bucket.route import keys_of_matches, partition_keys
from app.bucket.snapshot import Part
from app.cep.matches import Matches
from app.cep.snapshot.preamble import Buffer
from app.events.batch import EventBatch
from app.query.plan import Catalog, Plan, QueryGroup
from app.query.reach import reach_ms

_Told = tuple[Matches, Verdicts | None, tuple[Matches, Verdicts] | None]


def audit_of(catalog: Catalog, group: QueryGroup) -> GroupAudit | None:
    """A fresh audit; None where no query of the group is audited."""
    return GroupAudit(catalog, group) if any(is_audited(catalog.plans[query]) for query in group.queries) else None


def forgotten(moved: Iterable[tuple[str, Mapping[str, Buffer], Sequence[Any]]]) -> list[Any]:
    """What `GroupAudit.described` gives where memories are not taken along: what was in them is not known any more.

    Args:
        moved: of every bucket that held something of the group: the group's name in parts, the parts, what was described.
    """
    whole_from_ms, shed_before_ms, blind, reach = NEVER, NEVER, 0, UNBOUNDED_MS
    for name, parts, described in moved:
        own_whole_from_ms, own_shed_before_ms, own_blind, own_reach, ended = _described(described)
        blind, reach = max(blind, own_blind), min(reach, own_reach)
        whole_from_ms, shed_before_ms = max(whole_from_ms, own_whole_from_ms), max(shed_before_ms, own_shed_before_ms, *ended.values())
        for part in _pieces(name, parts):
            after_ms = int(unpack_events(parts[part])[0].time.max()) + 1
            whole_from_ms = max(whole_from_ms, after_ms)
            shed_before_ms = shed_before_ms if part.startswith("fed-") else max(shed_before_ms, after_ms)
    return [whole_from_ms, shed_before_ms, blind, reach]


def _described(plain: Sequence[Any]) -> tuple[int, int, int, int, Mapping[str, int]]:
    """What `GroupAudit.described` gave; earlier versions said also whether events had just been dropped undecoded, of which nothing is known."""
    whole_from_ms, shed_before_ms, blind, reach = plain[:4]
    ended: Mapping[str, int] = next((one for one in plain[4:] if isinstance(one, Mapping)), {})
    return whole_from_ms, shed_before_ms, int(bool(blind) or any(one for one in plain[4:] if one is not ended)), reach, ended


def _pieces(name: str, parts: Mapping[str, Buffer]) -> list[str]:
    """The parts of a group's memory, oldest first."""
    found = [part for part in parts if part.startswith(tuple(f"{kind}-{name}-" for kind in get_args(Kind)))]
    return sorted(found, key=lambda part: int(part.rpartition("-")[2]))


def _kind_of(part: str) -> Kind:
    return next(kind for kind in get_args(Kind) if part.startswith(f"{kind}-"))


class GroupAudit:
    """The audit of one query group.

    Args:
        catalog: all queries.
        group: of which at least one query is audited.
    """

    def __init__(self, catalog: Catalog, group: QueryGroup) -> None:
        self._group = group
        self._plans = {query: plan for query in group.queries if is_audited(plan := catalog.plans[query])}
        self._layout = ItemLayout.of_group(catalog, group)
        self._dispatch = Dispatch(self._layout)
        reaches = {query: reach_ms(plan) for query, plan in self._plans.items()}
        self._reaches = {query: UNBOUNDED_MS if reach is None else reach for query, reach in reaches.items()}
        self.reach_ms = max(self._reaches.values())
        self._most_bytes = catalog.audit_bytes
        self.memory = Memory(self._layout.words, self._keys_of, self._most_bytes)
        self._followed = {query for query, plan in self._plans.items() if others_follow(plan)}
        self._ended_before: dict[int, int] = {}
        """By query that finds something else where partial matches were ended: before which time events of these are."""
        self._watermark_ms = NEVER
        self._upkeep_ns = 0
        """What remembering took in this step."""
        rematches = {query: self._rematch(query) for query in self._plans}
        self._judges = {query: self._judge(query, rematch) for query, rematch in rematches.items()}
        self._judges_of_timeouts = {
            query: self._judge(query, rematch.timeouts, "timeouts")
            for query, rematch in rematches.items()
            if self._plans[query].on_timeout == "emit"
        }

    def hide(self, batch: EventBatch, bitmaps: NDArray[np.uint64], clock: Clock = no_clock) -> None:
        """Remembers what was shed: events, and the items that each was to lose, uint64 (events, words). What it took by the clock is told with the next step."""
        began = clock()
        self.memory.add(compacted_batch(batch), bitmaps, "shed")
        self._upkeep_ns += clock() - began

    def judged(
        self, news: Sequence[Found], batch: EventBatch, bitmaps: NDArray[np.uint64], watermark_ms: int, clock: Clock = no_clock
    ) -> list[Found]:
        """What was found in a step, with verdicts where queries are audited.

        Args:
            news: by query.
            batch: that the group was fed.
            bitmaps: uint64 (events, words), as what.
            watermark_ms: after the step.
            clock: tells what judging costs; it is a cost of the query that is judged, and remembering one of all that are, in equal parts.
        """
        began = clock()
        self.memory.add(compacted_batch(batch), bitmaps, "fed")
        self._watermark_ms = watermark_ms
        self._note_endings(news)
        self._upkeep_ns += clock() - began
        judged = [self._timed(found, clock) for found in news]
        began = clock()
        if NEVER < watermark_ms < FOREVER:
            self.memory.forget(watermark_ms - 2 * self.reach_ms)
            over = {query: watermark_ms - 2 * self._reaches[query] for query in self._ended_before}
            self._ended_before = {query: before for query, before in self._ended_before.items() if before > over[query]}
        self._upkeep_ns += clock() - began
        watched = sum(found.query in self._plans for found in news)
        if watched:
            each = self._upkeep_ns // watched
            lossy = self.memory.knows_of_shedding or bool(self._ended_before)
            judging = each if lossy else 0  # where anything is shed, remembering is a matter of verdicts
            judged = [
                replace(one, cost_ns=one.cost_ns + each, judging_ns=one.judging_ns + judging) if one.query in self._plans else one
                for one in judged
            ]
        # of steps in which all of them slept nobody pays: it would be a query's first event that does
        self._upkeep_ns = 0
        return judged

    def go_on(self, other: GroupAudit | None, *, same_bits: bool) -> None:
        """Takes over what the group's audit under another catalog remembers; if its bits mean something else, what `forgotten` tells of it."""
        if other is None:
            self.memory.blind = True
            return
        blind = other.memory.blind or self.reach_ms > other.reach_ms  # what is remembered does not reach back so far
        if same_bits:
            self._take_endings(other.endings())
            self.memory = other.memory
            self.memory.hold(self._most_bytes)
        else:
            self.memory.begin(other.memory.last_ms + 1)
            self.memory.shed_unknown(max([other.memory.last_shed_ms, *(before - 1 for before in other.endings().values())]))
        self.memory.blind = blind

    def begin(self, at_ms: int) -> None:
        """All that engines hold and that was never seen here is before this time."""
        if self.memory.blind:
            self.memory.begin(at_ms)
            self.memory.blind = False

    def parts(self, name: str) -> Iterator[Part]:
        """The memory, piece by piece: pieces do not change."""
        for piece in self.memory.pieces:
            yield f"{piece.kind}-{name}-{piece.number}", [pack_events(piece.batch, piece.bitmaps)]

    def described(self) -> list[Any]:
        """The rest of the memory: what it lacks, whether engines hold what it has never seen, how far back it reaches, and by query's name before which time partial matches were ended."""
        ended = self.endings()
        known = [self.memory.whole_from_ms, self.memory.shed_before_ms, int(self.memory.blind), self.reach_ms]
        return [*known, ended] if ended else known

    def load(self, name: str, parts: Mapping[str, Buffer], described: Sequence[Any] | None, *, same_bits: bool) -> None:
        """Takes over what `parts` and `described` gave, if they are there and their bits mean the same."""
        if described is None:
            self.memory.blind = True
            return
        known = described if same_bits else forgotten([(name, parts, described)])
        whole_from_ms, shed_before_ms, blind, reach, ended = _described(known)
        self._take_endings(ended)
        self.memory.blind = bool(blind) or self.reach_ms > reach
        self.memory.begin(whole_from_ms)
        self.memory.shed_unknown(shed_before_ms - 1)
        for part in _pieces(name, parts) if same_bits else ():
            self.memory.add(*unpack_events(parts[part]), _kind_of(part), int(part.rpartition("-")[2]))

    def _timed(self, found: Found, clock: Clock) -> Found:
        """A query's matches, judged, and what that took."""
        began = clock()
        judged = self._judged(found)
        took = clock() - began
        return replace(judged, cost_ns=judged.cost_ns + took, judging_ns=took)

    def _judged(self, found: Found) -> Found:
        judge = self._judges.get(found.query)
        if judge is None or not (self.memory.knows_of_shedding or found.query in self._ended_before):
            return found
        matches, verdicts, withheld = self._told(judge, found.query, found.matches)
        judged = replace(found, matches=matches, verdicts=verdicts, withheld=withheld)
        judge = self._judges_of_timeouts.get(found.query)
        if judge is None or found.timeouts is None:
            return judged
        timeouts, verdicts, withheld = self._told(judge, found.query, found.timeouts)
        return replace(judged, timeouts=timeouts, timeout_verdicts=verdicts, withheld_timeouts=withheld)

    def _told(self, judge: Judge, query: int, matches: Matches) -> _Told:
        """Matches, or timeouts, that are written, with their verdicts; and those that are held back."""
        if not len(matches):
            return matches, None, None
        ended = Ended(self._ended_before.get(query, NEVER), self._watermark_ms)
        verdicts = judge.verdicts(matches, keys_of_matches(matches, self._group), self.memory, ended)
        false = verdicts.codes == Verdict.FALSE_POSITIVE
        if not self._plans[query].output.hold_for_verdict or not false.any():
            return matches, verdicts, None
        right, wrong = np.flatnonzero(~false), np.flatnonzero(false)
        return some_of(matches, right), verdicts.of(right), (some_of(matches, wrong), verdicts.of(wrong))

    def _note_endings(self, news: Sequence[Found]) -> None:
        """What of the events that came so far became of ended partial matches nobody knows."""
        for found in news:
            if found.shed[1] and found.query in self._followed:
                self._ended_before[found.query] = self.memory.last_fed_ms + 1

    def endings(self) -> dict[str, int]:
        """By name of a query that finds something else where partial matches were ended: before which time events of these are."""
        return {self._plans[query].name: before for query, before in sorted(self._ended_before.items())}

    def _take_endings(self, ended: Mapping[str, int]) -> None:
        self._ended_before = {query: ended[plan.name] for query, plan in self._plans.items() if plan.name in ended}

    def _keys_of(self, batch: EventBatch) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        keys = partition_keys(batch, np.arange(len(batch)), self._group)
        return keys.hashes, keys.reach == kernels.EVERYWHERE

    def _judge(self, query: int, rematch: Asking, judged: Judged = "matches") -> Judge:
        plan = self._plans[query]
        own = self._layout.own_words(query)
        return Judge(plan, own, self._reaches[query], self._keys_of, rematch, self._lean(query, plan), judged)

    def _lean(self, query: int, plan: Plan) -> Lean | None:
        if not Lean.fits(plan):
            return None
        items = np.stack([self._layout.item_words(query, item.index) for item in plan.items])
        return Lean(items, self._layout.negated_words(query, plan))

    def _rematch(self, query: int) -> Rematch:
        plan, reach_ms = self._plans[query], self._reaches[query]
        movable = cares_for_distances_only(plan, reach_ms)
        return Rematch(query, plan, self._group, self._dispatch, reach_ms=reach_ms if movable else None)
