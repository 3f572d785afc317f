"""Choosing the least: among the partial matches of the moment, which compete with each other, or by a price that leaves about so many in the long run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import JudgedMatches, Mask
from shedding.identity import shuffled
from shedding.observations import Succession
from shedding.partial_matches.kernels_selection import drop_least

PRICES = 100
"""Shares between which prices are known."""


def all_but_least(utilities: NDArray[np.float64], ties: NDArray[np.uint64], count: int) -> Mask:
    """Keeps all but the ``count`` candidates of least utility, in O(n) expected time.

    Args:
        utilities: float64 (candidates,); NaN would be equal to none, and of such any may go.
        ties: uint64 (candidates,); of equal utilities the lower ties go first, and of equal ties any.
        count: how many to drop; all at most go.

    Returns:
        bool (candidates,), True = keep. What is dropped at a count is dropped at every higher one.

    >>> all_but_least(np.array([0.5, 0.1, 0.5, 0.9]), np.array([7, 3, 2, 1], dtype=np.uint64), 2).tolist()
    [True, False, False, True]

    **Source:** pSPICE, algorithm 2, which sorts, in O(n log n); the set is the same.
    """
    everyone = len(utilities)
    kept = np.ones(everyone, dtype=np.bool_)
    if count > 0:
        drop_least(np.ascontiguousarray(utilities), np.ascontiguousarray(ties), min(count, everyone), np.empty(everyone, np.int64), kept)
    return kept


def all_but_share(utilities: NDArray[np.float64], candidates: JudgedMatches, share: float, seed: int) -> Mask:
    """The same for a share of the candidates; of equal utilities some go by chance, the same ones whatever the share.

    What is not a whole number of them is rounded by lot: who is asked about one or two at a time, and always rounds to the nearest, drops all of them at any share above a half, and none below. The lot is drawn from who they are, so the
    same ones have the same answer.

    Args:
        utilities: float64 (candidates,).
        candidates: partial matches of the moment.
        share: of them, to be dropped.
        seed: of chance.
    """
    ties = shuffled(candidates.identity, seed)
    return all_but_least(utilities, ties, int(share * len(candidates) + lot_of(ties)))


def lot_of(shuffled_identities: NDArray[np.uint64]) -> float:
    """In [0, 1), from all of them, in whatever order they come.

    >>> lot_of(np.array([1 << 63], np.uint64)), lot_of(np.array([], np.uint64))
    (0.5, 0.0)
    """
    return float(np.bitwise_xor.reduce(shuffled_identities) >> np.uint64(11)) / 2.0**53


def prices_that_leave(worth: NDArray[np.float64], succession: Succession | None) -> NDArray[np.float64]:
    """float64 (`PRICES` + 1,), ascending: whoever drops all that are worth less than price k leaves about ``1 - k / PRICES`` of the partial matches that there would be without shedding.

    Args:
        worth: float64 (sample,), of partial matches that were seen.
        succession: how they went on: what would have grown from a dropped one is not there either. None: they do not branch.
    """
    wanted = np.linspace(0, 1, PRICES + 1)
    tried = np.quantile(worth, wanted)
    if succession is None:
        return tried
    gone = [1.0 - float(succession.survive(worth >= price).mean()) for price in tried]
    return np.interp(wanted, np.maximum.accumulate([*gone, 1.0]), [*tried, np.inf if not len(tried) else np.nextafter(tried[-1], np.inf)])


def price_at(prices: NDArray[np.float64], drop_ratio: float) -> float:
    """The price for a drop ratio, between those that are known.

    >>> price_at(np.array([0.0, 1.0, 4.0]), 0.75)
    2.5
    """
    return float(np.interp(drop_ratio, np.linspace(0, 1, len(prices)), prices))
