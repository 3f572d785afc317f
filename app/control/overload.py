"""How much more of a query's work comes than there is time for: at such rates shedders are to be judged, since who loses least of a little too much is not who loses least of twice too much (ops/decisions/0040)."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

ENOUGH = 100
"""Batches in overload before anything is said: the first ones of a process say more about its warming up."""
FOR_LONG = 0.001
"""Weight of the newest batch; half of what is known is of the last seven hundred in which the query shed."""
APART = 0.14
"""Logarithm of what the rates that a method is judged at are at least from what is usual, to both sides: what a method loses at one ratio alone may be a step of its utilities, and composite events that are few are counted twice."""
LEAST, MOST = 1.05, 20.0
"""Multiples of the capacity; of more than the most next to nothing is matched, whoever sheds."""


def around(rate: float, deviation: float = 0.0) -> tuple[float, float]:
    """Multiples of the capacity to judge by where this one is usual.

    Args:
        rate: the geometric mean.
        deviation: standard deviation of its logarithm.

    >>> around(1.5), around(2.0, 0.5)
    ((1.3, 1.73), (1.21, 3.3))
    """
    apart = max(APART, deviation)
    return round(rate * exp(-apart), 2), round(rate * exp(apart), 2)


@dataclass(slots=True)
class Overload:
    """Learned from batches in which a query was shed; goes through snapshots as its fields.

    Attributes:
        batches: that were seen.
        mean: of the logarithm of the multiple of the capacity that came.
        spread: its variance.
    """

    batches: int = 0
    mean: float = 0.0
    spread: float = 0.0

    def learn(self, left: float) -> None:
        """Takes a batch into account.

        Args:
            left: share of the query's work that was done.
        """
        came = log(min(MOST, max(LEAST, 1 / left))) if left > 0 else log(MOST)
        self.batches += 1
        weight = max(FOR_LONG, 1 / self.batches)
        off = came - self.mean
        self.mean += weight * off
        self.spread = (1 - weight) * (self.spread + weight * off**2)

    @property
    def rates(self) -> tuple[float, float] | None:
        """Two multiples of the capacity, one below what is usual and one above (a standard deviation each, and `around`'s least); None as long as too little was seen.

        >>> known = Overload()
        >>> for batch in range(200):
        ...     known.learn(0.5 if batch % 2 else 0.8)
        >>> known.rates
        (1.25, 2.0)
        """
        if self.batches < ENOUGH:
            return None
        light, heavy = around(exp(self.mean), sqrt(self.spread))
        return max(LEAST, light), min(MOST, heavy)
