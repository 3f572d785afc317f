"""The latency histogram: its buckets, and how tasks and the driver speak of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LATENCY_BOUNDS_MS = (50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_200, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000)
"""Upper bounds of the buckets; dense around the usual latency bounds of 0.5 to 2 s. One more bucket takes the rest."""


def latency_counts(latencies_ms: NDArray[np.int64]) -> tuple[int, ...]:
    """How many latencies fall into each bucket.

    >>> [bucket for bucket, count in enumerate(latency_counts(np.array([0, 50, 51, 99_999]))) if count]
    [0, 1, 20]
    """
    buckets = np.searchsorted(LATENCY_BOUNDS_MS, latencies_ms)
    return tuple(np.bincount(buckets, minlength=len(LATENCY_BOUNDS_MS) + 1).tolist())


def late_count(latencies_ms: NDArray[np.int64], bound_ms: int | None) -> int:
    """How many are above the bound; without one none is.

    >>> late_count(np.array([999, 1000, 1001]), 1000), late_count(np.array([5000]), None)
    (1, 0)
    """
    return 0 if bound_ms is None else int(np.count_nonzero(latencies_ms > bound_ms))


def interpolated_quantile(counts: NDArray[np.int64], share: float) -> float | None:
    """The given quantile in ms, as Prometheus reckons it: values lie evenly in their buckets, those of the last one at its lower end. None without any.

    Args:
        counts: int64 (buckets,), how many values are in each.
        share: 0 to 1.

    >>> interpolated_quantile(np.array([0, 10]), 0.5), interpolated_quantile(np.array([0, 0]), 0.5)
    (75.0, None)
    """
    total = int(counts.sum())
    if not total:
        return None
    sums = np.cumsum(counts)
    bucket = int(np.searchsorted(sums, max(share * total, 1e-9)))
    if bucket >= len(LATENCY_BOUNDS_MS):
        return float(LATENCY_BOUNDS_MS[-1])
    lower = LATENCY_BOUNDS_MS[bucket - 1] if bucket else 0
    before = int(sums[bucket - 1]) if bucket else 0
    return lower + (LATENCY_BOUNDS_MS[bucket] - lower) * (share * total - before) / int(counts[bucket])
