"""What a finished batch gives reason to say: accounts that do not close, gaps, limits that were reached, shedding that begins or ends. Logged, and counted where it adds up.

Of a batch that went as it should nothing is said here; its one line is in `app.control.batch_line`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.config.settings import Settings
from app.control.arrivals.accounts import ACCOUNTS, Breach, gaps
from app.control.arrivals.sources import Sources
from app.control.messages.decision_reports import DecisionReport, Reason
from app.control.messages.totals import BatchTotals
from app.control.outages import Outage
from app.observe.logs import get_logger
from app.observe.metrics import Metrics
from app.observe.progress import Progress

SIZE_TOLERANCE = 2
"""Batches beyond the bound by less than this are what an estimate is."""

SAID: Mapping[Reason, str] = {
    "SHEDDING_BEGINS": "shedding begins",
    "SHEDDING_ENDS": "shedding ends",
    "OUT_OF_REACH": "no drop ratio keeps the latency bound",
    "IN_REACH": "the latency bound is kept again",
}
"""What is logged of a decision; the others are for those who read the audit topic."""

log = get_logger(__name__)


class BatchRemarks:
    """Says it, batch by batch.

    Args:
        settings: of the application.
        metrics: changed.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        for account in ACCOUNTS:  # alerts see what moves, not what appears
            metrics.add("cep_accounting_breaches_total", 0, account=account)
        self._heartbeat = settings.topics.heartbeat
        self._bound = settings.kafka.max_bytes_per_trigger
        self._told_size = False
        self._originals = Outage("originals of refused records cannot be read", "originals of refused records are read again")

    def count_breaches(self, breaches: Iterable[Breach]) -> None:
        """Accounts of a batch do not close."""
        for breach in breaches:
            self._metrics.add("cep_accounting_breaches_total", 1, account=breach.account)

    def count_gaps(self, progress: Progress, totals: BatchTotals, sources: Sources) -> None:
        """What Spark says after the batch: offsets without records, and rows that its source read.

        Args:
            progress: of Spark.
            totals: of the batch.
            sources: the topics that are read.
        """
        known = sources.numbers.keys() - {self._heartbeat}  # whose records are no events
        places = {sources.number(*place): place for place in progress.end if place[0] in known}
        spans = {number: (progress.start.get(place), progress.end[place]) for number, place in places.items()}
        for number, count in gaps(totals, spans).items():
            self._metrics.add("cep_offset_gaps_total", count, topic=places[number][0])
        consumed = totals.counts.get("consumed", 0) + totals.counts.get("heartbeats", 0)
        if totals.attempts == 1 and progress.rows != consumed:
            log.error("accounts do not close", batch_id=totals.batch, account="source", spark_read=progress.rows, tasks_consumed=consumed)
            self.count_breaches([Breach("source", "")])

    @staticmethod
    def note_shedding(decisions: Iterable[DecisionReport]) -> None:
        """Says when shedding begins and ends, and whether it keeps the bound; all decisions are on the audit topic, ratios are metrics.

        Args:
            decisions: that are told of a batch.
        """
        for one in decisions:
            if (said := SAID.get(one.reason)) is not None:
                log.info(
                    said,
                    query=one.query,
                    batch_id=one.batch,
                    drop_ratio=one.drop_ratio,
                    in_reach=one.in_reach,
                    latency_ms=round(one.latency_ms),
                    unshed_latency_ms=round(one.unshed_latency_ms),
                )

    def note(self, totals: BatchTotals) -> None:
        """Says what tasks and owners told that should not be so."""
        self._note_limits(totals)
        self._note_size(totals)
        self._note_originals(totals)
        if totals.unaccounted():
            log.error("events unaccounted for", batch_id=totals.batch, events=totals.unaccounted())

    def _note_limits(self, totals: BatchTotals) -> None:
        """A query that explodes is somebody's mistake; what it loses is counted."""
        for query, tally in sorted(totals.queries.items()):
            for limit, count in tally.limited().items():
                lost = {"ended" if limit == "state_bytes" else "not_made": count}
                log.warning("limit reached", query=query, batch_id=totals.batch, limit=limit, **lost)

    def _note_size(self, totals: BatchTotals) -> None:
        """The bound in bytes rests on an estimate that is made at the start; somebody should know when it does not hold any more."""
        size = sum(source.bytes for source in totals.sources.values())
        if size > SIZE_TOLERANCE * self._bound and not self._told_size:
            self._told_size = True
            hint = "records are larger than at the start; a restart estimates them again"
            log.warning(
                "a batch is larger than kafka.max_bytes_per_trigger", batch_id=totals.batch, bytes=size, bound=self._bound, hint=hint
            )

    def _note_originals(self, totals: BatchTotals) -> None:
        """Late events and dead letters that left without what they came with, though it may still be there."""
        trouble = totals.troubles.get("originals")
        if trouble is not None:
            self._metrics.add("cep_originals_errors_total", trouble.count)
            self._originals.failed(trouble.text, trouble.count)
        elif totals.counts.get("late", 0) or totals.counts.get("dead", 0):
            self._originals.worked()
