"""What ASC is compared with besides fixed orders: Ticket Routing, and every query for itself."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from ops.experiments.asc.streams import Tuples
from ops.experiments.asc.workloads import QuerySet

_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_INTEGERS = types.Array(types.int64, 2, "C", readonly=True)


@njit([types.int64(types.uint64)], cache=True, nogil=True)
def _ones(word):
    found = 0
    while word:
        word &= word - types.uint64(1)
        found += 1
    return found


@njit(
    [
        types.void(
            _WORDS, types.Array(types.float64, 2, "C", readonly=True), types.uint64, types.int64, types.float64[::1], types.int32[::1]
        )
    ],
    cache=True,
    nogil=True,
)
def _route(words, lots, queries, window, tickets, visits):  # noqa: PLR0917
    """One lottery per visit among the modules that the tuple has not seen; ``lots`` (tuples, modules) in [0, 1).

    With a window a module earns a ticket per query that it fails, and tickets fade; without one it earns one for each tuple that it drops.
    """
    count, modules = words.shape
    waiting = np.empty(modules, dtype=np.int64)
    for t in range(count):
        for m in range(modules):
            waiting[m] = m
            if window:
                tickets[m] = 1.0 + (tickets[m] - 1.0) * (1.0 - 1.0 / window)
        left, bitmap = modules, queries
        while left and bitmap != 0:
            total = 0.0
            for w in range(left):
                total += tickets[waiting[w]]
            lot, drawn = lots[t, modules - left] * total, 0
            while drawn < left - 1 and lot >= tickets[waiting[drawn]]:
                lot -= tickets[waiting[drawn]]
                drawn += 1
            module = waiting[drawn]
            left -= 1
            waiting[drawn] = waiting[left]
            failed = bitmap & ~words[t, module]
            bitmap &= words[t, module]
            if window:
                tickets[module] += _ones(failed)
            elif bitmap == 0:
                tickets[module] += 1.0  # received (+1) and never returned (-1)
        visits[t] = modules - left


FADING = 1000
"""Tuples after which a ticket counts for a third; neither paper says how long its windows are."""


def ticket_routing(words: NDArray[np.uint64], seed: int, window: int = FADING) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Eddies' lottery scheduling over shared selection modules, one per attribute, for several queries.

    A module earns a ticket for every query that it fails for a tuple, and tickets fade. Without a window it is the scheme for a single query: a module gets a ticket for every tuple
    that it receives and gives one back for every tuple that it returns, so it holds one per tuple that it dropped; there, where fifty queries share modules, only
    the last module on a tuple's way earns anything, whatever the others did. Every module keeps one ticket at least, or it would never be tried again.

    **Source:** Avnur and Hellerstein, Eddies (SIGMOD 2000), section 4.2, with its windows; Madden, Shah, Hellerstein, Raman, CACQ (SIGMOD 2002): filters shared by several queries earn
    by queries.

    Args:
        words: uint64 (tuples, modules), the result bitmap of each tuple's region, in order of arrival.
        seed: of the lotteries.
        window: tuples after which a ticket counts for a third; 0: for a single query, and for ever.

    Returns:
        int32 (tuples,), how many modules each tuple visited; float64 (modules,), the tickets at the end.
    """
    count, modules = words.shape
    tickets, visits = np.ones(modules), np.empty(count, dtype=np.int32)
    queries = np.bitwise_or.reduce(words, axis=None) if words.size else np.uint64(0)
    _route(np.ascontiguousarray(words), np.random.default_rng([seed, 21]).random((count, modules)), queries, window, tickets, visits)
    return visits, tickets


def naive_masks(queries: QuerySet, tuples: Tuples) -> NDArray[np.bool_]:
    """Every query for itself, a numpy mask per range: bool (queries, tuples)."""
    found = np.ones((len(queries.used), tuples.shape[1]), dtype=np.bool_)
    for q, a in zip(*np.nonzero(queries.used), strict=True):
        found[q] &= (tuples[a] >= queries.low[q, a]) & (tuples[a] <= queries.high[q, a])
    return found


@njit(
    [
        types.int64(
            _INTEGERS,
            _INTEGERS,
            _INTEGERS,
            types.Array(types.int64, 1, "C", readonly=True),
            types.Array(types.int64, 1, "C", readonly=True),
            types.int32[::1],
        )
    ],
    cache=True,
    nogil=True,
)
def _test_rows(tuples, low, high, attribute, bounds, satisfied):  # noqa: PLR0917
    """Query by query, range by range, until the first that fails; returns how many ranges were tested. ``tuples``: (tuples, attributes)."""
    tested = 0
    for t in range(tuples.shape[0]):
        found = 0
        for q in range(bounds.shape[0] - 1):
            passes = 1
            for i in range(bounds[q], bounds[q + 1]):
                tested += 1
                value = tuples[t, attribute[i]]
                if value < low[q, attribute[i]] or value > high[q, attribute[i]]:
                    passes = 0
                    break
            found += passes
        satisfied[t] = found
    return tested


def naive_rows(queries: QuerySet, tuples: Tuples) -> tuple[int, NDArray[np.int32]]:
    """Every query for itself in a compiled loop that leaves a query at its first range that fails.

    Returns:
        How many ranges were tested; int32 (tuples,), how many queries each tuple satisfies.
    """
    attribute = np.ascontiguousarray(np.nonzero(queries.used)[1])
    bounds = np.concatenate([[0], np.cumsum(queries.used.sum(axis=1))])
    satisfied = np.empty(tuples.shape[1], dtype=np.int32)
    tested = _test_rows(np.ascontiguousarray(tuples.T), queries.low, queries.high, attribute, bounds, satisfied)
    return int(tested), satisfied
