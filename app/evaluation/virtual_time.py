"""Overload in virtual time: events arrive at a rate, cost what they cost, and wait in a queue. Deterministic, and independent of the machine.

The operator works off one queue. An event arrives every ``1 / rate`` seconds; one that is let through costs ``cost_s``, and shedding costs ``shedding_s`` per
event while it is on. Everything else follows: an event's latency is the time from its arrival to the end of its work.

How much is shed is the law of `shedding.overload`, which the application's watchdog obeys as well: the share of the work that exceeds the capacity, and a correction for how far the
queue is from the plateau at ``safety`` times the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shedding.detector import smoothed
from shedding.overload import QueueLaw

RATIO_STEPS = 200
"""Drop ratios are rounded up to a multiple of 1/200, so that a gate is made for few of them."""

NEWEST = 0.1
"""Weight of the newest interval in what events seem to cost; on a clock (`ops.experiments.clock.pace`) as well."""

Keep = Callable[[float, int, int], NDArray[np.float64]]
"""(drop ratio, start, stop) → float64 (stop - start,): how much of each of these events passes: 0 or 1, or the share of its windows."""


@dataclass(frozen=True, slots=True)
class Load:
    """A stream's rate and an operator's speed.

    Attributes:
        rate: arriving events per second.
        cost_s: work for an event that is let through, s.
        shedding_s: work for the decision about an event, s.
        bound_s: the latency bound, s.
        safety: share of the bound at which the queue settles.
        interval: events between two looks at the queue.
        fixed_ratio: drop ratio from the first event on, whatever the queue; None: by the queue. Tells what a shedder chooses from how much it must.
        begun_s: how long the first event waits; the safe length skips the time in which the queue fills and nothing is shed.
        dearness: drop ratio → work for an event that is then left, as a multiple of ``cost_s``; None: they all cost the same.
    """

    rate: float
    cost_s: float
    shedding_s: float = 0.0
    bound_s: float = 1.0
    safety: float = 0.8
    interval: int = 50
    fixed_ratio: float | None = None
    begun_s: float = 0.0
    dearness: Callable[[float], float] | None = None

    def cost_at(self, ratio: float) -> float:
        """Work for an event that is left at this drop ratio, s."""
        return self.cost_s if self.dearness is None else self.cost_s * self.dearness(ratio)

    def needed_ratio(self, waiting_s: float, cost_s: float | None = None) -> float:
        """The drop ratio by the law; see `shedding.overload.QueueLaw`.

        Args:
            waiting_s: queueing latency now, s.
            cost_s: what an event that is left seems to cost; `Load.cost_s` without.

        Returns:
            0 without overload; 1 when the bound is reached, or the decisions alone are too much.
        """
        if self.fixed_ratio is not None:
            return self.fixed_ratio
        throughput = max(0.0, 1.0 - self.shedding_s * self.rate) / (self.cost_s if cost_s is None else cost_s)
        return QueueLaw(self.bound_s, self.safety).ratio(self.rate, throughput, waiting_s)


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """What happened.

    Attributes:
        kept: float64 (events,), how much of each event passed.
        latency_s: float64 (events,), of all events; a dropped one is done when it is dropped.
        ratio: float64 (intervals,), the drop ratio asked for.
    """

    kept: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    ratio: NDArray[np.float64]


def overload(events: int, load: Load, keep: Keep) -> Course:
    """Lets events arrive, and sheds when the queue grows.

    Args:
        events: how many.
        load: rate and cost.
        keep: asked interval by interval while shedding is on.
    """
    kept = np.ones(events, dtype=np.float64)
    queue, ratios, known_s = Queue(events, load.rate, load.interval, load.begun_s), [], load.cost_s
    for start, stop in queue.intervals():
        wanted = float(np.ceil(load.needed_ratio(queue.waiting_s(start), known_s) * RATIO_STEPS) / RATIO_STEPS)
        ratios.append(wanted)
        cost_s = load.cost_at(wanted)
        work = np.full(stop - start, cost_s)
        if wanted > 0:
            kept[start:stop] = keep(wanted, start, stop)
            work = load.shedding_s + cost_s * kept[start:stop]
        known_s = smoothed(known_s, cost_s, NEWEST)
        queue.work(start, work)
    return Course(kept, queue.latency_s, np.array(ratios, dtype=np.float64))


class Queue:
    """The operator's queue, worked off interval by interval.

    Args:
        events: how many arrive.
        rate: per second.
        interval: events in an interval.
        begun_s: how long the first one waits.

    Attributes:
        latency_s: float64 (events,), from arrival to the end of its work, as far as it was worked off.
    """

    def __init__(self, events: int, rate: float, interval: int, begun_s: float) -> None:
        self.latency_s = np.empty(events, dtype=np.float64)
        self._rate, self._interval, self._free_at = rate, interval, begun_s

    def intervals(self) -> Iterator[tuple[int, int]]:
        """First row of each interval, and the row after its last."""
        for start in range(0, len(self.latency_s), self._interval):
            yield start, min(len(self.latency_s), start + self._interval)

    def waiting_s(self, row: int) -> float:
        """How long this event will wait when all before it are worked off; negative when nobody waits for anything."""
        return self._free_at - row / self._rate

    def decide(self, row: int, spent_s: float) -> None:
        """Work that comes before the event of this row."""
        self._free_at = max(self._free_at, row / self._rate) + spent_s

    def work(self, start: int, work_s: NDArray[np.float64]) -> None:
        """Works off the events from this row on, as many as ``work_s`` (float64) has entries."""
        stop = start + len(work_s)
        arrival = np.arange(start, stop) / self._rate
        done = finished(arrival, work_s, self._free_at)
        self.latency_s[start:stop] = done - arrival
        self._free_at = float(done[-1])


def finished(arrival: NDArray[np.float64], work: NDArray[np.float64], free_at: float) -> NDArray[np.float64]:
    """When each piece of work of a queue is done.

    ``done[i] = max(arrival[i], done[i-1]) + work[i]``, without a loop: the latest time at which the queue was empty decides.

    Args:
        arrival: float64 (n,), ascending, s.
        work: float64 (n,), s.
        free_at: when the work before is done, s.

    >>> finished(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 2.0]), 0.5).tolist()
    [2.5, 4.5, 7.0]
    """
    total = np.cumsum(work)
    begun = np.maximum.accumulate(np.maximum(arrival, free_at) - (total - work))
    return total + begun
