"""Avro containers → pieces: their blocks go through the kernel that decodes Kafka's records, with the container's schema as the reader's, too.

What the kernel does not know (unions of several kinds, decimals of more than 64 bit, recursion) and broken containers are read by fastavro,
which also says what is wrong.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.errors import ConfigurationError
from app.events.avro import (
    AvroSchema,
    SchemaError,
    StreamDefinition,
    StreamRecords,
    merged_kind,
    parse_schema,
    stream_records,
    type_name,
    without_null,
)
from app.events.batch import NULL, Column, EventBatch
from app.events.interning import Interner
from app.events.kernels import Cells, Code, Records, decode_records
from app.events.learnt import Learnt, Piece
from app.events.program import TIME_COLUMN, TYPE_COLUMN, Layout, Program, TooGeneralError, compile_program, layout_of
from app.events.types import Kind
from app.files.reading import Reading
from app.files.row_files import FileFormat, Outcome, avro_rows

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
ROWS = 1 << 17
"""Records of a piece, about: a slice of matching. Blocks are not cut."""
READ_BYTES = 4 << 20


class OddContainerError(Exception):
    """A container, or a schema, that fastavro is to read."""


def avro_pieces(reading: Reading) -> Iterator[Piece]:
    """The pieces of a container."""
    try:
        # nothing was handed on before the first block is decoded; later ones go by rows from where they stand
        yield from _decoded(reading)
    except OddContainerError:
        with reading.file.stream() as stream:
            yield from reading.of_rows(_behind(reading, avro_rows(stream, reading.format)))


def _behind(reading: Reading, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Those that were not read yet, counted: the next file's lines go on behind them."""
    read = reading.lines
    for outcome in outcomes:
        line = outcome[0] if isinstance(outcome, tuple) else outcome.line
        if line >= read:
            reading.lines = line + 1
            yield outcome


def _decoded(reading: Reading) -> Iterator[Piece]:
    with reading.file.stream() as stream:
        container = Container.of(stream)
        decoder = ContainerDecoder.of(container.schema, reading.format)
        for blocks in container.blocks():
            piece = decoder.piece(blocks, reading.lines, reading.learnt)
            reading.lines += sum(count for count, _ in blocks)
            yield piece


def _snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)


def _zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return stream.read()


CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.decompress(data, -15),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}


@dataclass(slots=True)
class Container:
    """A container on its way.

    Attributes:
        schema: of its records.
    """

    schema: AvroSchema
    _stream: pa.NativeFile
    _unpack: Callable[[bytes], bytes]
    _sync: bytes
    _data: bytes
    _at: int

    @staticmethod
    def of(stream: pa.NativeFile) -> Container:
        """Reads the header.

        Raises:
            OddContainerError: there is none.
        """
        data = b""
        while True:
            more = _read(stream)
            data += more
            try:
                meta, sync, at = _header(data)
                break
            except IndexError as error:
                if not more:
                    raise OddContainerError from error
        try:
            schema = parse_schema(json.loads(meta["avro.schema"]))
            unpack = CODECS[meta.get("avro.codec", b"null").decode()]
        except (KeyError, ValueError, SchemaError) as error:
            raise OddContainerError from error
        return Container(schema, stream, unpack, sync, data, at)

    def blocks(self) -> Iterator[list[tuple[int, bytes]]]:
        """Blocks (records, their bytes), so many at a time as a piece has records for.

        Raises:
            OddContainerError: a block is broken.
        """
        gathered: list[tuple[int, bytes]] = []
        while self._more(24):
            count, size = self._number(), self._number()
            if count < 0 or size < 0 or not self._more(size + SYNC_BYTES):
                raise OddContainerError
            block = self._data[self._at : self._at + size]
            self._at += size + SYNC_BYTES
            if self._data[self._at - SYNC_BYTES : self._at] != self._sync:
                raise OddContainerError
            try:
                gathered.append((count, self._unpack(block)))
            except (zlib.error, OSError, lzma.LZMAError, ValueError, pa.ArrowInvalid) as error:
                raise OddContainerError from error
            if _records(gathered) >= ROWS:
                yield gathered
                gathered = []
        if gathered:
            yield gathered

    def _number(self) -> int:
        begin = _Bytes(self._data, self._at)
        try:
            number = begin.number()
        except IndexError as error:
            raise OddContainerError from error
        self._at = begin.at
        return number

    def _more(self, size: int) -> bool:
        """Reads on until so many bytes are there; whether there are any at all."""
        while len(self._data) - self._at < size:
            more = _read(self._stream)
            if not more:
                break
            self._data, self._at = self._data[self._at :] + more, 0
        return len(self._data) > self._at


