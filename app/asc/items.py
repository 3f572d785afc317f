"""From items of queries to tests that own bits.

An item is a conjunction of its type test, its constant tests, and "no equivalence attribute is null": one bit. An item with a disjunctive condition is
several such conjunctions: its own bit is the first of them, the others have bits behind those of the layout, and are folded into it afterwards.
Where queries have many items in common, a conjunction has one bit, however many items it is, and the items' bits are filled in afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc import kernels
from app.asc.layout import WORD_BITS, ItemLayout
from app.asc.regions import BitTest
from app.events.types import Kind
from app.query.plan import ConstantTest, Item, Plan

Conjunction = tuple[ConstantTest, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BitItems:
    """Per bit the items that it stands for, as bits of the layout.

    Attributes:
        bounds: int32 (bits + 1,).
        items: int32 (entries,), between a bit's bounds.
    """

    bounds: NDArray[np.int32]
    items: NDArray[np.int32]

    @staticmethod
    def of(bits: NDArray[np.int64], items: NDArray[np.int64], size: int) -> BitItems:
        """From pairs of a bit (below ``size``) and an item."""
        order = np.argsort(bits, kind="stable")
        return BitItems(np.searchsorted(bits[order], np.arange(size + 1)).astype(np.int32), items[order].astype(np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """Per bit the items that it stands for, as words and masks of the layout.

    Attributes:
        bounds: int32 (bits + 1,).
        words: int32 (entries,), between a bit's bounds.
        masks: uint64 (entries,).
    """

    bounds: NDArray[np.int32]
    words: NDArray[np.int32]
    masks: NDArray[np.uint64]

    @staticmethod
    def of(bit: NDArray[np.int64], item: NDArray[np.int64], bits: int) -> Owners:
        """From pairs of a bit (below ``bits``) and an item (its bit in the layout)."""
        keys = bit << 32 | item // WORD_BITS
        distinct, place = np.unique(keys, return_inverse=True)
        masks = np.zeros(len(distinct), dtype=np.uint64)
        np.bitwise_or.at(masks, place, np.uint64(1) << (item % WORD_BITS).astype(np.uint64))
        bounds = np.searchsorted(distinct >> 32, np.arange(bits + 1))
        return Owners(bounds.astype(np.int32), (distinct & 0xFFFFFFFF).astype(np.int32), masks)


@dataclass(frozen=True, slots=True, eq=False)
class ItemBits:
    """The bits of all conjunctions of a stream's items.

    Attributes:
        tests: by attribute.
        begin: uint64 (words,), all of them: the bitmap before anything is tested.
        folded: int32, per bit behind the layout's words the bit of its item.
        owners: the items that every bit stands for; None where bits are those of the layout.
        item_words: words of the layout.
        stand_for: the items that every bit stands for, one by one.
    """

    tests: dict[str, list[BitTest]]
    begin: NDArray[np.uint64]
    folded: NDArray[np.int32]
    owners: Owners | None
    item_words: int
    stand_for: BitItems

    @staticmethod
    def of(layout: ItemLayout, places: Sequence[tuple[int, Plan]]) -> ItemBits:
        """Gives every conjunction of every item its bit.

        Args:
            layout: of the stream.
            places: queries (indices in `Catalog.plans`) with their plans.
        """
        distinct: dict[Any, int] = {}
        first: list[Conjunction] = []
        items: list[int] = []  # bits of the layout
        which: list[int] = []  # of the distinct conjunctions
        further: list[bool] = []  # whether the item has another conjunction before it
        for query, plan in places:
            begin, nulls = layout.bit(query, 0), _not_null_for(plan)
            for item in plan.items:
                for number, tests in enumerate(_alternatives(item)):
                    # hashing dataclasses and their kinds would cost ten times as much
                    key = (item.types, nulls[item.index], *[(test.attribute, id(test.kind), test.operator, test.values) for test in tests])
                    same = distinct.get(key, -1)
                    if same < 0:
                        same = distinct[key] = len(first)
                        first.append(_conjunction(item.types, nulls[item.index], tests))
                    items.append(begin + item.index)
                    which.append(same)
                    further.append(number > 0)
        own_items = np.array(items, dtype=np.int64)
        if len(items) > WORD_BITS and 2 * len(first) <= len(items):
            bits = np.array(which, dtype=np.int64)
            owners = Owners.of(bits, own_items, len(first))
            stand_for = BitItems.of(bits, own_items, len(first))
            tests_of = _tests(zip(first, range(len(first)), strict=True))
            return ItemBits(tests_of, _ones(np.arange(len(first))), np.zeros(0, np.int32), owners, layout.words, stand_for)
        behind = np.array(further, dtype=np.bool_)
        folded = own_items[behind]
        bits = own_items.copy()
        bits[behind] = layout.words * WORD_BITS + np.arange(len(folded))
        begin_words = np.zeros(layout.words + -(-len(folded) // WORD_BITS), dtype=np.uint64)
        ones = _ones(bits)
        begin_words[: len(ones)] = ones
        stand_for = BitItems.of(bits, own_items, len(begin_words) * WORD_BITS)
        tests_of = _tests((first[same], bit) for same, bit in zip(which, bits.tolist(), strict=True))
        return ItemBits(tests_of, begin_words, folded.astype(np.int32), None, layout.words, stand_for)

    def of_entries(self, places: NDArray[np.int64], bits: NDArray[np.int32], rows: int) -> NDArray[np.uint64]:
        """Bitmaps of items, uint64 (rows, words), from entries: the row and the bit of each."""
        bitmaps = np.zeros((rows, self.item_words), dtype=np.uint64)
        kernels.spread(places, bits, self.stand_for.bounds, self.stand_for.items, bitmaps)
        return bitmaps

    def of_items(self, bitmaps: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Bitmaps of conjunctions, uint64 (rows, words), as bitmaps of items."""
        if self.owners is not None:
            items = np.zeros((len(bitmaps), self.item_words), dtype=np.uint64)
            kernels.unite(bitmaps, self.owners.bounds, self.owners.words, self.owners.masks, items)
            return items
        if not len(self.folded):
            return bitmaps
        items = np.ascontiguousarray(bitmaps[:, : self.item_words])
        rest = np.ascontiguousarray(bitmaps[:, self.item_words :])
        size = rest.shape[1] * WORD_BITS
        shift = (np.arange(size) % WORD_BITS).astype(np.uint64)
        target = np.zeros(size, dtype=np.int32)
        target[: len(self.folded)] = self.folded
        kernels.repack(rest, np.uint64(1) << shift, shift, target, items)
        return items


