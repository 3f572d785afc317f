"""The utility threshold: below it is shed. One for all methods that give utilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shedding import kernels_threshold
from shedding.candidates import Mask

Ties = Literal["split", "literal"]

_RANGE = 1 << 53
_ROUNDING = 1e-12
"""Shares are sums of floats: 0.1 + 0.2 must not be more than 0.3."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A threshold in force.

    Attributes:
        utility: candidates of less are dropped.
        tie_limit: of 2**53: candidates of just this utility are dropped when their identity's hash is less.
        seed: mixed into the hash.
    """

    utility: float
    tie_limit: int
    seed: int = 0

    @property
    def tie_share(self) -> float:
        """Share of the candidates of just this utility that is dropped."""
        return self.tie_limit / _RANGE

    def keep(self, utilities: NDArray[np.float64], identity: NDArray[np.uint64]) -> Mask:
        """Which candidates stay.

        Args:
            utilities: float64 (candidates,), none of them NaN.
            identity: uint64 (candidates,).
        """
        return keep_by_part([self], utilities, identity, np.empty(0, dtype=np.int32))


def keep_by_part(cuts: Sequence[Cut], utilities: NDArray[np.float64], identity: NDArray[np.uint64], part: NDArray[np.int32]) -> Mask:
    """Which candidates stay, each under the threshold of its part.

    Args:
        cuts: one for each part, of one seed.
        utilities: float64 (candidates,), none of them NaN.
        identity: uint64 (candidates,).
        part: int32 (candidates,), index into ``cuts``; empty: all are of the first.
    """
    kept = np.empty(len(utilities), dtype=np.bool_)
    thresholds = np.array([cut.utility for cut in cuts])
    limits = np.array([cut.tie_limit for cut in cuts], dtype=np.uint64)
    kernels_threshold.keep_above(utilities, identity, part, np.uint64(cuts[0].seed), thresholds, limits, kept)
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class UtilityShares:
    """How often each utility occurs, as it is assigned at run time (to a sample that the model was not made from).

    Attributes:
        utility: float64 (utilities,), rising.
        cumulative: float64 (utilities,), share of candidates with at most this utility; the last is 1.

    Example:
        >>> shares = utility_shares(np.array([0.0, 0.0, 0.0, 1.0]))
        >>> shares.cut(0.5, ties="literal").utility, shares.cut(0.8).utility
        (0.0, 1.0)

    Source: gSPICE (2023), III-C: O(u), OC(u), u_th = min{u: OC(u) >= rho}. The split of ties is ours: many candidates have utility 0, and without it
    a small ratio drops all of them.
    """

    utility: NDArray[np.float64]
    cumulative: NDArray[np.float64]

    def cut(self, drop_ratio: float, *, seed: int = 0, ties: Ties = "split") -> Cut:
        """The threshold that drops this share.

        Args:
            drop_ratio: 0 drops nothing, 1 everything, whatever its utility.
            seed: chooses among ties.
            ties: ``literal`` drops all candidates of the threshold's utility, so rather more than asked; ``split`` only the share that is needed.
        """
        if drop_ratio <= 0:
            return Cut(-np.inf, 0, seed)
        if drop_ratio >= 1 or not len(self.utility):
            return Cut(np.inf, 0, seed) if drop_ratio >= 1 else Cut(-np.inf, 0, seed)
        at = min(int(np.searchsorted(self.cumulative, drop_ratio - _ROUNDING)), len(self.utility) - 1)
        below = float(self.cumulative[at - 1]) if at else 0.0
        share = 1.0 if ties == "literal" else min(1.0, max(0.0, (drop_ratio - below) / (float(self.cumulative[at]) - below)))
        return Cut(float(self.utility[at]), round(share * _RANGE), seed)


def utility_shares(utilities: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> UtilityShares:
    """The shares of a sample.

    Args:
        utilities: float64 (sample,), as assigned at run time.
        weights: float64 (sample,), how often each stands for one; 1 when not given.
    """
    distinct, number = np.unique(np.asarray(utilities, dtype=np.float64), return_inverse=True)
    occurrences = np.bincount(number, weights, minlength=len(distinct)).astype(np.float64)
    occurring = occurrences > 0
    cumulative = np.cumsum(occurrences[occurring])
    return UtilityShares(distinct[occurring], cumulative / cumulative[-1] if len(cumulative) else cumulative)
