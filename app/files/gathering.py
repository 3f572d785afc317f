"""Files of events → pieces in file order and what they teach: JSON lines, CSV, Avro containers, Parquet, Arrow; plain, gzip or zstd.

For `replay`, `produce`, training and tests. The line number (0-based; record number in Avro, Parquet and Arrow; counted on from file to
file) is the offset, unless a JSON line carries ``"position": [topic, partition, offset]``.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.errors import Finding, Location
from app.events.batch import PARTITION_BITS, PRESENT, Column, EventBatch, concatenate, empty_batch, take
from app.events.learnt import Learnt, Piece
from app.events.rows import column_of
from app.events.spool import HELD_BYTES, Spool
from app.events.types import Kind, StreamSchema
from app.files.arrow_files import arrow_pieces, parquet_pieces
from app.files.avro_files import avro_pieces
from app.files.csv_files import csv_pieces
from app.files.doubts import FileDoubts
from app.files.headers import json_hint, require_lines
from app.files.json_lines import LineReader
from app.files.opened import EventFile
from app.files.reading import Reading, Unreadable
from app.files.row_files import FileFormat, json_rows
from app.files.tabular import RereadError

Advance = Callable[[int], None]
"""Told how many events more were read."""


def unseen(events: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, eq=False)
class FileEvents:
    """The events of a file, or of several.

    Attributes:
        batch: in file order.
        schema: as the data has it (`inferred`); its stream is the file's name.
        lines: int64 (events,), 0-based line of each event.
        streams: text column of the streams that events name, null where they name none; None when none does.
        topics: of the positions in the file, sorted; `source_number` counts along them.
        positioned: bool (events,), which events have a position; None without ``topics``.
        skipped: number of unreadable lines left out.
        findings: the first of them.
    """

    batch: EventBatch
    schema: StreamSchema
    lines: NDArray[np.int64]
    streams: Column | None = None
    topics: tuple[str, ...] = ()
    positioned: NDArray[np.bool_] | None = None
    skipped: int = 0
    findings: tuple[Finding, ...] = ()

    def of_stream(self, stream: str, elsewhere: Collection[str] = ()) -> FileEvents:
        """Only the events that belong to a stream: those that name it, and those that name none and stood in no topic of others.

        Args:
            stream: its name.
            elsewhere: topics of other streams.
        """
        own = ~self._stood_in(elsewhere)
        if self.streams is not None and self.streams.dictionary is not None:
            named = np.array([entry == stream.encode() for entry in self.streams.dictionary.entries()], dtype=bool)[self.streams.values]
            own = named if self.streams.state is None else np.where(self.streams.state == PRESENT, named, own)
        if own.all():
            return self
        rows = np.flatnonzero(own)
        positioned = None if self.positioned is None else self.positioned[rows]
        return replace(self, batch=take(self.batch, rows), lines=self.lines[rows], streams=None, positioned=positioned)

    def _stood_in(self, topics: Collection[str]) -> NDArray[np.bool_]:
        """Which events have a position in one of some topics, bool (events,)."""
        numbers = [number for number, topic in enumerate(self.topics) if topic in topics]
        if self.positioned is None or not numbers:
            return np.zeros(len(self.batch), dtype=bool)
        return self.positioned & np.isin(self.batch.source >> PARTITION_BITS, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Files of events, read.

    Attributes:
        name: of the first one.
        pieces: in file order, not settled (`Learnt.settled`).
        learnt: what they teach.
        unreadable: what was left out.
        warnings: what is odd about the files without being an error.
        begins: of every file its first line, counted on from file to file, and its name.
    """

    name: str
    pieces: Spool
    learnt: Learnt
    unreadable: Unreadable
    begins: list[tuple[int, str]] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    def location(self, line: int) -> Location:
        """Where a line stands that is counted on from file to file."""
        first, name = next(((first, name) for first, name in reversed(self.begins) if first <= line), (0, self.name))
        return Location(name, line - first + 1, 1)

    @property
    def schema(self) -> StreamSchema:
        """As the data has it."""
        return self.learnt.schema(self.name)

    def whole(self) -> FileEvents:
        """All events in memory."""
        topics = tuple(sorted(self.learnt.topics))
        pieces = [self.learnt.settled(piece) for piece in self.pieces]
        lines = np.concatenate([np.zeros(0, np.int64), *(piece.lines for piece in pieces)])
        streams = _streams(pieces)
        batch = concatenate([piece.batch for piece in pieces]) if pieces else empty_batch()
        positioned = _positioned(pieces) if topics else None
        return FileEvents(batch, self.schema, lines, streams, topics, positioned, self.unreadable.count, tuple(self.unreadable.findings))


def _positioned(pieces: Sequence[Piece]) -> NDArray[np.bool_]:
    parts = (np.zeros(len(piece), dtype=bool) if piece.positioned is None else piece.positioned for piece in pieces)
    return np.concatenate([np.zeros(0, dtype=bool), *parts])