def _records(blocks: list[tuple[int, bytes]]) -> int:
    return sum(count for count, _ in blocks)


def _read(stream: pa.NativeFile) -> bytes:
    try:
        return stream.read(READ_BYTES)
    except OSError as error:
        raise OddContainerError from error


def _header(data: bytes) -> tuple[dict[str, bytes], bytes, int]:
    """What a container says of itself, its marker, and where its blocks begin.

    Raises:
        OddContainerError: it is none.
        IndexError: there is more to be read.
    """
    begin = _Bytes(data)
    if begin.take(len(MAGIC)) != MAGIC:
        raise OddContainerError
    meta: dict[str, bytes] = {}
    while count := begin.number():
        if count < 0:
            begin.number()
        for _ in range(abs(count)):
            key = begin.take(begin.number()).decode(errors="replace")
            meta[key] = begin.take(begin.number())
    return meta, begin.take(SYNC_BYTES), begin.at


@dataclass(slots=True)
class _Bytes:
    """Bytes that are read one after the other."""

    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise IndexError
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        bits = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            bits |= (byte & 127) << shift
            if byte < 128:
                return (bits >> 1) ^ -(bits & 1)
            shift += 7


@dataclass(slots=True)
class ContainerDecoder:
    """Decodes blocks of one schema."""

    records: StreamRecords
    layout: Layout
    program: Program
    type_column: int
    _entries: NDArray[np.int64] | None = field(default=None)

    @staticmethod
    def of(schema: AvroSchema, file_format: FileFormat) -> ContainerDecoder:
        """A decoder of a container's records.

        Raises:
            OddContainerError: fastavro is to read it.
        """
        _require_plain(schema, file_format)
        own_type = any(entry["name"] == file_format.type_attribute for record in schema.records() for entry in record["fields"])
        if not own_type and file_format.type_attribute != "type":
            raise OddContainerError
        definition = StreamDefinition(
            "events", file_format.type_attribute if own_type else None, file_format.time_attribute, elements=file_format.elements
        )
        try:
            records = stream_records(definition, [schema])
            layout = layout_of(records)
            program = compile_program(schema, records, layout)
        except (ConfigurationError, SchemaError, TooGeneralError, RecursionError) as error:
            raise OddContainerError from error
        place = {leaf.path: leaf.attribute.name for leaf in records.types[0].leaves}.get(records.types[0].type_path or ())
        columns = [attribute.name for attribute in layout.attributes]
        return ContainerDecoder(records, layout, program, columns.index(place) + 2 if place in columns else TYPE_COLUMN)

    def piece(self, blocks: list[tuple[int, bytes]], first_line: int, learnt: Learnt) -> Piece:
        """The records of some blocks.

        Args:
            blocks: (records, bytes) of each.
            first_line: number of the first record.
            learnt: takes what the records teach.

        Raises:
            OddContainerError: one of them cannot be decoded here, or has no time or type; nothing was learnt then.
        """
        total = _records(blocks)
        sizes = np.array([len(data) for _, data in blocks], dtype=np.int64)
        counts = np.array([count for count, _ in blocks], dtype=np.int64)
        bounds = np.cumsum(sizes)
        starts = np.full(total, -1, dtype=np.int64)
        filled = counts > 0
        if bool((sizes[~filled] > 0).any()):
            raise OddContainerError
        starts[(np.cumsum(counts) - counts)[filled]] = (bounds - sizes)[filled]
        data = np.frombuffer(b"".join(data for _, data in blocks), dtype=np.uint8)
        cells, interner = self._decode(Records(data, starts, np.repeat(-bounds, counts), np.arange(total)))
        return self._piece(cells, interner, first_line, learnt)

    def _decode(self, records: Records) -> tuple[Cells, Interner]:
        total = len(records.rows)
        columns = self.layout.count
        cells = Cells(
            np.zeros((columns, total), dtype=np.int64),
            np.zeros((columns, total), dtype=np.uint8),
            np.zeros(columns, dtype=np.uint8),
            np.zeros(total, dtype=np.uint8),
        )
        interner, program = Interner(len(self.layout.texts), self._entries), self.program
        symbols = np.full(len(program.symbol_offsets) - 1, -1, dtype=np.int64)
        code = Code(program.code, program.jumps, program.symbol_data, program.symbol_offsets, symbols)
        done = 0
        while (done := decode_records(records, code, cells, interner.texts, done)) < total:
            interner.grow(int(-records.ends[done] - records.starts[done]) + len(program.symbol_data))
        if cells.failures.any() or any(cells.touched[column] and cells.states[column].any() for column in (TIME_COLUMN, self.type_column)):
            raise OddContainerError
        self._entries = interner.used.copy()
        return cells, interner

    def _piece(self, cells: Cells, interner: Interner, first_line: int, learnt: Learnt) -> Piece:
        kinds = {attribute.name: attribute.kind for attribute in self.layout.attributes}
        if any(
            learnt.known(name) not in (None, kind) and (learnt.known(name), kind) != (Kind.FLOAT, Kind.INTEGER)
            for name, kind in kinds.items()
        ):
            raise OddContainerError
        types = self._column(cells, interner, self.type_column)
        assert types.dictionary is not None  # noqa: S101 - a text column
        present = np.flatnonzero(np.bincount(types.values, minlength=len(types.dictionary)))
        entries = types.dictionary.entries()
        by_name = {record.name: [leaf.attribute.name for leaf in record.leaves] for record in self.records.types}
        first = next(iter(by_name.values()))
        learnt.shapes.update({(name, *by_name.get(name, first)): None for name in (entries[code].decode() for code in present.tolist())})
        learnt.kinds.update({name: kind for name, kind in kinds.items() if learnt.known(name) is None})
        columns = {attribute.name: self._column(cells, interner, k + 2) for k, attribute in enumerate(self.layout.attributes)}
        lines = np.arange(first_line, first_line + len(cells.failures), dtype=np.int64)
        batch = EventBatch(cells.values[TIME_COLUMN].copy(), np.zeros(len(lines), np.int64), lines, types, columns)
        return Piece(batch, lines)

    def _column(self, cells: Cells, interner: Interner, column: int) -> Column:
        kind, values = self.layout.kind(column), cells.values[column]
        state = np.where(cells.states[column] == 0, 0, NULL).astype(np.uint8) if cells.touched[column] else None
        state = state if state is not None and state.any() else None
        if kind.textual:
            codes = values if state is None else np.where(state == 0, values, 0)
            return Column(kind, codes.astype(np.int32), state, interner.dictionary(self.layout.texts[column]))
        return Column(kind, (values.view(np.float64) if kind is Kind.FLOAT else values).copy(), state)


def _require_plain(schema: AvroSchema, file_format: FileFormat) -> None:
    """Only what both ways read alike.

    Raises:
        OddContainerError: unions of several kinds, attributes with a meaning of their own, times in another unit.
    """
    if file_format.time_unit != "ms" or file_format.time_stays or file_format.type_name is not None or not schema.records():
        raise OddContainerError
    special = {"stream", "position"} | ({"time"} if file_format.time_attribute != "time" else set())
    for record in schema.records():
        _require_single_kinds(schema, record, special, ())


def _require_single_kinds(schema: AvroSchema, record: dict[str, Any], special: set[str], inside: tuple[str, ...]) -> None:
    if record["name"] in inside:
        raise OddContainerError
    for entry in record["fields"]:
        node, _ = without_null(schema, entry["type"])
        if entry["name"] in special or (isinstance(node, list) and merged_kind(schema, node) is None):
            raise OddContainerError
        if type_name(node) == "record" and isinstance(node, dict):
            _require_single_kinds(schema, node, set(), (*inside, record["name"]))
