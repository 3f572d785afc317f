"""Kernels that ask forests about partial matches: of `shedding.partial_matches.stateful` and `branching`."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from shedding.forest import LARGEST
from shedding.kernel import kernel
from shedding.kernels_forest import FOREST, ROWS, mean_of

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_ROWS_OUT = types.float32[:, ::1]
_VALUES = types.Array(types.float64, 2, "A", readonly=True)

ABSENT = -LARGEST
"""Stands for an attribute that a partial match lacks: trees split it off."""


@kernel(types.void(ROWS, _INT32, FOREST, _INT32, _FLOAT64, types.float64[::1]))
def just_worth(rows, kind, forest, starts, prices, found):
    """Where rates, which fall with the price, meet it; as in `shedding.partial_matches.branching.BranchingOutlook`. The first price is 0."""
    kinds = (len(starts) - 1) // len(prices)
    for row in range(len(rows)):
        found[row] = 0.0
        if kind[row] < 0:
            continue
        low, high = 0, len(prices)
        over, under = mean_of(rows, row, forest, starts[kind[row]], starts[kind[row] + 1]), 0.0
        while high - low > 1:
            middle = (low + high) // 2
            place = middle * kinds + kind[row]
            rate = mean_of(rows, row, forest, starts[place], starts[place + 1])
            if rate >= prices[middle]:
                low, over = middle, rate
            else:
                high, under = middle, rate
        if high == len(prices):
            found[row] = over
        else:
            above, below = over - prices[low], prices[high] - under
            found[row] = prices[low] + (prices[high] - prices[low]) * above / (above + below)


@kernel(types.float32(types.float64))
def as_told(value):
    """With 32 bits: NaN as ``ABSENT``, what is beyond ``LARGEST`` as that."""
    return np.float32(ABSENT if np.isnan(value) else min(max(value, -LARGEST), LARGEST))


@kernel(types.void(_VALUES, types.int64, _ROWS_OUT))
def fill_rows(values, begin, rows):
    """Writes columns of rows, (columns, rows), from one on."""
    for column in range(values.shape[0]):
        for row in range(values.shape[1]):
            rows[row, begin + column] = as_told(values[column, row])


@kernel(types.void(_INT32, _INT32, _FLOAT64, _INT32, _VALUES, FOREST, FOREST, types.float64, types.float64[::1]))
def mend(query, state, remaining, kind, values, gain, cost, least, utilities):
    """Multiplies utilities by what the trees for gains say over what those for costs do, at least ``least``. What they ask for is in the order of `ChainOutlook.rows`, filled in here: to make its table first costs a tenth of a look."""
    rows = np.empty((1, 4 + len(values)), np.float32)
    for k in range(len(utilities)):
        rows[0, 0], rows[0, 1], rows[0, 2], rows[0, 3] = query[k], state[k], as_told(remaining[k]), kind[k]
        for number in range(len(values)):
            rows[0, 4 + number] = as_told(values[number, k])
        more, dearer = mean_of(rows, 0, gain, 0, len(gain.roots)), mean_of(rows, 0, cost, 0, len(cost.roots))
        utilities[k] *= more / max(least, dearer)
