"""What `cep replay` writes: composite events of all queries in one order, as JSON lines.

Sorted as arrays and made into objects block by block: millions of matches as objects would take gigabytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from app.bucket.chunk import compacted_batch
from app.bucket.composite import Constituent, json_fields, match_identity, plain_values
from app.bucket.matching import Found
from app.cep.matches import Matches
from app.cli.replay_input import LineFinder, ReplayInput
from app.events.batch import PARTITION_BITS, Column, Dictionary, EventBatch, concatenate, take
from app.events.types import Kind
from app.query.plan import Catalog, Plan

BLOCK = 8192
"""Matches that exist as objects at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryMatches:
    """All matches of one query, in the order in which they are written.

    Attributes:
        fields: one "event" per match: its time, and the return fields as columns.
        time, source, offset: int64 (matches, places), of the bound events.
    """

    plan: Plan
    fields: EventBatch
    time: NDArray[np.int64]
    source: NDArray[np.int64]
    offset: NDArray[np.int64]

    @staticmethod
    def of(plan: Plan, found: Sequence[Found]) -> QueryMatches:
        """The matches of all steps together, sorted by match time, then by their events in total order."""
        parts = [one.matches for one in found]
        bound = [np.concatenate([getattr(m.events, name)[m.rows] for m in parts]) for name in ("time", "source", "offset")]
        fields = concatenate([_as_batch(m) for m in parts])
        columns = [part[:, place] for place in reversed(range(bound[0].shape[1])) for part in reversed(bound)]
        order = np.lexsort([*columns, fields.time])
        time, source, offset = (part[order] for part in bound)
        return QueryMatches(plan, take(fields, order), time, source, offset)

    def blocks(self) -> Iterator[QueryMatches]:
        """The matches in parts that fit into objects."""
        for start in range(0, len(self.fields), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(self.fields)))
            yield QueryMatches(self.plan, compacted_batch(take(self.fields, rows)), self.time[rows], self.source[rows], self.offset[rows])

    def orders(self) -> list[tuple[Any, ...]]:
        """Per match what all queries' matches are sorted by: match time, (time, source, offset) of its events, query name."""
        places = np.stack([self.time, self.source, self.offset], axis=2)
        return [
            (time, [tuple(event) for event in events], self.plan.name)
            for time, events in zip(self.fields.time.tolist(), places.tolist(), strict=True)
        ]

    def composites(self, finder: LineFinder, topics: Sequence[str] | None) -> Iterator[dict[str, Any]]:
        """The matches as objects; with their identities where ``topics`` are given (empty: positions of the file have none)."""
        plan = self.plan
        names = [returned.name for returned in plan.returns]
        fields = [plain_values(self.fields.columns[returned.name], returned.kind) for returned in plan.returns]
        variables = [item.variable for item in plan.positive]
        lines = finder.lines_of(self.source, self.offset).tolist()
        for k, time in enumerate(self.fields.time.tolist()):
            composite = {} if topics is None else {"id": self._identity(k, topics)}
            yield {
                **composite,
                "query": plan.name,
                "version": plan.version,
                "time": time,
                "window": None,
                "fields": json_fields({name: column[k] for name, column in zip(names, fields, strict=True)}),
                "events": [{"var": variable, "position": line} for variable, line in zip(variables, lines[k], strict=True)],
            }

    def _identity(self, k: int, topics: Sequence[str]) -> str:
        """Without positions in the file, the stream's name stands for the topic and the line for the offset."""
        named = topics or self.plan.streams[:1]
        sources: list[int] = self.source[k].tolist()
        offsets: list[int] = self.offset[k].tolist()
        bound = [
            Constituent(item.variable, "", named[source >> PARTITION_BITS], source & ((1 << PARTITION_BITS) - 1), offset, 0)
            for item, source, offset in zip(self.plan.positive, sources, offsets, strict=True)
        ]
        return match_identity(self.plan, None, bound)


def _as_batch(matches: Matches) -> EventBatch:
    """Matches as events with their return fields as attributes, so that what joins and cuts batches serves them, too."""
    zeros = np.zeros(len(matches), dtype=np.int64)
    nameless = Column(Kind.STRING, zeros.astype(np.int32), None, Dictionary.of([b""]))
    return compacted_batch(EventBatch(matches.time, zeros, zeros, nameless, matches.fields))


def json_lines(catalog: Catalog, found: Sequence[Found], events: ReplayInput, *, identities: bool = False) -> Iterator[bytes]:
    """All composite events as JSON lines: by match time, then their events in total order, then query name.

    Args:
        catalog: what ``found`` speaks of.
        found: matches of all queries.
        events: what they were found in.
        identities: write each composite event's ``id``, too.
    """
    own: dict[int, list[Found]] = {}
    for one in found:
        own.setdefault(one.query, []).append(one)
    finder, topics = events.line_finder(), events.file.topics if identities else None
    queries = [QueryMatches.of(catalog.plans[query], steps) for query, steps in own.items()]
    if len(queries) == 1:
        return (orjson.dumps(c) + b"\n" for block in queries[0].blocks() for c in block.composites(finder, topics))
    merged = heapq.merge(*(_ordered(query, finder, topics) for query in queries))
    return (line for _, line in merged)


def _ordered(query: QueryMatches, finder: LineFinder, topics: Sequence[str] | None) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    for block in query.blocks():
        for order, composite in zip(block.orders(), block.composites(finder, topics), strict=True):
            yield order, orjson.dumps(composite) + b"\n"
