"""Where to cut a long array into blocks such that equal content gives equal blocks, wherever it lies."""

import numpy as np
from numba import types

from app.owners.kernel import kernel

FACTOR = np.uint64(0x9E3779B97F4A7C15)


WORDS = types.Array(types.uint64, 1, "C", readonly=True)  # takes writable arrays as well


@kernel(types.int64(WORDS, types.int64, types.int64, types.uint64, types.int64[::1]))
def cut(words, least, most, mask, ends):
    """Ends of blocks, in words; returns how many. A border depends on the 64 words before it alone, so it moves with the content."""
    count, start, state = 0, 0, np.uint64(0)
    for k in range(len(words)):
        mixed = words[k] * FACTOR
        state = (state << np.uint64(1)) + (mixed ^ (mixed >> np.uint64(29)))
        length = k + 1 - start
        if (length >= least and (state >> np.uint64(17)) & mask == 0) or length >= most:
            ends[count] = k + 1
            count, start = count + 1, k + 1
    if start < len(words):
        ends[count] = len(words)
        count += 1
    return count
