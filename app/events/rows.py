"""Rows (dictionaries) → columns, with kinds taken from the data: what readers of files share.

Pure. The hot way, decoding Kafka records, never sees a row; this is for files, tests and queries' inline tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.events.batch import NULL, VALUE_TYPES, Column, Dictionary, EventBatch, source_number
from app.events.elements import element_path
from app.events.learnt import Learnt, Piece
from app.events.types import Kind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
INT64 = range(-(1 << 63), 1 << 63)
TIME_FACTORS: Mapping[str, tuple[int, int]] = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""Unit → (multiplier, divisor) to milliseconds."""


class BadValueError(ValueError):
    """A value that cannot be what it should be; the reader adds the line."""


@dataclass(frozen=True, slots=True)
class Row:
    """One event before it becomes cells."""

    line: int
    """0-based line (or record number) in the file."""
    type: str
    time: int
    values: Mapping[str, Any]
    position: tuple[str, int, int] | None = None
    stream: str | None = None


def time_in_ms(value: object, unit: str = "ms") -> int:
    """Milliseconds since the epoch of a number in the given unit or of an ISO-8601 text (UTC without zone).

    >>> time_in_ms("1970-01-01T00:00:01.5Z"), time_in_ms(2, "s"), time_in_ms("1970-01-01T01:00:00+01:00")
    (1500, 2000, 0)
    """
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise BadValueError(f'"{value}" is no time (milliseconds or ISO-8601)') from None
        return _moment_in_ms(moment)
    if isinstance(value, datetime):
        return _moment_in_ms(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadValueError(f"{value!r} is no time (milliseconds or ISO-8601)")
    multiplier, divisor = TIME_FACTORS[unit]
    try:
        milliseconds = int(value * multiplier // divisor)
    except (ValueError, OverflowError):
        raise BadValueError(f"{value!r} is no time") from None
    if milliseconds not in INT64:
        raise BadValueError(f"the time {value} does not fit into 64 bit")
    return milliseconds


def _moment_in_ms(moment: datetime) -> int:
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MILLISECOND


def element(value: object, steps: Sequence[str | int]) -> object:
    """What the steps lead to; None if any of them leads nowhere."""
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def flattened(values: Mapping[str, Any], elements: Iterable[str] = ()) -> dict[str, Any]:
    """Nested objects by dotted names; arrays only by the elements asked for, times of day and spans of time not at all.

    >>> flattened({"a": {"b": 1}, "tags": [7, 8]}, ["tags[1]"])
    {'a.b': 1, 'tags[1]': 8}
    """
    flat: dict[str, Any] = {}
    _flatten(values, "", flat)
    for name in elements:
        steps = element_path(name)
        if steps[0] in values:
            flat[name] = element(values, steps)
    return flat


def _flatten(values: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping):
            _flatten(value, f"{prefix}{key}.", into)
        elif not isinstance(value, NO_ATTRIBUTE):
            into[f"{prefix}{key}"] = value


NO_ATTRIBUTE = (list, tuple, time_of_day, timedelta)
"""Times of day and spans of time are kinds of other languages."""
KINDS: Mapping[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    str: Kind.STRING,
    bytes: Kind.BYTES,
    datetime: Kind.TIME,
    date: Kind.TIME,
    Decimal: Kind.FLOAT,
    UUID: Kind.STRING,
}
NUMBERS = {Kind.INTEGER, Kind.FLOAT}
NAMED_FLOATS: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Floats for which JSON has no numbers, by the texts that stand for them, as in Avro's JSON."""


def converted(value: Any, kind: Kind) -> Any:
    """A value as a column of the kind stores it (text and bytes as bytes).

    Raises:
        BadValueError: it cannot be one.
    """
    own = KINDS.get(type(value))
    if own is None:
        raise BadValueError(f"{value!r} is no value of an attribute")
    return CONVERSIONS[kind](value, own)


def _to_boolean(value: Any, own: Kind) -> int:
    if own is Kind.BOOLEAN or (own is Kind.INTEGER and value in (0, 1)):
        return int(value)
    if own is Kind.STRING and value.lower() in ("true", "false"):
        return int(value.lower() == "true")
    raise BadValueError(f"{value!r} is no boolean")


def _to_integer(value: Any, own: Kind) -> int:
    if own is Kind.INTEGER or (own is Kind.FLOAT and value == value // 1):
        if int(value) in INT64:
            return int(value)
        raise BadValueError(f"{value} does not fit into 64 bit")
    raise BadValueError(f"{value!r} is no integer")


def _to_float(value: Any, own: Kind) -> float:
    if own is Kind.STRING and value in NAMED_FLOATS:
        return NAMED_FLOATS[value]
    if own not in NUMBERS:
        raise BadValueError(f"{value!r} is no number")
    return float(value)


def _to_string(value: Any, own: Kind) -> bytes:
    if own is Kind.BOOLEAN:
        return b"true" if value else b"false"
    if own in (Kind.STRING, *NUMBERS):
        return str(value).encode()
    raise BadValueError(f"{value!r} is no text")


def _to_bytes(value: Any, own: Kind) -> bytes:
    if own is Kind.BYTES:
        return bytes(value)
    if own is Kind.STRING:
        try:
            return str(value).encode("latin-1")
        except UnicodeEncodeError:
            raise BadValueError(f"{value!r} is no byte string: a byte is a character up to U+00FF, as in Avro's JSON") from None
    raise BadValueError(f"{value!r} is no byte string")


def _to_time(value: Any, own: Kind) -> int:
    if own is Kind.TIME and not isinstance(value, datetime):
        return time_in_ms(datetime(value.year, value.month, value.day, tzinfo=UTC))
    return time_in_ms(value)


CONVERSIONS: Mapping[Kind, Callable[[Any, Kind], Any]] = {
    Kind.BOOLEAN: _to_boolean,
    Kind.INTEGER: _to_integer,
    Kind.FLOAT: _to_float,
    Kind.STRING: _to_string,
    Kind.BYTES: _to_bytes,
    Kind.TIME: _to_time,
    Kind.DURATION: _to_integer,
}


def piece_of_rows(rows: Sequence[Row], learnt: Learnt) -> tuple[Piece | None, list[tuple[int, str]]]:
    """Rows as a piece; `learnt` takes what they teach.

    Returns:
        The piece (None without a row), and (line, message) of the rows left out because a value contradicts the kind of its attribute.
    """
    bad: dict[int, str] = {}
    shapes = dict.fromkeys((row.type, *row.values) for row in rows)
    names = dict.fromkeys(name for shape in shapes for name in shape[1:])
    cells = {name: [row.values.get(name) for row in rows] for name in names}
    for name, values in cells.items():
        _learn(learnt, name, values, bad)
    if bad:
        piece, _ = piece_of_rows([row for k, row in enumerate(rows) if k not in bad], learnt)
        return piece, [(rows[k].line, message) for k, message in sorted(bad.items())]
    if not rows:
        return None, []
    learnt.shapes.update(shapes)
    lines = np.array([row.line for row in rows], dtype=np.int64)
    batch = EventBatch(
        time=np.array([row.time for row in rows], dtype=np.int64),
        source=np.zeros(len(rows), dtype=np.int64),
        offset=lines,
        type=column_of([row.type for row in rows], Kind.STRING),
        columns={name: column_of(values, learnt.kinds[name]) for name, values in cells.items() if name in learnt.kinds},
    )
    streams = [None if row.stream is None else str(row.stream) for row in rows]
    named = column_of(streams, Kind.STRING) if any(name is not None for name in streams) else None
    return _positioned(Piece(batch, lines, named), [row.position for row in rows], learnt), []


def _learn(learnt: Learnt, name: str, values: Sequence[Any], bad: dict[int, str]) -> None:
    """Sets or widens the kind of an attribute; notes rows that contradict it."""
    classes = {KINDS.get(kind) for kind in set(map(type, values)) - {type(None)}}
    known, given = learnt.known(name), name in learnt.given
    if known is None and classes:
        known = _first_kind(values)
    if known is None:
        return
    named = Kind.STRING in classes and any(map(_names_float, values))
    if known is Kind.INTEGER and not given and (named or Kind.FLOAT in classes or _has_huge(values, classes)):
        known = Kind.FLOAT
    learnt.kinds[name] = known
    fits = {Kind.FLOAT: NUMBERS}.get(known, {known})
    if classes <= fits and not (known is Kind.INTEGER and _has_huge(values, classes)):
        return
    for k, value in enumerate(values):
        if value is None:
            continue
        try:
            if not given and KINDS.get(type(value)) not in fits and not (known is Kind.FLOAT and _names_float(value)):
                raise BadValueError(f"{value!r} is no {known}, as in the lines before")  # noqa: TRY301
            converted(value, known)
        except BadValueError as error:
            bad.setdefault(k, f'attribute "{name}": {error}')


def _first_kind(values: Sequence[Any]) -> Kind:
    """The kind of the first value that there is; texts that stand for floats are floats where the next one that stands for itself is a number."""
    present = [value for value in values if value is not None]
    own = next((KINDS.get(type(value), Kind.STRING) for value in present if not _names_float(value)), Kind.STRING)
    if not _names_float(present[0]):
        return own
    return Kind.FLOAT if own in NUMBERS else Kind.STRING


def _names_float(value: Any) -> bool:
    return isinstance(value, str) and value in NAMED_FLOATS


def _positioned(piece: Piece, positions: Sequence[tuple[str, int, int] | None], learnt: Learnt) -> Piece:
    """The piece with the places that its rows name."""
    topics = tuple(sorted({position[0] for position in positions if position is not None}))
    if not topics:
        return piece
    learnt.topics.update(topics)
    place = {topic: k for k, topic in enumerate(topics)}
    source, offset = piece.batch.source.copy(), piece.batch.offset.copy()
    for k, position in enumerate(positions):
        if position is not None:
            source[k] = source_number(place[position[0]], position[1])
            offset[k] = position[2]
    batch = EventBatch(piece.batch.time, source, offset, piece.batch.type, piece.batch.columns)
    return replace(piece, batch=batch, topics=topics, positioned=np.array([position is not None for position in positions]))


def _has_huge(values: Sequence[Any], classes: set[Kind | None]) -> bool:
    if Kind.INTEGER not in classes:
        return False
    integers = [value for value in values if type(value) is int]
    return min(integers) < INT64.start or max(integers) >= INT64.stop


def column_of(values: Sequence[Any], kind: Kind) -> Column:
    """A column of Python values; None is NULL."""
    missing = None in values
    state = np.array([NULL if value is None else 0 for value in values], dtype=np.uint8) if missing else None
    if kind.textual:
        return _text_column(values, kind, state)
    plain = {type(value) for value in values if value is not None} <= ({int, bool} if kind is not Kind.FLOAT else {int, float})
    fill = [(0 if value is None else value) for value in values] if missing else values
    if not plain:
        fill = [0 if value is None else converted(value, kind) for value in values]
    return Column(kind, np.array(fill, dtype=VALUE_TYPES[kind]), state)


def _text_column(values: Sequence[Any], kind: Kind, state: NDArray[np.uint8] | None) -> Column:
    if not {type(value) for value in values} <= ({str, type(None)} if kind is Kind.STRING else {bytes, type(None)}):
        values = [None if value is None else converted(value, kind) for value in values]
    array = pa.array([b"" if value is None else value for value in values], type=pa.large_binary()).dictionary_encode()
    entries = array.dictionary
    offsets = np.frombuffer(entries.buffers()[1], dtype=np.int64)[: len(entries) + 1] if len(entries) else np.zeros(1, np.int64)
    data = np.frombuffer(entries.buffers()[2] or b"", dtype=np.uint8)
    return Column(kind, np.asarray(array.indices, dtype=np.int32), state, Dictionary(data, offsets))
