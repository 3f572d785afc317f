"""Kernel of numbers as Avro writes them. Reached only through `app.bucket.encoding.avro`."""

from __future__ import annotations

import numpy as np
from numba import types

from app.bucket.encoding.kernel import kernel


@kernel(types.int64(types.int64[::1], types.uint8[::1], types.int64[::1]))
def write_numbers(values, data, ends):  # type: ignore[no-untyped-def]
    """Zigzag numbers one after the other; returns the place behind the last one.

    Args:
        values: int64 (numbers,).
        data: uint8, out, with room for ten bytes each.
        ends: int64 (numbers + 1,), out.
    """
    at = 0
    ends[0] = 0
    for k in range(len(values)):
        bits = np.uint64(values[k] << 1) ^ np.uint64(values[k] >> 63)
        while bits >= np.uint64(128):
            data[at] = np.uint8(bits & np.uint64(127)) | np.uint8(128)
            bits >>= np.uint64(7)
            at += 1
        data[at] = np.uint8(bits)
        at += 1
        ends[k + 1] = at
    return at
