"""One attribute of a stream and all tests on it: its regions, and how the region of a column's value is found.

* integers between constants that are not far apart: a table of all values;
* other numbers: the cell of the value, then a binary search among the cell's constants;
* texts: the region of every dictionary entry, found once per dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc import arrays as at
from app.asc.kernels import entry_regions
from app.asc.likes import LikeTest
from app.asc.lists import RegionLists, region_lists
from app.asc.ranges import Ranges, ranges_of
from app.asc.regions import SPECIALS, BitTest, Form, Regions, like_tests, regions_of
from app.events.batch import ABSENT, PRESENT, Column, Dictionary
from app.events.types import Kind

DIRECT_VALUES = 1 << 14
"""Integers are looked up in a table of all values when the constants span no more: 64 kB stay in the second-level cache."""
FEW_ENTRIES = 16
"""Of a dictionary, that are looked at for whether any can fail a test."""
MOST_COMBINATIONS = 4096
"""Of regions and failed ``like`` tests, that are remembered from batch to batch; random texts make new ones for ever."""
FAR_OUT = 1 << 62
"""Values before and behind the constants must be integers of 64 bit as well."""
DOUBLINGS = 10
"""Cells halve towards the lowest constant so often; constants that lie a thousand times closer together than all of them share a cell."""
CELLS_PER_CONSTANT = 0.5
"""In the last doubling, where half of evenly spread constants lie."""
FORMS: dict[Kind, Form] = {Kind.FLOAT: "floats", Kind.STRING: "text", Kind.BYTES: "text"}
"""How a kind's columns store values; other kinds as integers."""
_FORM_OF_DTYPE: dict[str, Form] = {"i": "integers", "u": "integers", "b": "integers", "f": "floats"}


@dataclass(frozen=True, slots=True, eq=False)
class PreparedColumn:
    """A column of a batch as the kernels read it.

    Attributes:
        fields: int64 (`arrays.FIELDS`,).
        scales: float64 (`arrays.SCALES`,).
        kept: arrays whose addresses are in ``fields``; they must live as long as it is used.
    """

    fields: NDArray[np.int64]
    scales: NDArray[np.float64]
    kept: tuple[NDArray[np.generic], ...]


