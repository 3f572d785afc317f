"""One bucket's work of one batch: what arrived → what the bucket finds → records for the outlet, and the bucket's report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import thread_time_ns, time

import numpy as np

from app.audit.verdicts import Verdicts
from app.bucket.bucket import Bucket, BucketOutput
from app.bucket.chunk import Chunk, unpack_chunk
from app.bucket.hold import Progress
from app.bucket.identity import identities_of
from app.bucket.matching import Found
from app.control.messages.directives import Directive
from app.control.messages.reached import progress_by
from app.control.messages.reports import QueryTally, StageReport, Trouble
from app.observe.latency import late_count, latency_counts
from app.owners.arrivals import Arrivals
from app.owners.chains import thresholds_of
from app.owners.composites import Destination, add_composite_events
from app.owners.deployment import Deployment, OutputTopic
from app.owners.egress import Limit, Records, add_reports
from app.owners.endings import ended_for_memory, endings_of
from app.owners.letters import LATE, add_letters
from app.owners.orders import Advance, OwnerSettings
from app.owners.shipment import Arrived, Refused
from app.owners.spent import Spent
from app.owners.verdicts import Judged, add_verdicts, counted
from app.query.plan import Plan


@dataclass(frozen=True, slots=True)
class Work:
    """Which batch, under what deployment and settings; what it takes is noted in ``spent``."""

    order: Advance
    deployment: Deployment
    settings: OwnerSettings
    spent: Spent

    @property
    def directive(self) -> Directive:
        """The batch's."""
        return self.order.directive


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of one bucket's batch."""

    output: BucketOutput
    records: Records
    tallies: tuple[QueryTally, ...]
    unpacked: int
    troubles: tuple[Trouble, ...] = ()
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """As of `StageReport`."""


def progress_of(order: Advance) -> Progress:
    """What directive and tasks say about time, as buckets see it."""
    directive = order.directive
    times = dict(directive.greatest_times)
    for source, time_ms in order.greatest.items():
        times[source] = max(time_ms, times.get(source, time_ms))
    return progress_by(directive, times)


def feed(bucket: Bucket, chunks: Sequence[Chunk], order: Advance, checkpoint: str) -> BucketOutput:
    """Feeds one batch's chunks, and sheds what was shed then."""
    directive = order.directive
    endings, thresholds = endings_of(checkpoint, directive), thresholds_of(checkpoint, directive)
    return bucket.advance(chunks, progress_of(order), endings, thread_time_ns, thresholds)


def work_off(bucket: Bucket, arrived: Arrived, arrivals: Arrivals, work: Work) -> Worked:
    """Feeds a bucket and encodes what it found.

    Args:
        bucket: changed.
        arrived: what tasks sent it.
        arrivals: of the bucket; changed.
        work: what is to be done.
    """
    opened = [unpack_chunk(chunk) for chunk in arrived.chunks]
    arrivals.learn(opened)
    output = feed(bucket, opened, work.order, work.settings.checkpoint)
    work.spent.phase("match")
    records = Records(Limit(work.settings.max_record_bytes, work.deployment.dead_letters_topic))
    tallies = (*(_emit(records, found, arrivals, work) for found in output.found), *_shed(output, work))
    if bucket.number == 0:
        add_reports(records, work.directive.shed_reports, work.deployment.reports)
        add_reports(records, work.directive.estimates, work.deployment.estimates)
        add_reports(records, work.directive.decisions, work.deployment.decisions)
    troubles = add_letters(records, [*arrived.refused, *_late_of_bucket(output)], work.deployment, work.settings)
    work.spent.phase("encode")
    unpacked = sum(len(section.batch) for chunk in opened for section in chunk.sections)
    plans = work.deployment.catalog.plans
    samples = {plans[query].name: counts.ravel().tolist() for query, counts in bucket.sampled().items()}
    return Worked(output, records, tallies, unpacked, troubles, samples)


def _shed(output: BucketOutput, work: Work) -> Iterator[QueryTally]:
    """What queries lost in the bucket, and what deciding that took."""
    for one in output.shed:
        name = work.deployment.catalog.plans[one.query].name
        yield QueryTally(name, shed=one.events, cost_ns=one.cost_ns, let_go=one.let_go, unasked=one.unasked)


