"""The matching stage: one bucket's chunks of a batch → composite events and everything else that leaves. Runs in Spark's Python workers.

The order of things makes a repeated batch harmless: state log first, then the report, then the output rows; all are the same again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter_ns, time

import pyarrow as pa

from app.bucket.bucket import BucketOutput
from app.bucket.chunk import unpack_chunk
from app.bucket.composite import composite_events
from app.bucket.matching import Found
from app.control.client import client_of
from app.control.directives import Directive
from app.control.reports import QueryTally, StageReport
from app.observe.latency import LATENCY_BOUNDS_MS, latency_bucket
from app.pipeline.arrivals import Arrivals
from app.pipeline.deployment import Deployment, load_deployment
from app.pipeline.egress import Limit, Records, add_composite_events, add_shed_reports
from app.pipeline.endings import endings_of
from app.pipeline.ingress import TaskSettings, batch_of_task
from app.pipeline.letters import LATE, add_letters
from app.pipeline.recovery import BucketKey, LiveBucket, count_entry, give_back, progress_of, taken_before, write_snapshot
from app.pipeline.shipment import CHUNK, REFUSED, Refused, payloads_by_bucket


@dataclass(slots=True)
class _Spent:
    """Time per phase, in ns."""

    at: int
    by_phase: dict[str, int]

    def phase(self, name: str) -> None:
        now = perf_counter_ns()
        self.by_phase[name] = self.by_phase.get(name, 0) + now - self.at
        self.at = now


@dataclass(frozen=True, slots=True)
class _Orders:
    """Which bucket, which batch, under what deployment and settings."""

    key: BucketKey
    directive: Directive
    deployment: Deployment
    settings: TaskSettings


def stage(batches: Iterator[pa.RecordBatch], settings: TaskSettings) -> Iterator[pa.RecordBatch]:
    """The stage's function for ``mapInArrow``: `SHIPMENT_DDL` → `OUTPUT_DDL`."""
    arrived = payloads_by_bucket(batches)
    batch_id, query_id, _ = batch_of_task()
    control = client_of(settings.control)
    directive = control.directive(batch_id)
    deployment = load_deployment(settings.checkpoint, directive.deployment)
    for number, payloads in arrived.items():
        records, report = _bucket(BucketKey(settings.checkpoint, query_id, number), payloads, directive, deployment, settings)
        control.report(report)
        if len(records):
            yield records.to_arrow()


def _bucket(
    key: BucketKey, payloads: Sequence[bytes], directive: Directive, deployment: Deployment, settings: TaskSettings
) -> tuple[Records, StageReport]:
    """One bucket's work of one batch."""
    spent = _Spent(perf_counter_ns(), {})
    log = key.log()
    live = taken_before(key, log, directive.batch, directive.deployment)
    spent.phase("recover")
    chunks = [payload[1:] for payload in payloads if payload[:1] == CHUNK]
    refused = [Refused.unpack(payload) for payload in payloads if payload[:1] == REFUSED]
    opened = [unpack_chunk(chunk) for chunk in chunks]
    arrivals = _arrivals(key)
    arrivals.learn(opened)
    output = live.bucket.advance(opened, progress_of(directive), endings_of(settings.checkpoint, directive))
    spent.phase("match")
    records = Records(Limit(settings.max_record_bytes, deployment.dead_letters_topic))
    orders = _Orders(key, directive, deployment, settings)
    tallies = tuple(_emit(records, found, arrivals, orders) for found in output.found)
    if key.number == 0:
        add_shed_reports(records, directive.shed_reports, deployment.reports)
    late = _late_of_bucket(output)
    troubles = add_letters(records, [*refused, *late], deployment, settings)
    spent.phase("encode")
    head = directive.to_json()
    size = log.append(directive.batch, [head, *chunks])
    count_entry(live, directive.batch, size)
    if live.snapshot_is_due:
        write_snapshot(live, log)
    give_back(key, live)
    spent.phase("state")
    report = replace(_report(output, live, tallies, spent, orders), troubles=troubles)
    if records.oversized:
        report = replace(report, rejected={**report.rejected, "oversized": records.oversized})
    return records, report


@lru_cache(maxsize=256)
def _arrivals(key: BucketKey) -> Arrivals:
    return Arrivals()


def _emit(records: Records, found: Found, arrivals: Arrivals, orders: _Orders) -> QueryTally:
    """Encodes what one query found, and counts it."""
    deployment, directive, settings = orders.deployment, orders.directive, orders.settings
    plan = deployment.catalog.plans[found.query]
    started = perf_counter_ns()
    latencies, total_ms = [0] * (len(LATENCY_BOUNDS_MS) + 1), 0
    if len(found.matches):
        events = composite_events(plan, found.matches, deployment.topics)
        add_composite_events(records, events, deployment.outputs[found.query], settings.application, directive.decided_at_ms)
        now_ms = int(time() * 1000)
        for arrived_ms in arrivals.of_last_events(found.matches).tolist():
            latency = max(0, now_ms - arrived_ms)
            latencies[latency_bucket(latency)] += 1
            total_ms += latency
    timeouts, told = found.timeouts, deployment.timeouts[found.query]
    if timeouts is not None and told is not None and len(timeouts):
        expired = composite_events(plan, timeouts, deployment.topics, "timeout")
        add_composite_events(records, expired, told, settings.application, directive.decided_at_ms)
    return QueryTally(
        plan.name,
        matches=len(found.matches),
        timeouts=0 if timeouts is None else len(timeouts),
        partial_matches=found.tally.live_events,
        cost_ns=perf_counter_ns() - started,
        latencies=tuple(latencies),
        latency_sum_ms=total_ms,
        limited_matches=found.tally.limited_matches,
        limited_runs=found.tally.limited_runs,
        judged_matches=found.shed[0],
        ended_matches=found.shed[1],
        tuples_shed=found.tally.shed_tuples,
        tuples_kept=found.tally.live_events if plan.shedding.bounds_memory else 0,
    )


def _late_of_bucket(output: BucketOutput) -> list[Refused]:
    """Events that only the bucket could know to be late (trusted order, idle sources), by source."""
    by_source: dict[int, list[int]] = {}
    for source, offset in output.late.tolist():
        by_source.setdefault(source, []).append(offset)
    return [Refused(source, tuple(offsets), LATE) for source, offsets in sorted(by_source.items())]


def _report(output: BucketOutput, live: LiveBucket, tallies: tuple[QueryTally, ...], spent: _Spent, orders: _Orders) -> StageReport:
    late = len(output.late)
    return StageReport(
        orders.directive.batch,
        "cep",
        orders.key.number,
        run=orders.settings.run,
        queries=tallies,
        counts={"matched": -late, "late": late},  # the ingress counted them as handed to matching
        rejected={LATE: late} if late else {},
        cost_ns=spent.by_phase,
        waiting=output.held + output.pending,
        next_release_ms=output.next_release_ms if not output.pending else None,  # when negated ends are due, only engines know
        state_rows=sum(found.tally.live_events for found in output.found),
        state_bytes=live.snapshot_bytes + live.bytes_since_snapshot,
    )
