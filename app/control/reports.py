"""What tasks tell the driver about their part of a micro-batch: counts, times, costs. Values only.

Every event is counted once, by the stage where its way ends, so over all reports of a batch

    consumed = irrelevant + matched + shed + late + dead

where ``matched`` counts the events handed to matching, whether or not a composite event came of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast

Stage = Literal["ingress", "cep", "egress"]

ENDS = ("irrelevant", "matched", "shed", "late", "dead")
"""Where an event's way can end; see the module's equation."""


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What one task read from one topic partition in one batch.

    Attributes:
        source: see `app.events.batch.source_number`.
        greatest_time: greatest event time, ms; None when nothing could be decoded.
        oldest_broker_ms: least Kafka timestamp; None without records.
        newest_broker_ms: greatest Kafka timestamp.
        first_offset: offset of the first record.
        next_offset: offset after the last record; Spark's end may lie further, since transactions leave markers.
        bytes: of the records' values.
    """

    source: int
    events: int
    greatest_time: int | None = None
    oldest_broker_ms: int | None = None
    newest_broker_ms: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class QueryTally:
    """One query's share of a task's work.

    Attributes:
        candidates: events that could be one of the query's items, before shedding.
        shed: of these, dropped for this query (also when another query still got the event).
        matches: composite events.
        partial_matches: live at the end of the batch.
        limited_matches, limited_runs: matches and partial matches that the query's limits kept from being made.
        judged_matches, ended_matches: partial matches that a shedder was asked about before the batch, and those of them that it ended.
        tuples_shed: tuples of temporal queries that went because memory is bounded.
        tuples_kept: tuples held at the end of the batch by such queries.
        latencies: composite events per bucket of `app.observe.latency`: last constituent's Kafka timestamp → end of matching.
        latency_sum_ms: sum of these latencies.
    """

    query: str
    candidates: int = 0
    shed: int = 0
    matches: int = 0
    timeouts: int = 0
    partial_matches: int = 0
    cost_ns: int = 0
    latencies: tuple[int, ...] = ()
    latency_sum_ms: int = 0
    limited_matches: int = 0
    limited_runs: int = 0
    judged_matches: int = 0
    ended_matches: int = 0
    tuples_shed: int = 0
    tuples_kept: int = 0

    def limited(self) -> dict[str, int]:
        """By limit that was reached, what it kept from being made."""
        counts = {"matches_per_event": self.limited_matches, "partial_matches_per_partition": self.limited_runs}
        return {limit: count for limit, count in counts.items() if count}


