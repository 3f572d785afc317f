"""``cep replay`` over files of any length: events go through the engines part by part, and composite events are written as their times are complete."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.bucket.in_order import parts_in_order
from app.bucket.matching import Found
from app.bucket.recording import Step, steps_of
from app.cep.engine import Tally
from app.cli.inputs.events import LineFinder
from app.cli.progress import Progress
from app.cli.replay.held import HeldMatches
from app.cli.replay.output import ordered_queries
from app.cli.replay.sink import Sink, opened
from app.events.batch import EventBatch
from app.files.gathering import Gathered
from app.owners.tuple_memory import tuple_memory
from app.query.plan import QUERY_STREAM, Catalog


@dataclass(frozen=True, slots=True)
class Told:
    """What is told about a run at its end.

    Attributes:
        measured: counts and times, as `cep replay --stats` has them.
        tallies: per query (index in the catalog) and step, where limits were reached.
    """

    measured: Mapping[str, Any]
    tallies: Sequence[tuple[int, Tally]]


def can_stream(gathered: Gathered) -> bool:
    """Whether all events are one stream whose lines are their offsets."""
    return not gathered.learnt.topics and not gathered.pieces.named


def composes_nothing(catalog: Catalog) -> bool:
    """Whether no query reads another one's composite events."""
    return not any(stream.startswith(QUERY_STREAM) for plan in catalog.plans for stream in plan.streams)


class Clock:
    """Adds up where time goes."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """While it runs."""
        started = time.perf_counter()
        yield
        self.spent_s += time.perf_counter() - started


def stream_events(catalog: Catalog, gathered: Gathered, out: Path | None, read_s: float) -> Told:
    """Matches and writes.

    Args:
        catalog: the queries.
        gathered: the events.
        out: a file; None: standard output.
        read_s: what reading took, for `Told`.
    """
    held, writing = HeldMatches(catalog.plans), Clock()
    tallies: list[tuple[int, Tally]] = []
    counts = {"matches": 0, "timeouts": 0}
    started = time.perf_counter()
    with opened(out, catalog) as sink:
        for step in _steps(catalog, gathered):
            tallies += [(one.query, one.tally) for one in step.found if _limited(one.tally)]
            _count(step.found, counts)
            held.add(step.found)
            with writing.running():
                _write(catalog, held.rest() if step.complete_ms is None else held.complete(step.complete_ms), sink)
    measured = {
        "events": gathered.pieces.events,
        **counts,
        "late": 0,
        "skipped": gathered.unreadable.count,
        "read_s": read_s,
        "match_s": [time.perf_counter() - started - writing.spent_s],
        "write_s": writing.spent_s,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    return Told(measured, tallies)


def _steps(catalog: Catalog, gathered: Gathered) -> Iterator[Step]:
    progress = Progress("matching", gathered.pieces.events)
    yield from steps_of(catalog, _parts(gathered), None, progress.advance, tuple_memory)
    progress.end()


def _parts(gathered: Gathered) -> Iterator[EventBatch]:
    """All events in total order; one part without any where there are none."""
    if not len(gathered.pieces):
        return iter([gathered.whole().batch])
    return parts_in_order(gathered.pieces.spans, lambda number: gathered.learnt.settled(gathered.pieces[number]).batch)


def _limited(tally: Tally) -> bool:
    return bool(tally.limited_matches or tally.limited_runs or tally.shed_tuples)


def _count(found: Iterable[Found], counts: dict[str, int]) -> None:
    for one in found:
        counts["matches"] += len(one.matches)
        counts["timeouts"] += 0 if one.timeouts is None else len(one.timeouts)


def _write(catalog: Catalog, found: Sequence[Found], sink: Sink) -> None:
    if found:
        sink.write(ordered_queries(catalog, found, ()), LineFinder(None, np.zeros(0, np.int64)), None)
