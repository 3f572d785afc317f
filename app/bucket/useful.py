"""Which candidates of a batch can be part of a match at all: the rest need not enter any stack.

Of many queries nearly every event is a candidate of some, as their first item; few are followed by what the pattern goes on with. So candidates are
looked at from the last one backwards: one that nothing follows within the window, among the events that are there or later ones, is left out.
What is left is looked at forwards, for what it would have to come after. A candidate that is kept for nothing does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc.items import BitItems, ItemBits
from app.asc.layout import ItemLayout
from app.asc.selected import Entries
from app.bucket.kernels import needed_pairs, reachable_pairs
from app.cep.cells.arrays import FOREVER, NEVER, Integers, as_input
from app.query.plan import Plan

_LEAST_ROOM = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Meaning:
    """What bits of entries are to a family.

    Attributes:
        source: whose bits they are.
        tables: bounds, meaning, bounds of wakes, wakes: see `kernels.needed_pairs`.
        bit: int64 (rows of the meaning,).
        completes: bool (bits,), whether one of its items is the last one.
    """

    source: ItemBits
    tables: tuple[NDArray[np.int32], Integers, NDArray[np.int32], NDArray[np.int32]]
    bit: Integers
    completes: NDArray[np.bool_]

    def by_query(self, counts: Integers, queries: int) -> Integers:
        """int64 (queries,), from counts by bit."""
        return np.bincount(self.tables[1][:, 0], weights=counts[self.bit], minlength=queries).astype(np.int64)


class UsefulPairs:
    """Event, query and items, for each query that an event can be something of.

    Args:
        plan: the shape of the queries, a sequence.
        queries: by number their indices in `Catalog.plans`; negative where there is none.
    """

    def __init__(self, plan: Plan, queries: tuple[int, ...]) -> None:
        self._queries = queries
        self._within = -1 if plan.within is None else plan.within.size
        last = len(plan.positive) - 1
        self._always, self._nowhere = last + 1, last + 2  # columns: what needs nothing; what nothing needs
        places = np.cumsum([not item.negated for item in plan.items]) - 1  # of a negated item that of the positive one before it
        negated = np.array([item.negated for item in plan.items])
        self._own = np.where(negated, self._nowhere, places)
        self._following = np.where(negated, last, np.where(places == last, self._always, places + 1))
        before = np.where(negated, places, places - 1)
        self._steps = as_input(np.stack([np.where(before < 0, self._always, before), self._own], axis=1), np.int64)
        self._reached = np.full((len(queries), last + 3), NEVER)
        self._reached[:, self._always] = FOREVER
        self._meaning: _Meaning | None = None
        self._per_entry = 1.0

    def number(self, queries: tuple[int, ...]) -> None:
        """Gives queries their numbers anew; those behind the last number that there was have seen nothing."""
        more = np.full((len(queries) - len(self._queries), self._reached.shape[1]), NEVER)
        more[:, self._always] = FOREVER
        self._reached = np.concatenate([self._reached, more])
        self._queries, self._meaning = queries, None

    def of(self, time: Integers, entries: Entries, layout: ItemLayout, watermark: int) -> tuple[Integers, Integers]:
        """The useful candidates of a batch.

        Args:
            time: int64 (events,), of the batch.
            entries: its candidates.
            layout: of the queries that were asked.
            watermark: of what is fed later, no event is earlier.

        Returns:
            int64 (3, pairs), in order of events: row, number of the query, its items; int64 (queries,), how many candidates each query had;
            one that can be two items of it counts twice.
        """
        if self._meaning is None or self._meaning.source is not entries.meaning:
            self._meaning = self._meant(entries.meaning, layout)
        meaning = self._meaning
        asked = as_input(entries.rows, np.int32), as_input(entries.bits, np.int32)
        time = as_input(time, np.int64)
        needs = np.full(self._reached.shape, FOREVER)
        needs[:, self._always] = NEVER
        counts, alarms = np.zeros(len(meaning.completes), np.int64), np.where(meaning.completes, NEVER, FOREVER)
        notes = np.full((len(self._queries), 2), -1)
        state = (counts, alarms, needs.reshape(-1), notes)
        horizon = NEVER if self._within < 0 or watermark < NEVER + self._within else watermark - self._within
        left, found = len(entries.rows), []
        while left:
            pairs = np.empty((3, int(left * self._per_entry) + len(self._queries) + _LEAST_ROOM), np.int64)
            before = left
            left, first = needed_pairs(*asked, time, *meaning.tables, self._within, horizon, left, *state, pairs)
            found.append(pairs[:, first:])
            self._per_entry = 1.1 * (pairs.shape[1] - first) / (before - left)
        every = found[0] if len(found) == 1 else np.concatenate([np.empty((3, 0), np.int64), *reversed(found)], axis=1)
        every = np.ascontiguousarray(every)
        kept = reachable_pairs(every, time, self._steps, self._within, self._reached)
        return every[:, :kept], meaning.by_query(counts, len(self._queries))

    def not_asked(self, time: Integers) -> None:
        """Takes note of events that an engine is given without being asked here: whatever can come before something may have come."""
        self._reached[:, : self._always] = np.maximum(self._reached[:, : self._always], time.max(initial=NEVER))

    def _meant(self, source: ItemBits, layout: ItemLayout) -> _Meaning:
        """Finds out which bits are items of the family's queries."""
        bits = source.stand_for
        places, first = layout.places_of_bits, layout.first_bits
        number_of_place = np.full(len(first) + 1, -1)
        running = [number for number, query in enumerate(self._queries) if query >= 0]
        number_of_place[[layout.place[self._queries[number]] for number in running]] = running
        number = number_of_place[places[bits.items]]
        own = number >= 0
        mine, number = bits.items[own], number[own]
        item = mine - first[places[mine]]
        begin = number * self._reached.shape[1]
        following = begin + self._following[item]
        rows = np.stack([number, np.int64(1) << item, begin + self._own[item], following], axis=1)
        bit = np.repeat(np.arange(len(bits.bounds) - 1), np.diff(bits.bounds))[own]
        wakes = BitItems.of(following, bit, self._reached.size)
        completes = np.zeros(len(bits.bounds) - 1, np.bool_)
        completes[bit[self._following[item] == self._always]] = True
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(own)])[bits.bounds]
        tables = as_input(ends, np.int32), as_input(rows, np.int64), as_input(wakes.bounds, np.int32), as_input(wakes.items, np.int32)
        return _Meaning(source, tables, bit, completes)
