"""Selection: for every event of a batch, the items of all queries that it can be.

    selection = Selection(catalog, stream)          # all items of all queries that read the stream
    selected = selection.select(batch)              # SelectedEvents; in the initial order, or along a given sequence
    selected.relevant                               # int64: rows with a non-empty bitmap, ascending
    selected.bitmaps                                # uint64 (relevant, words): their bitmaps; bit = selection.layout.bit(query, item)
    selected.bitmap                                 # uint64 (events, words): the same for all rows of the batch
    rows, items = selected.of_query(query)          # int64 (candidates,), uint64 (candidates,) bit i: may be item i of that query
    rows, bitmaps = selected.of_group(group)        # rows with a candidate of the group, and the group's words of their bitmaps

An item is a conjunction of its type test, its constant tests, and "no equivalence attribute is null", or some of them (`app.asc.items`).
The type is one more attribute. Bitmaps do not depend on the sequence; what it costs to find them does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from app.asc import kernels
from app.asc.attribute import AttributeSelection, PreparedColumn
from app.asc.constructs import Constructs
from app.asc.evaluate import evaluate_columns
from app.asc.items import ItemBits
from app.asc.layout import ItemLayout
from app.asc.sequence import Sequence
from app.events.batch import Column, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog


class Selection:
    """All items of all queries of a catalog that read one stream (None: of all queries, for events that are every stream), ready to be asked.

    Attributes:
        initial: the order of constructs before anything is known about the data: the type, then attributes with many tests.
    """

    def __init__(self, catalog: Catalog, stream: str | None) -> None:
        self.layout = ItemLayout.of(catalog, stream)
        places = [(query, catalog.plans[query]) for query in self.layout.queries]
        self._bits = ItemBits.of(self.layout, places)
        words = len(self._bits.begin)
        self._attributes = [AttributeSelection(name, tests, words) for name, tests in sorted(self._bits.tests.items())]
        by_tests = sorted(range(len(self._attributes)), key=lambda k: (self._attributes[k].attribute != "type", -self._attributes[k].tests))
        self.initial = Sequence.fixed(by_tests)
        alone = {group.number: ItemLayout.of_group(catalog, group) for group in catalog.groups if group.number in self.layout.groups}
        self._dispatch = Dispatch(self.layout, alone)
        self._usage = np.zeros((len(self._attributes) + 1, words), dtype=np.uint64)
        for number, attribute in enumerate(self._attributes):
            self._usage[number] = attribute.regions.usage
        self._usage[-1] = self._bits.begin

    @property
    def constructs(self) -> Constructs:
        """The tables, for the search for a sequence and for showing them. Their bits are conjunctions: items, and behind these alternatives."""
        attributes = self._attributes
        tables = tuple(one.table for one in attributes)
        return Constructs(tuple(one.attribute for one in attributes), tables, self._usage[:-1], self._bits.begin)

    def points(self, number: int) -> list[object]:
        """The constants of a construct, ascending; see `regions.Regions`."""
        return list(self._attributes[number].regions.points)

    def likes(self, number: int) -> list[str]:
        """The ``like`` tests of a construct that no range decides, for people."""
        return self._attributes[number].likes

    def bit(self, query: int, item: int) -> int:
        """The bit of the result bitmap that stands for an item of a query (index in `Catalog.plans`)."""
        return self.layout.bit(query, item)

    def select(self, batch: EventBatch, sequence: Sequence | None = None) -> SelectedEvents:
        """Asks all items of all queries about all events of a batch of the stream.

        Args:
            batch: events.
            sequence: in which order constructs are evaluated; None for the initial one.

        Raises:
            ValueError: the sequence is one of other constructs.
        """
        columns = [self._prepared(number, batch) for number in range(len(self._attributes))]
        found = evaluate_columns(columns, self._usage, sequence or self.initial, len(batch))
        bitmaps = self._bits.of_items(found.bitmaps)
        return SelectedEvents(self._dispatch, found.rows, bitmaps, len(batch), found.evaluated, found.followed)

    def regions(self, batch: EventBatch, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The regions of some events: what a sequence is found from.

        Args:
            batch: events.
            rows: int64 (sample,), rows of the batch.

        Returns:
            int32 (constructs, sample): rows of `Constructs.tables`.
        """
        found = np.empty((len(self._attributes), len(rows)), dtype=np.int32)
        for number, attribute in enumerate(self._attributes):
            found[number] = attribute.regions_of_rows(attribute_column(batch, attribute.attribute), rows)
        return found

    def _prepared(self, number: int, batch: EventBatch) -> PreparedColumn | None:
        """None where the batch has no value that could fail a test."""
        attribute = self._attributes[number]
        column = attribute_column(batch, attribute.attribute)
        return None if column is None or attribute.idle(column) else attribute.prepare(column)


