"""What a query group was fed of late, and what was shed of it: tombstones, and beside them the events that were kept, so that a match can be looked for again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.events.batch import EventBatch, concatenate, empty_batch, first_of_each, take

NEVER = -(1 << 62)
FOREVER = (1 << 63) - 1

PIECE_BYTES = 8_000
"""What a piece takes beside its events: arrays, columns and dictionaries (measured: 8.6 kB with four columns)."""
TOGETHER = 8
"""Pieces that become one: with a piece for every step of a slow stream, memories of a day had 19,000 of them, 180 MB where 17 were believed, and a look at all of them took 5 ms of every step."""
SMALL = (64, 512, 4096)
"""Pieces of fewer events than one of these are put together with others that are as small."""

Kind = Literal["fed", "shed"]
"""What became of events."""
KeysOf = Callable[[EventBatch], tuple[NDArray[np.uint64], NDArray[np.bool_]]]
"""Partition keys of events as hashes, uint64 (events,); and whether an event belongs to every key, bool (events,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Recalled:
    """Events in total order.

    Attributes:
        kept: uint64 (events, words), the items that each was fed as.
        shed: uint64 (events, words), the items that were taken from it.
    """

    batch: EventBatch
    kept: NDArray[np.uint64]
    shed: NDArray[np.uint64]


class Piece:
    """Events that came together: what was fed in one step of a bucket, or what was shed of a task's events.

    Args:
        number: counts the pieces of a memory.
        bitmaps: uint64 (events, words), the items that each was fed as, or those that were taken from it.
        kind: what became of them.
    """

    def __init__(self, number: int, batch: EventBatch, bitmaps: NDArray[np.uint64], keys_of: KeysOf, kind: Kind) -> None:
        self.number, self.batch, self.bitmaps, self.kind = number, batch, bitmaps, kind
        self.first_ms, self.last_ms = int(batch.time.min()), int(batch.time.max())
        self.words: NDArray[np.uint64] = np.bitwise_or.reduce(bitmaps, axis=0)
        self._keys_of = keys_of

    @cached_property
    def bytes(self) -> int:
        """Memory, about."""
        columns = [self.batch.type, *self.batch.columns.values()]
        texts = sum(int(np.diff(column.dictionary.offsets).sum()) for column in columns if column.dictionary is not None)
        return PIECE_BYTES + len(self.batch) * (40 + 9 * len(columns)) + self.bitmaps.nbytes + texts

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.uint64], NDArray[np.intp], NDArray[np.intp]]:
        """Keys, ascending; where each stands; and the events that belong to every key."""
        keys, everywhere = self._keys_of(self.batch)
        own = np.flatnonzero(~everywhere)
        order = own[np.argsort(keys[own], kind="stable")]
        return keys[order], order, np.flatnonzero(everywhere)

    def rows(self, keys: NDArray[np.uint64], first_ms: int, last_ms: int) -> NDArray[np.intp]:
        """Places of the events of these keys, of which the times are between these, both included."""
        sorted_keys, order, everywhere = self._sorted
        starts, stops = np.searchsorted(sorted_keys, keys, "left"), np.searchsorted(sorted_keys, keys, "right")
        found = [order[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True) if stop > start]
        rows = np.concatenate([*found, everywhere])
        times = self.batch.time[rows]
        return rows[(times >= first_ms) & (times <= last_ms)]


