"""Which matches are beginnings of others, by the hashes of what they bind."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import types

from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel


@kernel(types.void(INTEGERS, INTEGERS, types.boolean[::1]))
def mark_present(own, others, present):
    """Marks which hashes stand among others; there may be a hundred times as many of these, so they are looked up and not sorted."""
    size = 64
    while size < 4 * len(own):
        size *= 2
    slots = np.full(size, -1, np.int64)
    following = np.full(len(own), -1, np.int64)
    for k in range(len(own)):
        # equal hashes are a list in one slot
        at = own[k] & (size - 1)
        while slots[at] >= 0 and own[slots[at]] != own[k]:
            at = (at + 1) & (size - 1)
        following[k] = slots[at]
        slots[at] = k
    for j in range(len(others)):
        at = others[j] & (size - 1)
        while slots[at] >= 0 and own[slots[at]] != others[j]:
            at = (at + 1) & (size - 1)
        k = slots[at]
        while k >= 0 and not present[k]:
            present[k] = True
            k = following[k]
