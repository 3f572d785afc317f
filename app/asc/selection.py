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

import numpy as np
from numpy.typing import NDArray

from app.asc.attribute import AttributeSelection, PreparedColumn
from app.asc.constructs import Constructs
from app.asc.evaluate import Listing, evaluate_columns, list_columns, longest_lists
from app.asc.items import ItemBits
from app.asc.layout import ItemLayout
from app.asc.lists import ListOrder, RegionLists
from app.asc.ranges import Ranges
from app.asc.selected import Bitmaps, Dispatch, Entries, SelectedEvents
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
        groups = [group for group in catalog.groups if group.number in self.layout.groups]
        alone = {group.number: ItemLayout.of_group(catalog, group) if len(groups) > 1 else self.layout for group in groups}
        self._dispatch = Dispatch(self.layout, alone)
        self._gathered: tuple[RegionLists, Ranges, Ranges] | None = None
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
        used = sequence or self.initial
        listed = self._listed(batch, columns, used)
        if listed is not None:
            return SelectedEvents(self._dispatch, Entries(listed.rows, listed.bits, self._bits), len(batch), listed.evaluated)
        found = evaluate_columns(columns, self._usage, used, len(batch))
        bitmaps = self._bits.of_items(found.bitmaps)
        return SelectedEvents(self._dispatch, Bitmaps(found.rows, bitmaps), len(batch), found.evaluated, found.followed)

    def _listed(self, batch: EventBatch, columns: list[PreparedColumn | None], sequence: Sequence) -> Listing | None:
        """The answer by lists, led by the attribute with the shortest; None where bitmaps are faster, or micro-arrows are to be followed."""
        longest = longest_lists(self._usage.shape[1])
        if not longest or sequence.arrows or not sequence.fits(len(columns)):
            return None
        order = self._list_order(batch, [number for number in sequence.order if columns[number] is not None], longest)
        return None if order is None else list_columns(columns, self._usage, order, len(batch))

    def _list_order(self, batch: EventBatch, order: list[int], longest: int) -> ListOrder | None:
        asked = [(number, self._attributes[number], attribute_column(batch, self._attributes[number].attribute)) for number in order]
        known = [(number, attribute, column) for number, attribute, column in asked if column is not None]
        lists = {number: own for number, one, column in known if (own := one.lists(column, self._bits.begin, longest)) is not None}
        if not lists:
            return None
        lead = min(lists, key=lambda number: lists[number].length)
        ranges = {number: both for number, one, column in known if number != lead and (both := one.ranges(column)) is not None}
        second = next(iter(ranges), None)
        rest = [number for number in order if number not in {lead, second}]
        if second is None:
            return ListOrder([lead, *rest], lists[lead], None)
        return ListOrder([lead, second, *rest], lists[lead], self._by_entry(lists[lead], ranges[second]))

    def _by_entry(self, lists: RegionLists, ranges: Ranges) -> Ranges:
        """The ranges of every entry of the lists; batches have mostly the same."""
        if self._gathered is None or self._gathered[0] is not lists or self._gathered[1] is not ranges:
            self._gathered = (lists, ranges, (ranges[0][lists.bits], ranges[1][lists.bits]))
        return self._gathered[2]

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


def attribute_column(batch: EventBatch, attribute: str) -> Column | None:
    """The column of an attribute, the built-in ``time`` and ``type`` included; None if no event of the batch has it."""
    if attribute == "time":
        return Column(Kind.TIME, batch.time)
    return batch.type if attribute == "type" else batch.columns.get(attribute)
