"""The thread that watches the query files and opens what they say, at a batch border, when it is ready.

All that is dear (compiling, registering, making kernels, telling tasks to get ready) happens here, before the control plane opens the new deployment:
the batch in which it begins finds everything there. A deployment is opened only after the one that it was prepared from: when another directive came
in between, it is prepared again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.bucket.engines import load_engines
from app.config.settings import Settings
from app.control.plane import ControlPlane, clock_ms
from app.control.shown.query_set import GOOD, QuerySet
from app.errors import CepError, DependencyError, Severity
from app.events.registry import Subjects
from app.observe.logs import get_logger, log_failure
from app.owners.deployment import Deployment, load_deployment, store_deployment
from app.owners.model_store import Choice, ModelStore
from app.owners.retiring import prune_retired
from app.pipeline.application import running_catalog
from app.pipeline.draining import Past
from app.pipeline.learning.told import tell_model_changes
from app.pipeline.numbers import load_numbers
from app.pipeline.preparation import read_query_set
from app.pipeline.reload.changes import changes
from app.pipeline.reload.files import Settling, look
from app.pipeline.reload.reader import Reader, Reading
from app.storage.open import open_store

RETRY_S = 5.0
"""Distance of two attempts while a dependency does not answer, or a topic is missing."""
DRAINS_S = 15.0
"""How often old versions are looked at that only finish what they began."""
CHOICES_S = 2.0
"""How often the checkpoint is asked which models are in use."""
ANNOUNCED_BATCHES = 2
"""When the second batch that was told of a deployment begins, tasks of the first have had a whole batch to get ready."""
ANNOUNCED_S = 1.5
"""Silent topics make no batches; a change is to be live in 5 s."""
PRUNE_S = 3600.0
"""How often deployments are looked for that nothing needs any more."""
MODELS_S = 7 * 24 * 3600.0
"""So long the models of a query stay that is gone: it may come back."""
JOIN_S = 10.0
WAITING = frozenset({"failed", "needs_topics", "needs_restart"})
"""Outcomes that hold for a while, and are told once."""
TRIED_AGAIN = WAITING - {"needs_restart"}
"""Those that become another without a change of the files: a registry answers again, topics are made."""

log = get_logger(__name__)


@dataclass(slots=True)
class Watcher:
    """Watches and opens; `turn` is one look.

    Attributes:
        settings: of the application.
        plane: opens deployments, and is told of every reading.
        reader: of the files.
        running: what the plane opened last.
    """

    settings: Settings
    plane: ControlPlane
    reader: Reader
    running: Deployment
    stopped: threading.Event = field(default_factory=threading.Event)
    _settling: Settling = field(default_factory=Settling)
    _told: Reading | None = None
    _retry_at: float | None = None
    _drains_at: float = 0.0
    _store: ModelStore = field(init=False)
    _choices: dict[str, Choice] | None = None
    _taken: dict[str, Choice] | None = None
    """Those with which what the files say, or said when they were last right, was prepared."""
    _choices_at: float = 0.0
    _prune_at: float | None = None

    def __post_init__(self) -> None:
        self._store = ModelStore(open_store(self.settings.checkpoint.uri))

    def turn(self, now_s: float) -> None:
        """Looks once, and does what there is to be done.

        Args:
            now_s: a clock that only goes on.
        """
        queries = self.settings.queries
        seen = look(queries.paths, queries.models, () if self.reader.file is None else (self.reader.file,))
        retry = (self._retry_at is not None and now_s >= self._retry_at) or self._chosen_anew(now_s)
        drains = now_s >= self._drains_at and any(plan.draining is not None for plan in self.running.catalog.plans)
        if drains or not self._drains_at:
            self._drains_at = now_s + DRAINS_S
        if self._settling.is_due(seen) or retry:
            self._read(now_s)
        elif drains and self._retry_at is None:
            self._let_go()
        if self._prune_at is None or now_s >= self._prune_at:
            if self._prune_at is not None:
                self._prune()
            self._prune_at = now_s + PRUNE_S

    def _chosen_anew(self, now_s: float) -> bool:
        """Whether the application has learned a model, or somebody has chosen one, with which nothing was prepared yet."""
        if now_s < self._choices_at:
            return False
        self._choices_at = now_s + CHOICES_S
        self._choices = self._store.choices()
        if self._taken is None:
            self._taken = self._choices
        return self._taken != self._choices

    def _read(self, now_s: float) -> None:
        named, past = self._past()
        reading = self.reader.read(self.running, past)
        if reading.deployment is not None and not self._open(reading.deployment, named, frozenset(reading.disabled)):
            self._retry_at = now_s  # another deployment has run since: at once again, from that one
            return
        if reading.outcome in GOOD or (self._taken != self._choices and self._let_go()):  # a choice waits for no file to be mended
            self._taken = self._choices
        self._retry_at = now_s + RETRY_S if reading.outcome in TRIED_AGAIN else None
        self._tell(reading)

    def _let_go(self) -> bool:
        """Old versions that have finished leave, of others it becomes known when they will have, and models become those that are chosen now; False where it is to be tried again."""
        named, past = self._past()
        try:
            deployment = self.reader.again(self.running, past)
        except DependencyError:
            return False
        return deployment is None or self._open(deployment, named)

    def _prune(self) -> None:
        """Drafts of killed processes and deployments of long ago leave the checkpoint; that they stay for longer is no harm."""
        try:
            store, known = open_store(self.settings.checkpoint.uri), self.plane.past()
            store.sweep()
            if known is None:
                return
            home = load_numbers(self.settings.checkpoint.uri).home
            named = {*self.plane.deployments(), self.running.fingerprint, home.deployment}
            gone = prune_retired(store, home.folder, named, known[0].batch)
        except CepError as error:
            log.warning("old deployments stay in the checkpoint", reason=str(error))
        else:
            log.debug("old deployments left the checkpoint", deployments=len(gone))
            self._retire_models(named)

    def _retire_models(self, deployments: Iterable[str]) -> None:
        """Models of queries that are in no file and no deployment any more leave the checkpoint."""
        try:
            known: set[str] = set()
            for fingerprint in filter(None, deployments):  # the home of a checkpoint that was never moved has none
                known |= {plan.name for plan in load_deployment(self.settings.checkpoint.uri, fingerprint).catalog.plans}
            if all(one.query in known for one in self._store.versions()):
                return
            compiled = read_query_set(self.settings, self.running.streams)  # disabled ones as well
            if compiled.errors:  # what a broken file holds nobody knows
                return
            gone = self._store.retire(known | {query.name for query in compiled.queries}, clock_ms() - int(1000 * MODELS_S))
        except CepError as error:
            log.warning("models of queries that are gone stay in the checkpoint", reason=str(error))
            return
        if gone:
            log.info("models of queries that are gone left the checkpoint", queries=gone)

    def _past(self) -> tuple[str, Past | None]:
        known = self.plane.past()
        if known is None:
            return "", None
        directive, times = known
        named = directive.deployment
        deployment = self.running if named == self.running.fingerprint else load_deployment(self.settings.checkpoint.uri, named)
        return named, Past.before(directive, deployment, times)

    def _open(self, deployment: Deployment, named: str, disabled: frozenset[str] = frozenset()) -> bool:
        """Opens the deployment when everybody had time to get ready; says whether it did."""
        load_engines(deployment.catalog.plans)
        fingerprint = store_deployment(self.settings.checkpoint.uri, deployment)
        self.plane.announce(fingerprint)
        deadline = time.monotonic() + ANNOUNCED_S
        while self.plane.announced < ANNOUNCED_BATCHES and time.monotonic() < deadline and not self.stopped.wait(0.02):
            pass
        if self.stopped.is_set() or not self.plane.open(running_catalog(deployment, fingerprint), follows=named):
            return False
        self.reader.keep_answers()
        trained = frozenset(name for name, digest in _models(deployment).items() ^ _models(self.running).items())
        told = changes(self.running.catalog, deployment.catalog, disabled, trained).told()
        before, self.running = self.running, deployment
        log.info("queries reloaded", generation=deployment.catalog.version, deployment=fingerprint, **told)
        if trained:
            self._tell_models(before, deployment)
        return True

    def _tell_models(self, before: Deployment, after: Deployment) -> None:
        try:
            tell_model_changes(self.settings, before, after, clock_ms())
        except CepError as error:
            log.warning("changed models are not on the audit topic", reason=str(error))

    def _tell(self, reading: Reading) -> None:
        if reading == self._told and reading.outcome in WAITING:
            return  # what is tried until it succeeds is told once
        known = () if self._told is None else self._told.findings
        self._told = reading
        self.plane.tell(QuerySet(reading.outcome, clock_ms(), reading.findings, reading.disabled, reading.broken))
        for finding in () if reading.outcome == "unchanged" else reading.findings:
            if finding not in known:
                say = log.warning if finding.severity is Severity.WARNING else log.error
                say("query files", outcome=reading.outcome, finding=finding.render())
        if reading.deployment is None and reading.outcome != "unchanged":
            names = [plan.name for plan in self.running.catalog.current]
            log.error(
                "queries not reloaded: those that run go on",
                outcome=reading.outcome,
                running=names,
                generation=self.running.catalog.version,
            )

    def run(self) -> None:
        """Looks until it is stopped. Nothing that happens here ends the application."""
        pause_s = self.settings.queries.reload.interval / 2000
        while not self.stopped.wait(pause_s):
            if self.plane.first_batch.check() is not None:
                continue  # the start has enough to do
            try:
                self.turn(time.monotonic())
            except Exception as error:  # noqa: BLE001 - whatever it is, the queries that run go on
                log_failure(log, "query files could not be looked at; they are read again", error)
                self._settling.again()
                self.stopped.wait(RETRY_S)

    def tell_what_runs(self) -> None:
        """Tells of the files as they are when the first batch is over, and changes nothing."""
        while self.plane.first_batch.check() is not None:
            if self.stopped.wait(self.settings.queries.reload.interval / 2000):
                return
        try:
            reading = self.reader.as_started(self.running)
            self.plane.tell(QuerySet("reloaded", clock_ms(), reading.findings, reading.disabled, reading.broken))
        except Exception as error:  # noqa: BLE001 - whatever it is, the queries that run go on
            log_failure(log, "query files could not be looked at", error)


def _models(deployment: Deployment) -> dict[str, str]:
    """By query, what its model is."""
    pairs = zip(deployment.catalog.plans, deployment.models, strict=True)
    return {plan.name: model.digest for plan, model in pairs if model is not None and plan.draining is None}


@contextmanager
def watching(
    settings: Settings, plane: ControlPlane, deployment: Deployment, registry: Subjects, file: Path | None = None
) -> Iterator[None]:
    """Watches the query files while the block runs, if the settings want it; else they are read once, for `/queries` to say which are disabled or broken.

    Args:
        settings: of the application.
        plane: on which the deployment is open.
        deployment: that runs.
        registry: asked for output schemas.
        file: the settings file, watched for changes that need a restart.
    """
    watcher = Watcher(settings, plane, Reader(settings, registry, file), deployment)
    wanted = watcher.run if settings.queries.reload.enabled else watcher.tell_what_runs
    thread = threading.Thread(target=wanted, name="query-files", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watcher.stopped.set()
        thread.join(timeout=JOIN_S)
