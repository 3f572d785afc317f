"""The regions of one attribute: sorted constants cut its domain, and every region has the bitmap of the items it lets through.

**Source:** Lee and Lee, Attribute Selection Constructs, JIIS 39(2) 2012, section 3 (``ra``, ``qrb``, ``qub``). Deviates: three more
regions, for NaN, null and absent; items instead of queries own the bits.
"""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.query.plan import ConstantTest

Point = int | float | bytes
_INT64 = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class BitTest:
    """A test of the item that owns a bit of the result bitmap."""

    bit: int
    test: ConstantTest


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a constant lies among the regions: all values of regions below ``lower`` are less, all from ``upper`` on are greater."""

    lower: int
    upper: int


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """What selection needs to know about one attribute.

    Attributes:
        points: the constants, ascending; (m,) int64 or float64, or sorted byte strings.
        table: uint64 (2 m + 1 + 3, words): per region, NaN, null, absent the bitmap of the items that it lets through.
        usage: uint64 (words,), items that test the attribute (``qub``).
    """

    points: Sequence[Point] | NDArray[np.int64] | NDArray[np.float64]
    table: NDArray[np.uint64]
    usage: NDArray[np.uint64]


def integer_regions(tests: Sequence[BitTest], words: int) -> Regions:
    """Regions of a column of integers; constants that are no integers of 64 bit divide it exactly all the same."""
    points = _sorted_points(_floor(constant) for constant in _constants(tests))
    inside = [point for point in points if _INT64[0] <= point <= _INT64[1]]  # type: ignore[operator]  # numbers

    def place(constant: Point) -> _Place:
        floor = _floor(constant)
        if not _INT64[0] <= floor <= _INT64[1]:
            end = 2 * len(inside) + 1 if floor > 0 else 0
            return _Place(end, end)
        k = bisect_left(inside, floor)
        return _Place(2 * k + 1, 2 * k + 2) if floor == constant else _Place(2 * k + 2, 2 * k + 2)

    return Regions(np.array(inside, dtype=np.int64), _table(tests, len(inside), words, place), _usage(tests, words))


def float_regions(tests: Sequence[BitTest], words: int) -> Regions:
    """Regions of a column of doubles; integer constants that are no doubles divide it exactly all the same."""
    points = _sorted_points(_double_below(constant) for constant in _constants(tests))

    def place(constant: Point) -> _Place:
        below = _double_below(constant)
        k = bisect_left(points, below)
        return _Place(2 * k + 1, 2 * k + 2) if below == constant else _Place(2 * k + 2, 2 * k + 2)

    return Regions(np.array(points, dtype=np.float64), _table(tests, len(points), words, place), _usage(tests, words))


def text_regions(tests: Sequence[BitTest], words: int) -> Regions:
    """Regions of a column of byte strings; ``like`` takes no part, see `like_tests`."""
    points = _sorted_points(_encoded(constant) for constant in _constants(tests))

    def place(constant: Point) -> _Place:
        k = bisect_left(points, _encoded(constant))
        return _Place(2 * k + 1, 2 * k + 2)

    return Regions(points, _table(tests, len(points), words, place), _usage(tests, words))


@dataclass(frozen=True, slots=True)
class LikeTest:
    """A compiled ``[not] like`` of the item that owns a bit."""

    bit: int
    pattern: re.Pattern[str]
    negated: bool

    def holds(self, text: str) -> bool:
        """Whether the text passes."""
        return (self.pattern.fullmatch(text) is not None) != self.negated


def like_tests(tests: Sequence[BitTest]) -> tuple[LikeTest, ...]:
    """The ``like`` tests among the tests: they cut no regions, but are asked once per dictionary entry."""
    return tuple(
        LikeTest(
            entry.bit, re.compile(_like_expression(_encoded(entry.test.values[0]).decode()), re.DOTALL), entry.test.operator == "not like"
        )
        for entry in tests
        if entry.test.operator in ("like", "not like")
    )


def _like_expression(pattern: str) -> str:
    r"""The regular expression of a LIKE pattern.

    >>> _like_expression("a%b_.")
    'a.*b.\\.'
    """
    return "".join({"%": ".*", "_": "."}.get(character) or re.escape(character) for character in pattern)


def _constants(tests: Sequence[BitTest]) -> Iterable[Any]:
    return (value for entry in tests if "like" not in entry.test.operator for value in entry.test.values if value is not None)


def _sorted_points(points: Iterable[Point]) -> list[Point]:
    return sorted(set(points))  # all of one kind


def _floor(constant: Point) -> int:
    if isinstance(constant, float) and math.isinf(constant):
        return sys.maxsize * 4 if constant > 0 else -sys.maxsize * 4
    return math.floor(constant)  # type: ignore[arg-type]


def _double_below(constant: Point) -> float:
    """The greatest double that is not greater than the constant."""
    try:
        nearest = float(constant)
    except OverflowError:
        nearest = math.inf if constant > 0 else -math.inf  # type: ignore[operator]
    return nearest if nearest <= constant else math.nextafter(nearest, -math.inf)  # type: ignore[operator]


def _encoded(constant: object) -> bytes:
    return constant if isinstance(constant, bytes) else str(constant).encode()


def _table(tests: Sequence[BitTest], points: int, words: int, place: Callable[[Point], _Place]) -> NDArray[np.uint64]:
    """Starts from all ones and takes away, per test, the item's bit wherever the test cannot hold."""
    regions = 2 * points + 1
    table = np.full((regions + 3, words), ~np.uint64(0), dtype=np.uint64)
    number = np.arange(regions)
    for entry in tests:
        word, bit = divmod(entry.bit, 64)
        allowed = np.empty(regions + 3, dtype=np.bool_)
        allowed[:regions] = _allowed(entry.test, number, place)
        allowed[regions:] = _allowed_specials(entry.test)
        table[~allowed, word] &= ~np.uint64(1 << bit)
    return table


