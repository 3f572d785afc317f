"""Pieces of events kept until they are wanted: in memory while they are few, else in a temporary file, so that memory does not grow with the input."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from app.events.batch import Column
from app.events.learnt import Piece

HELD_BYTES = 128 << 20
"""What pieces may take in memory: some two million events. More go to the folder for temporary files (TMPDIR), 50 to 100 bytes each."""


@dataclass(frozen=True, slots=True)
class Span:
    """The times that a piece covers, ms, both included."""

    first_ms: int
    last_ms: int


class Spool:
    """Pieces in the order in which they were added.

    Attributes:
        spans: the times of every piece.
        events: in all pieces.
        named: whether events name streams.

    Args:
        held_bytes: what may be in memory.
    """

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._limit = held_bytes
        self.clear()

    def clear(self) -> None:
        """Forgets all pieces."""
        self._held: list[Piece] = []
        self._bytes = 0
        self._held_bytes = self._limit
        self._file: BinaryIO | None = None
        self._places: list[int] = []
        self.spans: list[Span] = []
        self.events = 0
        self.named = False

    def add(self, piece: Piece) -> None:
        """Keeps a piece.

        Raises:
            OSError: no room for temporary files.
        """
        if not len(piece):
            return
        self.spans.append(Span(int(piece.batch.time.min()), int(piece.batch.time.max())))
        self.events += len(piece)
        self.named |= piece.streams is not None
        self._held.append(piece)
        self._bytes += size_of(piece)
        if self._bytes > self._held_bytes:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="cep-events-")  # noqa: SIM115 - it lives as long as the spool, and nameless
        self._file.seek(0, 2)
        for piece in self._held:
            self._places.append(self._file.tell())
            pickle.dump(piece, self._file, protocol=5)
        # from now on one piece at a time
        self._held, self._bytes, self._held_bytes = [], 0, 0

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, number: int) -> Piece:
        if self._file is None:
            return self._held[number]
        self._file.seek(self._places[number])
        piece: Piece = pickle.load(self._file)  # noqa: S301 - see above
        return piece

    def __iter__(self) -> Iterator[Piece]:
        return (self[number] for number in range(len(self)))


def size_of(piece: Piece) -> int:
    """Bytes of a piece's arrays."""
    columns = [piece.batch.type, *piece.batch.columns.values(), *([] if piece.streams is None else [piece.streams])]
    return 24 * len(piece) + piece.lines.nbytes + sum(_column_bytes(column) for column in columns)


def _column_bytes(column: Column) -> int:
    texts = 0 if column.dictionary is None else column.dictionary.data.nbytes + column.dictionary.offsets.nbytes
    return column.values.nbytes + texts + (0 if column.state is None else column.state.nbytes)
