"""Files of events: JSON lines, CSV and Avro containers, plain or gzip → one batch in file order and its schema.

For `replay`, `produce` and tests. The line number (0-based; record number in Avro containers) is the offset, unless a JSON line
carries `"position": [topic, partition, offset]`.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

import fastavro
import numpy as np
import orjson
from numpy.typing import NDArray

from app.errors import Finding, FindingsError, Location
from app.events.batch import Column, Dictionary, EventBatch, take
from app.events.csv_files import csv_columns, csv_rows
from app.events.rows import TIME_FACTORS, BadValueError, Inference, Row, flattened, time_in_ms
from app.events.types import Kind, StreamSchema

CHUNK = 100_000
"""Rows that exist as Python objects at a time; a million of them at once take half a gigabyte."""
MAX_FINDINGS = 20
"""Unreadable lines that are shown; all are counted."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How to read a file.

    Attributes:
        type_attribute: attribute that holds the event type; it stays an attribute too unless its name is ``type``.
        type_name: the type of every row that has none.
        time_attribute: attribute that holds the time.
        time_unit: of numeric times.
        elements: elements of arrays and maps that become attributes (``tags[0]``, ``labels['k']``).
        kinds: kinds of attributes that are known, e.g. from a configured schema; the others come from the data.
        on_error: what unreadable lines do.
    """

    type_attribute: str = "type"
    type_name: str | None = None
    time_attribute: str = "time"
    time_unit: OneOf["s", "ms", "us", "ns"] = "ms"
    elements: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    on_error: OneOf["stop", "skip"] = "stop"


@dataclass(frozen=True, slots=True, eq=False)
class FileEvents:
    """The events of a file.

    Attributes:
        batch: in file order.
        schema: as the data has it (`inferred`); its stream is the file's name.
        lines: int64 (events,), 0-based line of each event.
        streams: per event the stream it names, or None; None when no line names any.
        topics: of the positions in the file, sorted; `source_number` counts along them.
        skipped: number of unreadable lines left out.
        findings: the first of them.
    """

    batch: EventBatch
    schema: StreamSchema
    lines: NDArray[np.int64]
    streams: tuple[str | None, ...] | None = None
    topics: tuple[str, ...] = ()
    skipped: int = 0
    findings: tuple[Finding, ...] = ()

    def of_stream(self, stream: str) -> FileEvents:
        """Only the events that belong to the stream: those that name it and those that name none."""
        if self.streams is None:
            return self
        rows = np.array([k for k, name in enumerate(self.streams) if name is None or name == stream], dtype=np.int64)
        return FileEvents(take(self.batch, rows), self.schema, self.lines[rows], None, self.topics, self.skipped, self.findings)


def read_events(path: Path, file_format: FileFormat | None = None) -> FileEvents:
    """All events of a file, whatever its format (by its name: ``.csv``, ``.avro``, anything else is JSON lines; ``.gz`` is unpacked).

    Raises:
        FindingsError: unreadable lines, each with its number, unless they are to be skipped.
        OSError: the file cannot be read.
    """
    file_format = file_format or FileFormat()
    names = [suffix.lower() for suffix in path.suffixes]
    data = path.read_bytes()
    if names and names[-1] == ".gz":
        data = _unpacked(data, path)
    kind = next((name for name in reversed(names) if name != ".gz"), "")
    whole = _csv_at_once(data, file_format) if kind == ".csv" else None
    if whole is not None:
        return _finished(whole, [], path, file_format)
    return _gather(READERS.get(kind, _json_rows)(data, file_format), path, file_format)


def _unpacked(data: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FindingsError([Finding(f"no gzip file, or a broken one: {error}", Location(str(path), 1, 1))]) from error


def parse_events(text: bytes, file_format: FileFormat | None = None, name: str = "events.jsonl") -> FileEvents:
    """The events of JSON lines in memory; `name` stands in findings."""
    file_format = file_format or FileFormat()
    return _gather(_json_rows(text, file_format), Path(name), file_format)


Outcome = Row | tuple[int, str]
"""A row, or the line and what is wrong with it."""


def _gather(outcomes: Iterator[Outcome], path: Path, file_format: FileFormat) -> FileEvents:
    inference = Inference(given=file_format.kinds)
    bad: list[tuple[int, str]] = []
    chunk: list[Row] = []
    for outcome in outcomes:
        if isinstance(outcome, Row):
            chunk.append(outcome)
            if len(chunk) == CHUNK:
                bad += inference.add(chunk)
                chunk = []
        else:
            bad.append(outcome)
    bad += inference.add(chunk)
    return _finished(inference, bad, path, file_format)


def _finished(inference: Inference, bad: list[tuple[int, str]], path: Path, file_format: FileFormat) -> FileEvents:
    findings = [Finding(message, Location(str(path), line + 1, 1)) for line, message in sorted(bad)[:MAX_FINDINGS]]
    if bad and file_format.on_error == "stop":
        if len(bad) > MAX_FINDINGS:
            findings.append(
                Finding(f"{len(bad) - MAX_FINDINGS} more unreadable lines", Location(str(path), sorted(bad)[MAX_FINDINGS][0] + 1, 1))
            )
        raise FindingsError(findings)
    lines = np.concatenate(inference.lines) if inference.lines else np.zeros(0, dtype=np.int64)
    streams = tuple(inference.streams) if any(name is not None for name in inference.streams) else None
    return FileEvents(inference.batch(), inference.schema(path.name), lines, streams, inference.topics(), len(bad), tuple(findings))


def _json_rows(data: bytes, file_format: FileFormat) -> Iterator[Outcome]:
    loads, blank = orjson.loads, (b"", b"\r")
    for line, text in enumerate(data.split(b"\n")):
        if text in blank or not text.strip():
            continue
        try:
            values = loads(text)
        except orjson.JSONDecodeError as error:
            yield line, f"no JSON: {error}"
            continue
        if type(values) is not dict:
            yield line, "not a JSON object"
            continue
        nested = text.count(b"{") > 1 or text.count(b"[") > 0
        yield _row(line, values, file_format, nested=nested)


def _row(line: int, values: dict[str, Any], file_format: FileFormat, *, nested: bool = True) -> Outcome:
    """An event of a dictionary; takes the built-in entries out of it."""
    try:
        time = values.pop(file_format.time_attribute, None)
        if type(time) is not int or file_format.time_unit != "ms":
            if time is None:
                return line, f'no "{file_format.time_attribute}"'
            time = time_in_ms(time, file_format.time_unit)
        own_type = values.pop("type", None)
        name = own_type if file_format.type_attribute == "type" else values.get(file_format.type_attribute)
        name = file_format.type_name if name is None else name
        if type(name) is not str:
            if name is None or type(name) not in (int, float, bool):
                return line, f'no "{file_format.type_attribute}"'
            name = str(name)
        stream = values.pop("stream", None)
        position = values.get("position") if nested else None
        if type(position) is list and len(position) == 3 and list(map(type, position)) == [str, int, int]:
            del values["position"]
            position = tuple(position)
        else:
            position = None
        values.pop("time", None)
    except BadValueError as error:
        return line, str(error)
    return Row(line, name, time, flattened(values, file_format.elements) if nested else values, position, stream)


def _avro_rows(data: bytes, file_format: FileFormat) -> Iterator[Outcome]:
    """Records of an Avro container; the record's name is the type."""
    line = -1
    try:
        reader = fastavro.reader(io.BytesIO(data), return_record_name=True, return_record_name_override=True)
        schema = reader.writer_schema
        records = [branch for branch in (schema if isinstance(schema, list) else [schema]) if isinstance(branch, dict)]
        only = records[0].get("name", "") if records else ""
        for line, found in enumerate(reader):
            name, record = found if isinstance(found, tuple) else (only, found)
            values = {"type": name.rsplit(".", 1)[-1], **record} if isinstance(record, dict) else {}
            yield _row(line, values, file_format)
    except Exception as error:  # noqa: BLE001
        # fastavro raises whatever the bytes lead to
        yield line + 1, f"no Avro container, or a broken one: {error}"


