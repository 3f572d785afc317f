"""How many partial matches there are by the share that is kept of those that are made: a power of it, as work is (`app.control.law.elasticity`); longer ones are made of kept ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, log

from app.control.law.elasticity import LEAST, LEAST_SHARE

LONGEST = 4.0
"""Power of the share that is kept by which partial matches of many items may get fewer."""
LEVELS = 2.0
"""Samples are means, by shares kept: of so much to twice as much this many."""
SLOW = 0.15
"""Weight of the newest batch in its level, once there were some."""
FADING = 0.005
"""Of what was seen, forgotten with a batch: at another time of day events may cost otherwise."""
INERTIA = 0.5
"""What was known of the exponent counts as much as two levels of six batches each whose shares are a quarter apart."""


@dataclass(slots=True)
class Fullness:
    """Learned from batches that were shed, by levels of what was kept; goes through snapshots as its fields.

    Attributes:
        exponent: of how many partial matches there are, by the share that is kept of those that are made.
        levels: by level of shares, how many batches it stands for (at most as many as its mean remembers), and means of the logarithms of the share and of what is left.
    """

    exponent: float = 1.0
    levels: list[list[float]] = field(default_factory=list)

    def learn(self, kept: float, left: float) -> None:
        """Takes a batch into account whose state had followed.

        Args:
            kept: share of the partial matches that were made.
            left: how many there are, of those that there would be without shedding.
        """
        if left <= 0:
            return
        share, held = log(max(LEAST_SHARE, kept)), log(left)
        for level in self.levels:
            level[0] *= 1 - FADING
        known = next((one for one in self.levels if _level(one[1]) == _level(share)), None)
        if known is None:
            self.levels.append([1.0, share, held])
        else:
            weight = max(SLOW, 1 / (1 + known[0]))
            known[0] = min(1 / SLOW, known[0] + 1)
            known[1] += weight * (share - known[1])
            known[2] += weight * (held - known[2])
        self._fit()

    def by_share(self) -> Callable[[float], float] | None:
        """What was learned, by the share that is kept; None before there was anything to learn from. A decision asks it hundreds of times."""
        if not self.levels:
            return None
        (shares, counts), exponent = self._means(), self.exponent
        return lambda kept: exp(counts + exponent * (log(max(LEAST_SHARE, kept)) - shares))

    def _means(self) -> tuple[float, float]:
        """Of the logarithms of shares and counts."""
        total = sum(weight for weight, _, _ in self.levels)
        shares, counts = (sum(one[0] * one[place] for one in self.levels) / total for place in (1, 2))
        return shares, counts

    def _fit(self) -> None:
        """Least squares through the levels' means, from where the exponent was."""
        shares, counts = self._means()
        spread = sum(weight * (share - shares) ** 2 for weight, share, _ in self.levels)
        common = sum(weight * (share - shares) * (count - counts) for weight, share, count in self.levels)
        self.exponent = min(LONGEST, max(LEAST, (common + INERTIA * self.exponent) / (spread + INERTIA)))


def _level(share: float) -> int:
    return round(LEVELS * share / log(2))
