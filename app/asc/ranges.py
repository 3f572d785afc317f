"""The numbers that an attribute lets through for a bit, where they are one range: an item asked alone then needs no region."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc.regions import Regions

Numbers = NDArray[Any]
"""int64 or float64."""
Ranges = tuple[Numbers, Numbers]
"""The least and the greatest number."""


def ranges_of(regions: Regions) -> Ranges | None:
    """The least and the greatest number that pass each bit, (bits,) each, of the points' type.

    None where some bit lets more than one range through (``!=``), where there are no numbers, or bounds are those of the type itself.
    """
    points = np.asarray(regions.points)
    if not len(points) or points.dtype.kind not in "if" or not _inside(points):
        return None
    rows = 2 * len(points) + 1
    starts, stops = (np.full(64 * regions.table.shape[1], end) for end in (0, rows))
    bit, row = regions.turns
    ordinary = row < rows
    bit, row = bit[ordinary], row[ordinary]
    count = np.bincount(bit, minlength=len(starts))
    turns = [np.append(row, rows)[np.where(count > k, np.cumsum(count) - count + k, len(row))] for k in range(3)]
    fails_first = (count > 0) & (turns[0] == 0)
    if (count > np.where(fails_first, 3, 1)).any():
        return None
    starts = np.where(fails_first, turns[1], 0)
    stops = np.where(fails_first, turns[2], turns[0])
    return _numbers(points, starts, stops, rows)


def _inside(points: Numbers) -> bool:
    if points.dtype.kind == "f":
        return bool(np.isfinite(points).all())
    ends = np.iinfo(np.int64)
    return bool(points[0] > ends.min and points[-1] < ends.max)


def _numbers(points: Numbers, starts: NDArray[np.int64], stops: NDArray[np.int64], rows: int) -> Ranges:
    """From rows of regions, ``starts .. stops - 1``, to the numbers in them: odd rows are points, even ones what lies between."""
    if points.dtype.kind == "f":
        ends = np.array([-np.inf, np.inf])
        above, below = np.nextafter(points, np.inf), np.nextafter(points, -np.inf)
    else:
        ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
        above, below = points + 1, points - 1
    low, high = np.empty(rows + 1, points.dtype), np.empty(rows, points.dtype)
    low[1:-1:2], low[0], low[2:-1:2], low[-1] = points, ends[0], above, ends[1]
    high[1::2], high[-1], high[0:-1:2] = points, ends[1], below
    nothing = starts >= stops
    least, greatest = low[starts], high[stops - 1]
    least[nothing], greatest[nothing] = ends[1], ends[0]
    return least, greatest