def _tests(conjunctions_with_bits: Iterable[tuple[Conjunction, int]]) -> dict[str, list[BitTest]]:
    found: dict[str, list[BitTest]] = {}
    for conjunction, bit in conjunctions_with_bits:
        for test in conjunction:
            found.setdefault(test.attribute, []).append(BitTest(bit, test))
    return found


def _ones(bits: NDArray[np.int64]) -> NDArray[np.uint64]:
    """uint64 (words,) with these bits set; at least one word."""
    words = np.zeros(int(bits.max(initial=0)) // WORD_BITS + 1, dtype=np.uint64)
    np.bitwise_or.at(words, bits // WORD_BITS, np.uint64(1) << (bits % WORD_BITS).astype(np.uint64))
    return words


def conjunctions(plan: Plan, item: Item) -> Iterator[Conjunction]:
    """The tests of an item; several conjunctions where it has a disjunctive condition."""
    nulls = _not_null_for(plan)[item.index]
    for tests in _alternatives(item):
        yield _conjunction(item.types, nulls, tests)


def _alternatives(item: Item) -> Sequence[Conjunction]:
    return [(*item.tests, *alternative) for alternative in item.either] if item.either else (item.tests,)


def _not_null_for(plan: Plan) -> Sequence[tuple[str, ...]]:
    """By item the attributes that must not be null.

    An event whose equivalence attribute is null matches and prevents nothing. It may open a window, though: windows are cut before
    partitioning. To a temporal query a null key is a key.
    """
    opener = -1 if plan.runs is None or plan.runs.window is None else plan.runs.window.opener
    if plan.temporal is not None:
        return [()] * len(plan.items)
    return [() if item.index == opener else plan.equivalence for item in plan.items]


@lru_cache(maxsize=1024)
def _type_test(types: tuple[str, ...]) -> ConstantTest:
    return ConstantTest("type", Kind.STRING, "in", types)


def _conjunction(types: tuple[str, ...], not_null: tuple[str, ...], tests: Conjunction) -> Conjunction:
    own = (_type_test(types),) if types else ()
    return (*own, *tests, *(ConstantTest(attribute, Kind.STRING, "is not null") for attribute in not_null))
