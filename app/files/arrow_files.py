"""Parquet and Arrow (Feather) files → pieces: their columns are taken as they are, row groups and batches one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import feather, ipc

from app.errors import Finding, FindingsError, Location
from app.events.batch import NULL, Column, Dictionary
from app.events.learnt import Piece
from app.events.rows import TIME_FACTORS
from app.events.types import Kind
from app.files.reading import Reading
from app.files.row_files import row_outcomes
from app.files.tabular import tabular_piece

ROWS = 1 << 17
"""Of a piece: a slice of matching."""


def parquet_pieces(reading: Reading) -> Iterator[Piece]:
    """The pieces of a Parquet file. Decoded in one thread; texts stay dictionary-encoded as they are in the file."""
    with _finding(reading), reading.file.seekable() as source:
        schema = pq.read_schema(source)
        texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
        source.seek(0)
        file = pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False)
        yield from _pieces(file.iter_batches(ROWS, use_threads=False), reading)


def arrow_pieces(reading: Reading) -> Iterator[Piece]:
    """The pieces of an Arrow file (Feather 2), or of a stream of Arrow batches; Feather 1 is read at once."""
    with _finding(reading), reading.file.seekable() as source:
        start = source.read(6)
        source.seek(0)
        if start.startswith(b"FEA1"):
            yield from _pieces(feather.read_table(source, use_threads=False).to_batches(ROWS), reading)
        elif start == b"ARROW1":
            file = ipc.open_file(source, options=ipc.IpcReadOptions(use_threads=False))
            yield from _pieces(_cut(file.get_batch(k) for k in range(file.num_record_batches)), reading)
        else:
            yield from _pieces(_cut(ipc.open_stream(source, options=ipc.IpcReadOptions(use_threads=False))), reading)


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of constant size at most, whatever the writer's were."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            yield batch.slice(start, ROWS)


@contextmanager
def _finding(reading: Reading) -> Iterator[None]:
    """What Arrow cannot read is told as a finding at the record that was to come."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        kind = "Parquet" if reading.file.kind == "parquet" else "Arrow"
        message = f"no {kind} file, or a broken one: {str(error).splitlines()[0]}"
        raise FindingsError([Finding(message, Location(reading.file.name, reading.lines + 1, 1))]) from error


def _pieces(batches: Iterable[pa.RecordBatch], reading: Reading) -> Iterator[Piece]:
    for batch in batches:
        first = reading.lines
        reading.lines += batch.num_rows
        columns = _columns(batch)
        lines = np.arange(first, first + batch.num_rows, dtype=np.int64)
        piece = None if columns is None else tabular_piece(columns, lines, reading.format, reading.learnt)
        if piece is not None:
            yield piece
        else:
            yield from reading.of_rows(row_outcomes(batch.to_pylist(), first, reading.format))


def _columns(batch: pa.RecordBatch) -> dict[str, Column | None] | None:
    """The columns by name, those of nested records by dotted names; None where one is of a type that only single values tell about."""
    found: dict[str, Column | None] = {}
    for name, array in _leaves(batch):
        if pa.types.is_null(array.type) or (array.null_count == len(array) and len(array)):
            found[name] = None
            continue
        if any(is_type(array.type) for is_type in LEFT_OUT):
            continue
        column = _column(array)
        if column is None:
            return None
        found[name] = column
    return found if len(set(found)) == len(found) else None


def _leaves(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    for field, array in zip(batch.schema, batch.columns, strict=True):
        yield from _under(field.name, array)


def _under(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(array.type):
        yield name, array
        return
    # flatten() makes cells of null records null
    for field, inner in zip(array.type, array.flatten(), strict=True):
        yield from _under(f"{name}.{field.name}", inner)


def _column(array: pa.Array) -> Column | None:
    """An array as a column of events; None for types that are none."""
    make = next((make for is_type, make in MAKERS if is_type(array.type)), None)
    if make is None:
        return None
    state = None
    if array.null_count:
        state = np.where(np.asarray(array.is_valid()), 0, NULL).astype(np.uint8)
    return make(array, state)


def _whole(array: pa.Array, state: NDArray[np.uint8] | None) -> Column | None:
    try:
        return Column(Kind.INTEGER, _values(pc.cast(array, pa.int64()), 0), state)
    except pa.ArrowInvalid:
        # unsigned and beyond 63 bit
        return Column(Kind.FLOAT, _values(pc.cast(array, pa.float64(), safe=False), 0.0), state)


def _real(array: pa.Array, state: NDArray[np.uint8] | None) -> Column:
    return Column(Kind.FLOAT, _values(pc.cast(array, pa.float64(), safe=False), 0.0), state)


def _truth(array: pa.Array, state: NDArray[np.uint8] | None) -> Column:
    return Column(Kind.BOOLEAN, _values(pc.cast(array, pa.int64()), 0), state)


def _time(array: pa.Array, state: NDArray[np.uint8] | None) -> Column:
    # downwards, as everywhere: a cast would round towards zero
    unit = "ms" if pa.types.is_date(array.type) else array.type.unit
    own = pa.timestamp("ms") if pa.types.is_date(array.type) else pa.timestamp(unit)
    raw = _values(pc.cast(pc.cast(array, own), pa.int64()), 0)
    multiplier, divisor = TIME_FACTORS[unit]
    return Column(Kind.TIME, raw * multiplier // divisor, state)


def _text(array: pa.Array, state: NDArray[np.uint8] | None) -> Column:
    kind = Kind.BYTES if _is_bytes(array.type) else Kind.STRING
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    entries = pc.cast(encoded.dictionary, pa.large_binary())
    offsets = np.frombuffer(entries.buffers()[1], dtype=np.int64)[entries.offset : entries.offset + len(entries) + 1]
    data = np.frombuffer(entries.buffers()[2] or b"", dtype=np.uint8)
    codes = _values(pc.cast(encoded.indices, pa.int32()), 0)
    return Column(kind, codes, state, Dictionary(data, offsets))


def _values(array: pa.Array, missing: float) -> NDArray:
    return np.asarray(pc.fill_null(array, missing) if array.null_count else array)


def _is_bytes(kind: pa.DataType) -> bool:
    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_binary(own) or pa.types.is_large_binary(own) or pa.types.is_fixed_size_binary(own)


def _is_text(kind: pa.DataType) -> bool:
    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(own) or pa.types.is_large_string(own) or _is_bytes(own)


LEFT_OUT = (pa.types.is_list, pa.types.is_large_list, pa.types.is_map, pa.types.is_time, pa.types.is_duration)
"""Types of columns that are no attributes."""
MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, NDArray[np.uint8] | None], Column | None]], ...] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _real),
    (pa.types.is_decimal, _real),
    (pa.types.is_boolean, _truth),
    (pa.types.is_timestamp, _time),
    (pa.types.is_date, _time),
    (_is_text, _text),
)
