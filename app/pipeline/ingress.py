"""The ingress: records of one Spark task → chunks, delivered to the owners of their buckets. Runs in Spark's Python workers.

Thin: decode (`app.events`), then lateness, selection, shedding and routing (`app.bucket.ingress`), then a report as the task's only row.
Records are decoded slice by slice while they come in, so a task never holds all bytes of its share; what was decoded is handled in one go:
lateness is judged from the directive's greatest times on, so results do not depend on slices and Arrow's batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from threading import RLock, Thread
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from app.asc.selected import SelectedEvents
from app.bucket.hold import Progress
from app.bucket.ingress import Gate, Ingested, IngressPlan
from app.control.messages.directives import Directive
from app.control.messages.reached import progress_by
from app.control.messages.reports import QueryTally, SelectionTally, StageReport
from app.control.messages.totals import pack_report
from app.control.selection import packed, sampled_rows
from app.control.server.desk import RegistryDesk
from app.control.server.registry_watch import Key
from app.events.avro import parse_schema
from app.events.batch import PARTITION_BITS, Column, EventBatch, concatenate
from app.events.decoder import BatchDecoder, DecodedBatch
from app.events.plausible import without_implausible_times
from app.events.registry import LARGEST_ID
from app.events.types import Kind
from app.features.events import Features
from app.owners.delivering import Outbox
from app.owners.deployment import INGESTED, Deployment, StreamDeployment, attributes_of, load_deployment
from app.owners.keeper import SETTING, OwnerSlots
from app.owners.orders import PROPERTY, TaskOrders
from app.owners.shipment import CHUNK, Refused
from app.pipeline.gate import QueryModel, ranking, shedding_gate
from app.pipeline.schemas import KeptSchemas, SchemaKeeping
from app.pipeline.slices import Places, Read, slices
from app.pipeline.task_answers import answered

LETTERS_PER_ROW = 1000


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What travels in the closure of the ingress: small, since it is unpickled for every task."""

    checkpoint: str
    schemas: SchemaKeeping
    desk: RegistryDesk
    """Asks the driver."""
    stall_after_s: float = 300.0
    """After so long a task writes where it is to its standard error."""


@dataclass(slots=True)
class _Work:
    """What one task has found out so far; ``rows`` are payloads by bucket, ``unknown`` the schemas that the registry does not know: to the task's end, and whenever it is repeated."""

    unknown: set[Key]
    rows: list[tuple[int, bytes]] = field(default_factory=list)
    handed: int = 0
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


_decoders: dict[tuple[str, str, frozenset[str]], tuple[BatchDecoder, KeptSchemas]] = {}
"""By checkpoint, stream and attributes: the programs of writers' schemas survive batches, and deployments that want the same."""
KEPT_DECODERS = 64
MOST_TOLD = 10_000
"""Schemas of a task that are told as unknown: more of them are garbage, of which no registry will ever know anything."""


def _decoder(settings: TaskSettings, directive: Directive, place: int, unknown: set[Key]) -> BatchDecoder:
    decoder, schemas = _made_decoder(settings, directive.deployment, place)
    schemas.begin(directive.batch, settings.desk.registry)
    decoder.unknown = unknown
    return decoder


def _made_decoder(settings: TaskSettings, deployment: str, place: int) -> tuple[BatchDecoder, KeptSchemas]:
    stream = load_deployment(settings.checkpoint, deployment).streams[place]
    with _making:
        described, wanted = _wanted(settings.checkpoint, deployment, place)
        key = settings.checkpoint, described, wanted
        if key not in _decoders:
            if len(_decoders) >= KEPT_DECODERS:
                del _decoders[next(iter(_decoders))]
            readers = [parse_schema(text) for text in stream.readers]
            schemas = KeptSchemas(settings.schemas)
            _decoders[key] = BatchDecoder(stream.definition, readers, schemas, wanted), schemas
        return _decoders[key]


