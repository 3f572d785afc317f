"""CSV files, block by block: cells → integers, floats, booleans or text, by column. Empty cells are null, columns without a name are left out.

Two ways with the same outcome: `csv_columns` by Arrow for plain files, `csv_rows` row by row for those that need care. An empty text is
written as null is: where a schema requires a text, it is one.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from app.events.batch import NULL, PRESENT, Column, Dictionary, EventBatch
from app.events.learnt import Piece, nothing_of
from app.events.rows import KINDS, NUMBERS, column_of
from app.events.types import Kind
from app.files.headers import require_header
from app.files.opened import EventFile
from app.files.reading import Reading
from app.files.row_files import FileFormat, csv_outcomes
from app.files.tabular import RereadError, tabular_piece

NO_NUMBER = r"^(-?0[\dxX]|[^\d.-]|.*[_\s])"
"""What Python would take for a number, but is an identifier or a word: ``007``, ``0x1F``, ``+49``, ``1_000``, ``nan``, ``infinity``."""
BOOLEANS: Mapping[str, bool] = {"true": True, "True": True, "false": False, "False": False}
_no_number = re.compile(NO_NUMBER)


def csv_columns(data: bytes, textual: frozenset[str], separator: str = ",") -> dict[str, Column | None] | None:
    """All columns of a file, row 0 being line 1; None stands for a column of empty cells.

    Args:
        data: of the file, with a header row.
        textual: columns that are text whatever they look like.
        separator: between columns.

    Returns:
        None if the file has rows of another width, rows of several lines, blank lines, columns of one name, or is no UTF-8.
    """
    options = arrow_csv.ReadOptions(use_threads=False, block_size=max(1 << 20, len(data) + 1))
    parsing = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=False, ignore_empty_lines=False)
    header = _header(data, separator)
    named = {name: k for k, name in enumerate(header) if name}
    if not header or len(named) + header.count("") < len(header) or b"\r" in data.replace(b"\r\n", b"\n"):
        return None
    converting = arrow_csv.ConvertOptions(column_types=dict.fromkeys(header, pa.large_string()), strings_can_be_null=False)
    try:
        table = arrow_csv.read_csv(pa.BufferReader(data), options, parsing, converting)
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    if table.column_names != header or table.num_rows != data.count(b"\n") - (data.endswith(b"\n") is True):
        return None
    return {name: _column(table.column(k).combine_chunks(), text=name in textual) for name, k in named.items()}


def _header(data: bytes, separator: str) -> list[str]:
    first = data[: data.find(b"\n") + 1 or len(data)].decode("utf-8-sig", "replace")
    return next(csv.reader(io.StringIO(first), delimiter=separator), [])


def _column(cells: pa.Array | pa.ChunkedArray, *, text: bool) -> Column | None:
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    empty = pc.equal(cells, "")
    missing = bool(pc.any(empty).as_py())
    if missing and pc.all(empty).as_py():
        return None
    state = np.where(np.asarray(empty), NULL, 0).astype(np.uint8) if missing else None
    values = pc.if_else(empty, None, cells) if missing else cells
    if not text:
        found = _number(values, state) or _booleans(values, state)
        if found is not None:
            return found
    encoded = cells.dictionary_encode()
    entries = encoded.dictionary
    dictionary = Dictionary.of([entry.encode() for entry in entries.to_pylist()])
    return Column(Kind.STRING, np.asarray(encoded.indices, dtype=np.int32), state, dictionary)


def _number(values: pa.Array, state: Any) -> Column | None:
    if pc.any(pc.match_substring_regex(values, NO_NUMBER)).as_py():
        return None
    for kind, target, dtype in ((Kind.INTEGER, pa.int64(), np.int64), (Kind.FLOAT, pa.float64(), np.float64)):
        try:
            numbers = pc.cast(values, target)
        except pa.ArrowInvalid:
            continue
        return Column(kind, np.asarray(pc.fill_null(numbers, 0), dtype=dtype), state)
    return None


def _booleans(values: pa.Array, state: Any) -> Column | None:
    distinct = pc.unique(pc.drop_null(values.slice(0, 1000)))
    if not set(distinct.to_pylist()) <= set(BOOLEANS) or not set(pc.unique(pc.drop_null(values)).to_pylist()) <= set(BOOLEANS):
        return None
    true = pc.is_in(values, pa.array(["true", "True"], values.type))
    return Column(Kind.BOOLEAN, np.asarray(true, dtype=np.int64), state)


def csv_rows(
    data: bytes, textual: frozenset[str], given: Collection[str] = (), separator: str = ","
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """All rows with the (last) 0-based line of each, or what is wrong with the line.

    Args:
        data: of the file, with a header row.
        textual: columns that are text whatever they look like.
        given: columns whose kind is known: each cell is what it looks like, whatever the others are.
        separator: between columns.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield data[: error.start].count(b"\n"), "invalid UTF-8"
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = next(reader, None)
    if header is None:
        return
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            if len(cells) == len(header):
                rows.append(cells)
                lines.append(reader.line_num - 1)
            elif cells:
                yield reader.line_num - 1, f"{len(cells)} cells, but the header has {len(header)}"
    except csv.Error as error:  # quotes that nobody closes make a cell of all that is left
        yield max(0, reader.line_num - 1), str(error)
    columns = [
        _each(cells) if name in given and name not in textual else _values(cells, text=name in textual)
        for name, cells in zip(header, zip(*rows, strict=True), strict=False)
        if name
    ]
    del rows
    named = [name for name in header if name]
    for line, values in zip(lines, zip(*columns, strict=True), strict=True):
        yield line, dict(zip(named, values, strict=True))


