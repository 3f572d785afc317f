"""The ingress stage: records of one Spark task → chunks, one per bucket. Runs in Spark's Python workers.

Thin: decode (`app.events`), then lateness, selection, shedding and routing (`app.bucket.ingress`), then a report to the driver.
A task handles its records in one go: lateness is judged from the directive's greatest times on, so results do not depend on Arrow's batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from threading import RLock, Thread
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from app.asc.selected import SelectedEvents
from app.bucket.engines import load_engines
from app.bucket.ingress import Gate, Ingested, IngressPlan
from app.control.client import ControlAddress, client_of
from app.control.directives import Directive
from app.control.reports import QueryTally, SelectionTally, SourceProgress, StageReport
from app.control.selection import packed, sampled_rows
from app.evaluation.features import Features
from app.events.avro import parse_schema
from app.events.batch import PARTITION_BITS, Column, EventBatch
from app.events.decoder import BatchDecoder, DecodedBatch
from app.events.plausible import without_implausible_times
from app.events.types import Kind
from app.pipeline.deployment import INGESTED, Deployment, StreamDeployment, load_deployment
from app.pipeline.gate import Learned, dropped_before_decoding, shedding_gate
from app.pipeline.models import restored
from app.pipeline.recovery import progress_of
from app.pipeline.schemas import KeptSchemas, SchemaKeeping
from app.pipeline.shipment import CHUNK, TICK, Refused, shipment

LETTERS_PER_ROW = 1000


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What travels in the closure of the stages: small, since it is unpickled for every task."""

    checkpoint: str
    control: ControlAddress
    schemas: SchemaKeeping
    kafka_options: tuple[tuple[str, str], ...]
    application: str
    run: str
    """The driver's run; reports of an earlier run of a batch are forgotten."""
    max_record_bytes: int = 1_000_000


