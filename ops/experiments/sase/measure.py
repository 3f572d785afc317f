"""One run of a workload, and the figures of a family."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from app.cep.engine import EngineOptions, Watermarks
from app.cep.stacks.engine import StacksEngine
from ops.experiments.sase.plans import Counted, Plan
from ops.experiments.sase.workloads import FAMILIES, Workload, masks_of, plain_stream, plan_of, slices, stream_of


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured at a point.

    Attributes:
        family, curve, x: where it stands.
        events: counted.
        matches: of these.
        sequences, visited, begun: what a plan of the paper's did for them (`plans.Counted`); 0 for the product.
        m_events_per_s: million events per second of the processor, one per repeat.
    """

    family: str
    curve: str
    x: float
    events: int
    matches: int
    sequences: int
    visited: int
    begun: int
    m_events_per_s: tuple[float, ...]


class Ran(NamedTuple):
    """A run: seconds of the processor for so many events, and what was done."""

    seconds: float
    events: int
    counted: Counted


LEAST_S = 0.05
"""What is run faster is run again: mere milliseconds say little."""
MOST_RUNS = 20


def once(workload: Workload, events: int | None = None, least_s: float = 0.0) -> Ran:
    """Runs from an empty state, for so long at least, and their mean; what is counted begins behind a first window."""
    count = min(workload.events, events or workload.events)
    run = (
        partial(_product, workload, workload.by, count)
        if isinstance(workload.by, EngineOptions)
        else partial(_paper, workload, workload.by, count)
    )
    runs = [run()]
    while sum(one.seconds for one in runs) < least_s and len(runs) < MOST_RUNS:
        runs.append(run())
    return runs[0]._replace(seconds=statistics.fmean(one.seconds for one in runs))


def _product(workload: Workload, options: EngineOptions, count: int) -> Ran:
    plan, warm = plan_of(workload), workload.window
    batch = stream_of(workload, warm + count)
    masks, found = masks_of(plan, batch), 0
    engine = StacksEngine(plan, options)
    for part, some in slices(batch, masks, 0, warm):
        engine.feed(part, some, Watermarks(int(part.time[-1]) + 1))
    parts = slices(batch, masks, warm, warm + count)
    begin = time.process_time()
    for part, some in parts:
        matches, _ = engine.feed(part, some, Watermarks(int(part.time[-1]) + 1))
        found += len(matches)
    return Ran(time.process_time() - begin, count, Counted(found, 0, 0, 0))


def _paper(workload: Workload, plan: Plan, count: int) -> Ran:
    """The first window is run alone as well, and its time taken off: the plans run a stream in one go."""
    warm = workload.window
    stream = plain_stream(stream_of(workload, warm + count))
    short = type(stream)(*(line[:warm] for line in stream))
    seconds = []
    for one, counted_from in ((short, 0), (stream, warm)):
        begin = time.process_time()
        counted = plan(one, workload.length, workload.window, counted_from)
        seconds.append(time.process_time() - begin)
    return Ran(max(seconds[1] - seconds[0], 1e-9), count, counted)


def measure(name: str, events: int | None, repeats: int) -> list[Figure]:
    """The figures of a family, after a warm-up that loads or compiles the kernels; repeats take turns, so that all meet the same neighbours."""
    workloads = list(FAMILIES[name].workloads())
    for first in {one.curve: one for one in reversed(workloads)}.values():
        once(first, 1000)
    runs: list[list[Ran]] = [[] for _ in workloads]
    for _ in range(repeats):
        for workload, ran in zip(workloads, runs, strict=True):
            ran.append(once(workload, events, LEAST_S if events is None else 0))
    return [
        Figure(
            name,
            workload.curve,
            workload.x,
            ran[0].events,
            *ran[0].counted,
            tuple(one.events / max(one.seconds, 1e-9) / 1e6 for one in ran),
        )
        for workload, ran in zip(workloads, runs, strict=True)
    ]
