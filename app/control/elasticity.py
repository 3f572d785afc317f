"""How a query's work follows the share of events that it keeps: less than in proportion where what costs little is dropped first.

    work per candidate = c · kept ^ exponent

once what events are held against has followed. Dropping half of the events at random halves the work of a query that looks at each by itself, and quarters that of one that joins them. A shedder that drops what is in no match leaves what costs most:
then a tenth less work may be half of the events, and a law that takes work for proportional comes to the bound in ten steps instead of one, while batches are late.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

JOINED = 2.0
"""Exponent before anything is known: of a join of which every event is as dear as any."""
LEAST = 0.1
"""Exponents below say that shedding is all but in vain; nothing would be enough."""
LEAST_SHARE = 1e-4
"""Less than that is taken for so much."""
LATELY = 0.3
"""Weight of the newest batch in what was kept and spent of late: a batch is held against that. Events that become dearer raise the ratio, so over a minute more work goes with less kept; within three batches they hardly do."""
TIED = 0.15
"""What an exponent is taken for before anything is known counts as much as a dozen batches that keep a tenth less, or more, than those before them; for good, since batches that differ by less say nothing."""
MOST_KNOWN = 8.0
"""The most that what was seen counts for; beyond, the older is worth less: at another time of day events may cost otherwise. A long overload at one ratio forgets nothing."""


@dataclass(slots=True)
class Elasticity:
    """Learned from batches that were shed, by what differs from those just before; goes through snapshots as its fields.

    Attributes:
        exponent: of the work by the share that is kept.
        share: logarithm of the share that was kept, of late.
        work: logarithm of the work per candidate, of late; None before there was any.
        spread: sum of the squared differences of shares.
        common: sum of their products with those of the work.
    """

    exponent: float = JOINED
    share: float = 0.0
    work: float | None = None
    spread: float = 0.0
    common: float = 0.0

    @property
    def power(self) -> float:
        """Power of the share that is kept to which work goes at once: not more than in proportion."""
        return min(1.0, self.exponent)

    @property
    def power_of_state(self) -> float:
        """The same of the share that the state was made from: what is more than in proportion is so because there is less to be held against."""
        return self.exponent - self.power

    def learn(self, kept: float, each_ms: float) -> None:
        """Takes a batch into account whose state had followed.

        Args:
            kept: share of the query's candidates.
            each_ms: work per candidate.
        """
        if each_ms <= 0:
            return
        share, work = log(max(LEAST_SHARE, kept)), log(each_ms)
        if self.work is None:
            self.share, self.work = share, work
            return
        less, cheaper = share - self.share, work - self.work
        self.share, self.work = self.share + LATELY * less, self.work + LATELY * cheaper
        self.spread, self.common = self.spread + less**2, self.common + less * cheaper
        if self.spread > MOST_KNOWN:
            self.spread, self.common = MOST_KNOWN, self.common * MOST_KNOWN / self.spread
        self.exponent = min(JOINED, max(LEAST, (self.common + TIED * JOINED) / (self.spread + TIED)))
