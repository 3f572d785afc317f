"""What runs on a clock have in common: a query and its streams, what an operator manages without shedding, and the point that a run becomes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.evaluation.operator import Outcome
from app.evaluation.quality import Quality
from app.evaluation.windows import EventWindows
from app.events.batch import EventBatch
from app.features.positions import shed_window
from app.query.plan import Plan
from ops.experiments.clock.operators import WholeStream, WindowsApart, batch_for, throughput
from ops.experiments.clock.pace import Clock, Pace, PacedCourse, Worker, paced
from ops.experiments.shedding_figures import Point
from shedding.interface import Method

SECONDS = 5.0
"""How long events arrive in a run; those that wait at its beginning come on top."""
MEASURED_S = 0.5
"""A capacity is measured for so long at least: behind selection a round takes a tenth of a second."""
MOST_EVENTS = 400_000
"""Of a run, which ends sooner where an operator is so fast (behind selection): all pairs of event and window are in memory."""
RATES = (1.2, 2.0)
BATCH_S = 0.005
"""Of the operator's work without shedding."""
COURSE_S = 0.1

Methods = Mapping[str, Method[Any] | None]


@dataclass(frozen=True, slots=True)
class Setting:
    """A query, its streams, and who takes part.

    Attributes:
        plan: the query.
        learning: stream to learn from and to measure the capacity with.
        judging: (events) → the stream that is judged, of so many events.
        methods: by the name of the line.
        rates: multiples of the capacity.
        apart: whether windows are processed apart; otherwise the engine gets the whole stream.
        selected: shedders stand behind selection: what no item takes by itself costs next to nothing, and drop ratios are shares of the rest, as in the application.
    """

    plan: Plan
    learning: EventBatch
    judging: Callable[[int], EventBatch]
    methods: Methods
    rates: Sequence[float] = RATES
    apart: bool = True
    selected: bool = False


def operator_of(setting: Setting, batch: EventBatch, windows: EventWindows | None) -> WindowsApart | WholeStream:
    """A fresh one; ``windows``: of the batch, where they are processed apart."""
    return WholeStream(setting.plan, batch) if windows is None else WindowsApart(setting.plan, batch, windows)


def windows_of(setting: Setting, batch: EventBatch) -> EventWindows | None:
    """Those that are processed apart; None where the engine gets the whole stream."""
    return EventWindows.of(shed_window(setting.plan), batch) if setting.apart else None


def measuring(setting: Setting, clock: Clock) -> Callable[[int], float]:
    """(events of a batch) → events per second without shedding: the median of as many rounds as `MEASURED_S` has room for."""
    windows = windows_of(setting, setting.learning)

    def throughput_of(batch: int) -> float:
        rounds: list[float] = []
        until = clock.now() + MEASURED_S
        while not rounds or clock.now() < until:
            operator = operator_of(setting, setting.learning, windows)
            rounds.append(throughput(len(setting.learning), batch, lambda start, stop, own=operator: own.feed(start, stop, None), clock))  # type: ignore[misc]
        return float(np.median(rounds))

    return throughput_of


def calibrated(measured: Callable[[int], float], batch_s: float = BATCH_S) -> tuple[float, int]:
    """Events per second, and events of a batch: twice, as the first look takes small batches, which where events cost little are dear themselves."""
    batch, capacity = 100, 0.0
    for _ in range(2):
        capacity = measured(batch)
        batch = batch_for(capacity, batch_s)
    return capacity, batch


def needed(capacity: float, rate: float) -> int:
    """Events of a run: those that have arrived when it begins, and those that arrive in its time.

    >>> needed(10_000.0, 2.0), needed(1_000_000.0, 2.0)
    (116000, 400000)
    """
    return min(MOST_EVENTS, int((SECONDS + 0.8) * rate * capacity))


def run_of(events: int, pace: Pace, worker: Worker, clock: Clock) -> PacedCourse:
    """See `paced`; garbage of the run before is no work of this one."""
    gc.collect()
    return paced(events, pace, worker, clock)


def quality_of(truth: Outcome, found: Outcome, events: int) -> Quality:
    """Of what was found in so many events."""
    return Quality.of(truth.before(events), found)


def points_of(  # noqa: PLR0917 - what a run is
    figure: str, curve: str, pace: Pace, seed: int, course: PacedCourse, quality: Quality, dropped: float
) -> Iterator[Point]:
    """The run as a point, and of the first seed at the highest rate its greatest latencies over time."""
    latency, rate = course.latency_s * 1000, round(100 * pace.rate / pace.capacity)
    yield Point(
        figure,
        curve,
        rate,
        seed,
        100 * quality.false_negatives,
        100 * quality.false_positives,
        quality.true,
        100 * dropped,
        float(latency.max()),
        float(np.median(latency[len(latency) // 2 :])),
        p99_ms=float(np.percentile(latency, 99)),
        late=100 * float(np.mean(course.latency_s > pace.bound_s)),
        shedding=100 * course.deciding_s / course.busy_s,
        capacity=pace.capacity,
    )
    if seed == 0 and rate == round(100 * max(RATES)):
        tenth = (np.arange(len(latency)) / pace.rate // COURSE_S).astype(np.int64)
        for number in range(int(tenth[-1]) + 1):
            yield Point(f"{figure}-course", curve, round(COURSE_S * number, 1), 0, float(latency[tenth == number].max()))
