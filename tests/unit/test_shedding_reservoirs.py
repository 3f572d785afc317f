"""Reservoirs of many keys whose keys go to others: what is dropped later is what would have been dropped there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shedding.tuples.intervals import Intervals
from shedding.tuples.reservoir import Score
from shedding.tuples.reservoirs import NEVER, Coming, Moving, Reservoirs

KEYS, MEMORY, GAP = 6, 3, 1


def arrived(reservoirs: Reservoirs, tuples: np.ndarray, rows: np.ndarray, numbers: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Rank that each of these rows drove out; ``numbers``: of the keys, ``ranks``: of the tuples."""
    if not len(rows):
        return np.zeros(0, np.int64)
    key, value, start = (tuples[rows, column] for column in range(3))
    never = np.full(len(rows), NEVER)
    ended = start - 12
    coming = Coming(numbers[key], ranks[rows], never, ended)
    return reservoirs.arrive(coming, Intervals(value, start, start + 2), rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


@given(st.integers(0, 1 << 32))
def test_gathered_keys_lose_the_tuples_that_they_would_have_lost(seed: int) -> None:
    chance = np.random.default_rng(seed)
    count = int(chance.integers(1, 120))
    tuples = np.stack([chance.integers(0, KEYS, count), chance.integers(0, 2, count), np.cumsum(chance.integers(0, 2, count))], axis=1)
    owner, cut = chance.integers(0, 2, KEYS), int(chance.integers(0, count + 1))
    rows, ranks, whole = np.arange(count), np.arange(count), Reservoirs(Score(1, 1), MEMORY, GAP)
    undisturbed = arrived(whole, tuples, rows, np.arange(KEYS), ranks)

    origins = [Reservoirs(Score(1, 1), MEMORY, GAP) for _ in range(2)]
    found = np.full(count, -1)
    for one, origin in enumerate(origins):
        own = rows[:cut][owner[tuples[:cut, 0]] == one]
        found[own] = arrived(origin, tuples, own, np.arange(KEYS), ranks)
    moving = [Moving(origin.saved(), np.flatnonzero(owner == one), lambda old: 2 * old) for one, origin in enumerate(origins)]
    together = Reservoirs(Score(1, 1), MEMORY, GAP)
    together.gather(moving)
    numbers = np.empty(KEYS, np.int64)
    numbers[np.concatenate([one.keys for one in moving])] = np.arange(KEYS)
    later = arrived(together, tuples, rows[cut:], numbers, 2 * ranks)
    found[cut:] = np.where(later >= 0, later // 2, -1)
    assert found.tolist() == undisturbed.tolist()
    assert [together.kept(numbers[key]).tolist() for key in range(KEYS)] == [(2 * whole.kept(key)).tolist() for key in range(KEYS)]
