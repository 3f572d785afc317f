"""What tasks tell the driver about their part of a micro-batch: counts, times, costs. Values only.

Every event is counted once, by the stage where its way ends, so over all reports of a batch

    consumed = irrelevant + matched + shed + late + dead

where ``matched`` counts the events handed to matching, whether or not a composite event came of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["ingress", "cep"]

ENDS = ("irrelevant", "matched", "shed", "late", "dead")
"""Where an event's way can end; see the module's equation."""
LIMITS = ("matches_per_event", "partial_matches_per_partition", "state_bytes")
"""Of queries, that keep matches from being made or partial matches from staying."""


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
        cost_ns: processor time of the owners for matching, judging and encoding; of tasks, nothing.
        limited_matches, limited_runs: matches and partial matches that the query's limits kept from being made.
        judged_matches, ended_matches: partial matches that a shedder was asked about before the batch, and those of them that it ended.
        tuples_shed: tuples of temporal queries that went because memory is bounded.
        tuples_kept: tuples held at the end of the batch by such queries.
        confirmed, refuted, unverifiable: verdicts on composite events, and timeouts, that shedding may have made (`app.audit.verdicts`).
        withheld: of the refuted ones, those that were not written.
        refuted_timeouts, unverifiable_timeouts: of what was written with such a verdict, the timeouts.
        state_bytes: that partial matches take at the end of the batch, of queries that have a limit for them.
        evicted_matches: of the ended ones, those that went because the query's state was too large.
        judging_ns: of ``cost_ns``, what verdicts took.
        held_matches: partial matches that there were on average while events were fed, where a shedder looked at them meanwhile; else 0.
        late: composite events whose latency is above the query's bound.
        let_go, unasked: where a shedder drops in the bucket, see `app.bucket.thinning.Shed`.
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
    confirmed: int = 0
    refuted: int = 0
    unverifiable: int = 0
    withheld: int = 0
    refuted_timeouts: int = 0
    unverifiable_timeouts: int = 0
    state_bytes: int = 0
    evicted_matches: int = 0
    judging_ns: int = 0
    held_matches: int = 0
    late: int = 0
    let_go: int = 0
    unasked: int = 0

    @property
    def considered(self) -> int:
        """Events that its shedder could have dropped: of those that came out of waiting for the watermark, where it drops behind that."""
        return max(0, self.candidates + self.let_go - self.unasked)

    @property
    def verdicts(self) -> dict[str, int]:
        """By the word that metrics and the audit topic know."""
        return {"confirmed": self.confirmed, "false_positive": self.refuted, "unverifiable": self.unverifiable}

    def limited(self) -> dict[str, int]:
        """By limit that was reached, what it kept from being made, or from staying."""
        counts = zip(LIMITS, (self.limited_matches, self.limited_runs, self.evicted_matches), strict=True)
        return {limit: count for limit, count in counts if count}


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
    """One task's, or one owner's, part of one batch.

    Attributes:
        part: the task's Spark partition, the bucket, or the owner.
        counts: ``consumed`` and `ENDS`.
        rejected: events that were refused, by reason (late, oversized, those of `app.events.failures.Reason`).
        cost_ns: time spent, by phase (decode, select, shed, pack, match, encode …).
        waiting: held events, negated ends and open windows that only time will release.
        next_release_ms: the least event time at which one of them will be released, when known.
        fed, damaged, handed, unpacked, records, sent: see `app.control.messages.totals.BatchTotals`.
        samples: by query, what the control sample says (`app.audit.sample.counted`, flat); of queries of which it says something.
        undelivered: owners, as ``host:port``, that a task could not reach: the attempt has failed.
        unknown: schemas, by id or GUID, that the registry did not know when a task asked for them.
        copy: of the task, whose delivery this report belongs to (`app.owners.inbox.Delivery`).
    """

    batch: int
    stage: Stage
    part: int
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
    fed: Mapping[str, int] = field(default_factory=dict)
    damaged: int = 0
    handed: int = 0
    unpacked: int = 0
    records: int = 0
    sent: int = 0
    undelivered: tuple[str, ...] = ()
    unknown: tuple[int | str, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    copy: int = 0
