"""The kernel of `prefix` decides as its definition does."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shedding.kernels_prefix import keep_chains
from tests.naive.shedding_prefix import Arrival, kept_events

SHAPES = (((-1, 0), 0), ((-1, 0, 1), 0), ((-1, 0, 0, 2), 0b0010), ((-1, -1, 1), 0b001), ((-1, 0, 1, 1), 0b1000))
"""Sequences; one with a negated item in the middle (1), one with a negated start (0), one with a negated end (3)."""
THRESHOLDS = (0.2, 0.5, 1.0, 1.2, 1.5, 1.7, 2.0, 2.5)


@given(st.integers(0, 2**32))
def test_chains_are_kept_as_defined(seed: int) -> None:
    # streams from a seed: drawn one by one, few of them have an event at the very edge of a window
    for number in range(10):
        chance = Random(seed + number)
        (needs, negated), window, threshold = chance.choice(SHAPES), chance.randint(1, 20), chance.choice(THRESHOLDS)
        place, events = 0, []
        for _ in range(chance.randint(1, 25)):
            place += chance.randint(0, 6)
            events.append(Arrival(chance.randrange(1 << len(needs)), chance.randint(0, 2), place, chance.choice((0.0, 0.3, 0.6, 0.9))))
        first = chance.randint(0, min(5, len(events)))
        kept = np.zeros(len(events) - first, np.bool_)
        items, key = (np.array([getattr(one, name) for one in events], np.uint64) for name in ("items", "key"))
        places, rank = np.array([one.place for one in events], np.int64), np.array([one.rank for one in events])
        keep_chains(items, key * np.uint64(2), places, rank, np.array(needs, np.int64), negated, window, threshold, first, kept)
        assert kept.tolist() == kept_events(events, needs, negated, window, threshold)[first:]
