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
from typing import Any

from app.config.secret_files import read_secret
from app.config.settings import Settings
from app.config.task_token import token_file
from app.control.arrivals.accounts import Breach, Planned
from app.control.arrivals.heartbeat import HeartbeatWriter, Producer
from app.control.arrivals.inflow import Inflow, RangesOf, Speakers, elapsed_ms
from app.control.batch_line import Held, log_batch
from app.control.decider import Decider, Past
from app.control.law.observations import Done, Streams
from app.control.law.watchdog import Forecast
from app.control.messages.batch_log import TOTALS, BatchLog
from app.control.messages.directives import Directive, Frozen
from app.control.messages.totals import BatchTotals
from app.control.outages import Outage
from app.control.running_catalog import RunningCatalog
from app.control.selection import Sequences
from app.control.server.desk import Desk
from app.control.server.health import Probes
from app.control.server.http import Endpoints, NotReadyError, servers
from app.control.server.pages import Pages, no_pages
from app.control.server.registry_watch import RegistryWatch
from app.control.shown.batch_metrics import FinishedBatch
from app.control.shown.batch_remarks import BatchRemarks
from app.control.shown.display import Display
from app.control.shown.history import History
from app.control.shown.quality import Quality
from app.control.shown.query_set import QuerySet
from app.control.shown.query_status import Known, QueryStatus
from app.observe.logs import get_logger, levels, set_level
from app.observe.metrics import Metrics
from app.observe.progress import read_progress
from app.storage.open import open_store

log = get_logger(__name__)


def clock_ms() -> int:
    """The wall clock, ms since the epoch."""
    return time.time_ns() // 1_000_000


