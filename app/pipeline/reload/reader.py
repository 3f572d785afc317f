"""One reading of the query files: from what they say to a deployment that is ready to be opened, or to why there is none. Reads and registers, opens nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.bucket.rescale import moved_groups
from app.config.settings import Settings, load_settings
from app.control.shown.query_set import Outcome
from app.errors import CepError, ConfigurationError, DependencyError, Finding, Severity
from app.events.registry import Subjects
from app.observe.logs import get_logger
from app.owners.deployment import Deployment
from app.owners.query_texts import planned
from app.pipeline.answers import RememberedRegistry
from app.pipeline.draining import Past
from app.pipeline.moving import readers_of
from app.pipeline.preparation import TopicsMissingError, ensure_topics, numbered, prepare, read_query_set, without_models
from app.pipeline.startable import errors_of
from app.query.compile import Compilation
from app.query.plan import Catalog

UNKNOWN_STREAM = "unknown stream"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of it.

    Attributes:
        outcome: ``reloaded`` where there is a deployment to be opened.
        deployment: the new one.
    """

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    disabled: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    deployment: Deployment | None = None


@dataclass(slots=True)
class Reader:
    """Reads the files against what the application was started with.

    Attributes:
        settings: of the application.
        registry: asked for output schemas.
        file: the settings file; None where there is none.
    """

    settings: Settings
    registry: Subjects
    file: Path | None = None
    _good: Compilation | None = None

    def again(self, running: Deployment, past: Past | None) -> Deployment | None:
        """What the files said when they were last right, prepared again: old versions may be over by now, and other models chosen. None: nothing changed, or it cannot be had.

        Raises:
            DependencyError: the registry or the checkpoint does not answer.
        """
        good = self._good or planned(running.texts)
        try:
            deployment = numbered(prepare(self.settings, good, running.streams, self.registry, past, topics=running.topics), running)
        except ConfigurationError:
            return None
        stays = not moved_groups(running.catalog, deployment.catalog)  # else the next start will see to it
        return deployment if stays and deployment.fingerprint != running.fingerprint else None

    def keep_answers(self) -> None:
        """What the registry said of a deployment that runs now is there for a start without it."""
        if isinstance(self.registry, RememberedRegistry):
            try:
                self.registry.save()
            except CepError as error:
                log.warning("answers of the schema registry are not in the checkpoint", reason=str(error))

    def read(self, running: Deployment, past: Past | None) -> Reading:
        """Reads everything, and prepares what it says.

        Args:
            running: what directives name now.
            past: what ran last, for old versions that go on.
        """
        restart = self._changed_settings()
        compiled = read_query_set(self.settings, running.streams)
        disabled = tuple(sorted(query.name for query in compiled.queries if not query.enabled))
        if wrong := errors_of(self.settings, compiled):
            new = [one for one in wrong if one.message.startswith(UNKNOWN_STREAM)]
            outcome: Outcome = "needs_restart" if restart and len(new) == len(wrong) else "broken"
            return Reading(outcome, (*restart, *map(_with_restart, wrong)), disabled, _broken(compiled, wrong))
        try:
            ensure_topics(self.settings, compiled.catalog)
            prepared = prepare(self.settings, compiled, running.streams, self.registry, past, topics=running.topics)
        except TopicsMissingError as error:
            return Reading("needs_topics", (*restart, *_missing(error)), disabled)
        except ConfigurationError as error:
            return Reading("broken", (*restart, *error.findings), disabled, _broken(compiled, error.findings))
        except DependencyError as error:
            return Reading("failed", (*restart, Finding(str(error), hint="it is tried again")), disabled)
        if elsewhere := _elsewhere(running.catalog, prepared.catalog):
            return Reading("needs_restart", (*restart, *elsewhere), disabled)
        self._good = compiled
        deployment = numbered(prepared, running)
        findings = (*restart, *compiled.warnings, *_untrained(compiled, deployment, learning=self.settings.learning.enabled))
        if deployment.fingerprint == running.fingerprint:
            return Reading("needs_restart" if restart else "unchanged", findings, disabled)
        return Reading("reloaded", findings, disabled, deployment=deployment)

    def as_started(self, running: Deployment) -> Reading:
        """What the files say beside what runs: which queries are disabled, and which are broken. Nothing is prepared."""
        compiled, names = read_query_set(self.settings, running.streams), {plan.name for plan in running.catalog.current}
        disabled = tuple(sorted(query.name for query in compiled.queries if not query.enabled and query.name not in names))
        return Reading("unchanged", compiled.findings, disabled, _broken(compiled, compiled.errors))

    def _changed_settings(self) -> tuple[Finding, ...]:
        """Settings that are not those that the application runs with."""
        if self.file is None:
            return ()
        try:
            now = load_settings(self.file, os.environ)
        except ConfigurationError as error:
            return error.findings
        before, after = (one.comparable() for one in (self.settings, now))
        if now.spark.keep_buckets:
            after["spark"]["buckets"] = before["spark"]["buckets"]  # the checkpoint's, after the next start as well
        names = sorted(name for name in after if after[name] != before[name])
        if not names:
            return ()
        return (
            Finding(
                f"{self.file}: {', '.join(names)} changed, which needs a restart", hint="restart the driver; queries alone do not need it"
            ),
        )


def _with_restart(finding: Finding) -> Finding:
    if not finding.message.startswith(UNKNOWN_STREAM):
        return finding
    hint = "a stream that is new in the settings is known after a restart"
    return replace(finding, hint=hint if finding.hint is None else f"{finding.hint}; {hint}")


def _untrained(compiled: Compilation, deployment: Deployment, *, learning: bool) -> tuple[Finding, ...]:
    """Queries that shed at random until there is a model."""
    hint = "one is being learned, unless chance was chosen: cep models ls" if learning else "write one with cep train, or cep models learn"
    return tuple(
        Finding(f'query "{query}" has no model for {shedder}: it sheds at random', hint=hint, severity=Severity.WARNING)
        for query, shedder in without_models(compiled, deployment)
    )


def _elsewhere(before: Catalog, after: Catalog) -> tuple[Finding, ...]:
    """Queries that others begin to read, or cease to: their state lives elsewhere then, and is moved while nothing runs."""
    found = []
    for name in moved_groups(before, after):
        readers = readers_of(after, name)
        what = "begins to be read by" if readers else "is no longer read by"
        found.append(
            Finding(
                f'query "{name}" {what} {", ".join(readers or readers_of(before, name))}: its state moves at the next start',
                hint="restart the driver when it suits; until then the queries that run go on",
            )
        )
    return tuple(found)


def _missing(error: TopicsMissingError) -> tuple[Finding, ...]:
    hint = "cep topics apply creates it; the queries run as soon as it is there (with topics.create_outputs the application creates such topics)"
    return tuple(Finding(f"topic {name} does not exist", hint=hint) for name in error.names)


def _broken(compiled: Compilation, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Queries without a plan, or with an error at a place inside them."""
    places = {(place.path, place.line) for finding in findings if (place := finding.location) is not None}
    named = {query.name for query in compiled.queries if query.plan is None}
    for query in compiled.queries:
        node = query.document.node
        first, last = node.location().line, node.file.location(max(node.start, node.end - 1)).line
        if any(path == node.file.path and first <= line <= last for path, line in places):
            named.add(query.name)
    return tuple(sorted(name for name in named if name))