@dataclass(frozen=True, slots=True)
class SelectionTally:
    """What selection did for one stream.

    Attributes:
        events: that it was asked about.
        pruned: of these, events that no item of any query wanted.
        evaluated: constructs that were evaluated for all of them.
        samples: regions of sampled events as text (`app.control.selection.packed`), one per task that was asked for some.
    """

    stream: str
    events: int = 0
    pruned: int = 0
    evaluated: int = 0
    samples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something outside that failed, though the task went on.

    Attributes:
        what: a stable word.
        count: how often.
        text: the first reason, for people.
    """

    what: str
    count: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class StageReport:
    """One task's part of one batch. Sent again by a repeated task, it replaces the earlier one.

    Attributes:
        part: the task's Spark partition, or the bucket.
        run: the run of the driver that scheduled the task; reports of an earlier run of the same batch are forgotten.
        counts: ``consumed`` and `ENDS`.
        rejected: events that were refused, by reason (late, undecodable, schema, oversized).
        cost_ns: time spent, by phase (decode, select, shed, pack, match, encode …).
        waiting: held events, negated ends and open windows that only time will release.
        next_release_ms: the least event time at which one of them will be released, when known.
    """

    batch: int
    stage: Stage
    part: int
    run: str = ""
    sources: tuple[SourceProgress, ...] = ()
    queries: tuple[QueryTally, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    cost_ns: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    next_release_ms: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    selection: tuple[SelectionTally, ...] = ()
    troubles: tuple[Trouble, ...] = ()

    def to_json(self) -> bytes:
        """One line."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def from_json(data: bytes) -> StageReport:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: not a report.
        """
        return StageReport.from_plain(json.loads(data))

    @staticmethod
    def from_plain(plain: object) -> StageReport:
        """Reads parsed JSON.

        Raises:
            ValueError: not a report.
        """
        if not isinstance(plain, dict):
            raise ValueError("a report is a JSON object")  # noqa: TRY004 - callers answer ValueError with 400
        try:
            values = dict(cast("dict[str, Any]", plain))
            values["sources"] = tuple(SourceProgress(**s) for s in values.get("sources", ()))
            values["queries"] = tuple(QueryTally(**{**q, "latencies": tuple(q.get("latencies", ()))}) for q in values.get("queries", ()))
            values["selection"] = tuple(
                SelectionTally(**{**s, "samples": tuple(s.get("samples", ()))}) for s in values.get("selection", ())
            )
            values["troubles"] = tuple(Trouble(**t) for t in values.get("troubles", ()))
            return StageReport(**values)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"no stage report: {error}") from error


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """All reports of a batch, added up."""

    batch: int
    reports: int = 0
    sources: Mapping[int, SourceProgress] = field(default_factory=dict)
    queries: Mapping[str, QueryTally] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    cost_ns: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    next_release_ms: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    selection: Mapping[str, SelectionTally] = field(default_factory=dict)
    troubles: Mapping[str, Trouble] = field(default_factory=dict)

    def unaccounted(self) -> int:
        """Consumed events whose end nobody reported; 0 when nothing was dropped silently."""
        return self.counts.get("consumed", 0) - sum(self.counts.get(end, 0) for end in ENDS)


def total(batch: int, reports: Iterable[StageReport]) -> BatchTotals:
    """Adds up the reports of a batch.

    >>> total(3, [StageReport(3, "ingress", 0, counts={"consumed": 2, "irrelevant": 1}), StageReport(3, "ingress", 1, counts={"consumed": 5})]).counts
    {'consumed': 7, 'irrelevant': 1}
    """
    listed = list(reports)
    sources: dict[int, SourceProgress] = {}
    queries: dict[str, QueryTally] = {}
    selection: dict[str, SelectionTally] = {}
    troubles: dict[str, Trouble] = {}
    for report in listed:
        for source in report.sources:
            sources[source.source] = _joined_source(sources.get(source.source), source)
        for tally in report.queries:
            queries[tally.query] = _joined_tally(queries.get(tally.query), tally)
        for selected in report.selection:
            selection[selected.stream] = _joined_selection(selection.get(selected.stream), selected)
        for trouble in report.troubles:
            known = troubles.get(trouble.what)
            troubles[trouble.what] = trouble if known is None else replace(known, count=known.count + trouble.count)
    return BatchTotals(
        batch=batch,
        reports=len(listed),
        sources=sources,
        queries=queries,
        counts=_summed(report.counts for report in listed),
        rejected=_summed(report.rejected for report in listed),
        cost_ns=_summed(report.cost_ns for report in listed),
        waiting=sum(report.waiting for report in listed),
        next_release_ms=_least(report.next_release_ms for report in listed),
        state_rows=sum(report.state_rows for report in listed),
        state_bytes=sum(report.state_bytes for report in listed),
        selection=selection,
        troubles=troubles,
    )


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    added: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            added[name] = added.get(name, 0) + count
    return added


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _joined_source(known: SourceProgress | None, more: SourceProgress) -> SourceProgress:
    if known is None:
        return more
    return SourceProgress(
        source=more.source,
        events=known.events + more.events,
        greatest_time=_greatest((known.greatest_time, more.greatest_time)),
        oldest_broker_ms=_least((known.oldest_broker_ms, more.oldest_broker_ms)),
        newest_broker_ms=_greatest((known.newest_broker_ms, more.newest_broker_ms)),
        first_offset=_least((known.first_offset, more.first_offset)),
        next_offset=_greatest((known.next_offset, more.next_offset)),
        bytes=known.bytes + more.bytes,
    )


def _joined_selection(known: SelectionTally | None, more: SelectionTally) -> SelectionTally:
    if known is None:
        return more
    return SelectionTally(
        stream=more.stream,
        events=known.events + more.events,
        pruned=known.pruned + more.pruned,
        evaluated=known.evaluated + more.evaluated,
        samples=known.samples + more.samples,
    )


def _joined_tally(known: QueryTally | None, more: QueryTally) -> QueryTally:
    if known is None:
        return more
    width = max(len(known.latencies), len(more.latencies))
    padded = [tally.latencies + (0,) * (width - len(tally.latencies)) for tally in (known, more)]
    return QueryTally(
        query=more.query,
        candidates=known.candidates + more.candidates,
        shed=known.shed + more.shed,
        matches=known.matches + more.matches,
        timeouts=known.timeouts + more.timeouts,
        partial_matches=known.partial_matches + more.partial_matches,
        cost_ns=known.cost_ns + more.cost_ns,
        latencies=tuple(a + b for a, b in zip(*padded, strict=True)),
        latency_sum_ms=known.latency_sum_ms + more.latency_sum_ms,
        limited_matches=known.limited_matches + more.limited_matches,
        limited_runs=known.limited_runs + more.limited_runs,
        judged_matches=known.judged_matches + more.judged_matches,
        ended_matches=known.ended_matches + more.ended_matches,
        tuples_shed=known.tuples_shed + more.tuples_shed,
        tuples_kept=known.tuples_kept + more.tuples_kept,
    )