@dataclass(slots=True)
class _Work:
    """What one task has found out so far."""

    rows: list[tuple[int, bytes]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    cost_ns: dict[str, int] = field(default_factory=dict)
    queries: dict[str, QueryTally] = field(default_factory=dict)
    greatest: dict[int, int] = field(default_factory=dict)
    selection: list[SelectionTally] = field(default_factory=list)

    def count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def spend(self, phase: str, since_ns: int) -> int:
        now = perf_counter_ns()
        self.cost_ns[phase] = self.cost_ns.get(phase, 0) + now - since_ns
        return now


_making = RLock()
"""What is made for a deployment is made once, by whoever needs it first: a task, or the thread that gets ready for a coming one."""


_decoders: dict[tuple[str, str, frozenset[str]], BatchDecoder] = {}
"""By checkpoint, stream and attributes: the programs of writers' schemas survive batches, and deployments that want the same."""
KEPT_DECODERS = 64


def _decoder(settings: TaskSettings, deployment: str, place: int) -> BatchDecoder:
    stream = load_deployment(settings.checkpoint, deployment).streams[place]
    with _making:
        described, wanted = _wanted(settings.checkpoint, deployment, place)
        key = settings.checkpoint, described, wanted
        if key not in _decoders:
            if len(_decoders) >= KEPT_DECODERS:
                del _decoders[next(iter(_decoders))]
            readers = [parse_schema(text) for text in stream.readers]
            _decoders[key] = BatchDecoder(stream.definition, readers, KeptSchemas(settings.schemas), wanted)
        return _decoders[key]


@lru_cache(maxsize=64)
def _wanted(checkpoint: str, deployment: str, place: int) -> tuple[str, frozenset[str]]:
    """What tells a stream from others, and its attributes that queries read."""
    known = load_deployment(checkpoint, deployment)
    stream = known.streams[place]
    plans = [plan for plan in known.catalog.plans if stream.rules.stream in plan.streams]
    wanted = {name for plan in plans for name in plan.columns}
    tested = {test.attribute for plan in plans for item in plan.items for one in (item.tests, *item.either) for test in one}
    return repr((stream.definition, stream.readers)), frozenset(wanted | tested)


@lru_cache(maxsize=64)
def _made_plan(checkpoint: str, deployment: str, place: int) -> IngressPlan:
    known = load_deployment(checkpoint, deployment)
    return IngressPlan(known.catalog, known.streams[place].rules, known.buckets)


def _plan(checkpoint: str, deployment: str, place: int) -> IngressPlan:
    with _making:
        return _made_plan(checkpoint, deployment, place)


_ready: set[str] = set()


def get_ready(settings: TaskSettings, coming: str) -> None:
    """Makes what a coming deployment needs, beside the batch: so that the first batch under it need not."""
    if coming and coming not in _ready:
        _ready.add(coming)
        Thread(target=_prepare, args=(settings, coming), name="coming-deployment", daemon=True).start()


def _prepare(settings: TaskSettings, coming: str) -> None:
    known = load_deployment(settings.checkpoint, coming)
    load_engines(known.catalog.plans)
    for place in range(len(known.streams)):
        _plan(settings.checkpoint, coming, place)
        _decoder(settings, coming, place)


@lru_cache(maxsize=256)
def _learned(checkpoint: str, deployment: str, query: int) -> Learned:
    known = load_deployment(checkpoint, deployment)
    stored = known.models[query]
    if stored is None:
        raise AssertionError(f"the deployment {deployment} has no model of query {query}")
    return Learned(restored(stored), Features.of(known.catalog.plans[query]))


def batch_of_task() -> tuple[int, str, int]:
    """Spark's batch id, the streaming query's id and the number of this task's Spark partition."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("runs only inside a Spark task")
    return (
        int(context.getLocalProperty("streaming.sql.batchId") or 0),
        context.getLocalProperty("sql.streaming.queryId") or "none",
        context.partitionId(),
    )


def ingress(batches: Iterator[pa.RecordBatch], settings: TaskSettings) -> Iterator[pa.RecordBatch]:
    """The stage's function for ``mapInArrow``: (value, source, offset, ingested_us[, headers]) → `SHIPMENT_DDL`."""
    batch_id, _, part = batch_of_task()
    control = client_of(settings.control)
    directive = control.directive(batch_id)
    deployment = load_deployment(settings.checkpoint, directive.deployment)
    get_ready(settings, directive.coming)
    started = perf_counter_ns()
    records = _table(batches)
    work = _Work()
    work.spend("read", started)
    sources: tuple[SourceProgress, ...] = ()
    if records is not None:
        source = _int64(records, "source")
        ingested_ms = _int64(records, "ingested_us") // 1000
        place = np.array([-1 if k is None else k for k in deployment.stream_of_topic])[source >> PARTITION_BITS]
        for number, stream in enumerate(deployment.streams):
            rows = np.flatnonzero(place == number)
            if len(rows):
                own = records if len(rows) == len(place) else records.take(pa.array(rows))
                _stream(work, own, source[rows], ingested_ms[rows], _Context(settings, directive, deployment, number, stream))
        sources = _source_progress(source, _int64(records, "offset"), ingested_ms, work.greatest)
    for bucket in range(deployment.buckets):  # every bucket runs in every batch, so that time advances
        work.rows.append((bucket, TICK))
    control.report(
        StageReport(
            batch_id,
            "ingress",
            part,
            run=settings.run,
            sources=sources,
            queries=tuple(work.queries.values()),
            counts=work.counts,
            rejected=work.rejected,
            cost_ns=work.cost_ns,
            selection=tuple(work.selection),
        )
    )
    yield shipment(work.rows)


@dataclass(frozen=True, slots=True)
class _Context:
    """Where and under what orders a stream's records of this task are worked on."""

    settings: TaskSettings
    directive: Directive
    deployment: Deployment
    number: int
    stream: StreamDeployment


def _stream(work: _Work, records: pa.Table, source: NDArray[np.int64], ingested_ms: NDArray[np.int64], context: _Context) -> None:
    """All records of one stream in this task."""
    offset = _int64(records, "offset")
    directive, settings = context.directive, context.settings
    started = perf_counter_ns()
    work.count("consumed", len(source))
    plan = _plan(settings.checkpoint, directive.deployment, context.number)
    unseen = dropped_before_decoding(context.deployment.catalog, plan.selection, directive, source, offset)
    dropped = 0
    if unseen is not None:
        dropped, kept = int(np.count_nonzero(unseen)), ~unseen
        records, source, offset, ingested_ms = records.filter(pa.array(kept)), source[kept], offset[kept], ingested_ms[kept]
        started = work.spend("shed", started)
    headers = records.column("headers") if context.stream.with_headers else None
    decoder = _decoder(settings, directive.deployment, context.number)
    decoded = decoder.decode(records.column("value"), source, offset, headers, ingested_ms)
    decoded = without_implausible_times(decoded, ingested_ms, context.stream.max_ahead_ms)
    started = work.spend("decode", started)
    _refuse_undecodable(work, decoded, source, offset, context.deployment.buckets)
    columns = {**decoded.batch.columns, INGESTED: Column(Kind.TIME, ingested_ms[decoded.rows])}
    batch = EventBatch(decoded.batch.time, decoded.batch.source, decoded.batch.offset, decoded.batch.type, columns)
    learned = partial(_learned, settings.checkpoint, directive.deployment)
    gate = _timed(shedding_gate(context.deployment.catalog, plan.selection, directive, learned), work)
    orders = directive.selection.get(context.stream.rules.stream)
    if orders is not None and not orders.sequence.fits(len(plan.selection.initial.order)):
        orders = None  # of an earlier version of this software, which cut attributes otherwise
    ingested = plan.ingest(batch, progress_of(directive), gate, None if orders is None else orders.sequence)
    work.selection.append(_selection_tally(plan, batch, ingested, 0 if orders is None else orders.sample))
    started = work.spend("select", started)
    _refuse_late(work, batch, ingested, context.deployment.buckets)
    _tally(work, ingested, dropped, context)
    work.rows += [(bucket, CHUNK + packed) for bucket, packed in ingested.packed()]
    work.spend("pack", started)


def _selection_tally(plan: IngressPlan, batch: EventBatch, ingested: Ingested, sample: int) -> SelectionTally:
    rows = sampled_rows(len(batch), sample)
    samples = (packed(plan.selection.regions(batch, rows)),) if len(rows) else ()
    return SelectionTally(plan.selection.layout.stream, len(batch), ingested.pruned, ingested.evaluated, samples)


def _timed(gate: Gate | None, work: _Work) -> Gate | None:
    """The gate with its time noted under ``shed``; it is part of ``select`` as well."""
    if gate is None:
        return None

    def timed(batch: EventBatch, selected: SelectedEvents) -> SelectedEvents:
        started = perf_counter_ns()
        kept = gate(batch, selected)
        work.spend("shed", started)
        return kept

    return timed


def _tally(work: _Work, ingested: Ingested, dropped: int, context: _Context) -> None:
    """Counts; events that were dropped unseen count as candidates of every query, which each of them may have been."""
    work.count("irrelevant", ingested.irrelevant)
    work.count("shed", ingested.shed + dropped)
    work.count("matched", ingested.forwarded)
    work.count("late", len(ingested.late))
    if len(ingested.late):
        work.rejected["late"] = work.rejected.get("late", 0) + len(ingested.late)
    for source, time in ingested.judgement.greatest_times.items():
        work.greatest[source] = max(time, work.greatest.get(source, time))
    for query, candidates in ingested.candidates.items():
        name = context.deployment.catalog.plans[query].name
        known = work.queries.get(name, QueryTally(name))
        lost = ingested.lost.get(query, 0)
        work.queries[name] = QueryTally(name, known.candidates + candidates + dropped, known.shed + lost + dropped)


def _refuse_undecodable(work: _Work, decoded: DecodedBatch, source: NDArray[np.int64], offset: NDArray[np.int64], buckets: int) -> None:
    """Dead letters, by source and reason, to the bucket that will deliver them."""
    failures = decoded.failures
    if not len(failures):
        return
    work.count("dead", len(failures))
    grouped: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for k, row in enumerate(failures.rows.tolist()):
        reason = failures.reason(k).value
        work.rejected[reason] = work.rejected.get(reason, 0) + 1
        grouped.setdefault((int(source[row]), reason), []).append((int(offset[row]), failures.text(k)))
    for (from_source, reason), letters in grouped.items():
        for start in range(0, len(letters), LETTERS_PER_ROW):
            part = letters[start : start + LETTERS_PER_ROW]
            refused = Refused(from_source, tuple(at for at, _ in part), reason, tuple(text for _, text in part))
            work.rows.append((from_source % buckets, refused.pack()))


def _refuse_late(work: _Work, batch: EventBatch, ingested: Ingested, buckets: int) -> None:
    if not len(ingested.late):
        return
    sources, offsets = batch.source[ingested.late], batch.offset[ingested.late]
    for from_source in np.unique(sources).tolist():
        own = offsets[sources == from_source].tolist()
        for start in range(0, len(own), LETTERS_PER_ROW):
            work.rows.append((from_source % buckets, Refused(from_source, tuple(own[start : start + LETTERS_PER_ROW]), "late").pack()))


def _source_progress(
    source: NDArray[np.int64], offset: NDArray[np.int64], ingested_ms: NDArray[np.int64], greatest: dict[int, int]
) -> tuple[SourceProgress, ...]:
    """What this task read, per topic partition. Rows of one partition lie together, in order of offset."""
    found = []
    for number in np.unique(source).tolist():
        own = np.flatnonzero(source == number)
        times = ingested_ms[own]
        found.append(
            SourceProgress(
                number,
                len(own),
                greatest.get(number),
                int(times.min()),
                int(times.max()),
                int(offset[own[0]]),
                int(offset[own[-1]]) + 1,
            )
        )
    return tuple(found)


def _table(batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
    parts = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(parts) if parts else None


def _int64(table: pa.Table, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = table.column(name).to_numpy()
    return values
