"""Turns: partitions that go whole go for a while, and then others do.

Whoever drops whole partitions by the hash of their key alone drops the same ones for as long as an overload lasts: a query over a stream never ends, and no partition should be blind
for ever. So the hash is mixed with a *period*, which is long against the window, so that few matches reach over its end. Periods of different partitions end at different times,
or all would change at once. Nothing is remembered: any task, batch, retry and number of executors decides the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedEvents
from shedding.identity import identities

WINDOWS = 8
"""In a period, at least; twice as many at most."""


def period_for(window_ms: int) -> int:
    """How long a partition is in or out, ms: a power of two, so that queries whose windows are much alike drop the same events.

    >>> period_for(12_000)
    131072
    """
    return 1 << (WINDOWS * window_ms - 1).bit_length()


def turns(events: JudgedEvents) -> NDArray[np.uint64]:
    """uint64 (events,): a hash of the partition and of its period, the same for all events of both; of the partition alone where there are no periods.

    Args:
        events: with their partitions.

    >>> whose = JudgedEvents(np.zeros(3, np.uint64), np.array([0, 999, 4000]), key=np.array([7, 7, 7], np.uint64), period_ms=2048)
    >>> first, second, third = turns(whose).tolist()
    >>> first == second, first == third
    (True, False)
    """
    if not events.period_ms:
        return events.key
    ahead = (events.key % np.uint64(events.period_ms)).astype(np.int64)
    return identities(events.key.view(np.int64), (events.time + ahead) // events.period_ms)
