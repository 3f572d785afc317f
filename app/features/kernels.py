"""Compiled loops over what partial matches answer."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from app.features.kernel import kernel

_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_TABLE = types.Array(types.float64, 2, "C", readonly=True)


@kernel(types.void(_TABLE, _FLOATS, _INTEGERS, _FLOATS, _INTEGERS, types.float64[:, ::1]))
def sums(
    terms: NDArray[np.float64],
    constant: NDArray[np.float64],
    starts: NDArray[np.int64],
    sign: NDArray[np.float64],
    row: NDArray[np.int64],
    found: NDArray[np.float64],
) -> None:
    """For each column of ``terms`` the sums of what is known of it, by `app.features.slack.Comparisons`: NaN where nothing is."""
    for comparison in range(found.shape[0]):
        for column in range(found.shape[1]):
            total, known = constant[comparison], False
            for term in range(starts[comparison], starts[comparison + 1]):
                worth = terms[row[term], column]
                if worth == worth:  # noqa: PLR0124 - what is no NaN
                    total += sign[term] * worth
                    known = True
            found[comparison, column] = total if known else np.nan
