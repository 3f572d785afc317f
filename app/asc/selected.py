"""The answer of selection for one batch, and what its bits mean."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as List
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc import kernels
from app.asc.items import ItemBits
from app.asc.layout import ItemLayout


@dataclass(frozen=True, slots=True, eq=False)
class Bitmaps:
    """An answer with the words of every event.

    Attributes:
        rows: int64 (relevant,), rows of the batch that are a candidate of some item, ascending.
        bitmaps: uint64 (relevant, words), their result bitmaps.
    """

    rows: NDArray[np.int64]
    bitmaps: NDArray[np.uint64]

    def only(self, rows: NDArray[np.bool_]) -> Bitmaps:
        """The answer for the marked rows of the batch, bool (events,)."""
        kept = rows[self.rows]
        return Bitmaps(self.rows[kept], self.bitmaps[kept])

    def spread(self) -> Bitmaps:
        """The words."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """An answer bit by bit, where words would be nearly empty.

    Attributes:
        rows: int32 (entries,), rows of the batch, ascending.
        bits: int32 (entries,), what each passes.
        meaning: of these bits.
    """

    rows: NDArray[np.int32]
    bits: NDArray[np.int32]
    meaning: ItemBits

    def only(self, rows: NDArray[np.bool_]) -> Entries:
        """The answer for the marked rows of the batch, bool (events,)."""
        kept = rows[self.rows]
        return Entries(self.rows[kept], self.bits[kept], self.meaning)

    def spread(self) -> Bitmaps:
        """The same with the words of every event."""
        fresh = np.append(True, self.rows[1:] != self.rows[:-1])[: len(self.rows)]
        rows = self.rows[fresh].astype(np.int64)
        return Bitmaps(rows, self.meaning.of_entries(np.cumsum(fresh) - 1, self.bits, len(rows)))


class SelectedEvents:
    """The answer of selection for one batch.

    Attributes:
        dispatch: what the bits mean.
        answer: as words or bit by bit.
        events: how many rows the batch has.
        evaluated: how many constructs were evaluated for all of them.
        followed: micro-arrows on the way.
    """

    __slots__ = ("_by_query", "_words", "answer", "dispatch", "evaluated", "events", "followed")

    def __init__(self, dispatch: Dispatch, answer: Bitmaps | Entries, events: int, evaluated: int = 0, followed: int = 0) -> None:
        self.answer = answer
        self.events = events
        self.evaluated = evaluated
        self.followed = followed
        self.dispatch = dispatch
        self._words: Bitmaps | None = None
        self._by_query: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]] | None = None

    def _spread(self) -> Bitmaps:
        if self._words is None:
            self._words = self.answer.spread()
        return self._words

    @property
    def relevant(self) -> NDArray[np.int64]:
        """int64 (relevant,), rows of the batch that are a candidate of some item, ascending."""
        return self._spread().rows

    @property
    def bitmaps(self) -> NDArray[np.uint64]:
        """uint64 (relevant, words), their result bitmaps."""
        return self._spread().bitmaps

    @property
    def layout(self) -> ItemLayout:
        """What the bits of `bitmaps` mean."""
        return self.dispatch.layout

    @property
    def bitmap(self) -> NDArray[np.uint64]:
        """uint64 (events, words): the result bitmap of every row of the batch, irrelevant ones included."""
        full = np.zeros((self.events, self.bitmaps.shape[1]), dtype=np.uint64)
        full[self.relevant] = self.bitmaps
        return full

    def of_query(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The candidates of one query (index in `Catalog.plans`).

        Returns:
            int64 (candidates,) rows of the batch, ascending; uint64 (candidates,), bit ``i``: may be item ``i`` of the query.
        """
        if self._by_query is None:
            self._by_query = self.dispatch.by_query(self.relevant, self.bitmaps)
        bounds, rows, items = self._by_query
        place = self.dispatch.layout.place[query]
        found = slice(int(bounds[place]), int(bounds[place + 1]))
        return rows[found], items[found]

    def of_group(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The candidates of one query group (its number), for shipping.

        Returns:
            int64 (candidates,) rows of the batch, ascending; uint64 (candidates, words) bitmaps in the layout of the group alone
            (`ItemLayout.of_group`).
        """
        words = self.dispatch.layout.groups[group]
        own = self.bitmaps[:, words.first : words.stop] & np.array(words.masks, dtype=np.uint64)
        alive = own.any(axis=1)
        rows = self.relevant
        if not alive.all():
            rows, own = rows[alive], own[alive]
        return rows, self.dispatch.group_bitmaps(group, own)

    def own_words(self, query: int) -> NDArray[np.uint64]:
        """uint64 (words,): the bits of `bitmaps` that belong to one query, for gates."""
        return self.layout.own_words(query)

    def with_bitmaps(self, bitmaps: NDArray[np.uint64]) -> SelectedEvents:
        """The same rows with other bitmaps, uint64 (relevant, words)."""
        return self._with(Bitmaps(self.relevant, bitmaps))

    def without_empty(self) -> SelectedEvents:
        """The same after a gate took bits back in `bitmaps`: rows that nobody wants any more are gone."""
        alive = self.bitmaps.any(axis=1)
        return self._with(Bitmaps(self.relevant[alive], self.bitmaps[alive]))

    def without(self, others: SelectedEvents) -> SelectedEvents:
        """The bits that are not in another answer for some of the same rows: of what a gate kept, what it took away, and the other way round."""
        left = self.bitmaps.copy()
        left[np.searchsorted(self.relevant, others.relevant)] &= ~others.bitmaps
        return self.with_bitmaps(left).without_empty()

    def only(self, rows: NDArray[np.bool_]) -> SelectedEvents:
        """The same with only the marked rows of the batch, bool (events,)."""
        return self._with(self.answer.only(rows))

    def _with(self, answer: Bitmaps | Entries) -> SelectedEvents:
        return SelectedEvents(self.dispatch, answer, self.events, self.evaluated, self.followed)


def joined(parts: List[SelectedEvents]) -> SelectedEvents:
    """The answer for the batches of all parts after each other, which one selection has answered; of fewer than 2^31 events together."""
    starts = np.cumsum([0, *(part.events for part in parts)]).tolist()
    answers = [part.answer for part in parts]
    entries = [answer for answer in answers if isinstance(answer, Entries)]
    evaluated, followed = sum(part.evaluated for part in parts), sum(part.followed for part in parts)
    answer: Bitmaps | Entries
    if len(entries) == len(parts):
        rows = np.concatenate([one.rows + np.int32(start) for start, one in zip(starts, entries, strict=False)])
        answer = Entries(rows, np.concatenate([one.bits for one in entries]), entries[0].meaning)
    else:
        rows = np.concatenate([part.relevant + start for start, part in zip(starts, parts, strict=False)])
        answer = Bitmaps(rows, np.concatenate([part.bitmaps for part in parts]))
    return SelectedEvents(parts[0].dispatch, answer, starts[-1], evaluated, followed)


class Dispatch:
    """From bits of a result bitmap to queries; depends on the layout alone."""

    def __init__(self, layout: ItemLayout, groups: Mapping[int, ItemLayout] | None = None) -> None:
        self.layout = layout
        self._groups = groups or {}

    @cached_property
    def _query_of_bit(self) -> NDArray[np.int32]:
        return np.maximum(self.layout.places_of_bits, 0)

    @cached_property
    def _mask_of_bit(self) -> NDArray[np.uint64]:
        sizes = np.array(self.layout.items, np.uint64)
        return self._of_bits(((np.uint64(1) << sizes) - np.uint64(1)) << np.array(self.layout.shift, np.uint64))

    @cached_property
    def _shift_of_bit(self) -> NDArray[np.uint64]:
        return self._of_bits(np.array(self.layout.shift, np.uint64))

    @cached_property
    def _group_bit(self) -> NDArray[np.int32]:
        alone = {query: local.bit(query, 0) for local in self._groups.values() for query in local.queries}
        return self._of_bits(np.array([alone.get(query, 0) for query in self.layout.queries], np.int32))

    def _of_bits(self, values: NDArray[Any]) -> NDArray[Any]:
        """By bit, what a query has that owns it; 0 where none does."""
        places = self.layout.places_of_bits
        return np.append(values, values.dtype.type(0))[places]

    def group_bitmaps(self, group: int, own: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Bitmaps of a group's words (rows, words) in the layout of the group alone."""
        words, local = self.layout.groups[group], self._groups[group]
        if self.layout.bit(local.queries[0], 0) == words.first * 64:
            return own  # begins at a word's first bit: nothing moves
        packed = np.zeros((len(own), local.words), dtype=np.uint64)
        bits = slice(words.first * 64, words.stop * 64)
        kernels.repack(own, self._mask_of_bit[bits], self._shift_of_bit[bits], self._group_bit[bits], packed)
        return packed

    def by_query(
        self, relevant: NDArray[np.int64], bitmaps: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]:
        """Sorts (event, candidate items) by query, keeping the order of events.

        Returns:
            bounds int64 (queries + 1,); rows int64 (pairs,); items uint64 (pairs,): those of place ``k`` lie between its bounds.
        """
        bounds = np.zeros(len(self.layout.queries) + 1, dtype=np.int64)
        if len(self.layout.queries) == 1:
            bounds[1] = len(relevant)
            return bounds, relevant, bitmaps[:, 0]
        kernels.count_candidates(bitmaps, self._query_of_bit, self._mask_of_bit, bounds[1:])
        np.cumsum(bounds, out=bounds)
        rows = np.empty(bounds[-1], dtype=np.int64)
        items = np.empty(bounds[-1], dtype=np.uint64)
        kernels.dispatch_candidates(
            relevant, bitmaps, self._query_of_bit, self._mask_of_bit, self._shift_of_bit, bounds[:-1].copy(), rows, items
        )
        return bounds, rows, items
