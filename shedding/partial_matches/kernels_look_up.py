"""The kernel of `shedding.partial_matches.pspice`."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from shedding.kernel import kernel

_INT32 = types.Array(types.int32, 1, "A", readonly=True)
_FLOAT64 = types.Array(types.float64, 1, "A", readonly=True)
_TABLE = types.Array(types.float64, 3, "C", readonly=True)


@kernel(types.void(_INT32, _INT32, _FLOAT64, _TABLE, _FLOAT64, types.float64[::1]))
def look_up(query, state, remaining, table, bin_size, utilities):
    """Utility by query, state and remaining events, linear between bins, that of the last bin behind it; infinite for what the table lacks."""
    last = table.shape[2] - 1
    for k in range(query.shape[0]):
        if not (0 <= query[k] < table.shape[0] and 0 <= state[k] < table.shape[1]):
            utilities[k] = np.inf
            continue
        place = remaining[k] / bin_size[query[k]]
        row = table[query[k], state[k]]
        if not place < last:
            utilities[k] = row[last]
        elif place <= 0:
            utilities[k] = row[0]
        else:
            i = int(place)
            share = place - i
            utilities[k] = row[i] * (1 - share) + row[i + 1] * share
