"""The ingress after decoding: lateness, selection, routing, packing. One pure function of a batch, shared by Spark, `replay` and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.asc.selection import SelectedEvents, Selection
from app.bucket.chunk import Chunk, Section, pack_chunk
from app.bucket.hold import Judgement, Progress, TimeRules, judge_lateness
from app.bucket.route import group_identity, partition_keys, rows_by_bucket
from app.events.batch import EventBatch, take, with_columns
from app.query.plan import Catalog, QueryGroup

Gate = Callable[[EventBatch, SelectedEvents], SelectedEvents]
"""Sheds: gives back the selection with bits, or whole rows, taken away."""


@dataclass(frozen=True, slots=True, eq=False)
class Ingested:
    """What became of one batch at the ingress. Every event is counted once: events = late + irrelevant + shed + forwarded.

    Attributes:
        chunks: by bucket.
        late: int64, rows of the batch that are late (for the late topic).
        candidates: by query (index in `Catalog.plans`), events that could be one of its items, before shedding.
        lost: by query, candidates that the gate took away.
    """

    chunks: Sequence[Chunk]
    events: int
    late: NDArray[np.int64]
    irrelevant: int
    shed: int
    forwarded: int
    candidates: dict[int, int]
    lost: dict[int, int]
    judgement: Judgement

    def packed(self) -> list[tuple[int, bytes]]:
        """(bucket, chunk as bytes), one per bucket."""
        return [(number, pack_chunk(chunk)) for number, chunk in enumerate(self.chunks)]


def trusted(catalog: Catalog, group: QueryGroup, rules: TimeRules) -> bool:
    """Whether the group is fed as events arrive: it reads this stream alone, and all its items carry the attribute the stream is ordered by."""
    if rules.ordered_by is None or group.streams != (rules.stream,) or rules.ordered_by not in group.equivalence:
        return False
    return not any(rules.ordered_by in item.lacks for query in group.queries for item in catalog.plans[query].items)


@dataclass(frozen=True, slots=True)
class _Way:
    """One query group's way through the ingress."""

    group: QueryGroup
    identity: int
    layout: str
    trusted: bool


class IngressPlan:
    """Everything that is prepared once per catalog version and stream."""

    def __init__(self, catalog: Catalog, rules: TimeRules, buckets: int) -> None:
        self.selection = Selection(catalog, rules.stream)
        self.queries = self.selection.layout.queries
        self._rules = rules
        self._buckets = buckets
        self._ways = [
            _Way(group, group_identity(group), ItemLayout.of_group(catalog, group).fingerprint, trusted(catalog, group, rules))
            for group in catalog.groups
            if rules.stream in group.streams
        ]

    def ingest(self, batch: EventBatch, progress: Progress, gate: Gate | None = None) -> Ingested:
        """Judges, selects, sheds and routes the events of one task, rows in the order of their offsets."""
        judgement = judge_lateness(batch, self._rules, progress)
        on_time = ~judgement.late
        all_trusted = bool(self._ways) and all(way.trusted for way in self._ways)
        late = np.flatnonzero(judgement.late) if not all_trusted else np.zeros(0, dtype=np.int64)
        selected = self.selection.select(batch)
        if len(late) and not any(way.trusted for way in self._ways):
            selected = selected.only(on_time)
        kept = selected if gate is None else gate(batch, selected)
        sections: list[list[Section]] = [[] for _ in range(self._buckets)]
        for way in self._ways:
            self._send(way, batch, kept, on_time, sections)
        counted = {query: len(selected.of_query(query)[0]) for query in self.queries}
        left = counted if kept is selected else {query: len(kept.of_query(query)[0]) for query in self.queries}
        forwarded = len(kept.relevant) if all_trusted else int(np.count_nonzero(on_time[kept.relevant]))
        relevant = len(selected.relevant) if all_trusted else int(np.count_nonzero(on_time[selected.relevant]))
        return Ingested(
            chunks=[Chunk(self._rules.stream, judgement.greatest_times, parts) for parts in sections],
            events=len(batch),
            late=late,
            irrelevant=len(batch) - len(late) - relevant,
            shed=relevant - forwarded,
            forwarded=forwarded,
            candidates=counted,
            lost={query: counted[query] - left[query] for query in self.queries},
            judgement=judgement,
        )

    def pack(self, batch: EventBatch, progress: Progress, gate: Gate | None = None) -> list[tuple[int, bytes]]:
        """(bucket, chunk as bytes) of every bucket."""
        return self.ingest(batch, progress, gate).packed()

    def _send(
        self, way: _Way, batch: EventBatch, selected: SelectedEvents, on_time: NDArray[np.bool_], sections: list[list[Section]]
    ) -> None:
        rows, bitmaps = selected.of_group(way.group.number)
        if not way.trusted and not (fit := on_time[rows]).all():
            rows, bitmaps = rows[fit], bitmaps[fit]
        if len(rows) == 0:
            return
        columns = with_columns(batch, way.group.columns)
        keys = partition_keys(batch, rows, way.group)
        for number, own in enumerate(rows_by_bucket(keys, self._buckets)):
            if len(own):
                sections[number].append(Section(way.identity, way.layout, take(columns, rows[own]), bitmaps[own]))
