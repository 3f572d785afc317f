"""Shedding in front of a group's engines, by shedders that remember what was kept: of a whole window, in total order, only the bucket knows it.

The ingress says what each event is worth (a rider), the directive how much must go, and what remembers is handed in: engines do not shed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.asc.selected import Bitmaps, Dispatch, SelectedEvents
from app.bucket import kernels
from app.bucket.ingress import RIDER
from app.bucket.matching import Clock
from app.bucket.route import partition_keys
from app.bucket.snapshot import Part
from app.cep.snapshot.preamble import Buffer, Kept, read_preamble, reading, write_preamble
from app.events.batch import PRESENT, EventBatch, take
from app.query.plan import Catalog, Plan, QueryGroup

RANK = f"{RIDER}rank:"
"""What the names of riders begin with that say what events are worth to a query, whose name follows: 0 (least) to 1."""
STAYS = 9.0
"""Rank of an event that is not to go, or of which nobody said what it is worth: it stays, whatever must go."""
CHAINS = Kept(b"CEPCHAIN", "memory of what was kept")
_ARRAYS = (("keys", np.uint64), ("begun", np.int64), ("places", np.int64))


Arrays = Mapping[str, NDArray[Any]]
"""``keys``, ``begun``, ``places``: what a memory is, for a snapshot."""


class Chains(Protocol):
    """What a query's shedder remembers."""

    def keep(
        self, items: NDArray[np.uint64], key: NDArray[np.uint64], place: NDArray[np.int64], rank: NDArray[np.float64], threshold: float
    ) -> NDArray[np.bool_]:
        """Which of the next events stay, bool (events,); remembers them.

        Args:
            items: uint64 (events,), bit i: the event can be item i.
            key: uint64 (events,), hashes of partitions; 0: of all of them.
            place: int64 (events,), times.
            rank: float64 (events,).
            threshold: of the shedder's own scale; 0 keeps all.
        """
        ...

    def begin(self, place: int) -> None:
        """Nobody knows what was kept before this time."""
        ...

    def pass_to(self, place: int) -> None:
        """No event comes any more that is before this time."""
        ...

    def arrays(self) -> Arrays:
        """All of it."""
        ...


ChainsOf = Callable[[Plan, Arrays | None], Chains | None]
"""A fresh memory of a query's shedder, or the one that had these arrays; None where it remembers nothing."""
Thresholds = Mapping[int, float]
"""By query (index in `Catalog.plans`), how much must go in this step."""
NO_THRESHOLDS: Thresholds = {}


def no_chains(plan: Plan, arrays: Arrays | None) -> Chains | None:
    """For whoever sheds nothing."""
    del plan, arrays
    return None


@dataclass(frozen=True, slots=True)
class Shed:
    """What a query lost in a step.

    Attributes:
        query: index in `Catalog.plans`.
        events: that it lost.
        cost_ns: what deciding took.
        let_go: events that reached it, less those that arrived: these wait for the watermark.
        unasked: events that stayed because nobody had said what they are worth, though something was to go: they arrived before that.
    """

    query: int
    events: int = 0
    cost_ns: int = 0
    let_go: int = 0
    unasked: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Thinned:
    """What is left of a step's events.

    Attributes:
        batch: without the events that all queries have lost, unless the group counts them.
        bitmaps: uint64 (events, words).
        hidden: events that were shed, and what each lost.
        shed: by query that remembers.
    """

    batch: EventBatch
    bitmaps: NDArray[np.uint64]
    hidden: tuple[EventBatch, NDArray[np.uint64]] | None = None
    shed: tuple[Shed, ...] = ()


