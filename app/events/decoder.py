"""Kafka records → events in columns: the hot way in, and what did not become an event with its reason.

Data never raises here. What does: `DependencyError`, when the registry cannot be asked (the batch is then tried again).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.events.avro import AvroSchema, SchemaError, StreamDefinition, StreamRecords, stream_records
from app.events.batch import NULL, Column, EventBatch
from app.events.bounds import check_bounds
from app.events.failures import Failure, Failures
from app.events.general import GeneralReader, general_reader
from app.events.interning import Interner
from app.events.kernels import Cells, Code, Records, decode_records
from app.events.program import TIME_COLUMN, TYPE_COLUMN, Layout, Program, TooGeneralError, compile_program, layout_of
from app.events.types import Kind, StreamSchema
from app.events.wire import GUID_BASE, Framed, framed

FEW_SCHEMAS = 16
"""Of a batch: so many are looked for one by one, in 0.36 instead of 0.40 ms for 10,000 records; 5,000 schemas would take 30 ms, not 5."""
TOO_DEEP = "it is nested too deeply"


class SchemaSource(Protocol):
    """Where writers' schemas come from: the registry, or a dictionary in tests."""

    def schema(self, key: int | str) -> AvroSchema | None:
        """The schema of an id (integer) or GUID (text); None if it is unknown.

        Raises:
            SchemaError: it is no Avro schema.
            DependencyError: nobody can be asked.
        """


@dataclass(frozen=True, slots=True, eq=False)
class DecodedBatch:
    """What became of a batch of records.

    Attributes:
        batch: the events, in input order.
        rows: int64 (events,), the input row of each.
        failures: the other rows.
    """

    batch: EventBatch
    rows: NDArray[np.int64]
    failures: Failures


@dataclass(slots=True, eq=False)
class _Compiled:
    """What a writer's schema has been compiled to; exactly one of the three, but the general reader also backs a program."""

    program: Program | None = None
    general: GeneralReader | None = None
    problem: str = ""


@dataclass(slots=True, eq=False)
class _Work:
    """One batch on its way."""

    frame: Framed
    cells: Cells
    interner: Interner
    details: dict[int, str] = field(default_factory=dict)


