"""JSON lines → pieces, by the kernel: what is plain is read as columns; a piece with anything else in it is left to the rows' way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.events.batch import NULL, PARTITION_BITS, Column, Dictionary, EventBatch
from app.events.interning import Interner
from app.events.learnt import Learnt, Piece
from app.events.rows import NAMED_FLOATS, TIME_FACTORS, BadValueError, time_in_ms
from app.events.types import Kind
from app.files import kernels_lines as kernel
from app.files.kernels_lines import Hard, Lines, Names, read_lines
from app.files.row_files import FileFormat

SPARE = 8
"""Columns that there is room for beyond those known: a new one then costs no copy."""
POSITION = b"position"
HARD_NUMBERS = 1 << 14
"""Numbers with more digits than a float64 multiplies exactly that wait for Arrow to read them, 0.02 µs each."""
HARD_BYTES = 32 * HARD_NUMBERS
GROWTH = 1 << 20
"""Bytes that dictionaries get room for at once."""
MANY_SHAPES = 1000
"""Different (type, keys) of a piece; files with more are as if every event had keys of its own, which is the rows' business."""


@dataclass(slots=True)
class LineReader:
    """Reads the pieces of one file, or of several of one kind: it remembers the keys.

    Attributes:
        format: how the files are read.
        names: of the columns, in the order in which they were met.
        seen: shapes (hash of the keys, type) that `Learnt` knows already.
    """

    format: FileFormat
    names: list[bytes] = field(default_factory=list)
    seen: set[tuple[int, str]] = field(default_factory=set)
    _follows: NDArray[np.int64] = field(default_factory=lambda: np.full(1, -1, dtype=np.int64))
    _entries: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def read(self, data: bytes, first_line: int, learnt: Learnt) -> Piece | None:
        """The events of some lines; None where the rows' way has to read them, which then also says what is wrong.

        Args:
            data: whole lines.
            first_line: 0-based line of the first one.
            learnt: takes what the lines teach, unless None comes back.
        """
        if not data.endswith(b"\n"):
            data += b"\n"
        if not _is_text(data):
            return None
        cells = self._scan(data)
        return None if cells is None else self._piece(data, cells, first_line, learnt)

    def _scan(self, data: bytes) -> _Scanned | None:
        """Runs the kernel, with pauses for new columns and full dictionaries."""
        array = np.frombuffer(data, dtype=np.uint8)
        room = data.count(b"\n")
        scanned = _Scanned.empty(len(self.names) + SPARE, room)
        state = np.zeros(8, dtype=np.int64)
        state[kernel.POSITION] = self.names.index(POSITION) if POSITION in self.names else -1
        interner = Interner(len(self.names) + SPARE, _padded(self._entries, len(self.names) + SPARE))
        while True:
            status = read_lines(array, self._known(), scanned.lines, scanned.hard, interner.texts, state)
            if status == kernel.ODD:
                return None
            if status == kernel.NEW_KEY:
                self.names.append(bytes(data[state[kernel.KEY_START] : state[kernel.KEY_END]]))
                if self.names[-1] == POSITION:
                    state[kernel.POSITION] = len(self.names) - 1
                self._follows = np.append(self._follows, -1)
                if len(self.names) > len(scanned.lines.tags):
                    # rare, and never twice for the same keys: begin anew with more room
                    return self._scan(data)
            elif status == kernel.NO_ROOM:
                at = int(state[kernel.AT])
                # at least the line, whose texts may be longer than what is usual
                interner.grow(max(data.index(b"\n", at) + 1 - at, min(len(data) - at, GROWTH)))
            else:
                scanned.rows = int(state[kernel.ROW])
                stuck = status == kernel.HARD_FULL and not state[kernel.HARD]
                if stuck or not scanned.settle_numbers(state):
                    return None
                if status == kernel.DONE:
                    scanned.interner = interner
                    self._entries = interner.used.copy()
                    return scanned

    def _known(self) -> Names:
        offsets = np.zeros(len(self.names) + 1, dtype=np.int64)
        np.cumsum([len(name) for name in self.names], out=offsets[1:])
        return Names(np.frombuffer(bytearray(b"".join(self.names)), dtype=np.uint8), offsets, self._follows)

    def _piece(self, data: bytes, cells: _Scanned, first_line: int, learnt: Learnt) -> Piece | None:
        columns = {name.decode(): k for k, name in enumerate(self.names)}
        time = self._times(cells, self._time_column(cells, columns))
        types = self._types(cells, columns.get(self.format.type_attribute))
        if time is None or types is None:
            return None
        hidden = self.format.taken
        places = cells.places(columns.get("position"))
        if places is not None:
            hidden |= {"position"}
            if not places.all():  # a position here and an attribute there
                return None
        attributes = {name: k for name, k in columns.items() if name not in hidden}
        try:
            found = {name: cells.column(k, learnt.known(name), given=name in learnt.given) for name, k in attributes.items()}
            streams = cells.column(columns["stream"], Kind.STRING, given=True) if "stream" in columns else None
        except MixedCellsError:
            return None
        if not self._learn_shapes(data, cells, types, hidden, learnt):
            return None
        present = {name: column for name, column in found.items() if column is not None}
        learnt.kinds.update({name: column.kind for name, column in present.items()})
        lines = cells.lines.line[: cells.rows] + first_line
        if places is None:
            return Piece(EventBatch(time, np.zeros(cells.rows, dtype=np.int64), lines, types, present), lines, streams)
        source, topics = cells.sources(columns["position"])
        learnt.topics.update(topics)
        offset = cells.lines.place[1, : cells.rows].copy()
        return Piece(EventBatch(time, source, offset, types, present), lines, streams, topics, places)

    def _time_column(self, cells: _Scanned, columns: Mapping[str, int]) -> int | None:
        """Where the time stands: in the first place that has anything, else in the last one."""
        known = [columns[place] for place in self.format.time_places if place in columns]
        return next((column for column in known if cells.tags(column).any()), known[-1] if known else None)

    def _times(self, cells: _Scanned, column: int | None) -> NDArray[np.int64] | None:
        if column is None:
            return None
        tags = cells.tags(column)
        values = cells.lines.values[column, : cells.rows]
        multiplier, divisor = TIME_FACTORS[self.format.time_unit]
        if (tags == kernel.WHOLE).all():
            if (multiplier, divisor) == (1, 1):
                return values.copy()
            if len(values) and np.abs(values.astype(np.float64)).max() * multiplier > 2.0**62:
                return None
            return values * multiplier // divisor
        if not (tags == kernel.TEXT_CELL).all():
            return None
        return _times_of_texts(cells.dictionary(column), values)

    def _types(self, cells: _Scanned, column: int | None) -> Column | None:
        if column is None or not (cells.tags(column) == kernel.TEXT_CELL).all():
            named = self.format.type_name is not None and (column is None or not cells.tags(column).any())
            if not named or self.format.type_name is None:
                return None
            return Column(Kind.STRING, np.zeros(cells.rows, np.int32), None, Dictionary.of([self.format.type_name.encode()]))
        codes = cells.lines.values[column, : cells.rows].astype(np.int32)
        return Column(Kind.STRING, codes, None, cells.dictionary(column))

    def _learn_shapes(self, data: bytes, cells: _Scanned, types: Column, hidden: set[str], learnt: Learnt) -> bool:
        """Tells `learnt` of shapes that are new, by reading one line of each again."""
        assert types.dictionary is not None  # noqa: S101 - a text column
        entries = [entry.decode() for entry in types.dictionary.entries()]
        shapes = cells.lines.shape[: cells.rows]
        both = shapes ^ (types.values.astype(np.int64) * 0x9E3779B97F4A7C1)
        encoded = pa.array(both).dictionary_encode()
        if len(encoded.dictionary) > MANY_SHAPES:
            return False
        # of several values for one place the last one stays, here that of the first row
        firsts = np.zeros(len(encoded.dictionary), dtype=np.int64)
        firsts[encoded.indices.to_numpy()[::-1]] = np.arange(cells.rows - 1, -1, -1)
        starts: NDArray[np.int64] | None = None
        for row in sorted(firsts.tolist()):
            shape = (int(shapes[row]), entries[types.values[row]])
            if shape in self.seen:
                continue
            starts = _line_starts(data) if starts is None else starts
            line = int(cells.lines.line[row])
            keys = orjson.loads(data[starts[line] : starts[line + 1]])
            learnt.shapes[shape[1], *(key for key in keys if key not in hidden)] = None
            self.seen.add(shape)
        return True


