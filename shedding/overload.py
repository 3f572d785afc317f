"""How much must go under overload: the one law that virtual time, the experiments on a clock and the application's watchdog share.

    drop ratio = 1 - capacity / input

over a horizon, with what waits beyond the *plateau* counted on one of the two sides: work that was let in already takes from the capacity, work that can still be
shed adds to the input. At the plateau (a share of the latency bound) the correction is nothing and the ratio is exactly the excess; below it more is let in, above it less, in
proportion. So a steady overload settles at the plateau with a steady ratio: there is no border at which shedding begins whole and ends whole.

Source: eSPICE and gSPICE shed the excess while the queue is longer than ``safety`` times the longest one. Deviates: they shed nothing below that, which
makes the ratio swing between nothing and more than the excess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LOOKS = 60
_CLOSE = 1e-7
"""Of the level, or below what is enough: nearer nobody looks. Each look asks for everything that a batch would take: halving alone took 24, lines between both ends take about 10."""
_NOTHING = 1e-6
"""Of the greatest work: who has less of it to give gives nothing that counts."""


def drop_ratio(capacity: float, arriving: float) -> float:
    """Share of the input to drop so that the rest is no more than can be processed.

    Args:
        capacity: work that can be done, in any unit; below 0 when what cannot be shed is too much already.
        arriving: work that arrives and can be shed, in the same unit.

    >>> drop_ratio(1000, 2000), drop_ratio(1000, 500), drop_ratio(-1, 500), drop_ratio(1, 0)
    (0.5, 0.0, 1.0, 0.0)
    """
    return min(1.0, max(0.0, 1 - capacity / arriving)) if arriving > 0 else 0.0


@dataclass(frozen=True, slots=True)
class QueueLaw:
    """The law where events wait in a queue that they do not leave again: what waits was let in.

    The horizon is what lies before the plateau when the queue is shorter, and what is left of the bound when it is longer: it fills no faster than it can be seen to,
    and a shedder that drops less than it is asked to is asked for more before the bound is reached.

    Attributes:
        bound_s: latency bound, s.
        safety: share of it that is the plateau, more than 0 and less than 1.
    """

    bound_s: float
    safety: float = 0.8

    def ratio(self, rate: float, throughput: float, waiting_s: float) -> float:
        """The drop ratio now, 0 to 1.

        Args:
            rate: events that arrive per second.
            throughput: events that can be processed per second, the shedder's work taken off.
            waiting_s: how long the next event will wait; below 0 counts as 0.

        >>> law = QueueLaw(bound_s=1.0)
        >>> [round(law.ratio(2000, 1000, waiting), 3) for waiting in (0.0, 0.4, 0.8, 0.9, 1.0)]
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        return drop_ratio(throughput * (1 + self._ahead(waiting_s)), rate)

    def work_s(self, rate: float, waiting_s: float) -> float:
        """The same where an event's work can be chosen: how long the next one may take, s.

        Args:
            rate: events that arrive per second, more than 0.
            waiting_s: as in `ratio`.

        >>> [round(1e3 * QueueLaw(bound_s=1.0).work_s(2000, waiting), 3) for waiting in (0.0, 0.4, 0.8, 0.9, 1.0)]  # ms
        [1.0, 0.75, 0.5, 0.25, 0.0]
        """
        return max(0.0, 1 + self._ahead(waiting_s)) / rate

    def _ahead(self, waiting_s: float) -> float:
        """How far the queue is below the plateau, as a share of the horizon: 1 when it is empty, -1 at the bound."""
        plateau = self.safety * self.bound_s
        ahead = plateau - max(0.0, waiting_s)
        return ahead / (plateau if ahead > 0 else max(self.bound_s - plateau, 1e-9))


@dataclass(frozen=True, slots=True)
class Share:
    """What a query has to give.

    Attributes:
        work: that dropping all of its candidates would save, in any unit.
        weight: of the query, more than 0.
        most: its largest drop ratio, 0 to 1.
    """

    work: float
    weight: float = 1.0
    most: float = 1.0


def water_filled(shares: Sequence[Share], level: float) -> list[float]:
    """Drop ratios at a water level: in proportion to work by weight, as far as the largest ratios allow.

    Of all ratios that save as much these have the least sum of weight * ratio², which is what makes them optimal where the loss of a query grows with the square of what is dropped: the first
    events to go are worth least. So a dear query sheds more than a cheap one of the same weight, and a cheap one hardly any.

    >>> water_filled([Share(100), Share(10), Share(100, weight=2), Share(100, most=0.3)], 0.004)
    [0.4, 0.04, 0.2, 0.3]
    """
    return [min(one.most, level * one.work / one.weight) if one.work > 0 else 0.0 for one in shares]


def highest_level(shares: Sequence[Share]) -> float:
    """The water level from which on all that have something to give give the most they may."""
    least = _NOTHING * max((one.work for one in shares), default=0.0)
    return max((one.most * one.weight / one.work for one in shares if one.work > least), default=0.0)


def least_level(shares: Sequence[Share], excess: Callable[[Sequence[float]], float]) -> float:
    """The least water level at which the ratios are enough, or `highest_level` where none is.

    Args:
        shares: of the queries.
        excess: ratios → by what there would be too much: at most 1 is enough. Higher ratios leave no more.

    >>> round(least_level([Share(100), Share(100)], lambda ratios: 2 - sum(ratios)), 6)
    0.005
    """
    low, high = 0.0, highest_level(shares)
    above = excess(water_filled(shares, low)) - 1
    if above <= 0:
        return low
    below = excess(water_filled(shares, high)) - 1
    if below > 0:
        return high
    halve = False  # where the line between both ends took less than half away
    for _ in range(_LOOKS):
        width = high - low
        if width <= _CLOSE * high or below >= -_CLOSE:
            break
        middle = (low + high) / 2 if halve else low + width * min(0.99, max(0.01, (above + _CLOSE / 2) / (above - below)))
        beyond = excess(water_filled(shares, middle)) - 1
        if beyond > 0:
            low, above = middle, beyond
        else:
            high, below = middle, beyond
        halve = not halve and high - low > width / 2
    return high
