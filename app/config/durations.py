"""Durations as people write them: ``5 s``, ``1.5 hours``, ``200ms``; inside, milliseconds, whole ones save in a query's expressions."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

_UNITS_MS = {
    "ms": 1,
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
}
DURATION_PATTERN = r"^\s*\d+(\.\d+)?\s*[a-z]+\s*$"


def parse_duration(text: object) -> int:
    """The milliseconds of a duration, rounded to whole ones: a number, an optional blank, a unit.

    >>> parse_duration("5 s"), parse_duration("1.5h"), parse_duration("200 ms")
    (5000, 5400000, 200)

    Raises:
        ValueError: no number, no unit, an unknown unit.
    """
    return round(parse_milliseconds(text))


def parse_milliseconds(text: object) -> int | float:
    """The milliseconds of a duration; with their fraction, where they have one.

    >>> parse_milliseconds("1.001 s"), parse_milliseconds("0.5 ms")
    (1001, 0.5)

    Raises:
        ValueError: see `parse_duration`.
    """
    if not isinstance(text, str):
        raise ValueError(f'a duration needs a unit, for instance "{text} s"')  # noqa: TRY004 - pydantic collects ValueErrors
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if found is None or found[2] not in _UNITS_MS:
        raise ValueError(f'"{text}" is no duration; write a number and one of ms, s, m, h, d, w, for instance "5 s"')
    exact = Decimal(found[1]) * _UNITS_MS[found[2]]
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def format_duration(milliseconds: float) -> str:
    """A duration in its largest whole unit.

    >>> format_duration(90_000), format_duration(3_600_000), format_duration(0), format_duration(0.5)
    ('90 s', '1 h', '0 s', '0.5 ms')
    """
    if isinstance(milliseconds, float) and not milliseconds.is_integer():
        return f"{Decimal(repr(milliseconds)):f} ms"
    milliseconds = int(milliseconds)
    units = (("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
    unit, size = next(((u, s) for u, s in units if milliseconds >= s and milliseconds % s == 0), ("s" if milliseconds == 0 else "ms", 1))
    return f"{milliseconds // size} {unit}"


def _from_settings(value: object) -> int:
    return parse_duration(value)


Duration = Annotated[
    int,
    BeforeValidator(_from_settings),
    Field(ge=0),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
]
"""A setting that is written as a duration and read as milliseconds."""
