"""The ingress after decoding: lateness, selection, routing, packing. One pure function of a batch, shared by Spark, `replay` and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.asc.selected import SelectedEvents
from app.asc.selection import Selection
from app.asc.sequence import Sequence as EvaluationSequence
from app.audit.heavy_hitters import may_hold
from app.audit.sample import Sample
from app.audit.verdicts import control_samples, is_audited
from app.bucket.chunk import Chunk, Section, pack_chunk
from app.bucket.hold import Judgement, Progress, TimeRules, judge_lateness
from app.bucket.route import group_identity, home_of, in_partitions, partition_keys, rows_by_bucket
from app.bucket.trusted import BEFORE, NO_HISTORY, SILENT, behind_keys, key_group, key_history, trusted, trusted_slack_ms
from app.events.batch import VALUE_TYPES, Column, EventBatch, take, with_columns
from app.events.types import Kind
from app.query.plan import Catalog, QueryGroup

Gate = Callable[[EventBatch, SelectedEvents], SelectedEvents]
"""Sheds: gives back the selection with bits, or whole rows, taken away."""
Riders = Callable[[EventBatch, SelectedEvents], Mapping[int, Mapping[str, Column]]]
"""Columns (of the whole batch) that ride along with events of a query's group, by query."""


@dataclass(frozen=True, slots=True, eq=False)
class Ingested:
    """What became of one batch at the ingress. Every event is counted once: events = late + irrelevant + shed + forwarded.

    An event that is only counted (`QueryGroup.ranks`) is forwarded; one that was shed stays shed, though it is still counted.

    Attributes:
        chunks: by bucket.
        late: int64, rows of the batch that are late (for the late topic).
        candidates: by query (index in `Catalog.plans`), events that could be one of its items, before shedding.
        lost: by query, candidates that the gate took away.
        judgement: by the stream's rules.
        pruned: events, late ones included, that selection found to be of no interest to any item.
        evaluated: constructs that selection evaluated.
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
    pruned: int = 0
    evaluated: int = 0

    def packed(self, *, with_times: bool = True) -> list[tuple[int, bytes]]:
        """(bucket, chunk as bytes), one per bucket; without times only those that have rows: who leaves them out tells them otherwise."""
        if with_times:
            return [(number, pack_chunk(chunk)) for number, chunk in enumerate(self.chunks)]
        sent = ((number, replace(chunk, greatest_times={})) for number, chunk in enumerate(self.chunks) if chunk.sections)
        return [(number, pack_chunk(chunk)) for number, chunk in sent]

    @property
    def rows(self) -> int:
        """Rows in all chunks; an event that goes to several groups or buckets counts in each."""
        return sum(len(section.batch) for chunk in self.chunks for section in chunk.sections)


RIDER = "@"
"""Columns whose names begin so are no attributes; they ride along to the bucket (the broker's timestamp, for measuring latency)."""


@dataclass(frozen=True, slots=True)
class _Way:
    """One query group's way through the ingress."""

    group: QueryGroup
    identity: int
    layout: str
    rules: TimeRules
    """Those of the stream; a trusted group has a greater lateness, see `trusted_slack_ms`."""
    key_group: QueryGroup | None
    """Of a trusted group: the group as if only the attribute that the stream is ordered by partitioned it."""
    audited: bool
    """Whether all that is shed of its events goes to the buckets, for verdicts."""
    samples: frozenset[Sample]
    """The control samples of its queries: what is shed of them goes there in any case."""


class IngressPlan:
    """Everything that is prepared once per catalog version and stream."""

    def __init__(self, catalog: Catalog, rules: TimeRules, buckets: int) -> None:
        self.selection = Selection(catalog, rules.stream)
        self.queries = self.selection.layout.queries
        self._rules = rules
        self._buckets = buckets
        self._ways = [
            _Way(
                group,
                group_identity(group),
                ItemLayout.of_group(catalog, group).fingerprint,
                _rules_of(catalog, group, rules),
                key_group(group, rules) if trusted(catalog, group, rules) else None,
                any(is_audited(catalog.plans[query]) for query in group.queries),
                frozenset(control_samples(catalog, group.queries).values()),
            )
            for group in catalog.groups
            if rules.stream in group.streams
        ]
        trusting = [way for way in self._ways if way.key_group is not None]
        self._telling = [*(way for way in self._ways if way.key_group is None), *trusting] if trusting and len(self._ways) > 1 else []
        """Where groups differ in what they wait for: in the order in which they tell of late events."""
        self._counting = any(way.group.ranks != "none" for way in self._ways)

    def ingest(
        self,
        batch: EventBatch,
        progress: Progress,
        gate: Gate | None = None,
        sequence: EvaluationSequence | None = None,
        riders: Riders | None = None,
    ) -> Ingested:
        """Judges, selects, sheds and routes the events of one task, rows in the order of their offsets.

        An event is late for the stream when it is late for all query groups that can use it (a trusted one is more patient), or for all if none can. The sequence changes no result.
        """
        judgements = {rules: judge_lateness(batch, rules, progress) for rules in {self._rules, *(way.rules for way in self._ways)}}
        late = np.logical_and.reduce([judgements[rules].late for rules in {way.rules for way in self._ways} or {self._rules}])
        selected = self.selection.select(batch, sequence)
        pruned = len(batch) - len(selected.relevant)
        late |= self._too_late_to_be_used(selected, judgements, late)
        if late.any():
            selected = selected.only(~late)
        counted = {query: len(selected.of_query(query)[0]) for query in self.queries}
        kept = selected if gate is None else gate(batch, selected)
        withdrawn = None if kept is selected else selected.without(kept)
        riding = {} if riders is None else riders(batch, kept)
        sections: list[list[Section]] = [[] for _ in range(self._buckets)]
        ranked = np.zeros(len(batch) if self._counting else 0, dtype=np.bool_)
        silent = self._silent(batch, kept, judgements)
        for way in self._ways:
            own = {name: column for query in way.group.queries for name, column in riding.get(query, {}).items()}
            own |= silent.get(way.group.number, {})
            ranked[self._send(way, batch, kept, judgements[way.rules].late, sections, riding=own)] = True
            if withdrawn is not None and (way.audited or way.samples):
                self._send_hidden(way, batch, withdrawn, judgements[way.rules].late, sections)
        if self._counting:
            ranked[selected.relevant] = False
        extra = int(np.count_nonzero(ranked))
        left = counted if kept is selected else {query: len(kept.of_query(query)[0]) for query in self.queries}
        judgement = judgements[self._rules]
        rows = np.flatnonzero(late)
        return Ingested(
            chunks=[Chunk(self._rules.stream, judgement.greatest_times, parts) for parts in sections],
            events=len(batch),
            late=rows,
            irrelevant=len(batch) - len(rows) - len(selected.relevant) - extra,
            shed=len(selected.relevant) - len(kept.relevant),
            forwarded=len(kept.relevant) + extra,
            candidates=counted,
            lost={query: counted[query] - left[query] for query in self.queries},
            judgement=judgement,
            pruned=pruned,
            evaluated=selected.evaluated,
        )

    def pack(self, batch: EventBatch, progress: Progress, gate: Gate | None = None) -> list[tuple[int, bytes]]:
        """(bucket, chunk as bytes) of every bucket."""
        return self.ingest(batch, progress, gate).packed()

    def _send(
        self,
        way: _Way,
        batch: EventBatch,
        selected: SelectedEvents,
        late: NDArray[np.bool_],
        sections: list[list[Section]],
        *,
        riding: Mapping[str, Column],
    ) -> NDArray[np.int64]:
        """Puts a group's events into sections, with what rides along; returns the rows that are no candidates and only counted, int64 (counted,)."""
        rows, bitmaps = selected.of_group(way.group.number)
        if (gone := late[rows]).any():
            rows, bitmaps = rows[~gone], bitmaps[~gone]
        counted = counted_rows(batch, way.group, late, rows)
        sent = rows if not len(counted) else np.concatenate([rows, counted])
        history = NO_HISTORY if way.key_group is None else key_history(batch, way.key_group, late, sent, way.key_group == way.group)
        if len(sent) == 0 and len(history.keys) == 0:
            return counted
        before = {} if history.before is None else {BEFORE: Column(Kind.TIME, history.before)}
        columns = _with_riders(
            batch, (*way.group.columns, *(name for name in batch.columns if name.startswith(RIDER))), {**before, **riding}
        )
        home = home_of(way.group, self._buckets)
        keys = partition_keys(batch, rows, way.group)
        for number, own in enumerate(rows_by_bucket(keys, self._buckets, home)):
            told = history.of_bucket(number, self._buckets, home)
            if len(own) or len(told.keys):
                part = take(columns, rows[own])
                sections[number].append(Section(way.identity, way.layout, part, bitmaps[own], told.keys, told.times))
        if len(counted):
            silent = {SILENT: riding[SILENT]} if SILENT in riding else {}
            columns = _with_riders(batch, way.group.equivalence, {**before, **silent})
            keys = partition_keys(batch, counted, way.group)
            for number, own in enumerate(rows_by_bucket(keys, self._buckets, home)):
                if len(own):
                    nothing = np.zeros((len(own), bitmaps.shape[1]), dtype=np.uint64)
                    sections[number].append(Section(way.identity, way.layout, take(columns, counted[own]), nothing))
        return counted

    def _silent(
        self, batch: EventBatch, selected: SelectedEvents, judgements: Mapping[TimeRules, Judgement]
    ) -> dict[int, dict[str, Column]]:
        """By number of a trusted group, the rider that says of which events another group tells when they are late: each is told once, and not at all where a group that waits for the watermark matches it."""
        known, silent = np.zeros(len(batch) if self._telling else 0, dtype=np.bool_), {}
        for way in self._telling:
            late = judgements[way.rules].late
            rows = selected.of_group(way.group.number)[0]
            rows = rows[~late[rows]]
            if way.key_group is not None and known.any():
                silent[way.group.number] = {SILENT: Column(Kind.BOOLEAN, known.astype(VALUE_TYPES[Kind.BOOLEAN]))}
            known[rows] = known[counted_rows(batch, way.group, late, rows)] = True
        return silent

    def _too_late_to_be_used(
        self, selected: SelectedEvents, judgements: Mapping[TimeRules, Judgement], late: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Bool (events,): on time for some group, but for none that can use the event."""
        used, usable = np.zeros_like(late), np.zeros_like(late)
        if np.logical_or.reduce([late, *(judgements[way.rules].late for way in self._ways)]).sum() == late.sum():
            return usable  # all groups are of one mind
        for way in self._ways:
            able = np.full_like(late, way.group.ranks != "none")  # who counts events uses all of them
            for query in way.group.queries:
                able[selected.of_query(query)[0]] = True
            usable |= able
            used |= able & ~judgements[way.rules].late
        return usable & ~used

    def _send_hidden(
        self, way: _Way, batch: EventBatch, withdrawn: SelectedEvents, late: NDArray[np.bool_], sections: list[list[Section]]
    ) -> None:
        """Puts what was shed of a group's events into sections of their own, for its audit; without those that would have been late for their key."""
        rows, bitmaps = withdrawn.of_group(way.group.number)
        if not len(rows):
            return
        sent = ~(late if way.key_group is None else late | behind_keys(batch, way.key_group, late))[rows]
        if not way.audited:
            hashes = partition_keys(batch, rows, way.group).hashes
            sent &= np.logical_or.reduce([may_hold(sample, hashes, batch.time[rows]) for sample in way.samples])
        rows, bitmaps = rows[sent], bitmaps[sent]
        columns = with_columns(batch, way.group.columns)
        keys = partition_keys(batch, rows, way.group)
        for number, own in enumerate(rows_by_bucket(keys, self._buckets, home_of(way.group, self._buckets))):
            if len(own):
                sections[number].append(Section(way.identity, way.layout, take(columns, rows[own]), bitmaps[own], hidden=True))


_NO_ROWS = np.zeros(0, dtype=np.int64)


def counted_rows(batch: EventBatch, group: QueryGroup, late: NDArray[np.bool_], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows that the group counts though they are no candidates: they travel stripped to time, place, type and partition key.

    Args:
        batch: of the ingress task.
        group: one that counts (`QueryGroup.ranks`), or not.
        late: bool (events,), late for the group.
        candidates: int64, rows that travel anyway.

    Returns:
        int64 (counted,), ascending.
    """
    if group.ranks == "none":
        return _NO_ROWS
    rest = ~late
    rest[candidates] = False
    keyed = in_partitions(batch, group) if group.ranks == "partition" else None
    return np.flatnonzero(rest if keyed is None else rest & keyed)


def _with_riders(batch: EventBatch, names: Iterable[str], riders: Mapping[str, Column]) -> EventBatch:
    columns = with_columns(batch, names)
    return columns if not riders else replace(columns, columns={**columns.columns, **riders})


def _rules_of(catalog: Catalog, group: QueryGroup, rules: TimeRules) -> TimeRules:
    if not trusted(catalog, group, rules):
        return rules
    return replace(rules, allowed_lateness_ms=rules.allowed_lateness_ms + trusted_slack_ms(catalog, group))