@lru_cache(maxsize=64)
def _wanted(checkpoint: str, deployment: str, place: int) -> tuple[str, frozenset[str]]:
    """What tells a stream from others, and its attributes that queries read."""
    known = load_deployment(checkpoint, deployment)
    stream = known.streams[place]
    read = [attributes_of(plan) for plan in known.catalog.plans if stream.rules.stream in plan.streams]
    return repr((stream.definition, stream.readers)), frozenset().union(*read)


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
    for place in range(len(load_deployment(settings.checkpoint, coming).streams)):
        _plan(settings.checkpoint, coming, place)
        _made_decoder(settings, coming, place)


@lru_cache(maxsize=256)
def _learned(checkpoint: str, deployment: str, query: int) -> QueryModel:
    known = load_deployment(checkpoint, deployment)
    return QueryModel(known.learned(query), Features.of(known.catalog.plans[query]))


def ingress(batches: Iterator[pa.RecordBatch], settings: TaskSettings) -> Iterator[pa.RecordBatch]:
    """The stage's function for ``mapInArrow``: (value, source, offset, ingested_us[, headers]) → one row, `app.pipeline.task_answers.ANSWER_DDL`."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("runs only inside a Spark task")
    orders, part = _orders(context.getLocalProperty(PROPERTY) or ""), context.partitionId()
    directive = orders.directive
    deployment = load_deployment(settings.checkpoint, directive.deployment)
    get_ready(settings, directive.coming)
    started = perf_counter_ns()
    work, read = _Work(set(orders.unknown.get(part, ()))), Read()
    parts = [_Part(_Context(settings, directive, deployment, number, stream)) for number, stream in enumerate(deployment.streams)]
    for records in slices(batches):
        places = read.add(records)
        work.spend("read", started)
        with _named(f"ingress, batch {directive.batch}, task {part}"):
            _decode_streams(work, records, places, deployment, parts)
        del records  # its bytes must be gone before the next slice comes in
        started = perf_counter_ns()
    work.spend("read", started)
    for decoded in parts:
        if decoded.batches:
            with _named(f"stream {decoded.context.stream.rules.stream}, batch {directive.batch}, task {part}"):
                _route(work, decoded)
    started = perf_counter_ns()
    copy = context.taskAttemptId()
    undelivered = _outbox().deliver(orders, part, work.rows, copy)
    work.spend("deliver", started)
    report = StageReport(
        directive.batch,
        "ingress",
        part,
        sources=read.progress(work.greatest),
        queries=tuple(work.queries.values()),
        counts=work.counts,
        rejected=work.rejected,
        cost_ns=work.cost_ns,
        selection=tuple(work.selection),
        handed=work.handed,
        copy=copy,
        undelivered=undelivered,
        unknown=tuple(sorted((key for key in work.unknown if not isinstance(key, int) or key <= LARGEST_ID), key=str)[:MOST_TOLD]),
    )
    yield answered(pack_report(report, [plan.name for plan in deployment.catalog.plans]))


@contextmanager
def _named(what: str) -> Iterator[None]:
    """What goes wrong says where."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise


@lru_cache(maxsize=2)
def _orders(text: str) -> TaskOrders:
    return TaskOrders.from_text(text)


@lru_cache(maxsize=1)
def _outbox() -> Outbox:
    """This worker's connections to owners; module globals outlive batches in Spark's Python workers."""
    return Outbox(OwnerSlots.from_text(os.environ[SETTING]).key)


@dataclass(frozen=True, slots=True)
class _Context:
    """Where and under what orders a stream's records of this task are worked on."""

    settings: TaskSettings
    directive: Directive
    deployment: Deployment
    number: int
    stream: StreamDeployment


@dataclass(slots=True)
class _Part:
    """What has been decoded of a stream's records in this task."""

    context: _Context
    batches: list[EventBatch] = field(default_factory=list)
    letters: dict[tuple[int, str], list[tuple[int, str]]] = field(default_factory=dict)
    """By source and reason: offset and text of what became no event."""


def _decode_streams(work: _Work, records: pa.Table, places: Places, deployment: Deployment, parts: Sequence[_Part]) -> None:
    """One slice."""
    place = np.array([-1 if k is None else k for k in deployment.stream_of_topic])[places.source >> PARTITION_BITS]
    for number, part in enumerate(parts):
        rows = np.flatnonzero(place == number)
        if len(rows) == len(place):
            _decode(work, records, places, part)
        elif len(rows):
            _decode(work, records.take(pa.array(rows)), places.rows(rows), part)
    work.count("heartbeats", int(np.count_nonzero(place < 0)))


