"""From items of queries to tests that own bits.

An item is a conjunction of its type test, its constant tests, and "no equivalence attribute is null": one bit. An item with a disjunctive condition is
several such conjunctions: its own bit is the first of them, the others have bits behind those of the layout, and are folded into it afterwards.
Where queries have many items in common, a conjunction has one bit, however many items it is, and the items' bits are filled in afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc import kernels
from app.asc.layout import WORD_BITS, ItemLayout
from app.asc.regions import BitTest
from app.events.types import Kind
from app.query.plan import ConstantTest, Item, Plan

Conjunction = tuple[ConstantTest, ...]


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
    def of(pairs: Sequence[tuple[int, int]], bits: int) -> Owners:
        """From (bit, bit of an item in the layout)."""
        bit, item = np.array(pairs, dtype=np.int64).T
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
    """

    tests: dict[str, list[BitTest]]
    begin: NDArray[np.uint64]
    folded: NDArray[np.int32]
    owners: Owners | None
    item_words: int

    @staticmethod
    def of(layout: ItemLayout, places: Sequence[tuple[int, Plan]]) -> ItemBits:
        """Gives every conjunction of every item its bit.

        Args:
            layout: of the stream.
            places: queries (indices in `Catalog.plans`) with their plans.
        """
        found = [
            (layout.bit(query, item.index), number, conjunction)
            for query, plan in places
            for item in plan.items
            for number, conjunction in enumerate(conjunctions(plan, item))
        ]
        distinct: dict[Conjunction, int] = {}
        for _, _, conjunction in found:
            distinct.setdefault(conjunction, len(distinct))
        if len(found) > WORD_BITS and 2 * len(distinct) <= len(found):
            owners = Owners.of([(distinct[conjunction], bit) for bit, _, conjunction in found], len(distinct))
            return ItemBits(_tests(distinct.items()), _ones(range(len(distinct))), np.zeros(0, np.int32), owners, layout.words)
        behind = layout.words * WORD_BITS
        folded = [bit for bit, number, _ in found if number]
        bits = iter(range(behind, behind + len(folded)))
        own = [(conjunction, next(bits) if number else bit) for bit, number, conjunction in found]
        begin = np.zeros(layout.words + -(-len(folded) // WORD_BITS), dtype=np.uint64)
        ones = _ones([bit for _, bit in own])
        begin[: len(ones)] = ones
        return ItemBits(_tests(own), begin, np.array(folded, dtype=np.int32), None, layout.words)

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


def _ones(bits: Sequence[int]) -> NDArray[np.uint64]:
    """uint64 (words,) with these bits set; at least one word."""
    words = np.zeros(max(bits, default=0) // WORD_BITS + 1, dtype=np.uint64)
    places = np.array(bits, dtype=np.int64)
    np.bitwise_or.at(words, places // WORD_BITS, np.uint64(1) << (places % WORD_BITS).astype(np.uint64))
    return words


def conjunctions(plan: Plan, item: Item) -> Iterator[Conjunction]:
    """The tests of an item; several conjunctions where it has a disjunctive condition.

    An event whose equivalence attribute is null matches and prevents nothing. It may open a window, though: windows are cut before
    partitioning. To a temporal query a null key is a key.
    """
    opener = -1 if plan.runs is None or plan.runs.window is None else plan.runs.window.opener
    common = [ConstantTest("type", Kind.STRING, "in", item.types)] if item.types else []
    common += item.tests
    if item.index != opener and plan.temporal is None:
        common += [ConstantTest(attribute, Kind.STRING, "is not null") for attribute in plan.equivalence]
    for alternative in item.either or ((),):
        yield (*common, *alternative)