class AttributeSelection:
    """All tests of all items on one attribute, as regions and bitmaps.

    What it holds depends on the queries alone; regions are made when a column of the form (integers, floats, text) is first seen.

    Attributes:
        form: of the columns that the queries' schema promises; numbers of its regions are those of micro-arrows.
    """

    def __init__(self, attribute: str, tests: Sequence[BitTest], words: int) -> None:
        self.attribute = attribute
        self._tests = tuple(tests)
        self._words = words
        kinds = [entry.test.kind for entry in tests if entry.test.values] or [tests[0].test.kind]
        self.form: Form = FORMS.get(kinds[0], "integers")
        self._numbers: dict[Form, _NumberLookup] = {}
        self._text: _TextLookup | None = None
        self._only_null_tests = all(entry.test.operator == "is not null" for entry in tests)

    @property
    def tests(self) -> int:
        """How many tests the attribute has."""
        return len(self._tests)

    @property
    def regions(self) -> Regions:
        """Those of the promised form."""
        return self._texts().regions if self.form == "text" else self._numbers_of(self.form).regions

    @property
    def likes(self) -> list[str]:
        """The ``like`` tests that are asked once per distinct text, for people."""
        asked = [entry.test for entry in self._tests if like_tests([entry])]
        return list(dict.fromkeys(f"{test.operator} {test.values[0]!r}" for test in asked))

    @property
    def table(self) -> NDArray[np.uint64]:
        """uint64 (rows, words): bitmaps of the regions, and behind them those of texts that fail every ``like`` asked of the text."""
        return self._texts().known_rows if self.form == "text" else self.regions.table

    def idle(self, column: Column) -> bool:
        """Whether it is known at little cost that no value of this column can fail a test: a stream of one type is a common case."""
        if column.state is not None:
            return False
        if column.dictionary is None or self._only_null_tests:
            return self._only_null_tests
        return len(column.dictionary) <= FEW_ENTRIES and self._texts().lets_all_pass(column.dictionary)

    def lists(self, column: Column, items: NDArray[np.uint64], longest: int) -> RegionLists | None:
        """The items, of those given, that every region of a column of this form lets through; None where these are more than ``longest`` on average.

        Nor are there any where a ``like`` is asked of every text.
        """
        lookup = self._numbers_of(_FORM_OF_DTYPE[column.values.dtype.kind]) if column.dictionary is None else self._texts()
        if lookup.lists is None and not lookup.listed:
            lookup.lists, lookup.listed = region_lists(lookup.regions.table, items, longest), True
        return lookup.lists

    def ranges(self, column: Column) -> Ranges | None:
        """What a column of this form lets through for every bit, where that is one range for each."""
        return None if column.dictionary is not None else self._numbers_of(_FORM_OF_DTYPE[column.values.dtype.kind]).ranges

    def prepare(self, column: Column) -> PreparedColumn:
        """Makes a column ready for the kernels; of strings, every dictionary entry is looked at once."""
        if column.dictionary is not None:
            text = self._texts()
            fields, kept = text.fields(column.dictionary)
            return _prepared(fields, text.scales, column, (np.require(column.values, np.int32, ["C", "A"]), *kept))
        form = _FORM_OF_DTYPE[column.values.dtype.kind]
        numbers = self._numbers_of(form)
        values = np.require(column.values, np.int64 if form == "integers" else np.float64, ["C", "A"])
        return _prepared(numbers.fields, numbers.scales, column, (values, *numbers.kept))

    def regions_of_rows(self, column: Column | None, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The regions of some rows of a column, int32 (rows,), as sequences know them: a text that fails some ``like`` counts as one that fails all.

        For samples; a column that is not there is absent everywhere.
        """
        special = self.regions.not_a_number
        if column is None:
            return np.full(len(rows), special + ABSENT, dtype=np.int32)
        state = np.zeros(len(rows), dtype=np.uint8) if column.state is None else column.state[rows]
        values = np.where(state == PRESENT, column.values[rows], 0)
        if column.dictionary is not None:
            entries = self._texts().known_rows_of(column.dictionary)
            found = entries[values] if len(entries) else np.zeros(len(rows), dtype=np.int32)
        else:
            points = np.asarray(self._numbers_of(_FORM_OF_DTYPE[column.values.dtype.kind]).regions.points)
            below = np.searchsorted(points, values)
            exact = np.append(points, 0)[below] == values
            found = np.where(values != values, special, 2 * below + (exact & (below < len(points))))  # noqa: PLR0124 (NaN)
        found = np.where(state == PRESENT, found, special + state.astype(np.int32))
        return np.minimum(found, len(self.table) - 1).astype(np.int32)

    def _numbers_of(self, form: Form) -> _NumberLookup:
        if form not in self._numbers:
            self._numbers[form] = _NumberLookup(regions_of(form, self._tests, self._words))
        return self._numbers[form]

    def _texts(self) -> _TextLookup:
        if self._text is None:
            self._text = _TextLookup(regions_of("text", self._tests, self._words), like_tests(self._tests))
        return self._text


def _prepared(
    fields: NDArray[np.int64], scales: NDArray[np.float64], column: Column, kept: tuple[NDArray[np.generic], ...]
) -> PreparedColumn:
    own = fields.copy()
    own[at.COLUMN] = address(kept[0])
    if column.state is not None:
        state = np.require(column.state, np.uint8, ["C", "A"])
        own[at.STATE] = address(state)
        kept = (*kept, state)
    return PreparedColumn(own, scales, kept)


def address(array: NDArray[np.generic]) -> int:
    """Where the array's data lies."""
    return int(array.__array_interface__["data"][0])


class _NumberLookup:
    """From numbers to regions."""

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self.lists: RegionLists | None = None
        self.listed = False
        self.ranges = ranges_of(regions)
        points = np.asarray(regions.points)
        self.scales = np.zeros(at.SCALES, dtype=np.float64)
        self.fields = np.zeros(at.FIELDS, dtype=np.int64)
        self.fields[[at.SIZE, at.NOT_A_NUMBER]] = len(points), regions.not_a_number
        integers = points.dtype.kind == "i"
        if integers and _close_together(points):
            table = _all_values(points)
            self.fields[[at.FORM, at.SIZE]] = at.DIRECT, len(table)
            self.fields[at.LOWEST] = points[0] if len(points) else np.iinfo(np.int64).max
        else:
            table = self._cells(points)
            self.fields[at.FORM] = at.INTEGERS if integers else at.FLOATS
        self.kept: tuple[NDArray[np.generic], ...] = (table, np.append(points, points.dtype.type(0)), regions.table)
        self.fields[[at.LOOKUP, at.POINTS, at.TABLE]] = [address(array) for array in self.kept]

    def _cells(self, points: NDArray[np.generic]) -> NDArray[np.int32]:
        """int32 (cells + 1,): by cell, how many constants lie in cells before it. Sets `scales` first, see `kernels_find._cell`."""
        values = points.astype(np.float64)
        finite = values[np.isfinite(values)]
        spread = float(finite[-1] - finite[0]) if len(finite) else 0.0
        bits = int(CELLS_PER_CONSTANT * len(points)).bit_length()
        cells = (DOUBLINGS << bits) + 2 if 0 < spread < np.inf else 1
        scale = 2.0**DOUBLINGS / spread if cells > 1 else 0.0
        if not np.isfinite(scale):
            cells, scale = 1, 0.0
        self.scales[:4] = finite[0] if len(finite) else 0.0, scale, bits, cells
        before = np.searchsorted(_cell_numbers(values, self.scales), np.arange(cells + 1)).astype(np.int32)
        self.scales[4] = int(np.diff(before).max()).bit_length()
        return before


def _close_together(points: NDArray[np.generic]) -> bool:
    ends = [int(points[0]), int(points[-1])] if len(points) else [0, 0]
    return ends[1] - ends[0] < DIRECT_VALUES and max(map(abs, ends)) < FAR_OUT


def _cell_numbers(values: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cells of ascending numbers, bit by bit as `kernels_find._cell` finds them."""
    lowest, scale, bits, cells = scales[0], scales[1], int(scales[2]), int(scales[3])
    with np.errstate(invalid="ignore", over="ignore"):
        distance = (values - lowest) * scale + 1.0
    number = (distance.view(np.int64) >> (at.MANTISSA_BITS - bits)) - (at.EXPONENT_OF_ONE << bits)
    return np.where(distance > 1.0, np.minimum(number, cells - 1), 0)


def _all_values(points: NDArray[np.generic]) -> NDArray[np.int32]:
    """int32 (span + 2,): the region of every integer from the lowest constant to the highest, with those before and behind at the ends."""
    if not len(points):
        return np.zeros(1, dtype=np.int32)
    values = np.arange(int(points[0]) - 1, int(points[-1]) + 2)
    below = np.searchsorted(points, values)
    exact = points[np.minimum(below, len(points) - 1)] == values
    return (2 * below + exact).astype(np.int32)


class _TextLookup:
    """From dictionary entries to rows of bitmaps: one row per region, and further rows per combination of failed ``like`` tests, as they occur."""

    def __init__(self, regions: Regions, likes: tuple[LikeTest, ...]) -> None:
        self.regions = regions
        self.lists: RegionLists | None = None
        self.listed = bool(likes)
        self.scales = np.zeros(at.SCALES, dtype=np.float64)
        self._likes = likes
        self._constants = Dictionary.of([point for point in regions.points if isinstance(point, bytes)])
        self.known_rows = regions.table if not likes else np.concatenate([regions.table, _without(regions.table[:-SPECIALS], likes)])
        self._table = self.known_rows
        self._combinations: dict[tuple[int, tuple[bool, ...]], int] = {}
        self._last: tuple[Dictionary, NDArray[np.int32]] | None = None

    def fields(self, dictionary: Dictionary) -> tuple[NDArray[np.int64], tuple[NDArray[np.generic], ...]]:
        """For columns with this dictionary; batches often share theirs."""
        rows = self._rows(dictionary)
        fields = np.zeros(at.FIELDS, dtype=np.int64)
        fields[[at.FORM, at.SIZE, at.NOT_A_NUMBER]] = at.CODES, len(rows), self.regions.not_a_number
        fields[[at.LOOKUP, at.TABLE]] = address(rows), address(self._table)
        return fields, (rows, self._table)

    def lets_all_pass(self, dictionary: Dictionary) -> bool:
        """Whether no entry can fail any test."""
        rows = self._rows(dictionary)
        return bool(((self._table[rows] & self.regions.usage) == self.regions.usage).all())

    def known_rows_of(self, dictionary: Dictionary) -> NDArray[np.int32]:
        """int32 (entries,): rows of `known_rows`; an entry that fails some ``like`` counts as one that fails all."""
        rows = self._rows(dictionary)
        if not self._likes:
            return rows
        regions = self._regions_of(dictionary)
        return np.where(rows == regions, regions, len(self.regions.table) + regions).astype(np.int32)

    def _regions_of(self, dictionary: Dictionary) -> NDArray[np.int32]:
        regions = np.empty(len(dictionary), dtype=np.int32)
        entry_regions(dictionary.data, dictionary.offsets, self._constants.data, self._constants.offsets, regions)
        return regions

    def _rows(self, dictionary: Dictionary) -> NDArray[np.int32]:
        if self._last is None or self._last[0] is not dictionary:
            self._last = (dictionary, self._find_rows(dictionary))
        return self._last[1]

    def _find_rows(self, dictionary: Dictionary) -> NDArray[np.int32]:
        regions = self._regions_of(dictionary)
        if not self._likes:
            return regions
        if len(self._combinations) > MOST_COMBINATIONS:
            # rows are numbered anew; columns that were prepared before keep their table
            self._combinations, self._table, self._last = {}, self.known_rows, None
        texts = (entry.decode(errors="replace") for entry in dictionary.entries())
        added: list[NDArray[np.uint64]] = []
        found = [self._combination(int(region), text, added) for region, text in zip(regions, texts, strict=True)]
        if added:
            self._table = np.ascontiguousarray(np.concatenate([self._table, added]))
        return np.array(found, dtype=np.int32)

    def _combination(self, region: int, text: str, added: list[NDArray[np.uint64]]) -> int:
        outcomes = tuple(like.holds(text) for like in self._likes)
        if all(outcomes):
            return region
        if not any(outcomes):
            return len(self.regions.table) + region
        key = (region, outcomes)
        if key not in self._combinations:
            failed = [like for like, outcome in zip(self._likes, outcomes, strict=True) if not outcome]
            self._combinations[key] = len(self._table) + len(added)
            added.append(_without(self.regions.table[region : region + 1], failed)[0])
        return self._combinations[key]


def _without(rows: NDArray[np.uint64], failed: Sequence[LikeTest]) -> NDArray[np.uint64]:
    """Bitmaps of texts that fail some ``like`` tests as well."""
    found = rows.copy()
    for like in failed:
        found[:, like.bit // 64] &= ~np.uint64(1 << like.bit % 64)
    return found
