"""The control plane: wires directives, watchdog, silence, health and metrics to the HTTP server and to Spark's progress.

Decisions are made by the modules around; here they are asked at the right moment:

* a batch begins → its directive from the log, or the decision of now (`_decide`);
* a batch's tasks and owners are done (`finish`) → the log, then idle detection;
* Spark finished a batch (`on_progress`) → watchdog, metrics, pruning;
* the heartbeat thread asks whether to beat (`_heartbeat_is_due`).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.bucket.hold import Progress
from app.config.secret_files import read_secret
from app.config.settings import Settings
from app.config.task_token import token_file
from app.control.accounts import Breach, Planned, gaps
from app.control.audit_reports import shed_reports
from app.control.batch_line import Held, log_batch
from app.control.batch_log import BatchLog
from app.control.batch_metrics import FinishedBatch, count_batch
from app.control.decisions import Decisions
from app.control.desk import Desk
from app.control.directives import Directive, Frozen
from app.control.health import Flag, Health, Pulse
from app.control.heartbeat import HeartbeatWriter, Producer
from app.control.history import History, Noted, Standing
from app.control.http import Endpoints, NotReadyError, servers
from app.control.idle import Beat, IdleSources, SourceOfStream, Waiting, heartbeat_is_due
from app.control.levels import Levels
from app.control.observations import Done, Streams, observation_of
from app.control.outages import Outage
from app.control.pages import Pages, no_pages
from app.control.quality import Quality
from app.control.query_set import GOOD, QuerySet
from app.control.reached import reached
from app.control.registry_watch import RegistryWatch
from app.control.selection import Sequences
from app.control.standing import standings
from app.control.state_limits import state_shares
from app.control.totals import BatchTotals
from app.control.watchdog import Forecast, PlannedBatch, Watchdog, WatchedQuery
from app.events.batch import PARTITION_BITS, source_number
from app.events.topics import topic_numbers
from app.observe.logs import get_logger, levels, set_level
from app.observe.metrics import Metrics
from app.observe.progress import Progress as SparkProgress
from app.observe.progress import read_progress
from app.query.plan import Catalog, Plan
from app.storage.open import open_store

SIZE_TOLERANCE = 2
"""Batches beyond the bound by less than this are what an estimate is."""

Speakers = Callable[[int], Iterable[tuple[str, int]] | None]
Ranges = Callable[[int], Mapping[tuple[str, int], tuple[int | None, int]] | None]

log = get_logger(__name__)


def clock_ms() -> int:
    """The wall clock, ms since the epoch."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class RunningCatalog:
    """What tasks are to run.

    Attributes:
        deployment: fingerprint of the compiled catalog, passed on in directives.
        schema_ids: registry ids of output schemas, by subject, passed on in directives.
        topics: by number (`app.events.topics`); where nothing is kept, those of the settings.
        models: by query, what its shedder goes by, as ``/queries`` tells it: ``method``, ``file``, ``digest``, ``events`` that it learned from, times of the first and last, ms.
    """

    catalog: Catalog
    deployment: str = ""
    schema_ids: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class ControlPlane:
    """One per driver. Construction opens the HTTP port, so that probes are answered before Spark is there.

    Args:
        settings: of the application.
        version: values for ``/version`` and ``cep_build_info``: version, spark, git.
        clock: ms since the epoch.

    Attributes:
        health: add checks of your own.
        metrics: the driver's metrics.
        registry: what tasks do while the schema registry is away.
        started: a flag behind ``/startupz``: Spark's context is up, executors were waited for, and the query has begun.
        running: a flag behind ``/readyz``: the streaming query runs.
        moving: a flag behind ``/readyz``: no batch has stalled.
        held: by bucket who holds it, for the log; whoever knows says so.
        show_offsets: told after every batch up to where it has read the streams' topic partitions.
        committed: the newest batch that Spark has told of; -1 before the first.
        pulse: behind ``/livez``; the main loop calls ``pulse.beat()``.
        history: the last hour, for the console.
        pages: the console's, once somebody has put them there.
    """

    def __init__(self, settings: Settings, version: Mapping[str, str], clock: Callable[[], int] = clock_ms) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._log: BatchLog | None = None
        self._catalog: RunningCatalog | None = None
        self._named = ""
        """The deployment that the newest directive names."""
        self._coming, self._announced = "", 0
        self._query_set = QuerySet()
        self._opened_at_ms: int | None = None
        self._speakers: Speakers = lambda _: None
        self._ranges: Ranges = lambda _: None
        self._decided = False
        self._most_records = settings.kafka.max_offsets_per_trigger
        self._watchdog = Watchdog((), settings.watchdog, self._most_records)
        self._levels = Levels()
        self._decisions = Decisions()
        self._quality = Quality()
        self._sequences: Sequences | None = None
        self._idle = IdleSources(
            {name: stream.idle_after for name, stream in settings.streams.items()},
            {name: stream.allowed_lateness for name, stream in settings.streams.items()},
        )
        self._numbers = topic_numbers(settings.source_topics)
        self._streams = self._streams_by_number()
        self._newest_broker_ms: dict[tuple[str, int], int] = {}
        self._last_totals: BatchTotals | None = None
        self._greatest_times: dict[int, int] = {}
        self._last_beat_ms = clock()
        self._heartbeat: HeartbeatWriter | None = None
        self.held: Callable[[], Held] = dict
        self.show_offsets: Callable[[Mapping[tuple[str, int], int]], None] = lambda _: None
        self._told_size = False
        self._beats = Outage("heartbeats are not written", "heartbeats are written again")
        self._originals = Outage("originals of refused records cannot be read", "originals of refused records are read again")
        self._token_file = token_file(settings.http)
        self.metrics = Metrics()
        self.metrics.inform("cep_build_info", **{name: str(version.get(name, "")) for name in ("version", "spark", "git")})
        self.registry = RegistryWatch(settings.schema_registry, self.metrics, clock)
        self.history = History()
        self.pages: Pages = no_pages
        self.health = Health()
        self.pulse = Pulse(lambda: clock() / 1000, settings.http.liveness_timeout / 1000)
        self.started, self.running, self.first_batch = (
            Flag("Spark is starting"),
            Flag("no query runs yet"),
            Flag("no batch is finished yet"),
        )
        self.committed = -1
        self.moving = Flag("")
        self.moving.good()
        self.health.add("readyz", "moving", self.moving.check)
        self.health.add("livez", "main-loop", self.pulse.check)
        self.health.add("startupz", "spark", self.started.check)
        for name, check in (("spark", self.started.check), ("query", self.running.check), ("first-batch", self.first_batch.check)):
            self.health.add("readyz", name, check)
        endpoints = Endpoints(
            token=read_secret(self._token_file),
            health=self.health,
            metrics=self.metrics.text,
            queries=self.query_set,
            version=lambda: dict(version),
            log_levels=levels,
            set_log_level=self._set_log_level,
            registry=self.registry.rule,
            pages=lambda target: self.pages(target),  # noqa: PLW0108 - it is exchanged
        )
        self._servers = servers(settings.http, endpoints)

    @property
    def port(self) -> int:
        """Where probes and metrics are answered, also when any free port was asked for."""
        return self._servers[0].port

    @property
    def control_port(self) -> int:
        """Where everything is answered: the same, unless the control port is one of its own."""
        return self._servers[-1].port

    def open(
        self, running: RunningCatalog, speakers: Speakers | None = None, ranges: Ranges | None = None, follows: str | None = None
    ) -> bool:
        """Makes a catalog the running one: directives are decided by it from now on, those that were decided before stay. May be called again.

        The first call goes on from the checkpoint's last directive.

        Args:
            running: the catalog.
            speakers: the topic partitions that have records in a batch, asked when its directive is decided; None: as before.
            ranges: the offsets that are planned for a batch; None: as before.
            follows: the deployment that the newest directive must name, as `past` said; None: any.

        Returns:
            Whether it was opened; no when another deployment has run since.

        Raises:
            SnapshotError: the log of batches was written by a newer version.
        """
        # The log is asked before our own lock is taken: `_decide` comes the other way round.
        log_ = self._log or BatchLog(open_store(self._settings.checkpoint.uri))
        latest = log_.latest()
        sequences = Sequences(running.catalog, self._settings.selection)  # for 1,000 queries 35 ms, which nobody must wait for
        with self._lock:
            first = self._log is None
            self._log = log_
            if first:
                self._named = "" if latest is None else latest.directive.deployment
            if follows is not None and follows != self._named:
                return False
            self._numbers = topic_numbers(running.topics or self._settings.source_topics)
            self._streams = self._streams_by_number()
            watchdog = Watchdog(
                [WatchedQuery.of(plan, self._settings.watchdog.catch_up) for plan in running.catalog.current],
                self._settings.watchdog,
                self._most_records,
            )
            memory: Mapping[str, Any] = {"watchdog": self._watchdog.snapshot()} if not first else {} if latest is None else latest.memory
            watchdog.restore(memory.get("watchdog", {}))
            if not first:
                watchdog.go_on()
            if first:
                self._idle.restore(memory.get("idle", {}), self._clock())
                self._levels.restore(memory.get("levels", {}))
                self._decisions.restore(memory.get("decisions", {}))
            kept = {} if latest is None else latest.memory.get("selection", {})
            sequences.restore(kept if self._sequences is None else self._sequences.snapshot())
            gone = () if self._catalog is None else {plan.name for plan in self._catalog.catalog.plans}
            self._sequences, self._coming = sequences, ""
            self._watchdog, self._catalog = watchdog, running
            self._speakers, self._ranges = speakers or self._speakers, ranges or self._ranges
            for query in {*gone} - {plan.name for plan in running.catalog.plans}:
                self.metrics.forget("query", query)
            self._opened_at_ms = self._clock()
            if first:
                self.metrics.set("cep_config_reload_success", 1)
                self.metrics.set("cep_config_last_reload_success_timestamp_seconds", self._opened_at_ms / 1000)
            self._show_catalog(running)
            return True

    @property
    def catalog(self) -> Catalog | None:
        """What runs; None before anything does."""
        with self._lock:
            return None if self._catalog is None else self._catalog.catalog

    def past(self) -> tuple[str, dict[int, int]] | None:
        """The deployment that the newest directive names, and by source how far time had come before its batch, ms; None when no batch ran yet."""
        latest = None if self._log is None else self._log.latest()
        if self._log is None or latest is None or not latest.directive.deployment:
            return None
        return latest.directive.deployment, self._log.greatest_times_before(latest.directive.batch)

    def announce(self, deployment: str) -> None:
        """Lets tasks get ready for a deployment that will be opened soon: directives name it from now on as the coming one."""
        with self._lock:
            self._coming, self._announced = deployment, 0

    @property
    def announced(self) -> int:
        """In how many directives the coming deployment has been named."""
        return self._announced

    def tell(self, query_set: QuerySet) -> None:
        """Takes note of a reading of the query files."""
        with self._lock:
            self._query_set = query_set
            self.metrics.set("cep_config_reload_success", float(query_set.outcome in GOOD))
            self.metrics.add("cep_config_reloads_total", 1, outcome=query_set.outcome)
            if query_set.outcome in GOOD and query_set.read_at_ms is not None:
                self.metrics.set("cep_config_last_reload_success_timestamp_seconds", query_set.read_at_ms / 1000)

    def limit_batches(self, records: int) -> None:
        """Says how many records a batch takes at most; to be told before a catalog is opened."""
        self._most_records = records

    def beat_written(self) -> None:
        """The broker has a heartbeat."""
        self.metrics.add("cep_heartbeats_total", 1)
        self._beats.worked()

    def beat_failed(self, reason: str) -> None:
        """A heartbeat was lost: while that goes on, silent input holds up what only time can release."""
        self.metrics.add("cep_heartbeat_errors_total", 1)
        self._beats.failed(reason)

    @property
    def desk(self) -> Desk:
        """What tasks need to ask this driver."""
        http, spark = self._settings.http, self._settings.spark
        local = "127.0.0.1" if spark.master.startswith("local") else socket.gethostname()
        host = http.advertised_host or spark.conf.get("spark.driver.host", local)
        return Desk(host, self.control_port, str(self._token_file), http.control.certificate_file is not None)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Makes topic partitions known before the first batch: one that has nothing in it must hold the watermark from the start."""
        with self._lock:
            self._idle.assign(self._known_sources(self._source(*tp) for tp in partitions if tp[0] in self._numbers), self._clock())

    def start_heartbeat(self, producer: Producer) -> None:
        """Begins to write heartbeats when they are due."""
        pause_s = max(0.05, self._settings.heartbeat.interval / 4000)
        self._heartbeat = HeartbeatWriter(
            producer,
            self._settings.topics.heartbeat,
            self._heartbeat_is_due,
            pause_s,
            self,
        )
        self._heartbeat.start()

    @property
    def _running_log(self) -> BatchLog:
        if self._log is None:
            raise NotReadyError("no catalog runs yet")
        return self._log

    def directive(self, batch: int) -> Directive:
        """The directive of a batch, decided now if nobody asked before.

        Raises:
            NotReadyError: no catalog runs yet.
        """
        return self._running_log.directive(batch, self._decide)

    def settle(self) -> None:
        """Waits until the latest directive survives a crash; before anything comes of it that does.

        Raises:
            NotReadyError: no catalog runs yet.
        """
        self._running_log.settle()

    def begin_run(self) -> int:
        """Counts this run of the driver on its checkpoint; see `app.control.batch_log.BatchLog.begin_run`."""
        return self._running_log.begin_run()

    def planned(self, batch: int) -> Planned | None:
        """By source, the offsets that Spark has planned for a batch; None where nobody knows."""
        ranges = self._ranges(batch)
        return None if ranges is None else {self._source(*place): span for place, span in ranges.items() if place[0] in self._numbers}

    def untouched(self, planned: Planned, totals: BatchTotals) -> dict[tuple[str, int], tuple[int, int]]:
        """Topic partitions of streams with offsets that were planned for a batch, and of which nothing came."""
        read = {number for number, source in totals.sources.items() if source.events}
        topics = {number: topic for topic, number in self._numbers.items() if number in self._streams}
        return {
            (topics[number >> PARTITION_BITS], number & ((1 << PARTITION_BITS) - 1)): (start, end)
            for number, (start, end) in planned.items()
            if start is not None and end > start and number not in read and number >> PARTITION_BITS in topics
        }

    def count_failed_attempt(self) -> None:
        """An attempt of a batch has failed; there will be another, or the application ends."""
        self.metrics.add("cep_batch_attempts_failed_total", 1)

    def count_breaches(self, breaches: Sequence[Breach]) -> None:
        """Accounts of a batch do not close."""
        for breach in breaches:
            self.metrics.add("cep_accounting_breaches_total", 1, account=breach.account)

    def finish(self, totals: BatchTotals, owners: int = 0) -> None:
        """Takes what became of a batch; it is safe when this returns.

        Args:
            totals: of the batch.
            owners: that hold buckets, or could.

        Raises:
            NotReadyError: no catalog runs yet.
        """
        self._running_log.finish(totals)
        self.metrics.set("cep_owners", owners)
        heard = [source.source for source in totals.sources.values() if source.events > 0]
        if heard:
            with self._lock:
                now = self._clock()
                self._idle.assign(self._known_sources(heard), now)
                self._idle.hear(heard, now)

    def on_progress(self, spark_progress: Mapping[str, Any]) -> None:
        """Spark has committed a batch.

        Args:
            spark_progress: `StreamingQueryProgress` as parsed JSON.
        """
        progress = read_progress(spark_progress)
        # Spark also reports while nothing happens; such progress repeats the last batch and has no executed phase.
        if self._log is None or "addBatch" not in progress.phases_ms:
            return
        # The log is asked before our own lock is taken: `_decide` comes the other way round.
        directive, totals = self._log.logged(progress.batch), self._log.totals(progress.batch)
        greatest = self._log.greatest_times_before(progress.batch + 1)
        self._log.prune(progress.batch)
        self.registry.committed(progress.batch)
        with self._lock:
            now = self._clock()
            self._idle.assign(self._known_sources(self._source(*tp) for tp in progress.end if tp[0] in self._numbers), now)
            before_totals = self._last_totals
            self._remember(progress, totals, greatest)
            for stream in self._sequences.observe(totals.selection) if self._sequences is not None else ():
                self.metrics.add("cep_selection_rearrangements_total", 1, stream=stream)
            before = self._watchdog.ratios
            streams = Streams(self._stream_of_source, self._settings.stream_of)
            plans_now = () if self._catalog is None else self._catalog.catalog.current
            self._watchdog.observe(observation_of(Done(progress, totals, directive, before_totals), plans_now, streams))
            if directive is not None and self._catalog is not None:
                plans = {plan.name: plan for plan in self._catalog.catalog.current}
                watermarks = self._watermarks(directive, now)
                batch = FinishedBatch(progress, totals, directive, now, dict(self._newest_broker_ms), watermarks, self._numbers)
                count_batch(self.metrics, batch, plans, frozenset({self._settings.topics.heartbeat}))
                self._count_gaps(progress, totals)
                self._show_shedding(plans)
                self._quality.observe(now, totals.queries, totals.samples, directive.shedding)
                self._quality.show(self.metrics, plans)
                self.history.note(_noted(batch), self._standings)
            self.first_batch.good()
            after, forecast = self._watchdog.ratios, self._watchdog.forecast
        _log_shedding(progress.batch, before, after, forecast)
        _log_limits(progress.batch, totals)
        self._note_size(progress.batch, totals)
        self._note_originals(totals)
        if totals.unaccounted():
            log.error("events unaccounted for", batch_id=progress.batch, events=totals.unaccounted())
        self.show_offsets({place: end for place, end in progress.end.items() if self._settings.stream_of(place[0])})
        log_batch(progress, totals, before, self.held)
        self.committed = progress.batch

    @property
    def forecast(self) -> Forecast | None:
        """Why drop ratios are as they are; None before the first decision."""
        return self._watchdog.forecast

    @property
    def last_totals(self) -> BatchTotals | None:
        """Of the last batch; None before the first."""
        return self._last_totals

    def queries(self) -> list[dict[str, Any]]:
        """What runs, query by query."""
        with self._lock:
            running, told = self._catalog, self._query_set
            ratios, totals, forecast = self._watchdog.ratios, self._last_totals, self._watchdog.forecast
        if running is None:
            return []
        status = "running" if self.running.check() is None else "stopped"
        return [
            {
                "query": plan.name,
                "version": plan.version,
                "title": plan.title,
                "status": status,
                "fingerprint": plan.fingerprint,
                "generation": running.catalog.version,
                "streams": list(plan.streams),
                "shedder": plan.shedding.shedder,
                "model": running.models.get(plan.name),
                "latency_bound_ms": plan.shedding.latency_bound_ms,
                "drop_ratio": ratios.get(plan.name, 0.0),
                "predicted_latency_ms": None if forecast is None else round(forecast.latency_ms),
                "matches": int(self._value("cep_matches_emitted_total", query=plan.name, severity=dict(plan.labels).get("severity", ""))),
                "partial_matches": 0 if totals is None or plan.name not in totals.queries else totals.queries[plan.name].partial_matches,
                "cost_ms": 0.0 if totals is None or plan.name not in totals.queries else totals.queries[plan.name].cost_ns / 1e6,
                "last_batch": None if totals is None else totals.batch,
                "broken": plan.name in told.broken,
                **self._quality.told(plan.name),
            }
            for plan in running.catalog.current
        ]

    def query_set(self) -> dict[str, Any]:
        """The values behind ``/queries``: what runs, what finishes, and what the query files say that does not run."""
        with self._lock:
            running, told, opened = self._catalog, self._query_set, self._opened_at_ms
        plans = () if running is None else running.catalog.plans
        names = {plan.name for plan in plans if plan.draining is None}
        queries = [
            *self.queries(),
            *(
                {
                    "query": plan.name,
                    "version": plan.version,
                    "status": "draining",
                    "fingerprint": plan.fingerprint,
                    "until_ms": plan.draining.until_ms,
                }
                for plan in plans
                if plan.draining is not None
            ),
            *({"query": name, "status": "disabled"} for name in told.disabled),
            *({"query": name, "status": "broken"} for name in told.broken if name not in names),
        ]
        generation = None if running is None else running.catalog.version
        return {"generation": generation, "opened_at_ms": opened, "last_reading": told.to_plain(), "queries": queries}

    def close(self) -> None:
        """Ends heartbeats and the server."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        for server in self._servers:
            server.close()

    def _standings(self) -> dict[str, Standing]:
        plans = () if self._catalog is None else self._catalog.catalog.current
        return standings(plans, self._watchdog.forecast, self._quality)

    def _decide(self, batch: int, greatest_times: Mapping[int, int]) -> Frozen:
        if self._log is None or self._catalog is None:
            raise NotReadyError("no catalog runs yet")
        before, totals, earlier = self._log.logged(batch - 1), self._log.totals(batch - 1), self._log.totals(batch - 2)
        with self._lock:
            now = self._clock()
            self._listen(batch, now)
            self._watchdog.plan(PlannedBatch(batch, now, self._records_of(batch)))
            running, silence, forecast = self._catalog, self._idle.decide(greatest_times, now), self._watchdog.forecast
            known = Progress(greatest_times, frozenset(self._idle.sources), frozenset(silence.idle), silence.stream_times)
            plans = {plan.name: plan for plan in running.catalog.current}
            unshed = None if forecast is None else round(forecast.unshed_latency_ms, 1)
            self._levels.see({} if before is None else before.shedding, totals)
            shedding = {
                query: self._levels.orders(plans[query], ratio, totals, unshed)
                for query, ratio in self._watchdog.ratios.items()
                if query in plans
            }
            decisions = self._decisions.reports(batch, now, forecast, self._watchdog.ratios, plans)
            self.history.decide(decisions)
            directive = Directive(
                batch=batch,
                catalog_version=running.catalog.version,
                deployment=running.deployment,
                decided_at_ms=now,
                seed=self._settings.audit.seed,
                shedding=shedding,
                greatest_times=dict(greatest_times),
                sources=self._idle.sources,
                idle=silence.idle,
                stream_times=silence.stream_times,
                schema_ids=running.schema_ids,
                shed_reports=() if before is None else shed_reports(before, totals, plans),
                estimates=self._quality.reports(batch, now, plans),
                decisions=decisions,
                selection={} if self._sequences is None else self._sequences.orders(),
                coming=self._coming,
                reached=reached(before, known, self._topics_by_stream()),
                state_shares=state_shares(plans, totals, earlier),
            )
            self._named = running.deployment
            self._announced += bool(self._coming)
            memory = {
                "watchdog": self._watchdog.snapshot(),
                "idle": self._idle.snapshot(),
                "levels": self._levels.snapshot(),
                "decisions": self._decisions.snapshot(),
            }
            return Frozen(directive, memory if self._sequences is None else {**memory, "selection": self._sequences.snapshot()})

    def _records_of(self, batch: int) -> dict[str, int] | None:
        """By stream, the records that are planned for a batch; None where nobody knows. Markers of transactions count as well."""
        ranges = self._ranges(batch)
        if ranges is None or any(start is None for start, _ in ranges.values()):
            return None
        records = dict.fromkeys(self._settings.streams, 0)
        for (topic, partition), (start, end) in ranges.items():
            stream = self._stream_of_source(self._source(topic, partition)) if topic in self._numbers else None
            if stream is not None and start is not None:
                records[stream] += max(0, end - start)
        return records

    def _stream_of_source(self, source: int) -> str | None:
        return self._streams.get(source >> PARTITION_BITS)

    def _listen(self, batch: int, now: int) -> None:
        """Who speaks in this batch is not idle in it, however long the batch before took; and nobody is before the first batch of a run."""
        speaking = self._speakers(batch)
        places = [self._source(*place) for place in speaking or () if place[0] in self._numbers]
        self._idle.assign(self._known_sources(places), now)
        self._idle.hear(places if self._decided else self._idle.sources, now)
        self._decided = True

    def _heartbeat_is_due(self) -> bool:
        with self._lock:
            now = self._clock()
            totals = self._last_totals
            if totals is None or self.running.check() is not None:
                return False
            # A shed report waits as well: it leaves with the next batch.
            reports = sum(tally.shed > 0 or tally.tuples_shed > 0 or bool(tally.limited()) for tally in totals.queries.values())
            waiting = Waiting(1) if reports else Waiting(totals.waiting, totals.next_release_ms)
            beat = Beat(self._last_beat_ms, self._settings.heartbeat.interval)
            if not heartbeat_is_due(self._idle, waiting, self._greatest_times, beat, now):
                return False
            self._last_beat_ms = now
            return True

    def _note_size(self, batch: int, totals: BatchTotals) -> None:
        """The bound in bytes rests on an estimate that is made at the start; somebody should know when it does not hold any more."""
        size, bound = sum(source.bytes for source in totals.sources.values()), self._settings.kafka.max_bytes_per_trigger
        if size > SIZE_TOLERANCE * bound and not self._told_size:
            self._told_size = True
            hint = "records are larger than at the start; a restart estimates them again"
            log.warning("a batch is larger than kafka.max_bytes_per_trigger", batch_id=batch, bytes=size, bound=bound, hint=hint)

    def _note_originals(self, totals: BatchTotals) -> None:
        """Late events and dead letters that left without what they came with, though it may still be there."""
        trouble = totals.troubles.get("originals")
        if trouble is not None:
            self.metrics.add("cep_originals_errors_total", trouble.count)
            self._originals.failed(trouble.text, trouble.count)
        elif totals.counts.get("late", 0) or totals.counts.get("dead", 0):
            self._originals.worked()

    def _remember(self, progress: SparkProgress, totals: BatchTotals, greatest_times: Mapping[int, int]) -> None:
        self._last_totals, self._greatest_times = totals, dict(greatest_times)
        for topic_partition in progress.end:
            if topic_partition[0] in self._numbers:
                source = totals.sources.get(self._source(*topic_partition))
                if source is not None and source.newest_broker_ms is not None:
                    known = self._newest_broker_ms.get(topic_partition, source.newest_broker_ms)
                    self._newest_broker_ms[topic_partition] = max(known, source.newest_broker_ms)

    def _count_gaps(self, progress: SparkProgress, totals: BatchTotals) -> None:
        """What Spark says after the batch: offsets without records, and rows that its source read."""
        known = self._numbers.keys() - {self._settings.topics.heartbeat}  # whose records are no events
        places = {self._source(*place): place for place in progress.end if place[0] in known}
        spans = {number: (progress.start.get(place), progress.end[place]) for number, place in places.items()}
        for number, count in gaps(totals, spans).items():
            self.metrics.add("cep_offset_gaps_total", count, topic=places[number][0])
        consumed = totals.counts.get("consumed", 0) + totals.counts.get("heartbeats", 0)
        if totals.attempts == 1 and progress.rows != consumed:
            log.error("accounts do not close", batch_id=totals.batch, account="source", spark_read=progress.rows, tasks_consumed=consumed)
            self.count_breaches([Breach("source", "")])

    def _watermarks(self, directive: Directive, now: int) -> dict[str, int]:
        found: dict[str, int] = {}
        idle = frozenset(directive.idle)
        for name, stream in self._settings.streams.items():
            own = [(s, t) for s, t in self._greatest_times.items() if self._streams.get(s >> PARTITION_BITS) == name]
            times = [t for s, t in own if s not in idle]
            time_ms = min(times) if times else directive.stream_times.get(name)
            if time_ms is not None:
                found[name] = time_ms - stream.allowed_lateness
        return found

    def _known_sources(self, sources: Iterable[int]) -> list[SourceOfStream]:
        named = ((source, self._streams.get(source >> PARTITION_BITS)) for source in sources)
        return [SourceOfStream(source, stream) for source, stream in named if stream is not None]

    def _source(self, topic: str, partition: int) -> int:
        return source_number(self._numbers[topic], partition)

    def _streams_by_number(self) -> dict[int, str]:
        """Of the topics that are read now."""
        named = ((number, self._settings.stream_of(topic)) for topic, number in self._numbers.items())
        return {number: stream for number, stream in named if stream is not None}

    def _topics_by_stream(self) -> dict[str, frozenset[int]]:
        names = set(self._streams.values())
        return {name: frozenset(number for number, stream in self._streams.items() if stream == name) for name in sorted(names)}

    def _set_log_level(self, logger: str, level: str) -> None:
        set_level(logger, level)
        log.info("log level changed", changed=logger or "all loggers", to=level.upper())

    def _value(self, name: str, **labels: str) -> float:
        return self.metrics.value(name, **labels) or 0.0

    def _show_catalog(self, running: RunningCatalog) -> None:
        for name in (
            "cep_query_info",
            "cep_latency_bound_seconds",
            "cep_drop_ratio",
            "cep_realised_drop_ratio",
            "cep_partial_matches",
            "cep_query_state_bytes",
            "cep_model_newest_event_timestamp_seconds",
        ):
            self.metrics.clear(name)
        for query, model in running.models.items():
            self.metrics.set("cep_model_newest_event_timestamp_seconds", model["last_ms"] / 1000, query=query)
        self.metrics.set("cep_catalog_generation", running.catalog.version)
        for plan in running.catalog.plans:
            status = "running" if plan.draining is None else "draining"
            labels = {"query": plan.name, "version": str(plan.version), "hash": plan.fingerprint[:12], "status": status}
            self.metrics.set("cep_query_info", 1, **labels)
        for plan in running.catalog.current:
            if plan.shedding.latency_bound_ms is not None:
                self.metrics.set("cep_latency_bound_seconds", plan.shedding.latency_bound_ms / 1000, query=plan.name)
        self._show_shedding({plan.name: plan for plan in running.catalog.current})

    def _show_shedding(self, plans: Mapping[str, Plan]) -> None:
        ratios, forecast = self._watchdog.ratios, self._watchdog.forecast
        for query, plan in plans.items():
            self.metrics.set("cep_drop_ratio", ratios.get(query, 0.0), query=query, shedder=plan.shedding.shedder)
        if forecast is not None:
            self.metrics.set("cep_predicted_latency_seconds", forecast.latency_ms / 1000)
            self.metrics.set("cep_predicted_unshed_latency_seconds", forecast.unshed_latency_ms / 1000)
            self.metrics.set("cep_latency_bound_reachable", float(forecast.in_reach))
            self.metrics.set("cep_arrival_rate_events_per_second", forecast.rate_per_s)