class MixedCellsError(Exception):
    """Cells that are not all of one kind: the rows' way says which line is wrong."""


@dataclass(slots=True, eq=False)
class _Scanned:
    """What the kernel made of a piece."""

    lines: Lines
    hard: Hard
    interner: Interner | None = None
    rows: int = 0

    @staticmethod
    def empty(columns: int, rows: int) -> _Scanned:
        lines = Lines(
            np.empty((columns, rows), dtype=np.int64),
            np.zeros((columns, rows), dtype=np.uint8),
            np.empty(rows, dtype=np.int64),
            np.empty(rows, dtype=np.int64),
            np.empty((2, rows), dtype=np.int64),
        )
        hard = Hard(
            np.empty(HARD_BYTES, dtype=np.uint8),
            np.zeros(HARD_NUMBERS + 1, dtype=np.int64),
            np.empty(HARD_NUMBERS, dtype=np.int64),
            np.empty(HARD_NUMBERS, dtype=np.int64),
        )
        return _Scanned(lines, hard)

    def settle_numbers(self, state: NDArray[np.int64]) -> bool:
        """Reads the numbers that wait; False where one is beyond float64."""
        count = int(state[kernel.HARD])
        if count:
            ends, data = pa.py_buffer(self.hard.ends), pa.py_buffer(self.hard.data)
            numbers = pc.cast(pa.LargeStringArray.from_buffers(count, ends, data), pa.float64()).to_numpy()
            if not np.isfinite(numbers).all():
                return False
            self.lines.values[self.hard.column[:count], self.hard.row[:count]] = numbers.view(np.int64)
            state[kernel.HARD] = state[kernel.HARD_BYTES] = 0
            return True
        return True

    def tags(self, column: int) -> NDArray[np.uint8]:
        """What the cells of a column hold."""
        return self.lines.tags[column, : self.rows]

    def places(self, column: int | None) -> NDArray[np.bool_] | None:
        """Which rows have a position in that column; None where none has."""
        places = None if column is None else self.tags(column) == kernel.PLACE_CELL
        return places if places is not None and places.any() else None

    def sources(self, column: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Of rows that all have a position in that column: their sources, and the topics along which these count."""
        used, codes = np.unique(self.lines.values[column, : self.rows], return_inverse=True)
        entries = self.dictionary(column).entries()
        names = [entries[code].decode() for code in used.tolist()]
        topics = tuple(sorted(names))
        numbers = np.array([topics.index(name) for name in names], dtype=np.int64)
        return numbers[codes] << PARTITION_BITS | self.lines.place[0, : self.rows], topics

    def dictionary(self, column: int) -> Dictionary:
        """The texts of a column."""
        assert self.interner is not None  # noqa: S101 - the piece is read
        return self.interner.dictionary(column)

    def column(self, column: int, known: Kind | None, *, given: bool) -> Column | None:
        """A column of events; None where nothing but nulls is.

        Args:
            column: its number.
            known: its kind, as far as it is known.
            given: whether that kind is fixed.

        Raises:
            MixedCellsError: cells of several kinds, or of another than is known.
        """
        tags = self.tags(column)
        counts = np.bincount(tags, minlength=kernel.TEXT_CELL + 1)
        numeric = not given and known in (None, Kind.INTEGER) and counts[kernel.WHOLE] + counts[kernel.REAL]
        if counts[kernel.TEXT_CELL] and (known is Kind.FLOAT or numeric):
            self._read_named_floats(column)
            counts = np.bincount(tags, minlength=kernel.TEXT_CELL + 1)
        here = frozenset(tag for tag in VALUE_TAGS if counts[tag])
        if not here:
            return None
        kind = KINDS_OF_TAGS.get(here)
        if kind is Kind.INTEGER and known is Kind.FLOAT:
            kind = Kind.FLOAT
        if kind is None or (known not in (None, kind) and (given or (known, kind) != (Kind.INTEGER, Kind.FLOAT))):
            raise MixedCellsError
        values, present = self.lines.values[column, : self.rows], tags >= kernel.TRUTH
        state = None if present.all() else np.where(present, 0, NULL).astype(np.uint8)
        if kind is Kind.STRING:
            codes = values if state is None else np.where(present, values, 0)
            return Column(kind, codes.astype(np.int32), state, self.dictionary(column))
        if kind is Kind.FLOAT:
            floats = values.view(np.float64)
            values = np.where(tags == kernel.WHOLE, values.astype(np.float64), floats) if counts[kernel.WHOLE] else floats.copy()
            return Column(kind, values if state is None else np.where(present, values, 0.0), state)
        return Column(kind, values.copy() if state is None else np.where(present, values, 0), state)

    def _read_named_floats(self, column: int) -> None:
        """Makes floats of the texts of a column, where all of them stand for one."""
        texts = np.flatnonzero(self.tags(column) == kernel.TEXT_CELL)
        codes, places = np.unique(self.lines.values[column, texts], return_inverse=True)
        if len(codes) > len(NAMED_FLOATS):
            return
        names = [self.dictionary(column).entry(code).decode() for code in codes.tolist()]
        if set(names) <= set(NAMED_FLOATS):
            floats = np.array([NAMED_FLOATS[name] for name in names], dtype=np.float64)
            self.lines.values[column, texts] = floats[places].view(np.int64)
            self.lines.tags[column, texts] = kernel.REAL


VALUE_TAGS = (kernel.TRUTH, kernel.WHOLE, kernel.REAL, kernel.TEXT_CELL)
KINDS_OF_TAGS: Mapping[frozenset[int], Kind] = {
    frozenset({kernel.TRUTH}): Kind.BOOLEAN,
    frozenset({kernel.WHOLE}): Kind.INTEGER,
    frozenset({kernel.REAL}): Kind.FLOAT,
    frozenset({kernel.WHOLE, kernel.REAL}): Kind.FLOAT,
    frozenset({kernel.TEXT_CELL}): Kind.STRING,
}


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _padded(entries: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    padded = np.zeros(size, dtype=np.int64)
    padded[: min(len(entries), size)] = entries[:size]
    return padded


def _line_starts(data: bytes) -> NDArray[np.int64]:
    """Where every line begins, and the end of the last one."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    return np.concatenate([np.zeros(1, np.int64), ends])


def _times_of_texts(dictionary: Dictionary, codes: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Milliseconds of ISO-8601 texts, each distinct one read once; None if one is no time."""
    try:
        distinct = [time_in_ms(entry.decode()) for entry in dictionary.entries()]
    except BadValueError:
        return None
    found: NDArray[np.int64] = np.array(distinct, dtype=np.int64)[codes]
    return found
