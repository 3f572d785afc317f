"""Input at rates that follow each other, sent from a process of its own: in the application's process the sender would hold the interpreter that the driver works in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.config.settings import load_settings
from app.delivery.security import client_options
from app.events.batch import EventBatch
from app.events.registry import Registry, RegistrySettings
from app.local.generators import generate
from app.local.outlets import outlet_of
from app.local.sending import Due, Sender, at_once
from ops.bench.overload.workloads import Workload

FIRST_MS = 1_780_000_000_000
"""Time of the first event that is sent, about: the same in all runs, as identities depend on places and the queries on times only."""
RECORDED = 500_000
"""Events of a stream before those that are sent: models learn from an earlier time of the same world. In another one (another seed) prices are others, and what was learned of them is no use."""
SHARES = (1.2, 1.4, 1.6, 1.8, 2.0)
"""Of the capacity: the overloads."""
CALM = 0.4
"""Of the capacity: no reason to shed."""
TOLD_S = 70
"""Live estimates are told once a minute."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Events at one rate.

    Attributes:
        name: of what is measured, empty for what is not (warming up, calm between two phases).
        share: rate as a multiple of the capacity.
    """

    name: str
    share: float
    seconds: float


def issue_phases(shares: Sequence[float], seconds: float, *, calm_s: float = 10.0, burst: bool = True) -> tuple[Phase, ...]:
    """Warm-up, the rates one by one, a burst of five times for half as long; calm between them, so that each begins alike, and at the end until it is told what it cost."""
    found = [Phase("", CALM, 2 * calm_s)]
    for share in shares:
        found += [Phase(f"{share:.0%}", share, seconds), Phase("", CALM, calm_s)]
    last = [Phase("burst", 5.0, seconds / 2)] if burst else []
    return (*found, *last, Phase("", CALM, TOLD_S))


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a workload's events are due.

    Attributes:
        capacity: events/s that phases are multiples of.
    """

    phases: tuple[Phase, ...]
    capacity: float

    @property
    def seconds(self) -> NDArray[np.float64]:
        """When phases begin, and the end."""
        return np.cumsum([0.0, *(phase.seconds for phase in self.phases)])

    @property
    def counts(self) -> NDArray[np.float64]:
        """Events before phases, and in all."""
        return np.cumsum([0.0, *(phase.share * self.capacity * phase.seconds for phase in self.phases)])

    def due(self, batch: EventBatch | range, before: int) -> NDArray[np.float64]:
        """Seconds after the start, as `Due` has it.

        >>> schedule = Schedule((Phase("", 0.5, 2), Phase("150%", 1.5, 2)), 10)
        >>> schedule.counts.tolist(), schedule.due(range(4), 9).round(2).tolist()
        ([0.0, 10.0, 40.0], [1.8, 2.0, 2.07, 2.13])
        """
        return np.interp(before + np.arange(len(batch)), self.counts, self.seconds)


class Sending:
    """A process that sends a workload's first events, as they are due.

    Attributes:
        began_ms: the clock when its schedule began.
    """

    def __init__(self, settings: Path, workload: Workload, schedule: Schedule) -> None:
        self._reader, writer = get_context("spawn").Pipe(duplex=False)
        self._process = get_context("spawn").Process(target=_send, args=(settings, workload, schedule, writer))
        self._process.start()
        self.began_ms: float = self._reader.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it, wherever it is."""
        self._process.terminate()
        self._process.join()

    @property
    def going_on(self) -> bool:
        """Whether events are still to come."""
        return self._process.is_alive()

    def wait(self, seconds: float) -> None:
        """Until it is done, but not longer."""
        self._process.join(seconds)

    def end(self) -> float:
        """Waits for the end; how late the latest event left at worst, in seconds.

        Raises:
            RuntimeError: it failed.
        """
        try:
            behind_s: float = self._reader.recv()
        except EOFError as error:
            raise RuntimeError("the sender failed") from error
        self._process.join()
        return behind_s


def send_at_once(settings: Path, workload: Workload, events: int) -> None:
    """As fast as the broker takes them."""
    with _sender(settings, workload.stream, at_once) as sender:
        sender.send(_events(workload, events))


def _sender(settings: Path, stream: str, due: Due) -> Sender:
    loaded: Any = load_settings(settings, {})
    outlet = outlet_of(stream, loaded.streams[stream], Registry(RegistrySettings(loaded.schema_registry.url)))
    return Sender(client_options(loaded.kafka), outlet, due)


def recorded(workload: Workload, sent: int, events: int) -> Iterator[EventBatch]:
    """The last so many events before those that are sent.

    Args:
        workload: whose stream it is.
        sent: how many are sent: a generator's world depends on how long its stream is.
        events: at most `RECORDED`.
    """
    return _between(workload, RECORDED + sent, RECORDED - min(events, RECORDED), RECORDED)


def _events(workload: Workload, events: int) -> Iterator[EventBatch]:
    return _between(workload, RECORDED + events, RECORDED, RECORDED + events)


def _between(workload: Workload, events: int, start: int, stop: int) -> Iterator[EventBatch]:
    """Of the workload's stream of so many events."""
    begin_ms = FIRST_MS - round(1000 * RECORDED / workload.events_per_event_s)
    at = 0
    for batch in generate(workload.stream, events, seed=1, start_ms=begin_ms, rate_per_s=workload.events_per_event_s).batches:
        low, high = max(start - at, 0), min(stop - at, len(batch))
        at += len(batch)
        if low < high:
            yield rows_between(batch, low, high)


def _send(settings: Path, workload: Workload, schedule: Schedule, told: Connection) -> None:
    batches = _events(workload, int(schedule.counts[-1]))
    first = next(batches)  # makes the stream: 20 million events take 20 s, which are not to be caught up at once
    with _sender(settings, workload.stream, schedule.due) as sender:
        sender.check_topic()  # its schedule begins now
        told.send(time.time() * 1000)
        sent = sender.send(chain((first,), batches))
    told.send(sent.behind_s)
