"""How far time has come while a batch is being fed: the watermarks after it, as far as the rest of the batch allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import Integers, as_input
from app.cep.engine import Watermarks
from app.cep.windows.kernels_bounds import never_falls

END_OF_TIME = 2**62
"""Behind every time: windows can be added to it, or taken from its negative, without leaving 64 bit."""


def horizons_of(time: NDArray[np.int64], watermarks: Watermarks) -> Integers:
    """Per event, the least time of it and of those behind it."""
    whole = as_input(time, np.int64)
    if in_order(whole, watermarks):
        return whole
    return np.minimum.accumulate(whole[::-1])[::-1]


def in_order(time: NDArray[np.int64], watermarks: Watermarks) -> bool:
    """Whether events stand in the order of their times, and no source has a watermark of its own."""
    return not watermarks.by_source and bool(never_falls(time))


def capped(watermarks: Watermarks, horizon: int) -> Watermarks:
    """What certainly holds while events from ``horizon`` on are still to be fed."""
    own = {source: min(time, horizon) for source, time in watermarks.by_source.items()}
    return Watermarks(min(watermarks.default_ms, horizon), own)


def by_source(watermarks: Watermarks) -> tuple[Integers, Integers]:
    """Watermarks of single topic partitions as kernels take them: sources, ascending, and their times."""
    sources = np.array(sorted(watermarks.by_source), np.int64)
    return sources, np.array([watermarks.by_source[source] for source in sources.tolist()], np.int64)


def passing(watermarks: Watermarks) -> tuple[Integers, Integers, int]:
    """Watermarks as kernels take them that take windows from times: sources, their times, the default."""
    sources, times = by_source(watermarks)
    return sources, np.clip(times, -END_OF_TIME, END_OF_TIME), clipped(watermarks.default_ms)


def clipped(time_ms: int) -> int:
    """A time from which windows can be taken without leaving 64 bit."""
    return max(-END_OF_TIME, min(time_ms, END_OF_TIME))
