"""What a bucket holds for one query group: its engines, events that wait, and what is remembered beside them; fresh, moved to another catalog, or read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.audited import GroupAudit, audit_of
from app.bucket.beside import Beside, beside_of
from app.bucket.chunk import pack_events, unpack_events
from app.bucket.composition import Composition
from app.bucket.draining import Drains
from app.bucket.hold import NEVER, Held, KeyOrder, TimeRules
from app.bucket.matching import Clock, Found, GroupMatching
from app.bucket.moved import Bits, moved_bits, places_of
from app.bucket.places import COMPOSITES
from app.bucket.snapshot import Part
from app.bucket.temporal import MemoryOf
from app.bucket.thinning import ChainsOf, Shed, Thinning, Thresholds, without_ranks
from app.bucket.trusted import trusted, trusted_slack_ms
from app.cep.engine import Watermarks
from app.cep.snapshot.preamble import Buffer
from app.events.batch import EventBatch, take
from app.query.plan import Catalog, QueryGroup


@dataclass(frozen=True, slots=True)
class Making:
    """What the states of groups are made with.

    Attributes:
        catalog: all queries.
        memory_of: makes the bounded memory of temporal queries that ask for one.
        chains_of: makes the memories of shedders that remember what was kept.
    """

    catalog: Catalog
    memory_of: MemoryOf | None
    chains_of: ChainsOf


@dataclass(slots=True)
class GroupState:
    """One group's part of a bucket."""

    made: Making
    matching: GroupMatching
    thinning: Thinning
    held: Held
    order: KeyOrder | None
    """Of trusted groups."""
    slack_ms: int
    audit: GroupAudit | None
    beside: Beside | None
    pending: int = 0
    floor: int = NEVER
    """Of trusted groups: what was earlier than this was late in this step."""
    told: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = field(default_factory=list)
    """Keys and times of events that the bucket did not get; empty between steps."""

    @staticmethod
    def of(made: Making, group: QueryGroup, rule: TimeRules, known: GroupState | None) -> GroupState:
        """Fresh, or what is known of the group taken over: engines, held events with their bits moved to where they now belong, key times."""
        catalog = made.catalog
        if known is None:
            matching = GroupMatching(catalog, group.number, memory_of=made.memory_of)
        else:
            matching = known.matching.reload(catalog, group.number, made.memory_of)
        ordered = trusted(catalog, group, rule)
        state = GroupState(
            made,
            matching,
            Thinning(catalog, group, made.chains_of),
            Held(matching.layout.words),
            KeyOrder() if ordered else None,
            trusted_slack_ms(catalog, group),
            audit_of(catalog, group),
            beside_of(catalog, group, ordered=ordered),
        )
        if known is not None:
            state._go_on(known)
        return state

    def hold(self, batch: EventBatch, bitmaps: NDArray[np.uint64]) -> None:
        """Takes in events that arrive, uint64 (events, words), until they are due."""
        self.held.add(batch, bitmaps)
        self.thinning.note(bitmaps)

    def thinned(
        self, batch: EventBatch, bitmaps: NDArray[np.uint64], thresholds: Thresholds, clock: Clock
    ) -> tuple[EventBatch, NDArray[np.uint64], tuple[Shed, ...]]:
        """What is left of the group's events, and what its queries lost; audits are told."""
        thinned = self.thinning.thinned(batch, bitmaps, thresholds, clock)
        if thinned.hidden is not None:
            self.hide(*thinned.hidden, clock)
        return without_ranks(thinned.batch), thinned.bitmaps, thinned.shed

    def hide(self, batch: EventBatch, bitmaps: NDArray[np.uint64], clock: Clock) -> None:
        """Tells audits what was shed, uint64 (events, words): the items that were taken from each event."""
        if self.audit is not None:
            self.audit.hide(batch, bitmaps, clock)
        if self.beside is not None:
            self.beside.hide(batch, bitmaps)

    def audited(
        self, news: Sequence[Found], batch: EventBatch, bitmaps: NDArray[np.uint64], watermarks: Watermarks, clock: Clock
    ) -> Sequence[Found]:
        """What the queries found of what they were fed, with verdicts."""
        if self.audit is not None:
            news = self.audit.judged(news, batch, bitmaps, watermarks.default_ms, clock)
        if self.beside is not None:
            self.beside.note(news, batch, bitmaps, watermarks)
        return news

    def look_beside(self, clock: Clock, until_ns: int) -> None:
        """See `Beside.work`."""
        if self.beside is not None:
            self.beside.work(clock, until_ns)

    def sampled(self) -> Mapping[int, NDArray[np.float64]]:
        """See `Beside.drained`."""
        return {} if self.beside is None else self.beside.drained()

    def begin(self, greatest: Mapping[str, Mapping[int, int]]) -> None:
        """Engines go on with what audits and thinning may not have seen: all of it is earlier than what comes. ``greatest``: by stream and source, times until now."""
        at_ms = self._after(greatest)
        self.thinning.begin(at_ms)
        if self.audit is not None:
            self.audit.begin(at_ms)
        self.sample_anew(greatest)

    def sample_anew(self, greatest: Mapping[str, Mapping[int, int]]) -> None:
        """What the control samples say is of events to come; ``greatest``: by stream and source, times until now."""
        if self.beside is not None:
            self.beside.begin(self._after(greatest))

    def _after(self, greatest: Mapping[str, Mapping[int, int]]) -> int:
        """A time that no event of the group has reached yet, whatever its source."""
        return 1 + max((time for stream in self.matching.group.streams for time in greatest[stream].values()), default=NEVER - 1)

    def composites(self, queries: Iterable[int]) -> NDArray[np.int64]:
        """Offsets of the composite events that wait here, or that the queries' engines store: their matches to come bind none but these and later ones."""
        waiting, _ = self.held.everything()
        stored = self.matching.places(queries)
        return np.concatenate([waiting.offset[waiting.source == COMPOSITES], stored[stored[:, 0] == COMPOSITES, 1]])

    def parts(self, identity: int, floor: int) -> Iterator[Part]:
        """The state for a snapshot; ``floor``: of trusted groups, key times before it are left out."""
        name = f"{identity:016x}"
        yield f"held-{name}", [pack_events(*self.held.everything())]
        if self.order is not None:
            keys, times = self.order.contents(floor)
            yield f"keys-{name}", [keys.tobytes()]
            yield f"times-{name}", [times.tobytes()]
        if self.audit is not None:
            yield from self.audit.parts(name)
        yield from self.thinning.parts()
        for query, buffers in self.matching.states():
            plan = self.made.catalog.plans[query]
            yield f"engine-{plan.name}-{plan.fingerprint}", buffers

    def described(self, identity: int) -> dict[str, Any]:
        """What a snapshot says about the group in its description."""
        return {
            "identity": identity,
            "pending": self.pending,
            "queries": [self._place_of(query) for query in self.matching.group.queries],
            **({} if self.audit is None else {"audit": self.audit.described()}),
        }

    def load(self, described: Mapping[str, Any], parts: Mapping[str, Buffer]) -> None:
        """Takes over what a snapshot says about the group: engines, held events with their bits moved to where they now belong, key times."""
        known: dict[tuple[str, str], Bits] = {(place[0], place[1]): tuple(place[2:]) for place in described["queries"]}
        states: dict[int, Buffer] = {}
        name = f"{described['identity']:016x}"
        for query in self.matching.group.queries:
            plan = self.made.catalog.plans[query]
            part = parts.get(f"engine-{plan.name}-{plan.fingerprint}")
            if part is not None and (plan.name, plan.fingerprint) in known:
                states[query] = part
        self.matching = GroupMatching(self.made.catalog, self.matching.group.number, states, self.made.memory_of)
        self.thinning.load(parts, set(states))
        if self.audit is not None:
            self.audit.load(name, parts, described.get("audit"), same_bits=known == places_of(self.matching.layout))
        self._hold_again(*unpack_events(parts[f"held-{name}"]), known, int(described["pending"]))
        if self.order is not None and f"keys-{name}" in parts:
            keys, times = np.frombuffer(parts[f"keys-{name}"], dtype=np.uint64), np.frombuffer(parts[f"times-{name}"], dtype=np.int64)
            self.order = KeyOrder(keys, times)

    def validate(self) -> EventBatch:
        """Invariants; returns the events that are held.

        Raises:
            AssertionError: one of them does not hold.
        """
        batch, bitmaps = self.held.everything()
        assert bitmaps.shape == (len(batch), self.matching.layout.words), "one bitmap per held event"  # noqa: S101
        counting = self.matching.group.ranks != "none"
        assert counting or bitmaps.any(axis=1).all(), "only candidates are held, and events that are counted"  # noqa: S101
        assert self.order is None or len(batch) == 0, "trusted groups hold nothing"  # noqa: S101
        self.matching.validate()
        return batch

    def _go_on(self, known: GroupState) -> None:
        same_bits = known.matching.layout.fingerprint == self.matching.layout.fingerprint
        self.thinning.go_on(known.thinning, known.matching.kept(self.matching))
        if self.audit is not None:
            self.audit.go_on(known.audit, same_bits=same_bits)
        if same_bits:
            self.held, self.pending = known.held, known.pending
        else:
            self._hold_again(*known.held.everything(), places_of(known.matching.layout), known.pending)
        if self.order is not None and known.order is not None:
            self.order = known.order

    def _hold_again(self, batch: EventBatch, bitmaps: NDArray[np.uint64], places: Mapping[tuple[str, str], Bits], pending: int) -> None:
        """Takes over what a group held; of queries that are gone nothing is held."""
        layout = self.matching.layout
        there = places_of(layout)
        moves = [(place, there[query]) for query, place in places.items() if query in there]
        moved = moved_bits(bitmaps, moves, layout.words)
        counting = self.matching.group.ranks != "none" and moves
        wanted = np.flatnonzero(np.ones(len(batch), dtype=np.bool_) if counting else moved.any(axis=1))
        self.held.add(take(batch, wanted), moved[wanted])
        if len(moves) == len(places):
            self.pending = pending

    def _place_of(self, query: int) -> list[object]:
        layout, plan = self.matching.layout, self.made.catalog.plans[query]
        place = layout.place[query]
        return [plan.name, plan.fingerprint, layout.word[place], layout.shift[place], layout.items[place]]


@dataclass(frozen=True, slots=True, eq=False)
class Live:
    """The state of a bucket, for the one that goes on with it."""

    groups: Mapping[int, GroupState]
    greatest: Mapping[str, dict[int, int]]
    watermark: Mapping[str, int]
    drains: Drains
    composition: Composition
