"""The items that every region of an attribute lets through, as lists: for attributes that leave few of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc.ranges import Ranges
from app.asc.regions import SPECIALS


@dataclass(frozen=True, slots=True, eq=False)
class RegionLists:
    """Bits by region.

    Attributes:
        bounds: int32 (rows + 1,).
        bits: int32 (entries,), ascending between a row's bounds.
        length: of a region's list, on average; NaN, null and absent apart.
        longest: how long the lists that a batch's events lead to may be on average.
    """

    bounds: NDArray[np.int32]
    bits: NDArray[np.int32]
    length: float
    longest: int


@dataclass(frozen=True, slots=True, eq=False)
class ListOrder:
    """How a batch is evaluated by lists.

    Attributes:
        constructs: those that can fail an item, in order; the first one leads.
        lists: of its regions.
        ranges: the least and greatest number that the second one lets through, by entry of the lists; None where these are not all there is to it.
    """

    constructs: Sequence[int]
    lists: RegionLists
    ranges: Ranges | None


def region_lists(table: NDArray[np.uint64], items: NDArray[np.uint64], longest: int) -> RegionLists | None:
    """The lists of a table of bitmaps, or None where they are longer on average.

    Args:
        table: uint64 (rows, words), see `app.asc.regions.Regions`.
        items: uint64 (words,), bits that stand for something.
        longest: average length.
    """
    own = table & items
    lengths = np.bitwise_count(own).sum(axis=1, dtype=np.int64)
    length = float(lengths[:-SPECIALS].mean())
    if length > longest:
        return None
    row, word = np.nonzero(own)
    ones = np.unpackbits(own[row, word].astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    filled, bit = np.nonzero(ones)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return RegionLists(bounds.astype(np.int32), (64 * word[filled] + bit).astype(np.int32), length, longest)
