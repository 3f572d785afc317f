"""Overload on a clock: events arrive as time passes, an operator really works, and shedding is decided and paid for while others wait.

Nothing is sent: an event arrives at its place in the stream divided by the rate, so how many wait follows from the clock alone, and keeping the pace costs nothing. The operator takes
events in small batches, always of the same size (some milliseconds of its work): it waits until a batch is whole, and an event is done when its batch is. Unlike virtual
time (`app.evaluation.virtual_time`) nothing here is the same every time; figures of the two are never mixed.

How much is shed: `shedding.overload`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, sleep, thread_time
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.evaluation.virtual_time import NEWEST, RATIO_STEPS
from shedding.detector import smoothed
from shedding.overload import QueueLaw


class Clock(Protocol):
    """What tells the time."""

    def now(self) -> float:
        """Seconds since some moment."""
        ...

    def wait(self, until: float) -> None:
        """Comes back at that time, or at once when it is over."""
        ...


class WallClock:
    """The time that passes for everybody. What other processes take of the processor makes latencies longer."""

    def now(self) -> float:
        """See `Clock.now`."""
        return perf_counter()

    def wait(self, until: float) -> None:
        """Sleeps."""
        if (left := until - perf_counter()) > 0:
            sleep(left)


class ProcessorClock:
    """What this thread has worked, for machines that are busy with other things. Time in which it would wait is skipped."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> float:
        """See `Clock.now`."""
        return thread_time() + self._skipped

    def wait(self, until: float) -> None:
        """Lets the time be over."""
        self._skipped += max(0.0, until - self.now())


CLOCKS = {"wall": WallClock, "processor": ProcessorClock}


@contextmanager
def pinned() -> Iterator[int | None]:
    """Keeps this process on one core (the last that it may use), where the system allows it; gives its number, or None."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Pace:
    """How events arrive, and what must be kept.

    Attributes:
        rate: arriving events per second.
        capacity: events per second that the operator manages without shedding, measured.
        batch: events that the operator takes at a time.
        bound_s: the latency bound.
        safety: share of the bound at which the queue settles.
        begun_s: how long the first event has waited when the operator begins.
    """

    rate: float
    capacity: float
    batch: int
    bound_s: float = 1.0
    safety: float = 0.8
    begun_s: float = 0.0


class EventDetector:
    """How much to drop of events, from what their work really took.

    The throughput is what the operator would do without dropping, the work of deciding taken off. It is measured on the events that pass, so it moves with what passes: a shedder that
    drops what costs nothing saves nothing, and is asked for more.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._cost_s, self._decision_s = 1.0 / pace.capacity, 0.0

    def ratio(self, waiting_s: float) -> float:
        """The drop ratio for a batch whose first event has waited so long: 0 to 1, in whole steps."""
        pace = self._pace
        throughput = max(0.0, 1.0 - self._decision_s * pace.rate) / self._cost_s
        ratio = QueueLaw(pace.bound_s, pace.safety).ratio(pace.rate, throughput, waiting_s)
        return float(np.ceil(ratio * RATIO_STEPS) / RATIO_STEPS)

    def learn(self, events: int, passed: float, deciding_s: float, working_s: float) -> None:
        """What a batch took.

        Args:
            events: of the batch.
            passed: how many of them, or of their shares in windows, reached the operator.
            deciding_s: time for deciding; 0 where nothing was decided.
            working_s: time of the operator.
        """
        if passed >= 1:
            self._cost_s = smoothed(self._cost_s, working_s / passed, NEWEST)
        if deciding_s:
            self._decision_s = smoothed(self._decision_s, deciding_s / events, NEWEST)


@dataclass(frozen=True, slots=True)
class Step:
    """What was decided about a batch.

    Attributes:
        asked: share to be dropped.
        deciding_s: what deciding took.
    """

    asked: float
    deciding_s: float


class Worker(Protocol):
    """An operator with a shedder before it."""

    def work(self, start: int, stop: int, waiting_s: float) -> Step:
        """Sheds and processes the events ``start..stop``, the first of which has waited so long."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PacedCourse:
    """What happened.

    Attributes:
        latency_s: float64 (events,), from arrival until the batch was done; dropped events too.
        asked: float64 (batches,), drop ratios asked for.
        deciding_s: for all decisions.
        busy_s: in all, without waiting.
    """

    latency_s: NDArray[np.float64]
    asked: NDArray[np.float64]
    deciding_s: float
    busy_s: float


def paced(events: int, pace: Pace, worker: Worker, clock: Clock) -> PacedCourse:
    """Lets so many events arrive.

    Args:
        events: at least one.
        pace: how.
        worker: what works on them.
        clock: what time is.
    """
    latency, asked = np.empty(events), []
    deciding = busy = 0.0
    began = clock.now() - pace.begun_s
    for start in range(0, events, pace.batch):
        stop = min(start + pace.batch, events)
        clock.wait(began + (stop - 1) / pace.rate)
        taken = clock.now()
        step = worker.work(start, stop, taken - began - start / pace.rate)
        done = clock.now()
        latency[start:stop] = done - began - np.arange(start, stop) / pace.rate
        asked.append(step.asked)
        deciding += step.deciding_s
        busy += done - taken
    return PacedCourse(latency, np.array(asked), deciding, busy)
