"""Matching a whole recording that lies in memory: what `cep replay` and `cep test` do. No bytes, no buckets where none are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.asc.selected import Entries, SelectedEvents, joined
from app.asc.selection import Selection
from app.bucket.bucket import Bucket
from app.bucket.chunk import Chunk
from app.bucket.hold import FOREVER, Progress, TimeRules, merged_times
from app.bucket.ingress import Gate, IngressPlan
from app.bucket.matching import Found, GroupMatching
from app.bucket.temporal import MemoryOf
from app.cep.engine import Watermarks
from app.events.batch import Column, EventBatch, concatenate
from app.query.plan import Catalog

SLICE = 1 << 17
"""Events at a time: large enough that fixed costs vanish, small enough that a slice's arrays stay in the cache."""
WAITING_ENTRIES = 1 << 20
"""Candidates of shared engines that wait for those of the next slices, 8 MB: matches are handed out query by query, at 5 µs for every query of a step."""
WAITING_EVENTS = 1 << 20
"""Events that wait with them, some 100 MB: where candidates are few, a whole file would. A step of a thousand queries is 5 ms for a million events."""

Advance = Callable[[int], None]
"""Told how many events were matched since it was last told."""


def _silent(events: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What was found in a recording.

    Attributes:
        found: per step and query, with indices into ``catalog.plans`` of the catalog that was given.
        late: int64 (late, 2), (source, offset) of events that were late for every stream they belong to.
    """

    found: Sequence[Found]
    late: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))


def match_sorted(
    catalog: Catalog,
    batch: EventBatch,
    gate_of: Callable[[Selection], Gate | None] | None = None,
    advance: Advance = _silent,
    memory_of: MemoryOf | None = None,
) -> Recording:
    """Matches events that are in total order already: nothing is late, nothing waits.

    Args:
        catalog: queries that all read these events, whatever their streams are called.
        batch: in total order.
        gate_of: makes the shedding gate for a selection.
        advance: told about progress.
        memory_of: makes the bounded memory of temporal queries that ask for one.
    """
    steps = steps_of(catalog, slices(batch), gate_of, advance, memory_of, whole=batch)
    return Recording([one for step in steps for one in step.found])


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What was found in some events that followed each other.

    Attributes:
        found: per query.
        complete_ms: whatever was to be known of earlier times is known now; None behind the last events.
    """

    found: Sequence[Found]
    complete_ms: int | None


def slices(batch: EventBatch) -> Iterator[EventBatch]:
    """A batch as views of `SLICE` events; one without any where it is empty."""
    return (rows_between(batch, start, start + SLICE) for start in range(0, max(1, len(batch)), SLICE))


def steps_of(
    catalog: Catalog,
    parts: Iterable[EventBatch],
    gate_of: Callable[[Selection], Gate | None] | None = None,
    advance: Advance = _silent,
    memory_of: MemoryOf | None = None,
    *,
    whole: EventBatch | None = None,
) -> Iterator[Step]:
    """Matches events that come in total order, part by part, of which none is kept longer than engines need it.

    Args:
        catalog: queries that all read these events, whatever their streams are called.
        parts: at least one; all but a single one have events.
        gate_of: makes the shedding gate for a selection.
        advance: told about progress.
        memory_of: makes the bounded memory of temporal queries that ask for one.
        whole: what the parts are views of, where they are: several of them are then one view, too, and no copy.
    """
    selection = Selection(catalog, None)
    gate = gate_of(selection) if gate_of else None
    groups = [GroupMatching(catalog, group.number, memory_of=memory_of) for group in catalog.groups]
    waiting: list[SelectedEvents] = []
    fed: list[EventBatch] = []
    start = stop = 0
    for part, last in _with_last(parts):
        stop += len(part)
        selected = selection.select(part)
        waiting.append(selected if gate is None else gate(part, selected))
        fed.append(part)
        if last or not all(group.shared for group in groups) or stop - start >= WAITING_EVENTS or not _worth_waiting(waiting):
            together = fed[0] if len(fed) == 1 else concatenate(fed) if whole is None else rows_between(whole, start, stop)
            watermarks = Watermarks(FOREVER, end_ms=_end(together)) if last else Watermarks(int(part.time[-1]))
            answer = waiting[0] if len(waiting) == 1 else joined(waiting)
            found = [one for group in groups for one in group.news_of_selected(together, answer, watermarks)]
            waiting, fed, start = [], [], stop
            yield Step(found, None if last else int(part.time[-1]))
        advance(len(part))


def _with_last(parts: Iterable[EventBatch]) -> Iterator[tuple[EventBatch, bool]]:
    """All parts, and whether each is the last one."""
    before: EventBatch | None = None
    for part in parts:
        if before is not None:
            yield before, False
        before = part
    if before is not None:
        yield before, True


def _end(batch: EventBatch) -> int | None:
    return int(batch.time[-1]) if len(batch) else None


def _worth_waiting(waiting: Sequence[SelectedEvents]) -> bool:
    """Of a thousand queries each finds a little in every slice: what was selected waits while it is little."""
    answers = [one.answer for one in waiting]
    return all(isinstance(answer, Entries) for answer in answers) and sum(len(answer.rows) for answer in answers) < WAITING_ENTRIES


def rows_between(batch: EventBatch, start: int, stop: int) -> EventBatch:
    """Rows ``start..stop`` as views; nothing is copied."""

    def cut(column: Column) -> Column:
        state = None if column.state is None else column.state[start:stop]
        return Column(column.kind, column.values[start:stop], state, column.dictionary)

    columns = {name: cut(column) for name, column in batch.columns.items()}
    return EventBatch(batch.time[start:stop], batch.source[start:stop], batch.offset[start:stop], cut(batch.type), columns)


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The events of one stream in order of arrival.

    Attributes:
        rules: how time passes in the stream.
        batch: its events.
        line: int64 (events,), place in the recording as a whole, ascending: how the streams interleave.
    """

    rules: TimeRules
    batch: EventBatch
    line: NDArray[np.int64]


def match_arrivals(
    catalog: Catalog,
    streams: Sequence[Arrivals],
    gate_of: Callable[[Selection], Gate | None] | None = None,
    advance: Advance = _silent,
    topics: Sequence[str] = (),
    *,
    memory_of: MemoryOf | None = None,
) -> Recording:
    """Matches events in order of arrival, as the application does: late ones are left out, the others wait for the watermark.

    Args:
        catalog: queries.
        streams: the streams that they read, other queries' composite events apart.
        gate_of: makes the shedding gate for a selection.
        advance: told about progress.
        topics: of the recording, sorted; for the identities of composite events that other queries read.
        memory_of: makes the bounded memory of temporal queries that ask for one.
    """
    plans = [IngressPlan(catalog, stream.rules, 1) for stream in streams]
    gates = [gate_of(plan.selection) if gate_of else None for plan in plans]
    bucket = Bucket(catalog, [stream.rules for stream in streams], 0, topics, memory_of)
    known: Mapping[str, Mapping[int, int]] = {stream.rules.stream: {} for stream in streams}
    own = [frozenset(np.unique(stream.batch.source).tolist()) for stream in streams]
    sources = frozenset[int]().union(*own)
    found: list[Found] = []
    late: list[NDArray[np.int64]] = []
    end = max((int(stream.line[-1]) + 1 for stream in streams if len(stream.line)), default=0)
    for start in range(0, max(end, 1), SLICE):
        chunks: list[Chunk] = []
        learnt, closing = dict(known), start + SLICE >= end
        for stream, plan, gate, read in zip(streams, plans, gates, own, strict=True):
            first, last = np.searchsorted(stream.line, [start, start + SLICE])
            part = rows_between(stream.batch, int(first), int(last))
            ingested = plan.ingest(part, Progress(known[stream.rules.stream], read), gate)
            late.append(_positions(part, ingested.late))
            learnt[stream.rules.stream] = merged_times([known[stream.rules.stream], ingested.judgement.greatest_times])
            chunks += ingested.chunks
        known = learnt
        output = bucket.advance(chunks, Progress(sources=sources, closing=closing))
        late.append(output.late)
        found.extend(one for one in output.found if one.news)
        advance(min(SLICE, end - start))
    return Recording(found, _late_everywhere(late, streams))


def _positions(batch: EventBatch, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([batch.source[rows], batch.offset[rows]], axis=1)


def _late_everywhere(late: Sequence[NDArray[np.int64]], streams: Sequence[Arrivals]) -> NDArray[np.int64]:
    """Events that are late as often as they occur: an event that belongs to several streams is late when it is late for all of them."""
    positions, times = np.unique(np.concatenate([*late, np.zeros((0, 2), np.int64)]), axis=0, return_counts=True)
    if len(streams) == 1 or not len(positions):
        return positions
    everything = np.concatenate([np.stack([s.batch.source, s.batch.offset], axis=1) for s in streams])
    occurring, counts = np.unique(everything, axis=0, return_counts=True)
    often = {tuple(position): count for position, count in zip(occurring.tolist(), counts.tolist(), strict=True)}
    kept = [often[tuple(position)] <= count for position, count in zip(positions.tolist(), times.tolist(), strict=True)]
    return positions[np.array(kept, dtype=np.bool_)]
