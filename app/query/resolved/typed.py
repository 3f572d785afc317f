"""Values with their kinds, and how many arguments functions take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.events.types import Kind
from app.query import expressions as e
from app.query.tree.timestamps import parse_timestamp

AGGREGATES = ("count", "sum", "avg", "min", "max", "first", "last")
FUNCTIONS = {
    "abs": 1,
    "min": 2,
    "max": 2,
    "round": 1,
    "floor": 1,
    "ceil": 1,
    "length": 1,
    "lower": 1,
    "upper": 1,
    "distance": 4,
    "haversine": 4,
}
"""Functions and how many arguments they take (min and max: at least)."""
ARGUMENTS = {1: "x", 2: "x, y", 4: "x1, y1, x2, y2"}


@dataclass(frozen=True, slots=True)
class Typed:
    """A value and its kind; ``kind`` None: unknown, it agrees with every kind."""

    value: e.Expression
    kind: Kind | None
    array: bool = False
    constant_text: str | None = None


BAD = Typed(e.Literal(Kind.INTEGER, None), None)


def of_kind(typed: Typed, kind: Kind) -> Typed:
    """An attribute of unknown kind, read as the kind it is compared with."""
    if isinstance(typed.value, e.AttributeOf):
        value = e.AttributeOf(kind, typed.value.item, typed.value.attribute, typed.value.index)
        return Typed(value, kind, typed.array)
    return typed


def beside_timestamps(arguments: Sequence[Typed]) -> list[Typed]:
    """Of min and max, which take no texts: where the others are of unknown kind, texts that are timestamps are times."""
    kinds = {one.kind for one in arguments if one.constant_text is None}
    if kinds != {None}:
        return list(arguments)
    try:
        return [one if one.constant_text is None else _time(one.constant_text) for one in arguments]
    except ValueError:
        return list(arguments)


def _time(text: str) -> Typed:
    return Typed(e.Literal(Kind.TIME, parse_timestamp(text)), Kind.TIME)
