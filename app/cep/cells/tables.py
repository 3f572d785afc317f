"""Tables of integers that grow."""

from __future__ import annotations

import numpy as np

from app.cep.cells.arrays import Integers


def grown(table: Integers, rows: int) -> Integers:
    """The table with room for so many rows: itself, or one of at least twice as many with the same beginning and zeros behind.

    >>> grown(np.ones((2, 1), np.int64), 3).tolist()
    [[1], [1], [0], [0]]
    """
    if rows <= len(table):
        return table
    larger = np.zeros((max(rows, 2 * len(table)), table.shape[1]), np.int64)
    larger[: len(table)] = table
    return larger