class Memory:
    """The events of one query group for as long as a match can span, at most so many bytes.

    Args:
        words: of the group's bitmaps.
        keys_of: how its events are partitioned.
        most_bytes: what is more is forgotten, the oldest first.
    """

    def __init__(self, words: int, keys_of: KeysOf, most_bytes: int) -> None:
        self._words, self._keys_of, self._most = words, keys_of, most_bytes
        self._pieces: dict[Kind, list[Piece]] = {"fed": [], "shed": []}
        """In the order in which they came."""
        self._bytes = 0
        self._next = 0
        self.whole_from_ms = NEVER
        """Events from then on are all here."""
        self.shed_before_ms = NEVER
        """Events that were shed earlier may have been forgotten."""
        self.blind = False
        """Engines may hold events that were never remembered."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """In the order in which the newest events of each came."""
        return sorted([*self._pieces["fed"], *self._pieces["shed"]], key=lambda piece: piece.number)

    @property
    def knows_of_shedding(self) -> bool:
        """Whether events were shed, as far as is known."""
        return self.shed_before_ms > NEVER or bool(self._pieces["shed"])

    @property
    def last_ms(self) -> int:
        """The greatest time of an event that is known to be fed or shed, or a later one where not all are remembered."""
        return max([self.last_fed_ms, *(piece.last_ms for piece in self._pieces["shed"])])

    @property
    def last_shed_ms(self) -> int:
        """The greatest time of an event that is known to be shed."""
        return max([self.shed_before_ms - 1, *(piece.last_ms for piece in self._pieces["shed"])])

    @property
    def last_fed_ms(self) -> int:
        """The greatest time of an event that was fed, or a later one where not all are remembered."""
        return max([self.whole_from_ms - 1, *(piece.last_ms for piece in self._pieces["fed"])])

    def add(self, batch: EventBatch, bitmaps: NDArray[np.uint64], kind: Kind, number: int | None = None) -> None:
        """Remembers events.

        Args:
            batch: events, of which each may be fed once and shed once: for other items.
            bitmaps: uint64 (events, words), the items that they were fed as, or that were taken from them.
            kind: which of these.
            number: of the piece, where one is taken over.
        """
        if not len(batch):
            return
        piece = Piece(self._next if number is None else number, batch, bitmaps, self._keys_of, kind)
        self._next = piece.number + 1
        self._pieces[kind].append(piece)
        self._bytes += piece.bytes
        self._put_together(kind)
        self.hold(self._most)

    def hold(self, most_bytes: int) -> None:
        """No more than this, from now on."""
        self._most = most_bytes
        while self._bytes > self._most and (oldest := [own[0] for own in self._pieces.values() if own]):
            gone = min(oldest, key=lambda piece: piece.last_ms)
            self._pieces[gone.kind].pop(0)
            self._bytes -= gone.bytes
            self.whole_from_ms = max(self.whole_from_ms, gone.last_ms + 1)
            if gone.kind != "fed":
                self.shed_unknown(gone.last_ms)

    def forget(self, before_ms: int) -> None:
        """Lets pieces go that hold earlier events only: nobody asks of then any more."""
        if self.shed_before_ms <= before_ms:
            self.shed_before_ms = NEVER
        for kind, own in self._pieces.items():
            if own and own[0].last_ms < before_ms:  # they come about in order: the others are looked at when the first one goes
                self._bytes -= sum(piece.bytes for piece in own if piece.last_ms < before_ms)
                self._pieces[kind] = [piece for piece in own if piece.last_ms >= before_ms]

    def shed_unknown(self, until_ms: int) -> None:
        """Events of up to this time were shed, and are not remembered."""
        self.shed_before_ms = max(self.shed_before_ms, until_ms + 1)

    def begin(self, at_ms: int) -> None:
        """Nothing is known of what was before."""
        self.whole_from_ms = max(self.whole_from_ms, at_ms)

    def touched(self, own: NDArray[np.uint64]) -> bool:
        """Whether something is remembered to be shed of these items, uint64 (words,)."""
        return any((piece.words & own).any() for piece in self._pieces["shed"])

    def recall(self, keys: NDArray[np.uint64], first_ms: int, last_ms: int, kind: Kind | None = None) -> Recalled:
        """The events of these keys and times, both ends included.

        Args:
            keys: uint64, each once.
            first_ms: of the earliest event.
            last_ms: of the latest one.
            kind: only of this one.
        """
        parts = [
            (piece, piece.rows(keys, first_ms, last_ms))
            for own in ("fed", "shed")
            for piece in self._pieces[own]
            if piece.first_ms <= last_ms and piece.last_ms >= first_ms and kind in (None, own)
        ]
        parts = [(piece, rows) for piece, rows in parts if len(rows)]
        if not parts:
            nothing = np.zeros((0, self._words), dtype=np.uint64)
            return Recalled(empty_batch(), nothing, nothing)
        batch = concatenate([take(piece.batch, rows) for piece, rows in parts])
        bitmaps = np.concatenate([piece.bitmaps[rows] for piece, rows in parts])
        hidden = np.concatenate([np.full(len(rows), piece.kind == "shed") for piece, rows in parts])[:, None]
        order = batch.total_order()
        fresh = first_of_each(batch, order)
        starts = np.flatnonzero(fresh)
        kept = np.bitwise_or.reduceat(np.where(hidden, np.uint64(0), bitmaps)[order], starts, axis=0)
        shed = np.bitwise_or.reduceat(np.where(hidden, bitmaps, np.uint64(0))[order], starts, axis=0)
        return Recalled(take(batch, order[fresh]), kept, shed)

    def _put_together(self, kind: Kind) -> None:
        """Small pieces that came one after the other become larger ones, eight at a time: every event is copied once per size."""
        own = self._pieces[kind]
        for size in SMALL:
            last = list(takewhile(lambda piece: len(piece.batch) < size, reversed(own)))[::-1]  # noqa: B023 - used at once
            taken = sum(piece.bytes for piece in last)
            small = taken - (len(last) - 1) * PIECE_BYTES <= self._most // 4  # what is dropped for room must not be nearly all
            if len(last) < TOGETHER or not small:
                continue
            batch, bitmaps = concatenate([piece.batch for piece in last]), np.concatenate([piece.bitmaps for piece in last])
            one = Piece(last[-1].number, batch, bitmaps, self._keys_of, kind)
            own[-len(last) :] = [one]
            self._bytes += one.bytes - taken