def _streams(pieces: Sequence[Piece]) -> Column | None:
    if all(piece.streams is None for piece in pieces):
        return None
    columns = [piece.streams or column_of([None] * len(piece), Kind.STRING) for piece in pieces]
    parts = [
        EventBatch(piece.batch.time, piece.lines, piece.lines, column, {"stream": column})
        for piece, column in zip(pieces, columns, strict=True)
    ]
    return concatenate(parts).columns["stream"]


def gather(
    files: Sequence[EventFile],
    formats: Mapping[EventFile, FileFormat] | FileFormat | None = None,
    advance: Advance = unseen,
    held_bytes: int = HELD_BYTES,
) -> Gathered:
    """Reads files of events, piece by piece.

    Args:
        files: in the order in which their lines are counted.
        formats: how to read each of them.
        advance: told about progress.
        held_bytes: what pieces may take in memory; more go to a temporary file.

    Raises:
        FindingsError: unreadable lines, each with its number, unless they are to be skipped.
        OSError: a file cannot be read.
    """
    known = formats if isinstance(formats, Mapping) else dict.fromkeys(files, formats or FileFormat())
    textual: frozenset[str] = frozenset()
    while True:
        spool = Spool(held_bytes)
        first = next(iter(known.values()), FileFormat())
        gathered = Gathered(files[0].path.name if files else "events", spool, Learnt(first.kinds, dict(first.kinds)), Unreadable())
        try:
            _read_all(files, known, textual, gathered, advance)
        except RereadError as error:
            textual |= error.names
            continue
        if first.on_error == "stop":
            gathered.unreadable.stop()
        return gathered


def _read_all(
    files: Sequence[EventFile], formats: Mapping[EventFile, FileFormat], textual: frozenset[str], gathered: Gathered, advance: Advance
) -> None:
    base = 0
    for file in files:
        gathered.begins.append((base, file.name))
        doubts = FileDoubts(file.name, formats[file].time_unit)
        reading = Reading(file, formats[file], gathered.learnt, gathered.unreadable, textual, doubts)
        for piece in READERS[file.kind](reading):
            gathered.pieces.add(_counted_on(piece, base))
            doubts.add_times(piece.batch.time)
            advance(len(piece))
        base += reading.lines
        gathered.warnings.extend(doubts.findings())


def _counted_on(piece: Piece, base: int) -> Piece:
    """The piece with lines that go on behind those of the files before."""
    if not base:
        return piece
    batch, lines = piece.batch, piece.lines + base
    offset = lines if piece.positioned is None else np.where(piece.positioned, batch.offset, lines)
    return replace(piece, batch=EventBatch(batch.time, batch.source, offset, batch.type, batch.columns), lines=lines)


def _json_pieces(reading: Reading) -> Iterator[Piece]:
    chosen = reading.format
    reader = LineReader(chosen)
    for block in reading.file.blocks():
        yield from _json_block(reading, reader, block if reading.lines else block.removeprefix(BOM_UTF8))


def _json_block(reading: Reading, reader: LineReader, block: bytes) -> Iterator[Piece]:
    first = reading.lines
    reading.lines += block.count(b"\n") + (not block.endswith(b"\n"))
    piece = reader.read(block, first, reading.learnt)
    if piece is not None:
        yield piece
        return
    if not first:
        if reading.format.on_error == "stop":
            require_lines(reading.file, block)
        reading.hint = json_hint(reading.file, block)
    yield from reading.of_rows(json_rows(block, reading.format, first))


READERS: Mapping[str, Callable[[Reading], Iterator[Piece]]] = {
    "json": _json_pieces,
    "csv": csv_pieces,
    "avro": avro_pieces,
    "parquet": parquet_pieces,
    "arrow": arrow_pieces,
}


def read_events(path: Path, file_format: FileFormat | None = None) -> FileEvents:
    """All events of a file, whatever its format (by its name, see `app.files.opened`), in memory.

    Raises:
        FindingsError: unreadable lines, each with its number, unless they are to be skipped.
        OSError: the file cannot be read.
    """
    return gather([EventFile.of(path)], file_format).whole()


def parse_events(text: bytes, file_format: FileFormat | None = None, name: str = "events.jsonl") -> FileEvents:
    """The events of JSON lines in memory; `name` stands in findings."""
    chosen = file_format or FileFormat()
    file = EventFile(name, Path(name), "json")
    gathered = Gathered(Path(name).name, Spool(), Learnt(chosen.kinds, dict(chosen.kinds)), Unreadable())
    reading = Reading(file, chosen, gathered.learnt, gathered.unreadable)
    reader = LineReader(chosen)
    for piece in _json_block(reading, reader, text):
        gathered.pieces.add(piece)
    if chosen.on_error == "stop":
        gathered.unreadable.stop()
    return gathered.whole()
