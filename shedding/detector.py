"""When to drop events, and how many: eSPICE's overload detector, as functions of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured of an operator.

    Attributes:
        rate: events that arrive per second.
        throughput: events that it can process per second, the shedder's work included.
        queue: events that wait.
        window_size: events in a window, the mean where it varies.
    """

    rate: float
    throughput: float
    queue: float
    window_size: float = 1.0


@dataclass(frozen=True, slots=True)
class DropOrders:
    """What to do about it.

    Attributes:
        shedding: whether events are dropped at all.
        drop_ratio: share of the events.
        parts: parts of a window of which each must lose its share before the queue is full.
        drops_per_part: events to drop from each of them.
    """

    shedding: bool
    drop_ratio: float
    parts: int
    drops_per_part: float


def longest_queue(latency_bound_s: float, throughput: float) -> int:
    """Events that may wait so that the last of them is done in time: ``qmax`` of the paper.

    >>> longest_queue(1.0, 999.5)
    1000
    """
    return ceil(latency_bound_s * throughput)


def detected(load: Load, latency_bound_s: float, safety: float = 0.8) -> DropOrders:
    """Whether to shed, and how much.

    Args:
        load: what was measured.
        latency_bound_s: from arrival to the end of processing.
        safety: share of the longest queue at which shedding begins, more than 0 and at most 1. A high one sheds less in short bursts, but from smaller parts of a
            window, where it meets useful events.

    The queue stays where it is once shedding is on, and grows for ever under a shedder that drops a little less than it is asked to: `shedding.overload` does better.

    Source: eSPICE (Middleware 2019), overload detection.

    >>> detected(Load(rate=1500, throughput=1000, queue=900, window_size=1000), latency_bound_s=1.0).parts
    5
    """
    most = longest_queue(latency_bound_s, load.throughput)
    shedding = load.queue >= safety * most
    ratio = drop_ratio_for(load.rate, load.throughput) if shedding else 0.0
    parts = parts_of_window(load.window_size, most, safety)
    return DropOrders(shedding, ratio, parts, ratio * load.window_size / parts)


def drop_ratio_for(rate: float, throughput: float) -> float:
    """Share of events to drop so that the rest is no more than can be processed.

    >>> drop_ratio_for(rate=2000, throughput=1000), drop_ratio_for(rate=500, throughput=1000)
    (0.5, 0.0)
    """
    return max(0.0, 1 - throughput / rate) if rate > 0 else 0.0


def parts_of_window(window_size: float, longest: int, safety: float = 0.8) -> int:
    """How many parts a window is cut into: a part is no larger than what is left of the queue when shedding begins."""
    free = max((1 - safety) * longest, 1.0)
    return max(1, ceil(window_size / free - 1e-9))


def smoothed(before: float | None, measured: float, weight: float = 0.5) -> float:
    """A sliding estimate of a rate or throughput: the newest measurement counts with this weight."""
    return measured if before is None else before + weight * (measured - before)
