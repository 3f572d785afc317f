"""Numba kernels of the library; reached through `shedding.identity`, `shedding.gate` and the shedders.

Inputs are declared read-only: views of Arrow buffers are, and a kernel with an explicit signature refuses them otherwise.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from shedding.kernel import kernel

_INT64 = types.Array(types.int64, 1, "A", readonly=True)
_UINT64 = types.Array(types.uint64, 1, "A", readonly=True)
_BOOL = types.Array(types.boolean, 1, "A", readonly=True)


@kernel(types.uint64(types.uint64, types.uint64))
def mixed(state: np.uint64, part: np.uint64) -> np.uint64:
    """SplitMix64's step and finalizer: every bit of both arguments reaches every bit of the result."""
    h = (state ^ part) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel(types.void(_INT64, _INT64, types.uint64[:]))
def hash_places(source: NDArray[np.int64], offset: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """The identity of each event: its source and offset, mixed one after the other."""
    for k in range(len(source)):
        hashes[k] = mixed(mixed(np.uint64(0), np.uint64(source[k])), np.uint64(offset[k]))


@kernel(types.void(_UINT64, _INT64, _INT64, types.uint64[:]))
def hash_pairs(identity: NDArray[np.uint64], event: NDArray[np.int64], window: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """The identity of each pair: its event's, mixed with the window's number."""
    for k in range(len(event)):
        hashes[k] = mixed(identity[event[k]], np.uint64(window[k]))


@kernel(types.void(_UINT64, types.uint64, types.uint64[:]))
def mix(identity: NDArray[np.uint64], seed: np.uint64, hashes: NDArray[np.uint64]) -> None:
    """Each identity mixed with the seed."""
    for k in range(len(identity)):
        hashes[k] = mixed(seed, identity[k])


@kernel(types.void(_UINT64, types.uint64, types.uint64, types.boolean[:]))
def at_least(identity: NDArray[np.uint64], seed: np.uint64, threshold: np.uint64, kept: NDArray[np.bool_]) -> None:
    """Marks identities that, mixed with the seed, are at least the threshold in their upper 53 bits."""
    for k in range(len(identity)):
        kept[k] = (mixed(seed, identity[k]) >> np.uint64(11)) >= threshold


@kernel(types.int64(types.uint64[:, :], _UINT64, _UINT64, _BOOL))
def withdraw(
    bitmap: NDArray[np.uint64],
    own: NDArray[np.uint64],
    protected: NDArray[np.uint64],
    kept: NDArray[np.bool_],
) -> int:
    """Clears one query's items from dropped events; returns how many candidates that were."""
    words = len(own)
    withdrawn = 0
    for k in range(len(kept)):
        if kept[k]:
            continue
        candidate = False
        needed = False
        for w in range(words):
            candidate |= (bitmap[k, w] & own[w]) != 0
            needed |= (bitmap[k, w] & protected[w]) != 0
        if candidate and not needed:
            withdrawn += 1
            for w in range(words):
                bitmap[k, w] &= ~own[w]
    return withdrawn
