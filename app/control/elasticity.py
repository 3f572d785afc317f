"""How a query's work follows the share of events that it keeps: less than in proportion where what costs little is dropped first.

    work per candidate = c · kept ^ exponent

once what events are held against has followed. Dropping half of the events at random halves the work of a query that looks at each by itself, and quarters that of one that joins them. A shedder that drops what is in no match leaves what costs most:
then a tenth less work may be half of the events, and a law that takes work for proportional comes to the bound in ten steps instead of one, while batches are late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, log

JOINED = 2.0
"""Exponent before anything is known: of a join of which every event is as dear as any."""
LEAST = 0.1
"""Exponents below say that shedding is all but in vain; nothing would be enough."""
LEVELS = 2.0
"""Samples are means, by shares kept: of so much to twice as much this many."""
LEAST_SHARE = 1e-4
"""Less than that is taken for so much."""
SLOW = 0.15
"""Weight of the newest batch in its level, once there were some."""
FADING = 0.005
"""Of what was seen, forgotten with a batch: at another time of day events may cost otherwise."""
INERTIA = 0.5
"""What was known of the exponent counts as much as two levels of six batches each whose shares are a quarter apart."""


@dataclass(slots=True)
class Elasticity:
    """Learned from batches that were shed; goes through snapshots as its fields.

    Attributes:
        exponent: of the work by the share that is kept.
        most: that the exponent can be.
        levels: by level of shares, how many batches it stands for (at most as many as its mean remembers), and means of the logarithms of the share and of the work per candidate.
    """

    exponent: float = JOINED
    most: float = JOINED
    levels: list[list[float]] = field(default_factory=list)

    @property
    def power(self) -> float:
        """Power of the share that is kept to which work goes at once, and as much again when the state has followed (of a query that joins; of others that makes the law a little slow).

        Not more than in proportion at once, so that what is known of a join is what it is taken for before anything is known.
        """
        return min(1.0, self.exponent)

    def learn(self, kept: float, each_ms: float) -> None:
        """Takes a batch into account whose state had followed.

        Args:
            kept: share of the query's candidates.
            each_ms: work per candidate.
        """
        if each_ms <= 0:
            return
        share, spent = log(max(LEAST_SHARE, kept)), log(each_ms)
        for level in self.levels:
            level[0] *= 1 - FADING
        known = next((one for one in self.levels if _level(one[1]) == _level(share)), None)
        if known is None:
            self.levels.append([1.0, share, spent])
        else:
            weight = max(SLOW, 1 / (1 + known[0]))
            known[0] = min(1 / SLOW, known[0] + 1)
            known[1] += weight * (share - known[1])
            known[2] += weight * (spent - known[2])
        self._fit()

    def by_share(self) -> Callable[[float], float] | None:
        """What was learned, by the share that is kept; None before there was anything to learn from. A decision asks it hundreds of times."""
        if not self.levels:
            return None
        (shares, works), exponent = self._means(), self.exponent
        return lambda kept: exp(works + exponent * (log(max(LEAST_SHARE, kept)) - shares))

    def _means(self) -> tuple[float, float]:
        """Of the shares' and of the works' logarithms."""
        total = sum(weight for weight, _, _ in self.levels)
        shares, works = (sum(one[0] * one[place] for one in self.levels) / total for place in (1, 2))
        return shares, works

    def _fit(self) -> None:
        """Least squares through the levels' means, from where the exponent was."""
        shares, works = self._means()
        spread = sum(weight * (share - shares) ** 2 for weight, share, _ in self.levels)
        common = sum(weight * (share - shares) * (work - works) for weight, share, work in self.levels)
        self.exponent = min(self.most, max(LEAST, (common + INERTIA * self.exponent) / (spread + INERTIA)))


def _level(share: float) -> int:
    return round(LEVELS * share / log(2))