def _allowed(test: ConstantTest, number: NDArray[np.int64], place: Callable[[Point], _Place]) -> NDArray[np.bool_]:
    """Which regions pass; ``like`` is asked elsewhere and so lets all pass here."""
    if test.operator in ("is not null", "like", "not like"):
        return np.ones(len(number), dtype=np.bool_)
    if test.operator == "is null":
        return np.zeros(len(number), dtype=np.bool_)
    places = [place(value) for value in test.values if value is not None]  # type: ignore[arg-type]
    return _RELATIONS[test.operator](number, places)


def _equal(number: NDArray[np.int64], places: Sequence[_Place]) -> NDArray[np.bool_]:
    found = np.zeros(len(number), dtype=np.bool_)
    for place in places:
        found[place.lower : place.upper] = True
    return found


def _between(number: NDArray[np.int64], places: Sequence[_Place]) -> NDArray[np.bool_]:
    return (number >= places[0].lower) & (number < places[1].upper)


_RELATIONS: dict[str, Callable[[NDArray[np.int64], Sequence[_Place]], NDArray[np.bool_]]] = {
    "=": _equal,
    "!=": lambda number, places: ~_equal(number, places),
    "in": _equal,
    "not in": lambda number, places: ~_equal(number, places),
    "<": lambda number, places: number < places[0].lower,
    "<=": lambda number, places: number < places[0].upper,
    ">": lambda number, places: number >= places[0].upper,
    ">=": lambda number, places: number >= places[0].lower,
    "between": _between,
    "not between": lambda number, places: ~_between(number, places),
}


def _allowed_specials(test: ConstantTest) -> tuple[bool, bool, bool]:
    """NaN (false in every comparison, also negated ones), null (only ``is null`` sees it), absent (every comparison is true)."""
    return test.operator == "is not null", test.operator == "is null", True


def _usage(tests: Sequence[BitTest], words: int) -> NDArray[np.uint64]:
    usage = np.zeros(words, dtype=np.uint64)
    for entry in tests:
        usage[entry.bit // 64] |= np.uint64(1 << entry.bit % 64)
    return usage
