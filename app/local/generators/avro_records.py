"""Events → Avro records, a column at a time: fast enough to keep a broker busy (fastavro writes one record at a time).

Every field is written into a rectangle of bytes with a mask of those that count; the masked bytes, row by row, are the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.events.batch import ABSENT, PRESENT, Column, Dictionary, EventBatch
from app.events.types import Kind

Rectangle = tuple[NDArray[np.uint8], NDArray[np.bool_]]
"""Bytes (events, width) and which of them count (events, width)."""
BLOCK_ROWS = 16_384
"""Rectangles of so many rows stay in the cache; 4 M quotes were written 3 times as fast as in one piece."""


def confluent_header(schema_id: int) -> bytes:
    """The five bytes before a record in Confluent's wire format.

    >>> confluent_header(258).hex()
    '0000000102'
    """
    return struct.pack(">bI", 0, schema_id)


def avro_records(
    batch: EventBatch,
    schemas: Mapping[str, Mapping[str, Any]],
    time: str = "time",
    headers: Mapping[str, bytes] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, NDArray[np.int64], list[bytes]]]:
    """All events of a batch as Avro records, by event type.

    Args:
        batch: the events.
        schemas: Avro record schemas (parsed JSON) by event type: fields of primitive types, enums, decimals, timestamps, or unions of null and one of these.
        time: the field that holds the event's time; not taken from the columns.
        headers: bytes to put before each record, by event type.
        attributes: field, or ``Record.field`` for one type only → the attribute that it holds, where that has another name.

    Yields:
        Event type, int64 (rows,) its rows in the batch, and one record for each of them.

    Raises:
        ValueError: events of a type without schema, or values that a field cannot hold.
    """
    names = batch.type.dictionary.entries() if batch.type.dictionary is not None else []
    for name in sorted({names[code].decode() for code in np.unique(batch.type.values).tolist()}):
        if name not in schemas:
            raise ValueError(f'no schema of the stream is called "{name}"')
        codes = [code for code, entry in enumerate(names) if entry.decode() == name]
        rows = np.flatnonzero(np.isin(batch.type.values, codes))
        yield name, rows, records_of_type(batch, rows, schemas[name], time, (headers or {}).get(name, b""), attributes)


def records_of_type(  # noqa: PLR0917 - the rows and how they are written
    batch: EventBatch,
    rows: NDArray[np.intp],
    schema: Mapping[str, Any],
    time: str = "time",
    header: bytes = b"",
    attributes: Mapping[str, str] | None = None,
) -> list[bytes]:
    """The records of some rows of a batch, all with one schema."""
    columns = _columns(batch, schema, time, attributes or {})
    records: list[bytes] = []
    for start in range(0, len(rows), BLOCK_ROWS):
        data, ends = _encoded(columns, rows[start : start + BLOCK_ROWS], schema["fields"], header)
        bounds = [0, *ends.tolist()]
        records += [data[begin:end] for begin, end in pairwise(bounds)]
    return records


def _columns(batch: EventBatch, schema: Mapping[str, Any], time: str, attributes: Mapping[str, str]) -> dict[str, Column]:
    """By field; what the stream calls otherwise may also be there as the schema calls it."""
    columns = {**batch.columns, time: Column(Kind.TIME, batch.time)}
    found = {}
    for name in [one["name"] for one in schema["fields"]]:
        attribute = attributes.get(f"{schema.get('name')}.{name}", attributes.get(name, name))
        found[name] = columns.get(name if name == time else attribute) or columns.get(name) or _nowhere(len(batch))
    return found


def _encoded(
    columns: Mapping[str, Column], rows: NDArray[np.intp], fields: Sequence[Mapping[str, Any]], header: bytes
) -> tuple[bytes, NDArray[np.int64]]:
    """The records of some rows after each other, and the int64 (rows,) ends of each."""
    parts = [_constant(header, len(rows))]
    for field in fields:
        parts += _field(columns[field["name"]], rows, field)
    data = np.concatenate([part[0] for part in parts], axis=1)
    counts = np.concatenate([part[1] for part in parts], axis=1)
    return data[counts].tobytes(), np.cumsum(counts.sum(axis=1))


def _field(column: Column, rows: NDArray[np.intp], field: Mapping[str, Any]) -> list[Rectangle]:
    name, schema = field["name"], field["type"]
    state = np.zeros(len(rows), np.uint8) if column.state is None else column.state[rows]
    if isinstance(schema, list):
        index = schema.index("null")
        written = _value(column, rows, schema[1 - index], field)
        is_null = state != PRESENT
        branches = np.where(is_null, 2 * index, 2 * (1 - index)).astype(np.uint8)
        return [(branches[:, None], np.ones((len(rows), 1), bool)), (written[0], written[1] & ~is_null[:, None])]
    if (state != PRESENT).any():
        raise ValueError(f'field "{name}" of the schema may not be null, but some events have no value')
    return [_value(column, rows, schema, field)]


def _nowhere(events: int) -> Column:
    return Column(Kind.INTEGER, np.zeros(events, np.int64), np.full(events, ABSENT, np.uint8))


def _value(column: Column, rows: NDArray[np.intp], schema: Any, field: Mapping[str, Any]) -> Rectangle:
    declared = schema if isinstance(schema, Mapping) else {"type": schema}
    avro_type, logical = declared["type"], declared.get("logicalType")
    if avro_type == "bytes" and logical == "decimal":
        return _decimals(column, rows, int(declared.get("scale", 0)))
    if avro_type in ("string", "bytes"):
        return _text(column, rows)
    if avro_type == "enum":
        return _varint(_symbols(column, rows, declared["symbols"], field["name"]))
    values = column.values[rows]
    if avro_type in ("int", "long"):
        factor = {"timestamp-micros": 1000, "timestamp-nanos": 1_000_000}.get(str(logical).removeprefix("local-"), 1)
        numbers = values.astype(np.int64) // 86_400_000 if logical == "date" else values.astype(np.int64) * factor
        present = slice(None) if column.state is None else column.state[rows] == PRESENT
        if avro_type == "int" and (misfits := np.abs(numbers[present].astype(np.float64) + 0.5) > 2.0**31).any():
            raise ValueError(f'field "{field["name"]}": {numbers[present][misfits][0]} is too large for an int of Avro')
        return _varint(numbers)
    if avro_type in ("float", "double"):
        return _fixed(values.astype("<f4" if avro_type == "float" else "<f8"))
    if avro_type == "boolean":
        return _fixed(values.astype(np.uint8))
    raise ValueError(f'field "{field["name"]}": the generators write no Avro {avro_type}')


def _constant(content: bytes, rows: int) -> Rectangle:
    data = np.broadcast_to(np.frombuffer(content, np.uint8), (rows, len(content)))
    return data, np.ones((rows, len(content)), bool)


def _fixed(values: NDArray[np.generic]) -> Rectangle:
    data = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return data, np.ones(data.shape, bool)


def _varint(values: NDArray[np.int64]) -> Rectangle:
    """Avro's zigzag integers, seven bits per byte, the lowest first."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
    shifted = zigzag[:, None] >> (7 * np.arange(width, dtype=np.uint64))
    counts = shifted != 0
    counts[:, 0] = True
    data = (shifted & np.uint64(0x7F)).astype(np.uint8)
    data[:, :-1] |= counts[:, 1:].astype(np.uint8) << 7
    return data, counts


