"""A bucket: the state and the work of what an owner holds under one number. A pure function of its state and what it is fed.

It holds events back until the watermark, feeds them to the queries' engines in total order, and says what was found. Which chunks come
together in one step, and how the input was split into them, has no influence on what is found in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import Chunk, Section, unpack_chunk
from app.bucket.composition import Composition, in_match_order, stream_of
from app.bucket.draining import Drains
from app.bucket.group import GroupState, Live, Making
from app.bucket.hold import FOREVER, NEVER, Progress, TimeRules, stream_watermark
from app.bucket.matching import NO_ENDINGS, Clock, Ending, Found, no_clock
from app.bucket.places import COMPOSITES
from app.bucket.route import group_identity, partition_keys
from app.bucket.snapshot import BUCKET, Part, described, description_part, pack_parts, unpack_parts
from app.bucket.temporal import MemoryOf
from app.bucket.thinning import NO_THRESHOLDS, ChainsOf, Shed, Thresholds, no_chains
from app.bucket.trusted import key_group, times_before, told_here
from app.cep.engine import Watermarks
from app.cep.snapshot.preamble import Buffer, reading
from app.errors import SnapshotError
from app.events.batch import EventBatch, take
from app.query.plan import QUERY_STREAM, Catalog, QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class BucketOutput:
    """What one step of a bucket gave.

    Attributes:
        found: per query that had work, its matches and tally; in order of groups and queries, queries behind those that they read.
        late: int64 (late, 2), (source, offset) of events that the bucket itself found late, ascending.
        matched: events handed to matching (an event of several groups counts in each).
        held: events that wait for the watermark.
        pending: matches that wait for the end of their window, and events that may yet be part of a timeout that is to be written.
        next_release_ms: least event time at which something held is released (when the watermark is greater); None when nothing is held.
        watermarks: by stream, after the step.
        shed: what queries lost whose shedders remember what was kept.
    """

    found: Sequence[Found]
    late: NDArray[np.int64]
    matched: int
    held: int
    pending: int
    next_release_ms: int | None
    watermarks: Mapping[str, int]
    shed: Sequence[Shed] = ()


class Bucket:
    """State and work of one bucket.

    Args:
        catalog: all queries.
        rules: of every stream that they read.
        number: the bucket's, for messages only.
        topics: by number (`app.events.topics`); only needed where queries read other queries.
        memory_of: makes the bounded memory of temporal queries that ask for one.
        chains_of: makes the memories of shedders that remember what was kept.
        live: what goes on of the bucket under another catalog; see `reload`.
    """

    def __init__(
        self,
        catalog: Catalog,
        rules: Sequence[TimeRules],
        number: int,
        topics: Sequence[str] = (),
        memory_of: MemoryOf | None = None,
        *,
        chains_of: ChainsOf = no_chains,
        live: Live | None = None,
    ) -> None:
        self.number = number
        self._memory_of = memory_of
        self._chains_of = chains_of
        self._catalog = catalog
        self._topics = topics
        self._composition = Composition(catalog, topics)
        self._drains = Drains(catalog)
        composites = [TimeRules(stream, topics=frozenset()) for stream in self._composition.streams]
        self._rules = {rule.stream: rule for rule in (*rules, *composites)}
        self._greatest: dict[str, dict[int, int]] = {stream: {} for stream in self._rules}
        self._watermark = dict.fromkeys(self._rules, NEVER) | dict.fromkeys(self._composition.silent, FOREVER)
        known = {} if live is None else live.groups
        groups = {group_identity(catalog.groups[number]): catalog.groups[number] for number in self._composition.order}
        self._lives = {name: identity for identity, group in groups.items() for name in self._names(group)}
        self._refuse_moved((identity, name) for identity, state in known.items() for name in state.matching.layout.names)
        made = Making(catalog, memory_of, chains_of)
        self._groups = {
            identity: GroupState.of(made, group, self._rules[group.streams[0]], known.get(identity)) for identity, group in groups.items()
        }
        if live is not None:
            self._go_on_from(live.greatest, live.watermark)
            self._drains.load(live.drains.saved())
            self._composition.go_on(live.composition)
            self._begin()

    def advance(
        self,
        chunks: Iterable[bytes | Chunk],
        progress: Progress,
        endings: Mapping[int, Ending] = NO_ENDINGS,
        clock: Clock = no_clock,
        thresholds: Thresholds = NO_THRESHOLDS,
    ) -> BucketOutput:
        """One micro-batch: takes the chunks in, moves the watermarks on, matches what is due.

        Args:
            chunks: of all ingress tasks, in any order.
            progress: what was decided about time for this batch.
            endings: by query, shedders of partial matches, as decided for this batch; with them it does matter how the input was cut.
            clock: tells what queries cost (`Found.cost_ns`); it changes no result.
            thresholds: by query, of shedders that remember what was kept, as decided for this batch.

        Raises:
            SnapshotError: a chunk was made under another catalog.
        """
        late = self._taken([chunk if isinstance(chunk, Chunk) else unpack_chunk(chunk) for chunk in chunks], progress, clock)
        found, shed, matched = list[Found](), list[Shed](), 0
        for state in self._groups.values():
            due = self._due(state, late)
            matched += len(due[0])
            batch, bitmaps, lost = state.thinned(*due, thresholds, clock)
            shed.extend(lost)
            watermarks = self._watermarks(state, progress)
            state.thinning.pass_to(watermarks.default_ms)
            news: Sequence[Found] = [self._drains.of(one) for one in state.matching.feed(batch, bitmaps, watermarks, endings, clock)]
            news = state.audited(news, batch, bitmaps, watermarks, clock)
            state.pending = sum(self._pending(one) for one in news)
            found.extend(news)
            if state.matching.group.composed:
                self._pass_on(state, news, watermarks)
        self._composition.forget(self._groups)
        return BucketOutput(
            found=found,
            late=_ascending(late),
            matched=matched,
            held=sum(len(state.held) for state in self._groups.values()),
            pending=sum(state.pending for state in self._groups.values()),
            next_release_ms=min((time for state in self._groups.values() if (time := state.held.least_time()) is not None), default=None),
            watermarks=dict(self._watermark),
            shed=shed,
        )

    def _taken(self, chunks: Sequence[Chunk], progress: Progress, clock: Clock) -> list[NDArray[np.int64]]:
        """Takes a batch's events in and moves the streams' watermarks on; returns the offsets of events that came too late."""
        late: list[NDArray[np.int64]] = []
        for state in self._groups.values():
            state.floor = self._floor(state)
        self._drains.learn(section for chunk in chunks for section in chunk.sections)
        for chunk in chunks:
            for section in chunk.sections:
                self._take_in(chunk.stream, section, late, clock)
            self._learn_times(chunk.stream, chunk.greatest_times)
        for stream, rule in self._rules.items():
            self._learn_times(stream, {source: time for source, time in progress.greatest_times.items() if rule.owns(source)})
            self._watermark[stream] = max(self._watermark[stream], stream_watermark(rule, self._greatest[stream], progress))
        return late

    def look_beside(self, clock: Clock = no_clock, until_ns: int = 1, turn: int = 0) -> None:
        """Between steps: finds out what the control samples would have found with nothing shed; stops about when the clock says so, and begins with another group each turn."""
        states = [*self._groups.values()]
        for place in range(len(states)):
            states[(turn + place) % len(states)].look_beside(clock, until_ns)

    def sampled(self) -> dict[int, NDArray[np.float64]]:
        """By query (index in `Catalog.plans`), what was learned so since this was asked last (`app.audit.sample.counted`)."""
        return {query: counts for state in self._groups.values() for query, counts in state.sampled().items()}

    def sample_anew(self) -> None:
        """Nobody here has seen what was shed until now: what the control samples say is of events to come."""
        for state in self._groups.values():
            state.sample_anew(self._greatest)

    def snapshot(self) -> bytes:
        """The whole state as bytes; equal states give equal bytes."""
        return pack_parts(self.snapshot_parts())

    def snapshot_parts(self) -> Iterator[Part]:
        """The same part by part, without joined copies: a part's buffers look into the bucket, and are to be used before it is fed again.

        A part is made when it is asked for. Names are unique; equal states give equal parts in the same order.
        """
        yield description_part(self._description())
        for identity, state in self._groups.items():
            yield from state.parts(identity, self._floor(state))
        for stream, data in self._composition.saved(self._groups).items():
            yield f"order-{stream}", [data]

    def _description(self) -> dict[str, Any]:
        return {
            "greatest": {stream: sorted(times.items()) for stream, times in self._greatest.items()},
            "watermark": self._watermark,
            "groups": [state.described(identity) for identity, state in self._groups.items()],
            "drains": self._drains.saved(),
        }

    @staticmethod
    def restore(
        catalog: Catalog,
        rules: Sequence[TimeRules],
        number: int,
        data: Buffer,
        topics: Sequence[str] = (),
        *,
        memory_of: MemoryOf | None = None,
        chains_of: ChainsOf = no_chains,
    ) -> Bucket:
        """`restore_parts` for what `snapshot` gave."""
        return Bucket.restore_parts(catalog, rules, number, unpack_parts(data), topics, memory_of=memory_of, chains_of=chains_of)

    @staticmethod
    def restore_parts(
        catalog: Catalog,
        rules: Sequence[TimeRules],
        number: int,
        parts: Mapping[str, Buffer],
        topics: Sequence[str] = (),
        *,
        memory_of: MemoryOf | None = None,
        chains_of: ChainsOf = no_chains,
    ) -> Bucket:
        """A bucket that goes on from a snapshot, perhaps under another catalog.

        Queries of equal name and fingerprint go on; new and changed ones start afresh; those that are gone are forgotten.

        Args:
            catalog: all queries.
            rules: of every stream that they read.
            number: the bucket's, for messages only.
            parts: what `snapshot_parts` gave, the buffers of each joined.
            topics: see `Bucket`.
            memory_of: see `Bucket`.
            chains_of: see `Bucket`.

        Raises:
            SnapshotError: no snapshot, damaged, of a newer version, or of a query that lives elsewhere under this catalog (`app.bucket.rescale`).
        """
        header = described(parts)
        bucket = Bucket(catalog, rules, number, topics, memory_of, chains_of=chains_of)
        with reading(BUCKET.what):
            bucket._load(header, parts)
        return bucket

    def reload(self, catalog: Catalog, rules: Sequence[TimeRules], topics: Sequence[str] = ()) -> Bucket:
        """The bucket under another catalog, at the cost of what changed. This one is not to be used any more: its live engines go on there.

        Queries of equal name and fingerprint go on; new and changed ones start afresh; those that are gone are forgotten.

        Raises:
            SnapshotError: a query lives elsewhere under this catalog (`app.bucket.rescale`); this bucket is as it was.
        """
        live = Live(self._groups, self._greatest, self._watermark, self._drains, self._composition)
        return Bucket(catalog, rules, self.number, topics, self._memory_of, chains_of=self._chains_of, live=live)

    def validate(self) -> None:
        """Invariants.

        Raises:
            AssertionError: one of them does not hold.
        """
        for state in self._groups.values():
            batch = state.validate()
            if state.order is None:
                due = min(self._watermark[stream] for stream in state.matching.group.streams)
                assert (batch.time >= due).all() or due == FOREVER, "what is due was fed"  # noqa: S101

    def _load(self, header: Mapping[str, Any], parts: Mapping[str, Buffer]) -> None:
        self._go_on_from({stream: dict(times) for stream, times in header["greatest"].items()}, header["watermark"])
        self._drains.load(header["drains"])
        self._composition.load({name.removeprefix("order-"): part for name, part in parts.items() if name.startswith("order-")})
        self._refuse_moved((group["identity"], (place[0], place[1])) for group in header["groups"] for place in group["queries"])
        for group in header["groups"]:
            if group["identity"] in self._groups:
                self._groups[group["identity"]].load(group, parts)
        self._begin()

    def _go_on_from(self, greatest: Mapping[str, dict[int, int]], watermark: Mapping[str, int]) -> None:
        """Takes over how far time has come in the streams that are still read."""
        for stream, times in greatest.items():
            if stream in self._greatest:
                self._greatest[stream] = times
                if not stream.startswith(QUERY_STREAM):  # those follow from the others in the next step
                    self._watermark[stream] = watermark[stream]

    def _begin(self) -> None:
        for state in self._groups.values():
            state.begin(self._greatest)

    def _take_in(self, stream: str, section: Section, late: list[NDArray[np.int64]], clock: Clock) -> None:
        state = self._groups.get(section.group)
        if state is None or state.matching.layout.fingerprint != section.layout:
            raise SnapshotError(f"bucket {self.number}: a chunk was made under another catalog")
        batch, bitmaps = section.batch, section.bitmaps
        if section.hidden:
            on_time = batch.time >= self._floor(state, stream)
            if state.order is not None:
                on_time &= ~state.order.behind(self._order_keys(state, batch), batch.time)
            rows = np.flatnonzero(on_time)
            state.hide(take(batch, rows), bitmaps[rows], clock)
            return
        batch, bitmaps = _without(batch, bitmaps, batch.time < self._floor(state, stream), late)
        if state.order is not None and len(section.keys):
            state.told.append((section.keys, section.key_times))
        state.hold(batch, bitmaps)

    def _floor(self, state: GroupState, stream: str | None = None) -> int:
        """What is earlier is late, whoever sends it: the watermark, of trusted groups less their slack. It never falls."""
        watermark = self._watermark[stream or state.matching.group.streams[0]]
        return watermark - state.slack_ms if state.order is not None and NEVER < watermark < FOREVER else watermark

    def _learn_times(self, stream: str, times: Mapping[int, int]) -> None:
        known = self._greatest[stream]
        for source, time in times.items():
            known[source] = max(time, known.get(source, time))

    def _due(self, state: GroupState, late: list[NDArray[np.int64]]) -> tuple[EventBatch, NDArray[np.uint64]]:
        group = state.matching.group
        if state.order is None:
            return in_match_order(*state.held.release(min(self._watermark[stream] for stream in group.streams)))
        batch, bitmaps = state.held.release_all_in_arrival_order()
        is_late = state.order.late(self._order_keys(state, batch), np.ascontiguousarray(batch.time), times_before(batch), state.floor)
        for hashes, times in state.told:
            state.order.late(hashes, times, floor=state.floor)
        state.told = []
        return _without(batch, bitmaps, is_late, late)

    def _order_keys(self, state: GroupState, batch: EventBatch) -> NDArray[np.uint64]:
        group = state.matching.group
        return partition_keys(batch, np.arange(len(batch)), key_group(group, self._rules[group.streams[0]])).hashes

    def _pass_on(self, state: GroupState, news: Sequence[Found], watermarks: Watermarks) -> None:
        """Hands what queries found to the queries that read them, whose turn comes later in the same step."""
        for one in news:
            for passed in self._composition.pass_on(one):
                reader = self._groups[group_identity(self._catalog.groups[passed.group])]
                reader.held.add(passed.batch, passed.bitmaps)
            stream = stream_of(self._catalog.plans[one.query].name)
            if stream in self._rules and len(one.matches):
                self._learn_times(stream, {COMPOSITES: int(one.matches.time.max())})
        for query in state.matching.group.queries:
            complete = self._composition.watermark(query, watermarks)
            if complete is not None:
                stream = stream_of(self._catalog.plans[query].name)
                self._watermark[stream] = max(self._watermark[stream], complete)

    def _watermarks(self, state: GroupState, progress: Progress) -> Watermarks:
        streams = state.matching.group.streams
        default = min(self._watermark[stream] for stream in streams)
        if default == FOREVER:
            return Watermarks(default, end_ms=max((time for name in streams for time in self._greatest[name].values()), default=None))
        if state.order is None:
            return Watermarks(default)
        (stream,) = streams
        behind = self._rules[stream].allowed_lateness_ms + state.slack_ms
        own = {source: time - behind for source, time in self._greatest[stream].items() if source not in progress.idle}
        return Watermarks(default - state.slack_ms if default > NEVER else NEVER, own)

    def _pending(self, found: Found) -> int:
        """What of a query only time will release; while nothing can time out, nothing is waited for."""
        plan = self._catalog.plans[found.query]
        ends = plan.within is not None or (plan.runs is not None and (plan.runs.max_gap_ms is not None or plan.runs.window is not None))
        return found.tally.pending + (found.tally.live_events if ends and plan.on_timeout == "emit" else 0)

    def _names(self, group: QueryGroup) -> list[tuple[str, str]]:
        return [(self._catalog.plans[query].name, self._catalog.plans[query].fingerprint) for query in group.queries]

    def _refuse_moved(self, lived: Iterable[tuple[int, tuple[str, str]]]) -> None:
        """A state that is in another group than its query would be lost without a word; ``lived``: identities of groups, and queries in them."""
        for identity, query in lived:
            if self._lives.get(query, identity) != identity:
                raise SnapshotError(
                    f'bucket {self.number}: query "{query[0]}" lives elsewhere now that others read it, or no longer do: its state must be moved first'
                )


def _without(
    batch: EventBatch, bitmaps: NDArray[np.uint64], gone: NDArray[np.bool_], late: list[NDArray[np.int64]]
) -> tuple[EventBatch, NDArray[np.uint64]]:
    """The events that are not late; the others are noted."""
    if not gone.any():
        return batch, bitmaps
    late.append(np.stack([batch.source, batch.offset], axis=1)[gone & told_here(batch)])
    kept = np.flatnonzero(~gone)
    return take(batch, kept), bitmaps[kept]


def _ascending(late: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.unique(np.concatenate(late), axis=0) if late else np.zeros((0, 2), dtype=np.int64)