def _emit(records: Records, found: Found, arrivals: Arrivals, work: Work) -> QueryTally:
    """Encodes what one query found, and counts it."""
    deployment = work.deployment
    plan = deployment.catalog.plans[found.query]
    started = thread_time_ns()  # what others do on this machine is no cost of the query
    built_ms = _clock_ms()
    judging_ns, latencies = found.judging_ns, np.zeros(0, dtype=np.int64)
    if len(found.matches):
        ids = add_composite_events(records, plan, found.matches, _destination(deployment.outputs[found.query], work, built_ms))
        judging_ns += _tell_verdicts(records, found.verdicts, plan, ids, work)
        latencies = np.maximum(0, _clock_ms() - arrivals.of_last_events(found.matches))
    if found.withheld is not None:
        matches, verdicts = found.withheld
        judging_ns += _tell_verdicts(records, verdicts, plan, identities_of(plan, matches, deployment.topics), work, withheld=True)
    timeouts, timeouts_judging_ns = _emit_timeouts(records, found, plan, work, built_ms)
    return QueryTally(
        plan.name,
        matches=len(found.matches),
        timeouts=timeouts,
        partial_matches=found.tally.live_events,
        held_matches=found.tally.held_matches,
        cost_ns=found.cost_ns + thread_time_ns() - started,
        judging_ns=judging_ns + timeouts_judging_ns,
        latencies=latency_counts(latencies),
        latency_sum_ms=int(latencies.sum()),
        late=late_count(latencies, plan.shedding.latency_bound_ms),
        limited_matches=found.tally.limited_matches,
        limited_runs=found.tally.limited_runs,
        judged_matches=found.shed[0],
        ended_matches=found.shed[1],
        evicted_matches=found.shed[1] if ended_for_memory(work.directive, plan.name) else 0,
        state_bytes=found.state_bytes,
        tuples_shed=found.tally.shed_tuples,
        tuples_kept=found.tally.live_events if plan.shedding.bounds_memory else 0,
        **counted(found),
    )


def _emit_timeouts(records: Records, found: Found, plan: Plan, work: Work, built_ms: int) -> tuple[int, int]:
    """Encodes what ran out of time, and says how much that is; and the time that telling verdicts took, ns."""
    timeouts, told, judging_ns = found.timeouts, work.deployment.timeouts[found.query], 0
    if timeouts is not None and told is not None and len(timeouts):
        ids = add_composite_events(records, plan, timeouts, _destination(told, work, built_ms), "timeout")
        judging_ns += _tell_verdicts(records, found.timeout_verdicts, plan, ids, work)
    if found.withheld_timeouts is not None:
        matches, verdicts = found.withheld_timeouts
        identities = identities_of(plan, matches, work.deployment.topics, "timeout")
        judging_ns += _tell_verdicts(records, verdicts, plan, identities, work, withheld=True)
    return 0 if timeouts is None else len(timeouts), judging_ns


def _destination(output: OutputTopic, work: Work, built_ms: int) -> Destination:
    return Destination(output, work.settings.name, work.deployment.topics, built_ms)


def _clock_ms() -> int:
    return int(time() * 1000)


def _tell_verdicts(
    records: Records, verdicts: Verdicts | None, plan: Plan, ids: Sequence[str], work: Work, *, withheld: bool = False
) -> int:
    """Encodes verdicts; returns the processor's time that it took, ns: who sheds nothing has none."""
    output = work.deployment.verdicts
    if verdicts is None or output is None:
        return 0
    started = thread_time_ns()
    add_verdicts(records, Judged(plan, ids, verdicts, withheld), output, topics=work.deployment.topics, directive=work.directive)
    return thread_time_ns() - started


def _late_of_bucket(output: BucketOutput) -> list[Refused]:
    """Events that only the bucket could know to be late (trusted order, idle sources), by source."""
    by_source: dict[int, list[int]] = {}
    for source, offset in output.late.tolist():
        by_source.setdefault(source, []).append(offset)
    return [Refused(source, tuple(offsets), LATE) for source, offsets in sorted(by_source.items())]


def report_of(number: int, worked: Worked, work: Work) -> StageReport:
    """A bucket's report, but for what only its owner knows."""
    output, late = worked.output, len(worked.output.late)
    rejected = {LATE: late} if late else {}
    if worked.records.oversized:
        rejected["oversized"] = worked.records.oversized
    return StageReport(
        work.order.batch,
        "cep",
        number,
        queries=worked.tallies,
        counts={"matched": -late, "late": late},  # the ingress counted them as handed to matching
        rejected=rejected,
        troubles=worked.troubles,
        cost_ns=work.spent.by_phase,
        waiting=output.held + output.pending,
        next_release_ms=output.next_release_ms if not output.pending else None,  # when negated ends are due, only engines know
        state_rows=sum(found.tally.live_events for found in output.found),
        unpacked=worked.unpacked,
        records=len(worked.records),
        samples=worked.samples,
    )
