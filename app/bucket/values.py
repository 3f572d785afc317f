"""Values of return fields and partition keys as Python objects: for commands, dead ends and what is rare; events flow as columns (`app.bucket.encoding`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.cep.matches import Lists
from app.events.batch import PRESENT, Column
from app.events.types import Kind


def key_text(values: Sequence[Any]) -> str:
    r"""Key values as one text.

    >>> key_text(["T1"]), key_text([7, 'a,b', True])
    ('T1', '7,a\\,b,true')
    >>> key_text([None])  # of temporal queries
    'null'
    """
    if len(values) == 1:
        return _text(values[0])
    return ",".join(_text(value).replace("\\", "\\\\").replace(",", "\\,") for value in values)


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)


def field_values(field: Column | Lists, kind: Kind | None = None) -> list[Any]:
    """A return field as Python values: as `plain_values`, and lists where it holds them; an empty list is null."""
    if isinstance(field, Column):
        return plain_values(field, kind)
    values = plain_values(field.values, kind)
    return [values[start:stop] or None for start, stop in pairwise(field.starts.tolist())]


def plain_values(column: Column, kind: Kind | None = None) -> list[Any]:
    """A column as Python values: None where null or absent; times and durations in milliseconds."""
    make = _PLAIN.get(kind or column.kind, _numbers)
    values = make(compacted(column) if column.dictionary is not None else column)
    if column.state is None:
        return values
    return [value if state == PRESENT else None for value, state in zip(values, column.state.tolist(), strict=True)]


def _numbers(column: Column) -> list[Any]:
    return column.values.tolist()


def rounded(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers, half away from zero; what is none (NaN, infinity) stays.

    Decided by the fraction: a half that is added first is rounded itself, of odd numbers from 2^52 on to the next even one.

    >>> rounded(np.array([0.5, -2.5, 2.4])).tolist()
    [1.0, -3.0, 2.0]
    >>> rounded(np.array([2.0**52 + 1, 0.49999999999999994])).tolist()
    [4503599627370497.0, 0.0]
    """
    fraction, whole = np.modf(values)
    return whole + np.copysign(np.abs(fraction) >= 0.5, values)


def _milliseconds(column: Column) -> list[Any]:
    """Times and durations are written as whole milliseconds, half away from zero; what is none (NaN, infinity) is null."""
    if column.values.dtype.kind != "f":
        return column.values.tolist()
    return [int(value) if math.isfinite(value) else None for value in rounded(column.values).tolist()]


def _booleans(column: Column) -> list[Any]:
    return [bool(value) for value in column.values.tolist()]


def _by_code(entries: Sequence[Any], codes: NDArray[np.generic]) -> list[Any]:
    return [entries[code] for code in codes.tolist()] if entries else [None] * len(codes)


def _strings(column: Column) -> list[Any]:
    assert column.dictionary is not None  # noqa: S101 - text columns have one
    return _by_code([entry.decode(errors="replace") for entry in column.dictionary.entries()], column.values)


def _bytes(column: Column) -> list[Any]:
    assert column.dictionary is not None  # noqa: S101 - text columns have one
    return _by_code(column.dictionary.entries(), column.values)


_PLAIN: dict[Kind, Callable[[Column], list[Any]]] = {
    Kind.BOOLEAN: _booleans,
    Kind.STRING: _strings,
    Kind.BYTES: _bytes,
    Kind.TIME: _milliseconds,
    Kind.DURATION: _milliseconds,
}


def json_fields(fields: dict[str, Any]) -> dict[str, Any]:
    r"""Return fields as JSON holds them: NaN and infinity are null, bytes are texts of their code points (as in Avro's JSON).

    >>> json_fields({"x": float("nan"), "b": b"\xff"})
    {'x': None, 'b': 'ÿ'}
    """
    return {name: _json_value(value) for name, value in fields.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [_json_value(element) for element in value] if isinstance(value, list) else value


def whole_numbers(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Floats as whole numbers, half away from zero; and which are none, or none of 64 bit.

    >>> [found.tolist() for found in whole_numbers(np.array([-2.5, 9e18, 1e19, np.nan]))]
    [[-3, 9000000000000000000, 0, 0], [False, False, True, True]]
    """
    whole = rounded(values)
    fits = np.isfinite(whole) & (whole >= -(2.0**63)) & (whole < 2.0**63)
    return np.where(fits, whole, 0.0).astype(np.int64), ~fits
