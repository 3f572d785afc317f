"""When windows begin and end, and how far time has come for a topic partition."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import types

from app.cep.cells.arrays import FOREVER, NEVER
from app.cep.cells.kernels_types import INTEGERS
from app.cep.kernel import kernel

_INTEGERS_IN = types.Array(types.int64, 1, "C", readonly=True)


@kernel(types.int64(types.int64, types.int64), counted=False)
def window_bound(time, within):
    """Events at or before this time are out of the window that ends with an event at ``time``; far-off times do not wrap."""
    if within < 0 or time < NEVER + within:
        return NEVER
    return time - within


@kernel(types.int64(types.int64, types.int64), counted=False)
def deadline_of(time, within):
    """When the window that begins with an event at ``time`` is over."""
    return FOREVER if time > FOREVER - within else time + within


@kernel(types.int64(INTEGERS, INTEGERS, types.int64, types.int64))
def watermark_of(sources, watermarks, default, source):
    """The watermark of a topic partition: its own, or the default where that is greater."""
    at, end = 0, len(sources)
    while at < end:  # numpy's search would load half of numba with the machine code, 0.5 s
        middle = (at + end) >> 1
        if sources[middle] < source:
            at = middle + 1
        else:
            end = middle
    if at < len(sources) and sources[at] == source:
        return max(default, watermarks[at])
    return default


@kernel(types.boolean(_INTEGERS_IN))
def never_falls(time):
    """Whether times do not fall."""
    falls = False
    for row in range(1, len(time)):
        falls |= time[row] < time[row - 1]
    return not falls