def _decode(work: _Work, records: pa.Table, places: Places, part: _Part) -> None:
    """One slice's records of one stream."""
    context = part.context
    source, offset, ingested_ms = places.source, places.offset, places.ingested_ms
    directive, settings = context.directive, context.settings
    started = perf_counter_ns()
    work.count("consumed", len(source))
    headers = records.column("headers") if context.stream.with_headers else None
    decoder = _decoder(settings, directive, context.number, work.unknown)
    decoded = decoder.decode(records.column("value"), source, offset, headers, ingested_ms)
    decoded = without_implausible_times(decoded, ingested_ms, context.stream.max_ahead_ms)
    _note_undecodable(part, decoded, source, offset)
    columns = {**decoded.batch.columns, INGESTED: Column(Kind.TIME, ingested_ms[decoded.rows])}
    part.batches.append(replace(decoded.batch, columns=columns))
    work.spend("decode", started)


def _route(work: _Work, part: _Part) -> None:
    """All events of one stream in this task."""
    context = part.context
    directive, settings = context.directive, context.settings
    started = perf_counter_ns()
    batch = concatenate(part.batches)
    part.batches.clear()
    _refuse_undecodable(work, part.letters, context.deployment.buckets)
    plan = _plan(settings.checkpoint, directive.deployment, context.number)
    learned = partial(_learned, settings.checkpoint, directive.deployment)
    gate = _timed(shedding_gate(context.deployment.catalog, plan.selection, directive, learned), work)
    orders = directive.selection.get(context.stream.rules.stream)
    if orders is not None and not orders.sequence.fits(len(plan.selection.initial.order)):
        orders = None  # of an earlier version of this software, which cut attributes otherwise
    riders = ranking(context.deployment.catalog, plan.selection, directive, learned)
    ingested = plan.ingest(batch, _progress(directive), gate, None if orders is None else orders.sequence, riders)
    work.selection.append(_selection_tally(plan, batch, ingested, 0 if orders is None else orders.sample))
    started = work.spend("select", started)
    _refuse_late(work, batch, ingested, context.deployment.buckets)
    _tally(work, ingested, context)
    work.rows += [(bucket, CHUNK + packed) for bucket, packed in ingested.packed(with_times=False)]
    work.handed += ingested.rows
    work.spend("pack", started)


def _progress(directive: Directive) -> Progress:
    """What the directive says about time, as lateness sees it."""
    return replace(progress_by(directive, directive.greatest_times), reached=directive.reached)


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


def _tally(work: _Work, ingested: Ingested, context: _Context) -> None:
    work.count("irrelevant", ingested.irrelevant)
    work.count("shed", ingested.shed)
    work.count("matched", ingested.forwarded)
    work.count("late", len(ingested.late))
    if len(ingested.late):
        work.rejected["late"] = work.rejected.get("late", 0) + len(ingested.late)
    times = ingested.judgement.greatest_times
    for source, time in ((source, times[source]) for source in ingested.judgement.sources & times.keys()):
        work.greatest[source] = max(time, work.greatest.get(source, time))
    for query, candidates in ingested.candidates.items():
        name = context.deployment.catalog.plans[query].name
        known = work.queries.get(name, QueryTally(name))
        lost = ingested.lost.get(query, 0)
        work.queries[name] = QueryTally(name, known.candidates + candidates, known.shed + lost)


def _note_undecodable(part: _Part, decoded: DecodedBatch, source: NDArray[np.int64], offset: NDArray[np.int64]) -> None:
    failures = decoded.failures
    for k, row in enumerate(failures.rows.tolist()):
        part.letters.setdefault((int(source[row]), failures.reason(k).value), []).append((int(offset[row]), failures.text(k)))


def _refuse_undecodable(work: _Work, grouped: dict[tuple[int, str], list[tuple[int, str]]], buckets: int) -> None:
    """Dead letters, by source and reason, to the bucket that will deliver them."""
    for (from_source, reason), letters in grouped.items():
        work.count("dead", len(letters))
        work.rejected[reason] = work.rejected.get(reason, 0) + len(letters)
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
