"""One attribute of a stream and all tests on it: narrows the rows that are still alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from app.asc import kernels
from app.asc.regions import BitTest, LikeTest, Regions, float_regions, integer_regions, like_tests, text_regions
from app.events.batch import Column, Dictionary

NO_STATE = np.zeros(0, dtype=np.uint8)
_SPECIAL_ROWS = 2
"""In a table for codes null and absent come first, because rows for combinations of ``like`` are added behind."""


class AttributeSelection:
    """All tests of all items on one attribute, as regions and bitmaps.

    What it holds depends on the queries alone; regions are made when a column of the kind (integers, floats, codes) is first seen.
    """

    def __init__(self, attribute: str, tests: Sequence[BitTest], words: int) -> None:
        self.attribute = attribute
        self._tests = tuple(tests)
        self._words = words
        self._numbers: dict[str, Regions] = {}
        self._text: _TextTable | None = None
        self._only_null_tests = all(entry.test.operator == "is not null" for entry in tests)

    @property
    def tests(self) -> int:
        """How many tests the attribute has; the more, the earlier it is asked."""
        return len(self._tests)

    def idle(self, column: Column) -> bool:
        """Whether no value of this column can fail a test."""
        return self._only_null_tests and column.state is None

    def pass_over(self, column: Column) -> Callable[[NDArray[np.int64], NDArray[np.uint64]], int]:
        """Prepares the column (strings: asks every dictionary entry once).

        Returns:
            A function that narrows, in place, ``rows`` (alive,) and their ``bitmaps`` (alive, words); it returns how many stay, at the front.
        """
        state = NO_STATE if column.state is None else column.state
        if column.dictionary is not None:
            text = self._text or _TextTable(self._tests, self._words)
            self._text = text
            codes = np.ascontiguousarray(column.values, dtype=np.int32)
            entry_row = text.rows(column.dictionary)
            table, usage = text.table(), text.usage
            return lambda rows, bitmaps: kernels.narrow_codes(codes, state, entry_row, table, usage, rows, bitmaps)
        values = np.ascontiguousarray(column.values)
        make, dtype = _MAKE_REGIONS[values.dtype.kind]
        if values.dtype.kind not in self._numbers:
            self._numbers[values.dtype.kind] = make(self._tests, self._words)
        regions = self._numbers[values.dtype.kind]
        values = values.astype(dtype, copy=False)
        return lambda rows, bitmaps: kernels.narrow_numbers(values, state, regions.points, regions.table, regions.usage, rows, bitmaps)


_MAKE_REGIONS: dict[str, tuple[Callable[[Sequence[BitTest], int], Regions], type]] = {
    "i": (integer_regions, np.int64),
    "u": (integer_regions, np.int64),
    "b": (integer_regions, np.int64),
    "f": (float_regions, np.float64),
}


class _TextTable:
    """Bitmaps for byte strings: one row per region, and further rows per combination of failed ``like`` tests, as they occur."""

    def __init__(self, tests: Sequence[BitTest], words: int) -> None:
        regions = text_regions(tests, words)
        self.usage = regions.usage
        self._likes: tuple[LikeTest, ...] = like_tests(tests)
        self._constants = Dictionary.of([point for point in regions.points if isinstance(point, bytes)])
        self._rows: list[NDArray[np.uint64]] = [regions.table[-2], regions.table[-1], *regions.table[:-3]]
        self._combinations: dict[tuple[int, tuple[bool, ...]], int] = {}
        self._table: NDArray[np.uint64] | None = None
        self._last: tuple[Dictionary, NDArray[np.int32]] | None = None

    def table(self) -> NDArray[np.uint64]:
        """uint64 (rows, words): null, absent, regions, combinations."""
        if self._table is None or len(self._table) != len(self._rows):
            self._table = np.array(self._rows, dtype=np.uint64)
        return self._table

    def rows(self, dictionary: Dictionary) -> NDArray[np.int32]:
        """int32 (entries,): the table's row of every dictionary entry; batches often share their dictionary."""
        if self._last is None or self._last[0] is not dictionary:
            self._last = (dictionary, self._find_rows(dictionary))
        return self._last[1]

    def _find_rows(self, dictionary: Dictionary) -> NDArray[np.int32]:
        regions = np.empty(len(dictionary), dtype=np.int32)
        kernels.entry_regions(dictionary.data, dictionary.offsets, self._constants.data, self._constants.offsets, regions)
        if not self._likes:
            return regions + np.int32(_SPECIAL_ROWS)
        texts = (entry.decode(errors="replace") for entry in dictionary.entries())
        found = [self._combination(int(region), text) for region, text in zip(regions, texts, strict=True)]
        return np.array(found, dtype=np.int32)

    def _combination(self, region: int, text: str) -> int:
        outcomes = tuple(like.holds(text) for like in self._likes)
        key = (region, outcomes)
        if key not in self._combinations:
            row = self._rows[region + _SPECIAL_ROWS].copy()
            for like, outcome in zip(self._likes, outcomes, strict=True):
                if not outcome:
                    row[like.bit // 64] &= ~np.uint64(1 << like.bit % 64)
            self._combinations[key] = len(self._rows)
            self._rows.append(row)
        return self._combinations[key]
