"""Files of events row by row, as Python objects: the way of whatever the fast ways leave alone, and the one that says what is wrong with a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from typing import Literal as OneOf

import fastavro
import orjson

from app.events.elements import element_path
from app.events.rows import INT64, BadValueError, Row, element, flattened, time_in_ms
from app.events.types import Kind

CHUNK = 100_000
"""Rows that exist as Python objects at a time; a million of them at once take half a gigabyte."""


TimeUnit = OneOf["s", "ms", "us", "ns"]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How to read a file.

    Attributes:
        type_attribute: attribute that holds the event type; it stays an attribute too unless its name is ``type``.
        type_name: the type of every row that has none.
        time_attribute: attribute that holds the time; where an event has none, ``time`` does.
        time_unit: of numeric times.
        elements: elements of arrays and maps that become attributes (``tags[0]``, ``labels['k']``).
        kinds: kinds of attributes that are known, e.g. from a configured schema; the others come from the data.
        on_error: what unreadable lines do.
        separator: between the columns of CSV files.
        time_named: whether somebody named the time's attribute for these very files: they must have it then, and ``time`` will not do.
        time_stays: whether what holds the time is an attribute as well: a schema wants it, which has another one for the time.
        empty_texts: columns of CSV files whose empty cells are empty texts and no nulls, and of which types; None: of all.
    """

    type_attribute: str = "type"
    type_name: str | None = None
    time_attribute: str = "time"
    time_unit: TimeUnit = "ms"
    elements: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    on_error: OneOf["stop", "skip"] = "stop"
    separator: str = ","
    time_named: bool = False
    time_stays: bool = False
    empty_texts: Mapping[str, frozenset[str] | None] = field(default_factory=dict)

    @property
    def time_places(self) -> tuple[str, ...]:
        """Where the time may stand: the first that has one."""
        return (self.time_attribute,) if self.time_named else (self.time_attribute, "time")

    @property
    def taken(self) -> set[str]:
        """What is no attribute of an event: it has a place of its own."""
        return {"time", "type", "stream"} | (set() if self.time_stays else {self.time_attribute})


Outcome = Row | tuple[int, str] | tuple[int, str, int]
"""A row; or the line, what is wrong with it, and perhaps the column (from 1) where."""


def json_rows(data: bytes, file_format: FileFormat, first_line: int = 0) -> Iterator[Outcome]:
    """Events of JSON lines; `first_line` is the 0-based number of the first."""
    loads, blank = orjson.loads, (b"", b"\r")
    for line, text in enumerate(data.split(b"\n"), first_line):
        if text in blank or not text.strip():
            continue
        try:
            values = loads(text)
        except orjson.JSONDecodeError as error:
            yield line, f"no JSON: {error.msg}", error.colno
            continue
        if type(values) is not dict:
            yield line, "not a JSON object"
            continue
        nested = text.count(b"{") > 1 or text.count(b"[") > 0
        yield _row(line, values, file_format, nested=nested)


def _row(line: int, values: dict[str, Any], file_format: FileFormat, *, nested: bool = True) -> Outcome:
    """An event of a dictionary; takes the built-in entries out of it."""
    try:
        for place in file_format.time_places:
            time = _found(values, place)
            if time is not None:
                break
        if type(time) is not int or file_format.time_unit != "ms" or time not in INT64:
            if time is None:
                return line, f'no "{file_format.time_attribute}"'
            time = time_in_ms(time, file_format.time_unit)
        name = _found(values, file_format.type_attribute)
        name = file_format.type_name if name is None else name
        values.pop("type", None)
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
    attributes = flattened(values, file_format.elements) if nested else values
    if not file_format.time_stays:
        attributes.pop(file_format.time_attribute, None)
    return Row(line, name, time, attributes, position, stream)


def _found(values: Mapping[str, Any], name: str) -> Any:
    """What stands under a name, or where the name's steps lead to in nested records."""
    value = values.get(name)
    return value if value is not None or "." not in name else element(values, element_path(name))


def avro_rows(data: BinaryIO, file_format: FileFormat) -> Iterator[Outcome]:
    """Records of an Avro container; the record's name is the type."""
    line = -1
    try:
        reader = fastavro.reader(data, return_record_name=True, return_record_name_override=True)
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


def csv_outcomes(rows: Iterable[tuple[int, dict[str, Any] | str]], file_format: FileFormat) -> Iterator[Outcome]:
    """Rows of a CSV file, given as (0-based line, values or what is wrong)."""
    for line, values in rows:
        yield (line, values) if isinstance(values, str) else _row(line, values, file_format, nested=False)


def row_outcomes(rows: Sequence[dict[str, Any]], first_line: int, file_format: FileFormat) -> Iterator[Outcome]:
    """Records as dictionaries; `first_line` is the 0-based number of the first."""
    for line, values in enumerate(rows, first_line):
        yield _row(line, dict(values), file_format)