class Thinning:
    """The memories of one query group.

    Args:
        catalog: all queries.
        group: one of its groups.
        chains_of: makes memories.
    """

    def __init__(self, catalog: Catalog, group: QueryGroup, chains_of: ChainsOf) -> None:
        self._group, self._chains_of = group, chains_of
        self._layout = ItemLayout.of_group(catalog, group)
        self._dispatch = Dispatch(self._layout)
        own = {query: catalog.plans[query] for query in group.queries if catalog.plans[query].draining is None}
        made = {query: chains_of(plan, None) for query, plan in own.items()}
        self._chains = {query: one for query, one in made.items() if one is not None}
        self._plans = {query: own[query] for query in self._chains}
        self._may_lose = {query: self._bits_to_lose(query) for query in self._chains}
        self._came = Counter[int]()
        """By query, events that arrived in this step."""
        self._unknown: set[int] = set()
        """Queries whose engines go on with what nobody remembers."""

    def note(self, bitmaps: NDArray[np.uint64]) -> None:
        """Notes events that arrive, uint64 (events, words), before those that are due are thinned."""
        for query in self._chains:
            self._came[query] += int(np.count_nonzero((bitmaps & self._layout.own_words(query)).any(axis=1)))

    def thinned(self, batch: EventBatch, bitmaps: NDArray[np.uint64], thresholds: Thresholds, clock: Clock) -> Thinned:
        """Decides about a step's events, in the order in which they are to be fed.

        Args:
            batch: events of the group.
            bitmaps: uint64 (events, words).
            thresholds: by query; a query without one loses nothing, and remembers.
            clock: tells what each query costs.
        """
        came, self._came = self._came, Counter[int]()
        if not self._chains or not len(batch):
            return Thinned(batch, bitmaps, shed=tuple(Shed(query, let_go=-count) for query, count in came.items() if count))
        selected = SelectedEvents(self._dispatch, Bitmaps(np.arange(len(batch)), bitmaps), len(batch))
        keys = partition_keys(batch, np.arange(len(batch)), self._group)
        named = np.where(keys.reach == kernels.EVERYWHERE, np.uint64(0), keys.hashes)
        taken, shed = np.zeros_like(bitmaps), []
        for query, chains in self._chains.items():
            began = clock()
            rows, items = selected.of_query(query)
            if not len(rows) and not came[query]:
                continue
            plan = self._plans[query]
            told = _told(batch, plan, rows)
            # the engine gets what stays, and would be kept from what follows in vain if the memory took it for dropped
            rank = np.where(items & np.uint64(plan.staying), STAYS, _ranks(batch, plan, rows, told))
            kept = chains.keep(items, named[rows], batch.time[rows], rank, thresholds.get(query, 0.0))
            gone = rows[~kept]
            lost = bitmaps[gone] & self._may_lose[query]
            taken[gone] |= lost
            unasked = int(np.count_nonzero(kept & ~told)) if query in thresholds else 0
            shed.append(Shed(query, int(np.count_nonzero(lost.any(axis=1))), clock() - began, len(rows) - came[query], unasked))
        gone = np.flatnonzero(taken.any(axis=1))
        if not len(gone):
            return Thinned(batch, bitmaps, shed=tuple(shed))
        hidden, left = (take(batch, gone), taken[gone]), bitmaps & ~taken
        if self._group.ranks != "none":
            return Thinned(batch, left, hidden, tuple(shed))
        rows = np.flatnonzero(left.any(axis=1))
        return Thinned(take(batch, rows), left[rows], hidden, tuple(shed))

    def pass_to(self, watermark_ms: int) -> None:
        """Lets time come to the group's watermark: every event of a later step is there or behind it."""
        for chains in self._chains.values():
            chains.pass_to(watermark_ms)

    def begin(self, at_ms: int) -> None:
        """All that engines hold and that nobody remembers is before this time."""
        for query in self._unknown:
            self._chains[query].begin(at_ms)
        self._unknown.clear()

    def go_on(self, other: Thinning, kept: Mapping[int, int]) -> None:
        """Takes over what the group remembers under another catalog.

        Args:
            other: of the group there.
            kept: queries that go on, by their indices there those here.
        """
        there = {new: old for old, new in kept.items()}
        for query in self._chains:
            if query not in there:
                continue  # it begins afresh, as its engine does
            if there[query] in other._chains:
                self._chains[query] = other._chains[there[query]]
            if there[query] not in other._chains or there[query] in other._unknown:
                self._unknown.add(query)

    def parts(self) -> Iterator[Part]:
        """The memories."""
        for query, chains in self._chains.items():
            arrays = chains.arrays()
            described = {"unknown": query in self._unknown, **{name: len(arrays[name]) for name, _ in _ARRAYS}}
            raw = [np.ascontiguousarray(arrays[name], dtype=kind).tobytes() for name, kind in _ARRAYS]
            yield _name(self._plans[query]), [write_preamble(CHAINS, described), *raw]

    def load(self, parts: Mapping[str, Buffer], going_on: set[int]) -> None:
        """Takes over what `parts` gave; where there is none, what a query that goes on has kept is not known.

        Raises:
            SnapshotError: damaged, or of a newer version.
        """
        for query, plan in self._plans.items():
            part = parts.get(_name(plan))
            if part is None:
                self._unknown |= {query} & going_on
                continue
            preamble = read_preamble(CHAINS, part)
            with reading(CHAINS.what):
                arrays = _arrays(preamble.description, memoryview(part)[preamble.stop :])
                known = self._chains_of(plan, arrays)
            if known is not None:
                self._chains[query] = known
            if preamble.description["unknown"]:
                self._unknown.add(query)

    def _bits_to_lose(self, query: int) -> NDArray[np.uint64]:
        """uint64 (words,): the bits that go with an event; not those of negated items, where no false positive is allowed."""
        return self._layout.own_words(query) & ~self._layout.staying_words(query, self._plans[query])


def _name(plan: Plan) -> str:
    return f"chains-{plan.name}-{plan.fingerprint}"


def _told(batch: EventBatch, plan: Plan, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Bool (rows,): of which events the ingress said what they are worth."""
    column = batch.columns.get(f"{RANK}{plan.name}")
    if column is None or column.state is None:
        return np.full(len(rows), column is not None)
    return column.state[rows] == PRESENT


def _ranks(batch: EventBatch, plan: Plan, rows: NDArray[np.int64], told: NDArray[np.bool_]) -> NDArray[np.float64]:
    """float64 (rows,): what it said."""
    column = batch.columns.get(f"{RANK}{plan.name}")
    return np.full(len(rows), STAYS) if column is None else np.where(told, column.values[rows].astype(np.float64), STAYS)


def without_ranks(batch: EventBatch) -> EventBatch:
    """The events without riders that nobody needs any more."""
    if not any(name.startswith(RANK) for name in batch.columns):
        return batch
    return replace(batch, columns={name: column for name, column in batch.columns.items() if not name.startswith(RANK)})


def _arrays(described: Mapping[str, int], view: memoryview) -> dict[str, NDArray[Any]]:
    found, at = {}, 0
    items = (len(view) // 8 - described["keys"] - described["places"]) // max(1, described["begun"])
    for name, kind in _ARRAYS:
        count = described[name] * (items if name == "begun" else 1)
        found[name] = np.frombuffer(view[at : at + 8 * count], dtype=kind)
        at += 8 * count
    return found
