"""Which bit of the result bitmap stands for which item of which query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from app.query.plan import Catalog, Plan, QueryGroup

WORD_BITS = 64


@dataclass(frozen=True, slots=True)
class GroupWords:
    """The words of the result bitmap that hold the items of one query group; the first and last may be shared with neighbours.

    Attributes:
        first: number of the first word.
        masks: one 64-bit mask per word, the bits that belong to the group.
    """

    first: int
    masks: tuple[int, ...]

    @property
    def stop(self) -> int:
        """Number of the word after the last one."""
        return self.first + len(self.masks)


@dataclass(frozen=True)
class ItemLayout:
    """The places of all items of all queries that read one stream.

    Queries of one group lie next to each other, and no query straddles two words, so that an event's candidate items
    of a query are one shift and one mask away.

    Attributes:
        queries: indices into `Catalog.plans`, in order of their bits.
        word: per entry of ``queries`` the word that holds its items.
        shift: per entry of ``queries`` the bit of its item 0 inside that word.
        items: per entry of ``queries`` its number of items.
        place: by query its place in ``queries``.
        groups: by number of the query group its words.
    """

    stream: str
    queries: tuple[int, ...]
    word: tuple[int, ...]
    shift: tuple[int, ...]
    items: tuple[int, ...]
    place: dict[int, int]
    groups: dict[int, GroupWords]
    names: tuple[tuple[str, str], ...]
    """Per entry of ``queries`` its name and fingerprint."""

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal layouts of equal queries: bitmaps made under one can be read under the other."""
        identity = [(*name, *place) for name, *place in zip(self.names, self.word, self.shift, self.items, strict=True)]
        return sha256(repr(identity).encode()).hexdigest()[:16]

    @cached_property
    def words(self) -> int:
        """Words per event, at least one."""
        return max((place + 1 for place in self.word), default=1)

    @cached_property
    def first_bits(self) -> NDArray[np.int64]:
        """int64 (queries,), by place the bit of the query's item 0."""
        return WORD_BITS * np.array(self.word, np.int64) + np.array(self.shift, np.int64)

    @cached_property
    def places_of_bits(self) -> NDArray[np.int32]:
        """int32 (bits,), the place of the query that owns a bit, -1 where none does."""
        sizes = np.array(self.items, np.int64)
        found = np.full(WORD_BITS * self.words, -1, np.int32)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found[within + np.repeat(self.first_bits, sizes)] = np.repeat(np.arange(len(sizes)), sizes)
        return found

    def bit(self, query: int, item: int) -> int:
        """The bit of an item of the query with this index in `Catalog.plans`."""
        place = self.place[query]
        return self.word[place] * WORD_BITS + self.shift[place] + item

    def own_words(self, query: int) -> NDArray[np.uint64]:
        """uint64 (words,): the bits that belong to one query."""
        place = self.place[query]
        own = np.zeros(self.words, dtype=np.uint64)
        own[self.word[place]] = ((1 << self.items[place]) - 1) << self.shift[place]
        return own

    def item_words(self, query: int, item: int) -> NDArray[np.uint64]:
        """uint64 (words,): the bit of one item of a query."""
        words = np.zeros(self.words, dtype=np.uint64)
        words[self.word[self.place[query]]] = 1 << self.shift[self.place[query]] + item
        return words

    def negated_words(self, query: int, plan: Plan) -> NDArray[np.uint64]:
        """uint64 (words,): the bits of the query's negated items."""
        negated = (self.item_words(query, item.index) for item in plan.items if item.negated)
        return sum(negated, np.zeros(self.words, dtype=np.uint64))

    def staying_words(self, query: int, plan: Plan) -> NDArray[np.uint64]:
        """uint64 (words,): the bits of the query's items of which no event may be dropped."""
        return self.negated_words(query, plan) if plan.staying else np.zeros(self.words, dtype=np.uint64)

    @staticmethod
    def of(catalog: Catalog, stream: str | None) -> ItemLayout:
        """Lays out the items of all queries of the catalog that read the stream (None: of all queries)."""
        return _laid_out(catalog, stream or "", [group for group in catalog.groups if stream is None or stream in group.streams])

    @staticmethod
    def of_group(catalog: Catalog, group: QueryGroup) -> ItemLayout:
        """Lays out the items of one query group alone: how its events travel and wait, whatever stream they came from."""
        return _laid_out(catalog, "+".join(group.streams), [group])


def _laid_out(catalog: Catalog, stream: str, members: list[QueryGroup]) -> ItemLayout:
    places: list[tuple[int, int, int, int]] = []
    groups: dict[int, GroupWords] = {}
    bit = 0
    for group in members:
        masks: dict[int, int] = {}
        for query in group.queries:
            size = len(catalog.plans[query].items)
            if bit % WORD_BITS + size > WORD_BITS:
                bit += WORD_BITS - bit % WORD_BITS
            word, shift = divmod(bit, WORD_BITS)
            places.append((query, word, shift, size))
            masks[word] = masks.get(word, 0) | (((1 << size) - 1) << shift)
            bit += size
        groups[group.number] = GroupWords(min(masks), tuple(masks.get(word, 0) for word in range(min(masks), max(masks) + 1)))
    queries, words, shifts, items = zip(*places, strict=True) if places else ((), (), (), ())
    names = tuple((catalog.plans[query].name, catalog.plans[query].fingerprint) for query in queries)
    return ItemLayout(stream, queries, words, shifts, items, {query: k for k, query in enumerate(queries)}, groups, names)