def _values(cells: Sequence[str], *, text: bool) -> Sequence[Any]:
    """The cells as the narrowest of integer, float, boolean, text that holds all of them."""
    converters: tuple[Callable[[str], Any], ...] = () if text else (_integer, _float, _boolean)
    for convert in converters:
        try:
            return [convert(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]


def _each(cells: Sequence[str]) -> Sequence[Any]:
    """Every cell as the narrowest of integer, float, boolean, text that it is."""
    return [value for cell in cells for value in _values((cell,), text=False)]


def _integer(cell: str) -> int:
    if _no_number.match(cell):
        raise ValueError(cell)
    return int(cell)


def _float(cell: str) -> float:
    if _no_number.match(cell):
        raise ValueError(cell)
    return float(cell)


def _boolean(cell: str) -> bool:
    if cell not in BOOLEANS:
        raise ValueError(cell)
    return BOOLEANS[cell]


def csv_pieces(reading: Reading) -> Iterator[Piece]:
    """The pieces of a CSV file; its first line is the header.

    Raises:
        RereadError: a column that was numbers so far holds a text.
        FindingsError: the first line cannot name the columns.
    """
    header = b""
    for block in _whole_rows(reading.file.blocks()):
        first = reading.lines
        reading.lines += block.count(b"\n") + (not block.endswith(b"\n"))
        if not header:
            header = block[: block.find(b"\n") + 1 or len(block)]
            _require_columns(reading.file, header, reading.format)
            pieces = _csv_block(reading, block, first + 1)
        else:
            pieces = _csv_block(reading, header + block, first)
        names = _header(header, reading.format.separator)
        yield from (_with_empty_texts(piece, names, reading) for piece in pieces)


def require_columns(file: EventFile, file_format: FileFormat) -> None:
    """Looks at nothing but the first line of a CSV file.

    Raises:
        FindingsError: it cannot name the columns.
        OSError: the file cannot be read.
    """
    block = next(file.blocks(), b"")
    _require_columns(file, block[: block.find(b"\n") + 1 or len(block)], file_format)


def _require_columns(file: EventFile, header: bytes, file_format: FileFormat) -> None:
    names = _header(header, file_format.separator)
    if names and not header.count(b'"') % 2:
        require_header(file, names, file_format)


def _whole_rows(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks that do not end within quotes."""
    rest = b""
    for block in blocks:
        rest += block
        if rest.count(b'"') % 2 == 0:
            yield rest
            rest = b""
    if rest:
        yield rest


def _csv_block(reading: Reading, data: bytes, first: int) -> Iterator[Piece]:
    """The rows of a block behind the header.

    Args:
        reading: of the file.
        data: header and rows.
        first: 0-based line of the first row.
    """
    textual = _texts(reading)
    columns = csv_columns(data, textual, reading.format.separator)
    if columns is not None:
        _ask_again({name: column.kind for name, column in columns.items() if column is not None}, reading)
        rows = data.count(b"\n") - (data.endswith(b"\n") is True)
        lines = np.arange(first, first + rows, dtype=np.int64)
        piece = tabular_piece(columns, lines, reading.format, reading.learnt)
        if piece is not None:
            _note_texts({name: column for name, column in columns.items() if column is not None}, lines, reading)
            yield piece
            return
    found = [(line + first - 1, values) for line, values in csv_rows(data, textual, reading.learnt.given, reading.format.separator)]
    kinds = {
        name: KINDS[type(value)]
        for _, values in found
        if not isinstance(values, str)
        for name, value in values.items()
        if value is not None
    }
    _ask_again(kinds, reading)
    read = [(line, values) for line, values in found if not isinstance(values, str)]
    texts = {
        name: column_of([values[name] for _, values in read], kind)
        for name, kind in kinds.items()
        if kind is Kind.STRING and name not in reading.learnt.given
    }
    _note_texts(texts, np.array([line for line, _ in read], dtype=np.int64), reading)
    yield from reading.of_rows(csv_outcomes(found, reading.format))


def _with_empty_texts(piece: Piece, names: Iterable[str], reading: Reading) -> Piece:
    """A piece of a file of some columns with empty texts for empty cells, where the format says so."""
    batch, texts, learnt = piece.batch, reading.format.empty_texts, reading.learnt
    columns = dict(batch.columns)
    for name in names:
        if name in texts and learnt.known(name) in (None, Kind.STRING):
            column = columns.get(name) or nothing_of(Kind.STRING, len(piece))
            filled = _filled(column, _of_types(batch.type, texts[name]))
            if filled is not column:
                columns[name], learnt.kinds[name] = filled, Kind.STRING
    return replace(piece, batch=EventBatch(batch.time, batch.source, batch.offset, batch.type, columns))


def _of_types(types: Column, wanted: frozenset[str] | None) -> NDArray[np.bool_]:
    """Which events are of some types, None: of any."""
    entries = [] if types.dictionary is None else types.dictionary.entries()
    return np.array([wanted is None or entry.decode() in wanted for entry in entries], dtype=bool)[types.values]


def _filled(column: Column, rows: NDArray[np.bool_]) -> Column:
    """A text column with empty texts in those of some cells that are null; the very same where there are none."""
    if column.state is None or column.dictionary is None or not (rows & (column.state == NULL)).any():
        return column
    empty = rows & (column.state == NULL)
    offsets = column.dictionary.offsets
    dictionary = Dictionary(column.dictionary.data, np.append(offsets, offsets[-1]))
    values = np.where(empty, len(column.dictionary), column.values).astype(np.int32)
    return Column(column.kind, values, np.where(empty, PRESENT, column.state).astype(np.uint8), dictionary)


def _note_texts(columns: Mapping[str, Column], lines: NDArray[np.int64], reading: Reading) -> None:
    """Has columns that are text looked at, but for those that are to be."""
    own = {*reading.learnt.given, reading.format.time_attribute, reading.format.type_attribute, "time", "type", "stream"}
    for name, column in columns.items():
        if column.kind is Kind.STRING and name not in own and reading.doubts is not None:
            reading.doubts.add_texts(name, column, lines)


def _texts(reading: Reading) -> frozenset[str]:
    """Columns that are text whatever they look like."""
    textual = {name for name, kind in reading.learnt.given.items() if kind.textual}
    return frozenset({*textual, *reading.textual, reading.format.type_attribute, "type", "stream"})


def _ask_again(kinds: Mapping[str, Kind], reading: Reading) -> None:
    """Has the files read again where cells of several blocks are only text together. Who is text already and still does not fit (another format's numbers) is left to the rows, which say so.

    Raises:
        RereadError: they are.
    """
    before = {name: kind for name, kind in reading.learnt.kinds.items() if name in kinds and name not in reading.learnt.given}
    wrong = [
        name for name, kind in before.items() if kinds[name] is not kind and {kinds[name], kind} != NUMBERS and name not in reading.textual
    ]
    if wrong:
        raise RereadError(wrong)
