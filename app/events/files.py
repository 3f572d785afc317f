"""Files of events: JSON lines, CSV and Avro containers, plain or gzip → one batch in file order and its schema.

For `replay`, `produce` and tests. The line number (0-based; record number in Avro containers) is the offset, unless a JSON line
carries `"position": [topic, partition, offset]`.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from typing import Literal as OneOf

import fastavro
import numpy as np
import orjson
from numpy.typing import NDArray

from app.errors import Finding, FindingsError, Location
from app.events.batch import EventBatch, take
from app.events.rows import BadValueError, Inference, Row, flattened, time_in_ms
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
    data = gzip.decompress(path.read_bytes()) if names and names[-1] == ".gz" else path.read_bytes()
    kind = next((name for name in reversed(names) if name != ".gz"), "")
    return _gather(READERS.get(kind, _json_rows)(data, file_format), path, file_format)


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


def _csv_rows(data: bytes, file_format: FileFormat) -> Iterator[Outcome]:
    """Cells are integers, floats, true/false or text by column; empty cells are null."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield data[: error.start].count(b"\n"), "invalid UTF-8"
        return
    reader = csv.reader(io.StringIO(text, newline=""))
    header = next(reader, None)
    if header is None:
        return
    rows: list[list[str]] = []
    lines: list[int] = []
    for cells in reader:
        if len(cells) == len(header):
            rows.append(cells)
            lines.append(reader.line_num - 1)
        elif cells:
            yield reader.line_num - 1, f"{len(cells)} cells, but the header has {len(header)}"
    columns = [_csv_column(name, cells, file_format) for name, cells in zip(header, zip(*rows, strict=True), strict=False)]
    del rows
    for line, values in zip(lines, zip(*columns, strict=True), strict=True):
        yield _row(line, dict(zip(header, values, strict=True)), file_format, nested=False)


def _csv_column(name: str, cells: Sequence[str], file_format: FileFormat) -> Sequence[Any]:
    """The cells as the narrowest of integer, float, boolean, text that holds all of them; the event type stays text."""
    given = file_format.kinds.get(name)
    if name != file_format.type_attribute and (given is None or not given.textual):
        for convert in (int, float, _csv_boolean):
            try:
                return [convert(cell) if cell and NO_NUMBER.match(cell) is None else _csv_word(cell, convert) for cell in cells]
            except ValueError:
                continue
    return [cell or None for cell in cells]


NO_NUMBER = re.compile(r"[+-]?0\d|[^\d+.-]|.*_")
"""What Python would take for a number, but is an identifier or a word: ``007``, ``1_000``, ``nan``, ``infinity``."""


def _csv_word(cell: str, convert: Callable[[str], Any]) -> Any:
    """A cell that is empty or no number."""
    if cell and convert is not _csv_boolean:
        raise ValueError(cell)
    return _csv_boolean(cell) if cell else None


def _csv_boolean(cell: str) -> bool:
    if cell not in ("true", "True", "false", "False"):
        raise ValueError(cell)
    return cell in ("true", "True")


def _avro_rows(data: bytes, file_format: FileFormat) -> Iterator[Outcome]:
    """Records of an Avro container; the record's name is the type."""
    line = -1
    try:
        reader = fastavro.reader(io.BytesIO(data))
        schema = reader.writer_schema
        name = schema.get("name", "").rsplit(".", 1)[-1] if isinstance(schema, dict) else ""
        for line, record in enumerate(reader):
            values = {"type": name, **record} if isinstance(record, dict) else {}
            yield _row(line, values, file_format)
    except Exception as error:  # noqa: BLE001
        # fastavro raises whatever the bytes lead to
        yield line + 1, f"no Avro container, or a broken one: {error}"


READERS: Mapping[str, Callable[[bytes, FileFormat], Iterator[Outcome]]] = {".csv": _csv_rows, ".avro": _avro_rows}