def _noted(batch: FinishedBatch) -> Noted:
    totals, progress = batch.totals, batch.progress
    ratios = {query: shedding.drop_ratio for query, shedding in batch.directive.shedding.items()}
    return Noted(
        at_ms=batch.now_ms,
        duration_ms=progress.duration_ms,
        consumed=totals.counts.get("consumed", 0),
        shed=totals.counts.get("shed", 0),
        lag_records=progress.remaining,
        tallies=totals.queries,
        ratios=ratios,
    )


def _log_limits(batch: int, totals: BatchTotals) -> None:
    """A query that explodes is somebody's mistake; what it loses is counted."""
    for query, tally in sorted(totals.queries.items()):
        for limit, count in tally.limited().items():
            log.warning(
                "limit reached", query=query, batch_id=batch, limit=limit, **{"ended" if limit == "state_bytes" else "not_made": count}
            )


def _log_shedding(batch: int, before: Mapping[str, float], after: Mapping[str, float], forecast: Forecast | None) -> None:
    """Says when shedding begins and ends; the ratios in between are metrics."""
    if forecast is None or set(before) == set(after):
        return
    predicted = {"unshed_latency_ms": round(forecast.unshed_latency_ms), "latency_ms": round(forecast.latency_ms)}
    for query in sorted({*before, *after}):
        if query not in before:
            log.info("shedding begins", query=query, batch_id=batch, drop_ratio=after[query], in_reach=forecast.in_reach, **predicted)
        elif query not in after:
            log.info("shedding ends", query=query, batch_id=batch, **predicted)
