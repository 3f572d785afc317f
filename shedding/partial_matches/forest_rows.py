"""What forests are asked about partial matches, as rows of numbers, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches
from shedding.forest import Forest, Trees
from shedding.kernels_forest import mean_of_leaves
from shedding.partial_matches.kernels_outlook import fill_rows


def rows_of(known: Sequence[NDArray[Any]], matches: JudgedMatches, values: int) -> NDArray[np.float32]:
    """float32 (matches, known + values): what is known of each, and its attributes; without any, none is told."""
    rows = np.empty((len(matches), len(known) + values), np.float32)
    fill_rows(np.stack(known).astype(np.float64, copy=False), 0, rows)
    fill_rows(told_values(matches, values), len(known), rows)
    return rows


def told_values(matches: JudgedMatches, values: int) -> NDArray[np.float64]:
    """float64 (values, matches): the attributes that a model knows; where others are told, or none, none."""
    return matches.values if len(matches.values) == values else np.full((values, len(matches)), np.nan)


def types_of(matches: JudgedMatches) -> NDArray[np.int32]:
    """int32 (matches,): types of the newest events; -1 where they are not told."""
    return matches.last_type if len(matches.last_type) else np.full(len(matches), -1, np.int32)


def asked(forest: Forest, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64 (rows,): the mean of all trees' leaves."""
    found = np.empty(len(rows))
    mean_of_leaves(rows, forest, found)
    return found


def always(value: float) -> Trees:
    """A tree that says the same of all."""
    return Trees(np.full(1, -1, np.int32), np.full(1, -1, np.int32), np.full(1, value), np.zeros(1, np.int32))
