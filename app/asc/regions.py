"""The regions of one attribute: sorted constants cut its domain, and every region has the bitmap of the items it lets through.

**Source:** Lee and Lee, Attribute Selection Constructs, JIIS 39(2) 2012, sections 3 (``ra``, ``qrb``, ``qub``) and 4.1 (``cab``).
Deviates: three more regions, for NaN, null and absent; items instead of queries own the bits.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.asc.likes import LikeTest, like_range
from app.query.plan import ConstantTest

Point = int | float | bytes
Form = Literal["integers", "floats", "text"]
LIKES = ("like", "not like")
SPECIALS = 3
"""Rows behind the regions: NaN, null, absent."""
_INT64 = (-(1 << 63), (1 << 63) - 1)


LINE_WORDS = 8
"""Words in a line of the cache."""


@dataclass(frozen=True, slots=True)
class BitTest:
    """A test of the item that owns a bit of the result bitmap."""

    bit: int
    test: ConstantTest


_Place = tuple[int, int]
"""Where a constant lies among the regions: all values of regions below the first number are less, all from the second on are greater."""


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """What selection needs to know about one attribute.

    Attributes:
        points: the constants, ascending; (m,) int64 or float64, or sorted byte strings.
        table: uint64 (2 m + 1 + 3, words): per region, NaN, null, absent the bitmap of the items that it lets through (``qrb``).
        usage: uint64 (words,), items that test the attribute (``qub``).
        turns: int64 (turns,) each, bit and row, in this order: the rows from which on a bit fails, or passes again; before row 0 it passes.
    """

    points: Sequence[Point] | NDArray[np.int64] | NDArray[np.float64]
    table: NDArray[np.uint64]
    usage: NDArray[np.uint64]
    turns: tuple[NDArray[np.int64], NDArray[np.int64]]

    @property
    def not_a_number(self) -> int:
        """The row for NaN; null and absent follow."""
        return 2 * len(self.points) + 1


def candidate_arrows(table: NDArray[np.uint64], usages: NDArray[np.uint64], own: int) -> NDArray[np.bool_]:
    """Where a micro-arrow of a region may lead (``cab``): to constructs that can fail an item which the region lets through.

    Args:
        table: uint64 (regions, words) of the construct.
        usages: uint64 (constructs, words).
        own: number of the construct; no arrow leads to itself.

    Returns:
        bool (regions, constructs).
    """
    found = np.zeros((len(table), len(usages)), dtype=np.bool_)
    for number, usage in enumerate(usages):
        if number != own:
            found[:, number] = (table & usage).any(axis=1)
    return found


def regions_of(form: Form, tests: Sequence[BitTest], words: int) -> Regions:
    """The regions of a column of the form; constants that its values cannot equal divide it exactly all the same."""
    return _MAKE[form](tests, words)


def _integer_regions(tests: Sequence[BitTest], words: int) -> Regions:
    floors = {constant: _floor(constant) for constant in _constants(tests)}
    inside = sorted({floor for floor in floors.values() if _INT64[0] <= floor <= _INT64[1]})

    def place(constant: Point, floor: int) -> _Place:
        if not _INT64[0] <= floor <= _INT64[1]:
            end = 2 * len(inside) + 1 if floor > 0 else 0
            return end, end
        k = bisect_left(inside, floor)
        return (2 * k + 1, 2 * k + 2) if floor == constant else (2 * k + 2, 2 * k + 2)

    return _regions(
        np.array(inside, dtype=np.int64), {constant: place(constant, floor) for constant, floor in floors.items()}, tests, words
    )


def _float_regions(tests: Sequence[BitTest], words: int) -> Regions:
    belows = {constant: _double_below(constant) for constant in _constants(tests)}
    points = sorted(set(belows.values()))
    number = {point: k for k, point in enumerate(points)}
    places = {constant: (2 * number[below] + 1 + (below != constant), 2 * number[below] + 2) for constant, below in belows.items()}
    return _regions(np.array(points, dtype=np.float64), places, tests, words)


def _text_regions(tests: Sequence[BitTest], words: int) -> Regions:
    constants = set(_constants(tests))
    points = sorted({_encoded(constant) for constant in constants})
    number = {point: k for k, point in enumerate(points)}
    places = {constant: (2 * number[_encoded(constant)] + 1, 2 * number[_encoded(constant)] + 2) for constant in constants}
    return _regions(points, places, tests, words)


_MAKE: dict[Form, Callable[[Sequence[BitTest], int], Regions]] = {
    "integers": _integer_regions,
    "floats": _float_regions,
    "text": _text_regions,
}


def like_tests(tests: Sequence[BitTest]) -> tuple[LikeTest, ...]:
    """The ``like`` tests that no range of texts decides: regions let all pass, and they are asked once per dictionary entry."""
    asked = (entry for entry in tests if entry.test.operator in LIKES and not _values(entry.test))
    return tuple(LikeTest.of(entry.bit, _encoded(entry.test.values[0]).decode(), entry.test.operator) for entry in asked)


def _constants(tests: Sequence[BitTest]) -> Iterable[Any]:
    return (value for entry in tests for value in _values(entry.test))


def _values(test: ConstantTest) -> Sequence[Any]:
    """The constants that cut regions."""
    if test.operator in LIKES:
        return like_range(_encoded(test.values[0]).decode()) or ()
    return test.values if None not in test.values else [value for value in test.values if value is not None]


def _floor(constant: Point) -> int:
    if isinstance(constant, float) and math.isinf(constant):
        return sys.maxsize * 4 if constant > 0 else -sys.maxsize * 4
    return math.floor(constant)  # type: ignore[arg-type]


def _double_below(constant: Point) -> float:
    """The greatest double that is not greater than the constant."""
    if isinstance(constant, float):
        return constant
    try:
        nearest = float(constant)
    except OverflowError:
        nearest = math.inf if constant > 0 else -math.inf  # type: ignore[operator]
    return nearest if nearest <= constant else math.nextafter(nearest, -math.inf)  # type: ignore[operator]


def _encoded(constant: object) -> bytes:
    return constant if isinstance(constant, bytes) else str(constant).encode()


def _regions(points: Any, places: dict[Any, _Place], tests: Sequence[BitTest], words: int) -> Regions:
    """Bitmaps by differences: between neighbouring regions only those bits change that a constant there concerns.

    A bit is failed by a number of tests; it is taken away where this number is not 0. For 10,000 tests on ten attributes this takes
    a tenth of the time that clearing bits test by test takes (`ops/bench/README.md`).
    """
    regions = 2 * len(points) + 1
    known: dict[Any, tuple[list[int], list[int]]] = {}
    failed: tuple[list[int], list[int], list[int]] = ([], [], [])  # bit, first and last + 1 of a run of rows that fail a test
    for entry in tests:
        test = entry.test
        key = (test.operator, test.values)
        runs = known.get(key)
        if runs is None:
            runs = known[key] = _failed_rows(test, places, regions)
        failed[0].extend([entry.bit] * len(runs[0]))
        failed[1].extend(runs[0])
        failed[2].extend(runs[1])
    rows = regions + SPECIALS
    changes = np.zeros((rows + 1, words), dtype=np.uint64)
    bit = row = np.zeros(0, dtype=np.int64)
    if failed[0]:
        bits, starts, stops = np.array(failed, dtype=np.int64)
        keys = np.concatenate([bits, bits]) * (rows + 1) + np.concatenate([starts, stops])
        order = np.argsort(keys, kind="stable")
        keys, failures = keys[order], np.cumsum(np.repeat([1, -1], len(bits))[order])  # per bit, the sum ends at 0
        final = np.append(keys[1:] != keys[:-1], True)
        keys, gone = keys[final], failures[final] > 0
        turned = gone != np.append(False, gone[:-1])
        bit, row = np.divmod(keys[turned], rows + 1)
        np.bitwise_xor.at(changes, (row, bit // 64), np.uint64(1) << (bit % 64).astype(np.uint64))
    table = _aligned(rows, words)
    np.bitwise_xor.accumulate(changes[:-1], axis=0, out=table)
    np.bitwise_not(table, out=table)
    usage = np.zeros(words, dtype=np.uint64)
    bits = np.array([entry.bit for entry in tests], dtype=np.int64)
    np.bitwise_or.at(usage, bits // 64, np.uint64(1) << (bits % 64).astype(np.uint64))
    return Regions(points, table, usage, (bit, row))


def _failed_rows(test: ConstantTest, places: dict[Any, _Place], regions: int) -> tuple[list[int], list[int]]:
    """Runs of rows that fail, those behind the regions included: where they begin and end. A ``like`` that no range decides lets all pass here."""
    values = _values(test)
    undecided = test.operator == "is not null" or (test.operator in LIKES and not values)
    runs = [] if undecided else _FAILED[test.operator]([places[value] for value in values], regions)
    lows, highs = [low for low, high in runs if low < high], [high for low, high in runs if low < high]
    specials = [regions + k for k, allowed in enumerate(_allowed_specials(test)) if not allowed]
    return lows + specials, highs + [row + 1 for row in specials]


def _outside(places: Sequence[_Place], regions: int) -> list[_Place]:
    """Regions that hold none of the constants."""
    if len(places) == 1:
        return [(0, places[0][0]), (places[0][1], regions)]
    cuts = sorted(set(places))
    return list(zip([0, *(stop for _, stop in cuts)], [*(start for start, _ in cuts), regions], strict=True))


_FAILED: dict[str, Callable[[Sequence[_Place], int], list[_Place]]] = {
    "=": _outside,
    "!=": lambda places, _: list(places),
    "in": _outside,
    "not in": lambda places, _: list(set(places)),
    "<": lambda places, regions: [(places[0][0], regions)],
    "<=": lambda places, regions: [(places[0][1], regions)],
    ">": lambda places, _: [(0, places[0][1])],
    ">=": lambda places, _: [(0, places[0][0])],
    "between": lambda places, regions: [(0, places[0][0]), (places[1][1], regions)],
    "not between": lambda places, _: [(places[0][0], places[1][1])],
    "like": lambda places, regions: [(0, places[0][0]), (places[1][0], regions)],
    "not like": lambda places, _: [(places[0][0], places[1][0])],
    "is null": lambda _, regions: [(0, regions)],
}


def _allowed_specials(test: ConstantTest) -> tuple[bool, bool, bool]:
    """NaN (false in every comparison, also negated ones), null (only ``is null`` sees it), absent (every comparison is true)."""
    return test.operator == "is not null", test.operator == "is null", True


def _aligned(rows: int, words: int) -> NDArray[np.uint64]:
    """uint64 (rows, words) that begins with a line of the processor's cache, undefined: the widest registers load it in half the time."""
    room = np.empty(rows * words + LINE_WORDS, dtype=np.uint64)
    first = (-room.ctypes.data // 8) % LINE_WORDS
    return room[first : first + rows * words].reshape(rows, words)
