"""The kernel of `prefix` decides as its definition does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shedding.kernels_prefix import keep_chains
from tests.naive.shedding_prefix import Arrival, kept_events

SHAPES = ((-1, 0), (-1, 0, 1), (-1, 0, 0, 2), (-1, -1, 1), (-1, 0, 1, 1))
"""Sequences; one with a negated item in the middle (1), one with a negated start (0), one with a negated end (3)."""
arrivals = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 2), st.integers(0, 6), st.sampled_from([0.0, 0.3, 0.6, 0.9])), min_size=1, max_size=25
)


@given(arrivals, st.sampled_from(SHAPES), st.integers(1, 20), st.sampled_from([0.2, 0.5, 1.0, 1.2, 1.5, 1.7, 2.0]), st.integers(0, 5))
def test_chains_are_kept_as_defined(rows: list, needs: tuple[int, ...], window: int, threshold: float, first: int) -> None:
    mask = (1 << len(needs)) - 1
    place = np.cumsum([row[2] for row in rows])
    events = [Arrival(row[0] & mask, row[1], int(at), row[3]) for row, at in zip(rows, place, strict=True)]
    first = min(first, len(events))
    kept = np.zeros(len(events) - first, np.bool_)
    items, key = (np.array([getattr(one, name) for one in events], np.uint64) for name in ("items", "key"))
    rank = np.array([one.rank for one in events])
    keep_chains(items, key * np.uint64(2), place.astype(np.int64), rank, np.array(needs, np.int64), window, threshold, first, kept)
    assert kept.tolist() == kept_events(events, needs, window, threshold)[first:]
