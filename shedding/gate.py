"""From the queries' single decisions to what happens to an event that several queries can use.

An event is a row of bits, one per item of any query that it can be. A query that drops the event takes its own bits back; the event itself is dropped
when no bits are left, that is, when every query that could use it drops it. As `random` compares the same number with each query's ratio, queries of
equal ratio drop the same events.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shedding import kernels
from shedding.candidates import Mask


def withdraw(
    bitmap: NDArray[np.uint64],
    own: NDArray[np.uint64],
    kept: Mask,
    *,
    protected: NDArray[np.uint64] | None = None,
) -> int:
    """Takes one query's bits back from the events that it drops.

    Args:
        bitmap: uint64 (events, words), in-out: items that each event can be.
        own: uint64 (words,), the query's items.
        kept: bool (events,), the query's decision, as its gate makes it.
        protected: uint64 (words,), items whose events must stay (negated ones, when false positives are not allowed).

    Returns:
        How many events the query lost.

    >>> bits = np.array([[0b01], [0b11]], dtype=np.uint64)
    >>> withdraw(bits, np.array([0b01], dtype=np.uint64), np.array([False, False])), bits.ravel().tolist()
    (2, [0, 2])
    """
    guard = np.zeros_like(own) if protected is None else protected
    return int(kernels.withdraw(bitmap, own, guard, kept))
