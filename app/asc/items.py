"""From items of queries to tests that own bits.

An item is a conjunction of its type test, its constant tests, and "no equivalence attribute is null": one bit. An item with a disjunctive condition is
several such conjunctions: its own bit is the first of them, the others have bits behind those of the layout, and are folded into it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc import kernels
from app.asc.layout import WORD_BITS, ItemLayout
from app.asc.regions import BitTest
from app.events.types import Kind
from app.query.plan import ConstantTest, Item, Plan


@dataclass(frozen=True, slots=True, eq=False)
class ItemBits:
    """The bits of all conjunctions of a stream's items.

    Attributes:
        tests: by attribute.
        begin: uint64 (words,), all of them: the bitmap before anything is tested.
        folded: int32, per bit behind the layout's words the bit of its item.
        item_words: words of the layout.
    """

    tests: dict[str, list[BitTest]]
    begin: NDArray[np.uint64]
    folded: NDArray[np.int32]
    item_words: int

    @staticmethod
    def of(layout: ItemLayout, places: Sequence[tuple[int, Plan]]) -> ItemBits:
        """Gives every conjunction of every item its bit.

        Args:
            layout: of the stream.
            places: queries (indices in `Catalog.plans`) with their plans.
        """
        tests: dict[str, list[BitTest]] = {}
        own: list[int] = []
        folded: list[int] = []
        for query, plan in places:
            for item in plan.items:
                bit = layout.bit(query, item.index)
                own.append(bit)
                for number, conjunction in enumerate(conjunctions(plan, item)):
                    if number:
                        folded.append(bit)
                    place = bit if number == 0 else layout.words * WORD_BITS + len(folded) - 1
                    for test in conjunction:
                        tests.setdefault(test.attribute, []).append(BitTest(place, test))
        begin = np.zeros(layout.words + -(-len(folded) // WORD_BITS), dtype=np.uint64)
        bits = np.array([*own, *(layout.words * WORD_BITS + k for k in range(len(folded)))], dtype=np.int64)
        np.bitwise_or.at(begin, bits // WORD_BITS, np.uint64(1) << (bits % WORD_BITS).astype(np.uint64))
        return ItemBits(tests, begin, np.array(folded, dtype=np.int32), layout.words)

    def of_items(self, bitmaps: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Bitmaps of conjunctions, uint64 (rows, words), as bitmaps of items."""
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


def conjunctions(plan: Plan, item: Item) -> Iterator[list[ConstantTest]]:
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
        yield [*common, *alternative]
