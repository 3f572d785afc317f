"""The events that ``--why-not`` explains a query on: those of the file, and the composite events of the queries that it reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.bucket.composition import as_events, stream_of, with_all_read
from app.bucket.places import COMPOSITES
from app.cep.matches import Matches
from app.cli.inputs.events import ReplayInput
from app.cli.replay.composites import ReadComposites
from app.cli.replay.replay import Matching
from app.events.batch import EventBatch, concatenate_streams, take
from app.query.plan import QUERY_STREAM, Catalog, Plan


@dataclass(frozen=True, slots=True, eq=False)
class QueryEvents:
    """All events that a query reads, in total order.

    Attributes:
        lines: by row what its position is called: the line, or query/number.
        silent: queries that it reads and that found nothing.
    """

    batch: EventBatch
    lines: list[int | str]
    silent: tuple[str, ...] = ()


def events_of(plan: Plan, catalog: Catalog, source: ReplayInput) -> QueryEvents:
    """The events of a query; the queries that it reads are run first.

    Args:
        plan: of the query.
        catalog: all queries, of which it may read some.
        source: the file.
    """
    finder = source.line_finder()
    raw = [stream for stream in plan.streams if not stream.startswith(QUERY_STREAM)]
    if len(raw) == len(plan.streams):
        batch = source.sorted_events(raw)
        return QueryEvents(batch, finder.lines_of(batch.source, batch.offset).tolist())
    needed = with_read(plan, catalog)
    topics = source.file.topics
    found: dict[int, list[Matches]] = {number: [] for number in range(len(needed.plans))}
    for one in Matching(needed, source, None).once().found:
        found[one.query].append(one.matches)
    read = ReadComposites.of(needed, found, topics)
    own = [number for number, one in enumerate(needed.plans) if stream_of(one.name) in plan.streams]
    parts = [as_events(needed.plans[number], one, topics, [b""] * len(one)) for number in own for one in found[number] if len(one)]
    silent = tuple(needed.plans[number].name for number in own if not any(map(len, found[number])))
    if raw:
        parts.append(source.sorted_events(raw))
    if not parts:
        empty = source.sorted_events(_raw_streams(needed))
        return QueryEvents(take(empty, np.zeros(0, np.int64)), [], silent)
    batch = concatenate_streams(parts)
    batch = take(batch, np.lexsort((read.places(batch.source, batch.offset), batch.source, batch.time)))
    composite = batch.source == COMPOSITES
    plain = finder.lines_of(np.where(composite, 0, batch.source), np.where(composite, 0, batch.offset)).tolist()
    return QueryEvents(batch, read.positions(batch.source, batch.offset, plain), silent)


def _raw_streams(catalog: Catalog) -> list[str]:
    return sorted({stream for plan in catalog.plans for stream in plan.streams if not stream.startswith(QUERY_STREAM)})


def with_read(plan: Plan, catalog: Catalog) -> Catalog:
    """The query with all that it reads, directly or not."""
    return Catalog.of(tuple(with_all_read([plan], catalog)), catalog.version)