def _csv_rows(data: bytes, file_format: FileFormat) -> Iterator[Outcome]:
    for line, values in csv_rows(data, _csv_texts(file_format)):
        yield (line, values) if isinstance(values, str) else _row(line, values, file_format, nested=False)


def _csv_texts(file_format: FileFormat) -> frozenset[str]:
    """Columns that are text whatever they look like."""
    textual = {name for name, kind in file_format.kinds.items() if kind.textual}
    return frozenset({*textual, file_format.type_attribute, "type", "stream"})


def _csv_at_once(data: bytes, file_format: FileFormat) -> Inference | None:
    """What the rows of a plain CSV file come to, without making rows; None if the file needs the care of `_csv_rows`."""
    columns = csv_columns(data, _csv_texts(file_format))
    if columns is None or "stream" in columns:
        return None
    time = _time_at_once(columns.get(file_format.time_attribute), file_format.time_unit)
    if time is None:
        return None
    types = columns.get(file_format.type_attribute)
    if types is None and file_format.type_name is not None:
        types = Column(Kind.STRING, np.zeros(len(time), np.int32), None, Dictionary.of([file_format.type_name.encode()]))
    if types is None or types.state is not None or types.dictionary is None:
        return None
    hidden = {file_format.time_attribute, "time", "type"}
    attributes = {name: column for name, column in columns.items() if name not in hidden}
    present = {name: column for name, column in attributes.items() if column is not None}
    if any(present[name].kind is not kind for name, kind in file_format.kinds.items() if name in present):
        return None
    lines = np.arange(1, len(time) + 1, dtype=np.int64)
    batch = EventBatch(time, np.zeros(len(time), np.int64), lines, types, present)
    return Inference(
        given=file_format.kinds,
        kinds={name: column.kind for name, column in present.items()},
        shapes={(entry.decode(), *attributes): None for entry in types.dictionary.entries()},
        parts=[batch],
        lines=[lines],
        streams=[None] * len(time),
        positions=[None] * len(time),
    )


def _time_at_once(column: Column | None, unit: str) -> NDArray[np.int64] | None:
    """Milliseconds of a column of integers; None for anything else."""
    if column is None or column.kind is not Kind.INTEGER or column.state is not None:
        return None
    multiplier, divisor = TIME_FACTORS[unit]
    if len(column.values) and np.abs(column.values.astype(np.float64)).max() * multiplier > 2.0**62:
        return None
    found: NDArray[np.int64] = column.values.astype(np.int64) * multiplier // divisor
    return found


READERS: Mapping[str, Callable[[bytes, FileFormat], Iterator[Outcome]]] = {".csv": _csv_rows, ".avro": _avro_rows}