class ControlPlane:
    """One per driver. Construction opens the HTTP port, so that probes are answered before Spark is there.

    Args:
        settings: of the application.
        version: values for ``/version`` and ``cep_build_info``: version, spark, git.
        clock: ms since the epoch. How long nothing came is measured by one that only goes on (`elapsed_ms`), unless another one than the wall's is given.

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
        last_totals: of the last batch, also of an earlier run; None before the first.
        pulse: behind ``/livez``; the main loop calls ``pulse.beat()``.
        history: the last hour, for the console.
        pages: the console's, once somebody has put them there.
    """

    def __init__(self, settings: Settings, version: Mapping[str, str], clock: Callable[[], int] = clock_ms) -> None:
        self._settings = settings
        self._clock, self._elapsed = clock, elapsed_ms if clock is clock_ms else clock
        self._lock = threading.RLock()
        self._log: BatchLog | None = None
        self._catalog: RunningCatalog | None = None
        self._named = ""
        """The deployment that the newest directive names."""
        self._query_set = QuerySet()
        self._opened_at_ms: int | None = None
        self.last_totals: BatchTotals | None = None
        self.committed = -1
        self.held: Callable[[], Held] = dict
        self.show_offsets: Callable[[Mapping[tuple[str, int], int]], None] = lambda _: None
        self._heartbeat: HeartbeatWriter | None = None
        self._beats = Outage("heartbeats are not written", "heartbeats are written again")
        self.metrics = Metrics()
        self.metrics.inform("cep_build_info", **{name: str(version.get(name, "")) for name in ("version", "spark", "git")})
        self.registry = RegistryWatch(settings.schema_registry, self.metrics, self._elapsed)
        self.history = History()
        self.pages: Pages = no_pages
        probes = Probes(lambda: clock() / 1000, settings.http.liveness_timeout / 1000)
        self.health, self.pulse = probes.health, probes.pulse
        self.started, self.running, self.first_batch, self.moving = probes.started, probes.running, probes.first_batch, probes.moving
        self._quality = Quality()
        self._inflow = Inflow(settings, self._elapsed())
        self._decider = Decider(settings, self._quality)
        self._remarks = BatchRemarks(settings, self.metrics)
        self._display = Display(self.metrics, self.history, self._quality, frozenset({settings.topics.heartbeat}))
        self._status = QueryStatus(self.metrics, self._quality, self.running.check)
        self._token_file = token_file(settings.http)
        self._servers = servers(settings.http, self._endpoints(dict(version)))

    @property
    def port(self) -> int:
        """Where probes and metrics are answered, also when any free port was asked for."""
        return self._servers[0].port

    @property
    def control_port(self) -> int:
        """Where everything is answered: the same, unless the control port is one of its own."""
        return self._servers[-1].port

    def open(
        self, running: RunningCatalog, speakers: Speakers | None = None, ranges: RangesOf | None = None, follows: str | None = None
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
        memory: Mapping[str, Any] = {} if latest is None else latest.memory
        newest, over = -1 if latest is None else latest.directive.batch, log_.latest_batch(TOTALS)
        totals, times = None if over is None else log_.totals(over), log_.greatest_times_before(newest + 1)
        came = [source.source for source in log_.totals(newest).sources.values() if source.events > 0]
        with self._lock:
            first = self._log is None
            self._log = log_
            if first:
                self._named = "" if latest is None else latest.directive.deployment
            if follows is not None and follows != self._named:
                return False
            now = self._clock()
            self._inflow.read(running.topics, speakers, ranges)
            self._decider.open(running, sequences, memory, first=first)
            if first:
                self.last_totals = totals  # what waits for time to pass does so after a restart, too
                self._inflow.restore(memory.get("idle", {}), came, times, now_ms=self._elapsed(), at_ms=now)
                self._display.show_first(now, memory.get("quality", {}))
            self._display.show_catalog(running, self._catalog, self._decider.watchdog)
            self._catalog, self._opened_at_ms = running, now
            return True

    @property
    def catalog(self) -> RunningCatalog | None:
        """What runs; None before anything does."""
        with self._lock:
            return self._catalog

    def past(self) -> tuple[Directive, dict[int, int]] | None:
        """The newest directive, and by source how far time had come before its batch, ms; None when no batch ran yet."""
        latest = None if self._log is None else self._log.latest()
        if self._log is None or latest is None or not latest.directive.deployment:
            return None
        return latest.directive, self._log.greatest_times_before(latest.directive.batch)

    def deployments(self) -> set[str]:
        """Those that directives of the batch log name."""
        return set() if self._log is None else self._log.deployments()

    def announce(self, deployment: str) -> None:
        """Lets tasks get ready for a deployment that will be opened soon: directives name it from now on as the coming one."""
        with self._lock:
            self._decider.announce(deployment)

    @property
    def announced(self) -> int:
        """In how many directives the coming deployment has been named."""
        return self._decider.announced

    def tell(self, query_set: QuerySet) -> None:
        """Takes note of a reading of the query files."""
        with self._lock:
            self._query_set = query_set
            self._display.show_reading(query_set)

    def limit_batches(self, records: int) -> None:
        """Says how many records a batch takes at most; to be told before a catalog is opened."""
        self._decider.limit_batches(records)

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
            self._inflow.assign(partitions, self._elapsed())

    def start_heartbeat(self, producer: Producer) -> None:
        """Begins to write heartbeats when they are due."""
        pause_s = max(0.05, self._settings.heartbeat.interval / 4000)
        self._heartbeat = HeartbeatWriter(producer, self._settings.topics.heartbeat, self._heartbeat_is_due, pause_s, self)
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

    def await_directive(self) -> None:
        """Waits until the latest directive survives a crash; before anything comes of it that does.

        Raises:
            NotReadyError: no catalog runs yet.
        """
        self._running_log.await_directive()

    def begin_run(self) -> int:
        """Counts this run of the driver on its checkpoint; see `app.control.messages.batch_log.BatchLog.begin_run`."""
        return self._running_log.begin_run()

    def planned(self, batch: int) -> Planned | None:
        """By source, the offsets that Spark has planned for a batch; None where nobody knows."""
        return self._inflow.planned(batch)

    def untouched(self, planned: Planned, totals: BatchTotals) -> dict[tuple[str, int], tuple[int, int]]:
        """Topic partitions of streams with offsets that were planned for a batch, and of which nothing came."""
        return self._inflow.sources.untouched(planned, totals)

    def count_failed_attempt(self) -> None:
        """An attempt of a batch has failed; there will be another, or the application ends."""
        self.metrics.add("cep_batch_attempts_failed_total", 1)

    def count_breaches(self, breaches: Sequence[Breach]) -> None:
        """Accounts of a batch do not close."""
        self._remarks.count_breaches(breaches)

    def finish(self, totals: BatchTotals, owners: int = 0) -> None:
        """Takes what became of a batch; it is safe when this returns.

        Args:
            totals: of the batch.
            owners: that hold buckets, or could.

        Raises:
            NotReadyError: no catalog runs yet.
        """
        self._running_log.finish(totals)
        self.count_owners(owners)
        came = {source.source: source.greatest_time is not None for source in totals.sources.values() if source.events > 0}
        if came:
            with self._lock:
                self._inflow.came(came, self._elapsed())

    def count_owners(self, owners: int) -> None:
        """So many hold buckets, or could."""
        self.metrics.set("cep_owners", owners)

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
        greatest, before = self._log.greatest_times_before(progress.batch + 1), self._log.totals(progress.batch - 1)
        self.registry.committed(progress.batch)
        with self._lock:
            self._take_in(Done(progress, totals, directive, before), greatest)
        self._remarks.note_shedding(() if directive is None else directive.decisions)
        self._remarks.note(totals)
        self.show_offsets({place: end for place, end in progress.end.items() if self._settings.stream_of(place[0])})
        log_batch(progress, totals, directive, self.held)
        self.committed = progress.batch
        self._log.prune(progress.batch)

    @property
    def forecast(self) -> Forecast | None:
        """Why drop ratios are as they are; None before the first decision."""
        return self._decider.watchdog.forecast

    def queries(self) -> list[dict[str, Any]]:
        """What runs, query by query."""
        return self._status.queries(self._known())

    def query_set(self) -> dict[str, Any]:
        """The values behind ``/queries``: what runs, what finishes, and what the query files say that does not run."""
        return self._status.query_set(self._known())

    def close(self) -> None:
        """Ends heartbeats and the server."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        for server in self._servers:
            server.close()

    def _endpoints(self, version: Mapping[str, str]) -> Endpoints:
        return Endpoints(
            token=read_secret(self._token_file),
            health=self.health,
            metrics=self.metrics.text,
            queries=self.query_set,
            version=lambda: dict(version),
            log_levels=levels,
            set_log_level=_set_log_level,
            registry=self.registry.rule,
            pages=lambda target: self.pages(target),  # noqa: PLW0108 - it is exchanged
        )

    def _known(self) -> Known:
        with self._lock:
            watchdog = self._decider.watchdog
            return Known(self._catalog, self._opened_at_ms, self._query_set, watchdog.ratios, watchdog.forecast, self.last_totals)

    def _decide(self, batch: int, greatest_times: Mapping[int, int]) -> Frozen:
        if self._log is None or self._catalog is None:
            raise NotReadyError("no catalog runs yet")
        past = Past(self._log.logged(batch - 1), self._log.totals(batch - 1), self._log.totals(batch - 2))
        with self._lock:
            frozen = self._decider.decide(self._catalog, past, self._inflow.begin(batch, greatest_times, self._elapsed(), self._clock()))
            self.history.decide(frozen.directive.decisions)
            self._named = frozen.directive.deployment
            return frozen

    def _take_in(self, done: Done, greatest_times: Mapping[int, int]) -> None:
        """What a finished batch changes: what the next decisions go by, and what is shown."""
        now, inflow, progress, totals, directive = self._clock(), self._inflow, done.progress, done.totals, done.directive
        inflow.assign(progress.end, self._elapsed())
        inflow.remember(progress, totals, greatest_times)
        self.last_totals = totals
        for stream in self._decider.observe(done, self._catalog, Streams(inflow.sources.stream_of, self._settings.stream_of)):
            self.metrics.add("cep_selection_rearrangements_total", 1, stream=stream)
        if directive is not None and self._catalog is not None:
            places, numbers = dict(inflow.newest_broker_ms), inflow.sources.numbers
            batch = FinishedBatch(progress, totals, directive, now, places, inflow.watermarks(directive), numbers, inflow.lateness)
            self._quality.observe(now, totals, directive)
            self._display.show_batch(batch, self._catalog.catalog.current, self._decider.watchdog)
            self._remarks.count_gaps(progress, totals, inflow.sources)
        self.first_batch.good()

    def _heartbeat_is_due(self) -> bool:
        with self._lock:
            totals = self.last_totals
            return totals is not None and self.running.check() is None and self._inflow.beat_is_due(totals, self._elapsed())


def _set_log_level(logger: str, level: str) -> None:
    set_level(logger, level)
    log.info("log level changed", changed=logger or "all loggers", to=level.upper())
