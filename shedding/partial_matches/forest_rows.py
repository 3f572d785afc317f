"""What forests are asked about partial matches, as rows of numbers, and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches
from shedding.events.gspice_trees import Trees
from shedding.partial_matches.kernels_forest import mean_of_leaves

_LARGEST = 3e38
"""scikit-learn computes with 32 bits and takes no infinity."""
_ABSENT = -_LARGEST
"""Stands for an attribute that a partial match lacks: trees split it off."""


def rows_of(known: Sequence[NDArray[Any]], matches: JudgedMatches, values: int) -> NDArray[np.float32]:
    """float32 (matches, known + values): what is known of each, and its attributes; without any, none is told."""
    attributes = matches.values if len(matches.values) == values else np.full((values, len(matches)), np.nan)
    table = np.stack([*(np.asarray(one, dtype=np.float64) for one in known), *attributes], axis=1)
    return np.clip(np.where(np.isnan(table), _ABSENT, table), -_LARGEST, _LARGEST).astype(np.float32)


def types_of(matches: JudgedMatches) -> NDArray[np.int32]:
    """int32 (matches,): types of the newest events; -1 where they are not told."""
    return matches.last_type if len(matches.last_type) else np.full(len(matches), -1, np.int32)


def asked(trees: Trees, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64 (rows,): the mean of all trees' leaves."""
    found = np.empty(len(rows))
    mean_of_leaves(rows, trees.feature, trees.child, trees.content, trees.roots, found)
    return found


def always(value: float) -> Trees:
    """A tree that says the same of all."""
    return Trees(np.full(1, -1, np.int32), np.full(1, -1, np.int32), np.full(1, value), np.zeros(1, np.int32))
