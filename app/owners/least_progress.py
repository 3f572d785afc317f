"""Which partial matches are worth least where a query's shedder says nothing of them: those that have come least far, and of these the oldest, which have the least time left."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from app.control.law.levels import LEAST_PROGRESS
from shedding.candidates import JudgedMatches, Mask
from shedding.interface import Manifest
from shedding.partial_matches.selection import all_but_share


@dataclass(frozen=True, slots=True)
class LeastProgress:
    """A gate and what makes it, in the manner of `shedding.interface.Model`; there is nothing to learn.

    Attributes:
        seed: decides among those that are alike.
        share: of the partial matches that goes.
    """

    seed: int = 0
    share: float = 0.0
    manifest: Manifest = field(default=Manifest(LEAST_PROGRESS), repr=False)

    def gate(self, drop_ratio: float) -> LeastProgress:
        """Drops this share."""
        return LeastProgress(self.seed, drop_ratio)

    def keep(self, candidates: JudgedMatches) -> Mask:
        """Which partial matches stay, bool (matches,).

        >>> matches = JudgedMatches(np.arange(4, dtype=np.uint64), state=np.array([1, 0, 0, 2], np.int32), remaining=np.array([9.0, 5, 7, 1]))
        >>> LeastProgress(share=0.25).keep(matches).tolist(), LeastProgress(share=0.5).keep(matches).tolist()
        ([True, False, True, True], [True, False, False, True])
        """
        left = 0.5 * candidates.remaining / (1.0 + candidates.remaining.max(initial=0.0))
        worth = candidates.state.astype(np.float64) + left
        return all_but_share(worth, candidates, self.share, self.seed)
