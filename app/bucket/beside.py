"""What the control sample would have found with nothing shed: looked for beside the batches, in engines of its own.

Partitions are uneven: one of 200 can make a sixth of all work. So what is sampled is shed like everything else, and nobody's batch waits for it
(`ops/decisions/0047`). The sampled turns' events, shed ones among them, are gathered here, and fed between two batches, some milliseconds at a time. What these engines find
is true; which of that the bucket had found is known by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.audit.digests import match_digests, mixed
from app.audit.heavy_hitters import HeavyHitters
from app.audit.sample import GROUPS, Sample, counted
from app.audit.verdicts import by_sample, control_samples
from app.bucket.chunk import compacted_batch
from app.bucket.hold import FOREVER, NEVER, KeyOrder
from app.bucket.matching import Clock, Found, GroupMatching, no_clock
from app.bucket.route import keys_of_matches, partition_keys
from app.cep.engine import Watermarks
from app.cep.matches import Matches
from app.events.batch import EventBatch, concatenate, first_of_each, take
from app.query.plan import Catalog, QueryGroup

MOST_WAITING = 100_000
"""Events that wait, for the watermark or to be fed, some 10 MB per bucket and group: with more, half of their turns are forgotten."""
MOST_FOUND = 1_000_000
"""Matches of sampled turns that are remembered as found, 8 bytes each."""
MOST_HELD = 1_000_000
"""Partial matches, or events of them, some 100 MB: with more it begins anew."""
FULL = 0.25
"""With more than this part of what may wait, or be held, heavy partitions are in the sample no more often than others: what is forgotten would be theirs."""
FIRST_PIECE, MOST_PIECE = 16, 64
"""Events that are fed at once, as long as it is not known what they cost, and at most: those of a heavy partition take half a millisecond each, and what comes next may be its first. (At most 100,000, pieces took 240 ms now and then, and the next batch waited for them.)"""
PIECE_NS = 1_000_000
"""What a piece shall take, about: so late may who works beside the batches stop."""

Events = tuple[EventBatch, NDArray[np.uint64]]
"""Events, and the items of each, uint64 (events, words)."""


def beside_of(catalog: Catalog, group: QueryGroup, *, ordered: bool) -> Beside | None:
    """None where no query of the group has a control sample."""
    return Beside(catalog, group, ordered=ordered) if control_samples(catalog, group.queries) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Came:
    """A step of the bucket, as it is noted: nothing of it has been looked at."""

    shed: Sequence[Events]
    fed: Events
    news: Sequence[Found]
    watermarks: Watermarks


@dataclass(slots=True, eq=False)
class _Waiting:
    """Events of sampled turns in total order, of which some may be fed, and how far time comes with the last one."""

    events: Events
    watermarks: Watermarks
    fed: int = 0

    def __len__(self) -> int:
        return len(self.events[0]) - self.fed

    def next(self, most: int) -> Events:
        """The next events, at most so many."""
        rows = np.arange(self.fed, self.fed + min(most, len(self)))
        self.fed += len(rows)
        return take(self.events[0], rows), self.events[1][rows]


class _Early:
    """Shed events of sampled turns that wait for the watermark, in no order: looked at once it has passed one of them (960 pieces of a minute's lateness, each asked in every step, took 20 ms)."""

    def __init__(self) -> None:
        self._parts: list[Events] = []
        self._least_ms = FOREVER

    def __len__(self) -> int:
        return sum(len(batch) for batch, _ in self._parts)

    def add(self, parts: Iterable[Events]) -> None:
        """Takes events in."""
        some = [part for part in parts if len(part[0])]
        if some:
            self._parts.append(_joined(some))
            self._least_ms = min(self._least_ms, int(self._parts[-1][0].time.min()))

    def due(self, until_ms: int) -> list[Events]:
        """Gives out the events before this time; those that are left are in one piece."""
        if self._least_ms >= until_ms:
            return []
        batch, bitmaps = _joined(self._parts)
        ready = batch.time < until_ms
        rows, left = np.flatnonzero(ready), np.flatnonzero(~ready)
        self._parts, self._least_ms = [], FOREVER
        self.add([(compacted_batch(take(batch, left)), bitmaps[left])])
        return [(take(batch, rows), bitmaps[rows])]


@dataclass(frozen=True, slots=True, eq=False)
class _Remembered:
    """Matches that a query found in one step: between which times they end, and their digests, uint64 (matches,)."""

    first_ms: int
    last_ms: int
    digests: NDArray[np.uint64]


class Beside:
    """The control samples of one query group's queries.

    Args:
        catalog: all queries.
        group: of which at least one query has a control sample.
        ordered: whether the group trusts the order of keys, and holds nothing.
    """

    def __init__(self, catalog: Catalog, group: QueryGroup, *, ordered: bool) -> None:
        self._catalog, self._group, self._ordered = catalog, group, ordered
        self._samples = control_samples(catalog, group.queries)
        self._items = {query: [item.index for item in catalog.plans[query].positive] for query in self._samples}
        layout = ItemLayout.of_group(catalog, group)
        self._words = {
            sample: np.bitwise_or.reduce([layout.own_words(query) for query in queries])
            for sample, queries in by_sample(self._samples).items()
        }
        self._heavy = {sample: HeavyHitters(sample) for sample in self._words}
        self._loses = dict.fromkeys(self._words, False)
        self._coin = 0
        self._counts: dict[int, NDArray[np.float64]] = {}
        self.begin(NEVER)

    def begin(self, at_ms: int) -> None:
        """Begins anew: events before this time may be in the bucket that nobody saw here."""
        self._whole_from_ms = at_ms
        self._seen_ms = at_ms - 1
        self._matching: GroupMatching | None = None  # made beside the batches as well: a reload within one begins anew
        self._order = KeyOrder() if self._ordered else None
        self._reached = Watermarks(NEVER)
        self._shed: list[Events] = []
        self._came: _Came | None = None
        self._early = _Early()
        self._waiting: deque[_Waiting] = deque()
        self._held = 0
        self._found: dict[int, list[_Remembered]] = {query: [] for query in self._samples}
        self._forgotten: dict[Sample, dict[int, NDArray[np.uint64]]] = {sample: {} for sample in self._words}

    def hide(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> None:
        """Notes what was shed, uint64 (events, words): the items that were taken from each event."""
        self._shed.append((batch, bitmaps))

    def note(self, news: Sequence[Found], batch: EventBatch, bitmaps: NDArray[np.uint64], watermarks: Watermarks) -> None:
        """Notes a step of the bucket; when its input is over, everything is worked off.

        Args:
            news: by query.
            batch: that the group was fed.
            bitmaps: uint64 (events, words), as what.
            watermarks: after the step.
        """
        self._look()  # at the step before, if nobody has worked since
        self._came, self._shed = _Came(self._shed, (batch, bitmaps), news, watermarks), []
        if watermarks.default_ms == FOREVER:
            self.work(no_clock, 1)

    def work(self, clock: Clock, until_ns: int) -> None:
        """Works off what waits.

        Args:
            clock: ns.
            until_ns: by this clock, when it is to stop; it does some milliseconds later at most, where single events are not dearer. What the newest step brought is looked at in any case: a hash per event.
        """
        self._look()
        piece = FIRST_PIECE
        while self._waiting and (began := clock()) < until_ns:
            events = self._waiting[0].next(piece)
            over = not len(self._waiting[0])
            if over:
                self._reached = self._waiting.popleft().watermarks
            if self._matching is None:
                self._matching = GroupMatching(self._catalog, self._group.number)
            news = self._matching.feed(*events, self._reached)
            for found in news:
                self._compare(found)
            self._held = sum(found.tally.live_events for found in news)
            if self._held > MOST_HELD:
                self.begin(self._seen_ms + 1)
                return
            if over:
                self._let_go()
            took = clock() - began
            piece = max(1, piece // 2) if took > 2 * PIECE_NS else min(2 * piece, MOST_PIECE) if 2 * took < PIECE_NS else piece

    def drained(self) -> Mapping[int, NDArray[np.float64]]:
        """By query (index in `Catalog.plans`), what was learned since this was asked last (`app.audit.sample.counted`)."""
        counts, self._counts = self._counts, {}
        return counts

    def _look(self) -> None:
        """Takes of the last step what is sampled."""
        if self._came is None:
            return
        came, self._came = self._came, None
        self._seen_ms = max(self._seen_ms, *(int(batch.time.max()) for batch, _ in (*came.shed, came.fed) if len(batch)), NEVER)
        self._choose_heavy(loses=bool(came.shed))
        for found in came.news:
            if found.query in self._samples and len(found.matches):
                self._remember(found.query, found.matches)
        self._early.add(self._sampled(*events) for events in came.shed)
        due = self._early.due(FOREVER if self._ordered else came.watermarks.default_ms)  # they were not held back with the others
        waiting = _Waiting(self._in_order(_merged([*due, self._sampled(*came.fed)])), came.watermarks)
        if self._waiting and not len(waiting) and not len(self._waiting[-1]):
            self._waiting.pop()
        self._waiting.append(waiting)
        while self._waits > MOST_WAITING:
            self._forget()

    @property
    def _waits(self) -> int:
        """Events that wait."""
        return len(self._early) + sum(map(len, self._waiting))

    def _choose_heavy(self, *, loses: bool) -> None:
        """Whether heavy partitions are looked at more often from now on: only where something is lost, and there is time for it."""
        crowded = self._waits > FULL * MOST_WAITING or self._held > FULL * MOST_HELD
        for sample, heavy in self._heavy.items():
            self._loses[sample] |= loses
            if heavy.choose_heavy(self._seen_ms, more=self._loses[sample] and not crowded):
                self._loses[sample] = False  # until something is lost again

    def _sampled(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> Events:
        """The events of sampled turns, as what the queries of these samples may take them."""
        keys = partition_keys(batch, np.arange(len(batch)), self._group).hashes
        wanted, own = np.zeros_like(bitmaps), np.zeros(len(batch), np.bool_)
        for sample, words in self._words.items():
            held = self._heavy[sample].hold(keys, batch.time)
            if self._forgotten[sample]:
                held &= ~self._is_forgotten(sample, sample.turns(keys, batch.time))
            wanted[held] |= bitmaps[held] & words
            own |= held
        rows = np.flatnonzero(wanted.any(axis=1) if self._group.ranks == "none" else own)
        return compacted_batch(take(batch, rows)), wanted[rows]

    def _in_order(self, events: Events) -> Events:
        """Of groups that trust the order of keys: without events that came after later ones."""
        if self._order is None:
            return events
        batch, bitmaps = events
        keys = partition_keys(batch, np.arange(len(batch)), self._group).hashes
        kept = np.flatnonzero(~self._order.late(keys, np.ascontiguousarray(batch.time), floor=self._reached.default_ms))
        return take(batch, kept), bitmaps[kept]

    def _remember(self, query: int, matches: Matches) -> None:
        """That a query found these."""
        keys, ends, heavy = keys_of_matches(matches, self._group), matches.time, self._heavy[self._samples[query]]
        heavy.note(query, keys)
        rows = np.flatnonzero(heavy.hold_whole(keys, ends))
        if not len(rows):
            return
        found, own = self._found[query], ends[rows]
        found.append(_Remembered(int(own.min()), int(own.max()), self._digests(query, matches)[rows]))
        while sum(len(one.digests) for one in found) > MOST_FOUND:
            self._whole_from_ms = max(self._whole_from_ms, found.pop(0).last_ms + 1)

    def _compare(self, found: Found) -> None:
        """Counts what is true, and what of that was found."""
        sample = self._samples.get(found.query)
        if sample is None or not len(found.matches):
            return
        keys, ends, heavy = keys_of_matches(found.matches, self._group), found.matches.time, self._heavy[sample]
        turns = sample.turns(keys, ends)
        known = (ends - sample.before_ms >= self._whole_from_ms) & heavy.hold_whole(keys, ends) & ~self._is_forgotten(sample, turns)
        rows = np.flatnonzero(known)
        first_ms, last_ms = int(ends.min()), int(ends.max())
        there = [one.digests for one in self._found[found.query] if one.first_ms <= last_ms and one.last_ms >= first_ms]
        survives = np.isin(self._digests(found.query, found.matches)[rows], np.concatenate([np.zeros(0, np.uint64), *there]))
        self._loses[sample] |= not survives.all()
        before = self._counts.get(found.query, np.zeros((2, GROUPS)))
        self._counts[found.query] = before + counted(turns[rows], survives, 1 / heavy.often(keys[rows], ends[rows]))

    def _let_go(self) -> None:
        """Forgets what no match to come can have to do with."""
        now_ms = self._reached.default_ms
        if not NEVER < now_ms < FOREVER:
            return
        for query, found in self._found.items():
            while found and found[0].last_ms < now_ms - self._samples[query].turn_ms:
                found.pop(0)
        for sample, forgotten in self._forgotten.items():
            self._heavy[sample].let_go(now_ms - sample.turn_ms)
            for until_ms in [one for one in forgotten if one < now_ms - sample.turn_ms]:
                del forgotten[until_ms]

    def _forget(self) -> None:
        """Forgets half of the turns that have events waiting, drawn by chance: what is known of the others is as true as before."""
        self._coin += 1
        early = self._early.due(FOREVER)
        there = [batch for batch, _ in (*(one.events for one in self._waiting), *early) if len(batch)]
        until_ms = max(int(batch.time.max()) for batch in there)
        for sample, forgotten in self._forgotten.items():
            turns = np.unique(np.concatenate([self._turns(sample, batch) for batch in there]))
            drawn = turns[mixed(turns ^ mixed(np.array([self._coin], np.uint64))) & np.uint64(1) == 0]
            forgotten[until_ms] = np.union1d(forgotten.get(until_ms, drawn), drawn)
        for one in self._waiting:
            one.events, one.fed = self._sampled(*one.next(len(one))), 0
        self._early.add(self._sampled(*events) for events in early)

    def _turns(self, sample: Sample, batch: EventBatch) -> NDArray[np.uint64]:
        """Those of the events in the sample, uint64."""
        keys = partition_keys(batch, np.arange(len(batch)), self._group).hashes
        return sample.turns(keys, batch.time)[self._heavy[sample].hold(keys, batch.time)]

    def _is_forgotten(self, sample: Sample, turns: NDArray[np.uint64]) -> NDArray[np.bool_]:
        forgotten = self._forgotten[sample]
        return np.isin(turns, np.concatenate(list(forgotten.values()))) if forgotten else np.zeros(len(turns), np.bool_)

    def _digests(self, query: int, matches: Matches) -> NDArray[np.uint64]:
        runs = self._catalog.plans[query].runs
        opened = runs is not None and runs.window is not None and runs.window.opener >= 0
        return match_digests(matches, self._items[query], opened=opened)


def _merged(parts: Sequence[Events]) -> Events:
    """Events in total order, each once with all of its items: it may have been fed as one and shed as another; of `parts` there is at least one."""
    known = [part for part in parts if len(part[0])]
    if not known:
        return parts[-1]
    batch, bitmaps = _joined(known)
    order = batch.total_order()
    fresh = first_of_each(batch, order)
    return take(batch, order[fresh]), np.bitwise_or.reduceat(bitmaps[order], np.flatnonzero(fresh), axis=0)


def _joined(parts: Sequence[Events]) -> Events:
    """Events after each other; of parts there is at least one."""
    return concatenate([batch for batch, _ in parts]), np.concatenate([bitmaps for _, bitmaps in parts])
