"""By how much a query's batches cost more or less than was known of it: chance, a change that stays, or lumps."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from app.control.law.running import smoothed

SLOW = 0.15
"""Weight of the newest batch in what is known of a query's scatter."""
SOON, FOR_LONG = 0.1, 0.015
"""The same of its lumps, where the batch is one, and where it is none: one in thirty batches is enough to be late once in a hundred, and a mean forgets it before the next. At first they are forgotten as a mean of all batches would: a process that is still warming up has surprises that do not come again, and a minute later they would still be taken for what shedding must make room for."""
NOISY = 0.35
"""Of its scatter: batches whose costs miss what was known by so little on average miss it by chance."""
LUMPY = 1.5
"""So many times as much more as batches typically cost when they cost more is reckoned with."""
MOST_LUMPY = 0.8
"""Of what is expected, so much more at most: where it is not known how work follows what is kept, every change of the ratio is a surprise, and no reason to keep less."""
MOST_OFF = 2.0
"""As a logarithm: a batch that was foretold worse than that says only that something is different now, and must not be remembered as scatter for minutes."""
LEAST_GAIN = 0.2
"""Of what a batch counts in a query's costs: a batch of a noisy query."""


@dataclass(slots=True)
class Surprises:
    """Of one query; goes through snapshots as its fields.

    Attributes:
        bias: by how much an event cost more than was known, as a logarithm, on average.
        scatter: the same without its sign.
        lumps: by how much more events cost at times, as the square of a logarithm: soon where they do, and for long.
        foretold: batches whose costs could be compared with what was known.
    """

    bias: float = 0.0
    scatter: float = 0.0
    lumps: float = 0.0
    foretold: int = 0

    def learn(self, each_ms: float, known_ms: float) -> float:
        """Takes a batch into account.

        Args:
            each_ms: what its events cost.
            known_ms: what they were expected to.

        Returns:
            How much the batch counts in what is known of the query's costs: little while they only scatter, all while they go somewhere (Trigg and Leach 1967, the tracking signal).
        """
        if known_ms <= 0 or each_ms <= 0:
            return 1.0
        off = max(-MOST_OFF, min(MOST_OFF, log(each_ms / known_ms)))
        self.bias, self.scatter = smoothed(self.bias, off, SLOW), smoothed(self.scatter, abs(off), SLOW)
        more = max(0.0, off) ** 2
        self.foretold += 1
        self.lumps = smoothed(self.lumps, more, SOON if more > self.lumps else max(FOR_LONG, 1 / (1 + self.foretold)))
        return min(1.0, max(LEAST_GAIN, (self.signal - NOISY) / NOISY)) if self.scatter > 0 else 1.0

    @property
    def signal(self) -> float:
        """0 where costs only scatter, 1 where they all go to one side."""
        return abs(self.bias) / self.scatter if self.scatter > 0 else 0.0

    @property
    def lumpy(self) -> float:
        """By how much more the query's work is at times, as a share of what is expected."""
        return min(MOST_LUMPY, LUMPY * sqrt(self.lumps))