class BatchDecoder:
    """Decodes the records of one stream, whatever mixture of writers' schemas they have.

    Args:
        definition: the stream's configuration.
        readers: the schemas as which records are read; all their records are event types of the stream.
        source: of writers' schemas; the programs of those seen are kept.
        wanted: decode only these attributes; None: all.

    Attributes:
        unknown: schemas that stay unknown whatever the source says by now; those that it does not know are added. None: it is asked again with the next batch.

    Raises:
        ConfigurationError: the readers' schemas do not make a stream.
    """

    def __init__(
        self,
        definition: StreamDefinition,
        readers: Sequence[AvroSchema],
        source: SchemaSource,
        wanted: Iterable[str] | None = None,
    ) -> None:
        self._records: StreamRecords = stream_records(definition, readers)
        self._source = source
        self._type_attribute = self._attribute_of_type()
        self._wanted = None if wanted is None else frozenset(wanted)
        self._layout: Layout = layout_of(self._records, self._wanted)
        self._compiled: dict[int | str, _Compiled] = {}
        self.unknown: set[int | str] | None = None
        self._entries: NDArray[np.int64] | None = None

    @property
    def schema(self) -> StreamSchema:
        """The stream's schema as queries see it (all attributes, also those not wanted)."""
        return self._records.schema

    def _attribute_of_type(self) -> str | None:
        record = self._records.types[0]
        return next((leaf.attribute.name for leaf in record.leaves if leaf.path == record.type_path), None)

    def decode(
        self,
        values: pa.Array | pa.ChunkedArray,
        source: NDArray[np.int64],
        offset: NDArray[np.int64],
        headers: pa.Array | pa.ChunkedArray | None = None,
        timestamps: NDArray[np.int64] | None = None,
    ) -> DecodedBatch:
        """Decodes a batch.

        Args:
            values: binary (records,), as Kafka has them.
            source: int64 (records,), see `source_number`.
            offset: int64 (records,).
            headers: only for streams whose schema ids travel in record headers.
            timestamps: int64 (records,) ms, the events' times where the definition has no time attribute.

        Raises:
            DependencyError: the registry cannot be asked for a schema that is needed.
        """
        frame = framed(values, headers)
        count, columns = len(frame.starts), self._layout.count
        cells = Cells(
            np.zeros((columns, count), dtype=np.int64),
            np.zeros((columns, count), dtype=np.uint8),
            np.zeros(columns, dtype=np.uint8),
            frame.failures,
        )
        if timestamps is not None and self._records.definition.time_attribute is None:
            cells.values[TIME_COLUMN] = timestamps
        work = _Work(frame, cells, Interner(len(self._layout.texts), self._entries))
        for schema_id, rows in _groups(frame):
            self._decode_group(work, schema_id, rows)
        self._entries = work.interner.used
        return self._result(work, source, offset)

    def _decode_group(self, work: _Work, schema_id: int, rows: NDArray[np.int64]) -> None:
        """All records of one schema id."""
        frame = work.frame
        key = schema_id if schema_id < GUID_BASE else frame.guids[schema_id - GUID_BASE]
        compiled = self._compiled_for(key)
        if compiled is None or compiled.problem:
            work.cells.failures[rows] = Failure.UNKNOWN_SCHEMA if compiled is None else Failure.SCHEMA_UNREADABLE
            named = f"schema {key}" if compiled is None else f"schema {key}: {compiled.problem}"
            text = f"{named} is not in the registry" if compiled is None else named
            work.details.update(dict.fromkeys(rows.tolist(), text))
            return
        if compiled.program is not None:
            self._run(compiled.program, work, rows)
            rows = rows[work.cells.failures[rows] == Failure.GENERAL_PATH]
        if len(rows) and compiled.general is not None:
            records = Records(frame.data, frame.starts, frame.ends, rows)
            work.details.update(compiled.general.decode(records, work.cells, work.interner))

    def _compiled_for(self, key: int | str) -> _Compiled | None:
        """The program of a schema; None if the registry does not know it."""
        if self.unknown is not None and key in self.unknown:
            return None
        known = self._compiled.get(key)
        if known is None:
            try:
                writer = self._source.schema(key)
            except SchemaError as error:
                known = _Compiled(problem=str(error))
            except RecursionError:
                known = _Compiled(problem=TOO_DEEP)
            else:
                if writer is None:
                    if self.unknown is not None:
                        self.unknown.add(key)
                    return None
                known = self._compile(writer)
            self._compiled[key] = known
        return known

    def _compile(self, writer: AvroSchema) -> _Compiled:
        """Whatever is odd about the schema is its problem, not the batch's."""
        try:
            check_bounds(writer)
            general = general_reader(writer, self._records, self._layout)
            return _Compiled(self._program(writer), general)
        except SchemaError as error:
            return _Compiled(problem=str(error))
        except RecursionError:
            return _Compiled(problem=TOO_DEEP)
        except MemoryError:
            raise  # the machine's problem, which passes
        except Exception as error:  # noqa: BLE001
            # fastavro checks little: sizes, symbols and aliases can be of any JSON type
            return _Compiled(problem=f"it cannot be read: {type(error).__name__}: {error}")

    def _program(self, writer: AvroSchema) -> Program | None:
        try:
            return compile_program(writer, self._records, self._layout)
        except TooGeneralError:
            return None

    @staticmethod
    def _run(program: Program, work: _Work, rows: NDArray[np.int64]) -> None:
        """The kernel over the rows, with pauses in which the dictionaries grow."""
        frame = work.frame
        records = Records(frame.data, frame.starts, frame.ends, rows)
        symbols = np.full(len(program.symbol_offsets) - 1, -1, dtype=np.int64)
        code = Code(program.code, program.jumps, program.symbol_data, program.symbol_offsets, symbols)
        done = 0
        while True:
            done = decode_records(records, code, work.cells, work.interner.texts, done)
            if done == len(rows):
                return
            row = rows[done]
            work.interner.grow(int(frame.ends[row] - frame.starts[row]) + len(program.symbol_data))

    def _result(self, work: _Work, source: NDArray[np.int64], offset: NDArray[np.int64]) -> DecodedBatch:
        """Leaves out what failed and makes columns of the rest."""
        cells, layout = work.cells, self._layout
        type_column = next((k + 2 for k, a in enumerate(layout.attributes) if a.name == self._type_attribute), TYPE_COLUMN)
        for column, failure in ((TIME_COLUMN, Failure.NO_TIME), (type_column, Failure.NO_TYPE)):
            if cells.touched[column]:
                cells.failures[(cells.failures == 0) & (cells.states[column] == NULL)] = failure
        failed = np.flatnonzero(cells.failures)
        rows = np.arange(len(cells.failures)) if not len(failed) else np.flatnonzero(cells.failures == 0)
        keep = None if not len(failed) else rows
        columns = {attribute.name: self._column(work, k + 2, keep) for k, attribute in enumerate(layout.attributes)}
        kind = self._column(work, type_column, keep)
        batch = EventBatch(
            time=_kept(cells.values[TIME_COLUMN], keep),
            source=_kept(source, keep),
            offset=_kept(offset, keep),
            type=Column(Kind.STRING, kind.values, None, kind.dictionary),
            columns=columns,
        )
        details = {row: text for row, text in work.details.items() if cells.failures[row]}
        return DecodedBatch(batch, rows, Failures(failed, cells.failures[failed], details))

    def _column(self, work: _Work, column: int, keep: NDArray[np.int64] | None) -> Column:
        cells, kind = work.cells, self._layout.kind(column)
        values = _kept(cells.values[column], keep)
        state = None
        if cells.touched[column]:
            state = _kept(cells.states[column], keep)
            state = state if state.any() else None
        if kind.textual:
            return Column(kind, values.astype(np.int32), state, work.interner.dictionary(self._layout.texts[column]))
        return Column(kind, values.view(np.float64) if kind is Kind.FLOAT else values, state)


def _kept(values: NDArray, keep: NDArray[np.int64] | None) -> NDArray:
    return values if keep is None else values[keep]


def _groups(frame: Framed) -> list[tuple[int, NDArray[np.int64]]]:
    """Rows of every schema id, ascending, without those that have failed already."""
    if not len(frame.ids):
        return []
    if not frame.failures.any():
        first = int(frame.ids[0])
        if (frame.ids == first).all():
            return [(first, np.arange(len(frame.ids)))]
    good = np.flatnonzero(frame.failures == 0)
    ids = frame.ids[good]
    distinct = np.unique(ids).tolist()
    if len(distinct) <= FEW_SCHEMAS:
        return [(schema_id, good[ids == schema_id]) for schema_id in distinct]
    order = np.argsort(ids, kind="stable")
    return list(zip(distinct, np.split(good[order], np.flatnonzero(np.diff(ids[order])) + 1), strict=True))