class SelectedEvents:
    """The answer of selection for one batch.

    Attributes:
        relevant: int64 (relevant,), rows of the batch that are a candidate of some item, ascending.
        bitmaps: uint64 (relevant, words), their result bitmaps.
        events: how many rows the batch has.
        evaluated: how many constructs were evaluated for all of them.
        followed: micro-arrows on the way.
    """

    __slots__ = ("_by_query", "_dispatch", "bitmaps", "evaluated", "events", "followed", "relevant")

    def __init__(  # noqa: PLR0917 - arrays of one answer
        self,
        dispatch: Dispatch,
        relevant: NDArray[np.int64],
        bitmaps: NDArray[np.uint64],
        events: int,
        evaluated: int = 0,
        followed: int = 0,
    ) -> None:
        self.relevant = relevant
        self.bitmaps = bitmaps
        self.events = events
        self.evaluated = evaluated
        self.followed = followed
        self._dispatch = dispatch
        self._by_query: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]] | None = None

    @property
    def layout(self) -> ItemLayout:
        """What the bits of `bitmaps` mean."""
        return self._dispatch.layout

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
            self._by_query = self._dispatch.by_query(self.relevant, self.bitmaps)
        bounds, rows, items = self._by_query
        place = self._dispatch.layout.place[query]
        found = slice(int(bounds[place]), int(bounds[place + 1]))
        return rows[found], items[found]

    def of_group(self, group: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The candidates of one query group (its number), for shipping.

        Returns:
            int64 (candidates,) rows of the batch, ascending; uint64 (candidates, words) bitmaps in the layout of the group alone
            (`ItemLayout.of_group`).
        """
        words = self._dispatch.layout.groups[group]
        own = self.bitmaps[:, words.first : words.stop] & np.array(words.masks, dtype=np.uint64)
        alive = own.any(axis=1)
        rows = self.relevant
        if not alive.all():
            rows, own = rows[alive], own[alive]
        return rows, self._dispatch.group_bitmaps(group, own)

    def own_words(self, query: int) -> NDArray[np.uint64]:
        """uint64 (words,): the bits of `bitmaps` that belong to one query, for gates."""
        layout = self._dispatch.layout
        place = layout.place[query]
        own = np.zeros(layout.words, dtype=np.uint64)
        own[layout.word[place]] = ((1 << layout.items[place]) - 1) << layout.shift[place]
        return own

    def with_bitmaps(self, bitmaps: NDArray[np.uint64]) -> SelectedEvents:
        """The same rows with other bitmaps, uint64 (relevant, words)."""
        return SelectedEvents(self._dispatch, self.relevant, bitmaps, self.events, self.evaluated, self.followed)

    def without_empty(self) -> SelectedEvents:
        """The same after a gate took bits back in `bitmaps`: rows that nobody wants any more are gone."""
        alive = self.bitmaps.any(axis=1)
        return SelectedEvents(self._dispatch, self.relevant[alive], self.bitmaps[alive], self.events, self.evaluated, self.followed)

    def only(self, rows: NDArray[np.bool_]) -> SelectedEvents:
        """The same with only the marked rows of the batch, bool (events,)."""
        kept = rows[self.relevant]
        return SelectedEvents(self._dispatch, self.relevant[kept], self.bitmaps[kept], self.events, self.evaluated, self.followed)


class Dispatch:
    """From bits of a result bitmap to queries; depends on the layout alone."""

    def __init__(self, layout: ItemLayout, groups: Mapping[int, ItemLayout] | None = None) -> None:
        bits = layout.words * 64
        self.layout = layout
        self._groups = groups or {}
        self._query_of_bit = np.zeros(bits, dtype=np.int32)
        self._mask_of_bit = np.zeros(bits, dtype=np.uint64)
        self._shift_of_bit = np.zeros(bits, dtype=np.uint64)
        self._group_bit = np.zeros(bits, dtype=np.int32)
        alone = {query: local.bit(query, 0) for local in self._groups.values() for query in local.queries}
        for place, (word, shift, items) in enumerate(zip(layout.word, layout.shift, layout.items, strict=True)):
            own = slice(word * 64 + shift, word * 64 + shift + items)
            self._query_of_bit[own] = place
            self._mask_of_bit[own] = ((1 << items) - 1) << shift
            self._shift_of_bit[own] = shift
            self._group_bit[own] = alone.get(layout.queries[place], 0)

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


def attribute_column(batch: EventBatch, attribute: str) -> Column | None:
    """The column of an attribute, the built-in ``time`` and ``type`` included; None if no event of the batch has it."""
    if attribute == "time":
        return Column(Kind.TIME, batch.time)
    return batch.type if attribute == "type" else batch.columns.get(attribute)