def _text(column: Column, rows: NDArray[np.intp]) -> Rectangle:
    """A length and the entry's bytes."""
    if column.dictionary is None:
        return np.zeros((len(rows), 1), np.uint8), np.ones((len(rows), 1), bool)
    used, codes = np.unique(column.values[rows], return_inverse=True)
    entries = [column.dictionary.entry(code) if code < len(column.dictionary) else b"" for code in used.tolist()]
    lengths = np.array([len(entry) for entry in entries], np.int64)
    width = int(lengths.max(initial=0))
    table = np.frombuffer(b"".join(entry.ljust(width, b"\0") for entry in entries), np.uint8).reshape(len(entries), width)
    prefix, prefix_counts = _varint(lengths)
    counts = np.arange(width) < lengths[:, None]
    return np.concatenate([prefix, table], axis=1)[codes], np.concatenate([prefix_counts, counts], axis=1)[codes]


def _decimals(column: Column, rows: NDArray[np.intp], scale: int) -> Rectangle:
    """Each distinct number as what it is in decimal writing, rounded to the scale: two's complement, the highest byte first."""
    distinct, codes = np.unique(column.values[rows].astype(np.float64), return_inverse=True)
    unscaled = [round(Decimal(repr(value)).scaleb(scale)) for value in distinct.tolist()]
    entries = [value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True) for value in unscaled]
    return _text(Column(Kind.BYTES, codes.astype(np.int32), None, Dictionary.of(entries or [b""])), np.arange(len(rows)))


def _symbols(column: Column, rows: NDArray[np.intp], symbols: Sequence[str], field: str) -> NDArray[np.int64]:
    """int64 (rows,): the symbols' numbers; anything for events without a value, which are written as null or not at all."""
    entries = [] if column.dictionary is None else column.dictionary.entries()
    numbers = {symbol.encode(): number for number, symbol in enumerate(symbols)}
    found = np.array([numbers.get(entry, -1) for entry in entries] or [-1], np.int64)[column.values[rows]]
    strange = found < 0 if column.state is None else (found < 0) & (column.state[rows] == PRESENT)
    if strange.any():
        entry = entries[int(column.values[rows][strange][0])].decode(errors="replace") if entries else ""
        raise ValueError(f'field "{field}": "{entry}" is none of {", ".join(symbols)}')
    return np.maximum(found, 0)
