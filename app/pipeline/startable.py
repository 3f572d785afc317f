"""Whether the application can run queries that are right each by itself: beside the others, with these settings and shedders."""

from __future__ import annotations

from collections.abc import Sequence

from app.bucket.composition import stream_of
from app.bucket.hold import TimeRules
from app.bucket.trusted import UNBOUNDED_MS, slack_ms, trusted, trusted_slack_ms
from app.config.settings import Settings
from app.delivery.composite_schema import subject, timeout_subject
from app.delivery.topics import output_topic
from app.errors import Finding, Severity
from app.features.runnable import not_run
from app.query.compile import Compilation
from app.query.plan import QUERY_STREAM, Catalog
from app.query.reach import emission_delay_ms
from app.query.text.keys import AUTO
from shedding.registry import METHODS


def errors_of(settings: Settings, compiled: Compilation) -> Sequence[Finding]:
    """Why the application cannot run these queries."""
    if compiled.errors:
        return compiled.errors
    if not compiled.catalog.plans:
        paths = ", ".join(map(str, settings.queries.paths))
        return [Finding(f"no enabled query in {paths}", hint="set queries.paths, or enable one")]
    return [*clashes(settings, compiled), *refused(compiled)]


def refused(compiled: Compilation) -> list[Finding]:
    """Queries that no settings make run."""
    return [*_endless(compiled), *_not_run(compiled), *_undrained(compiled)]


def clashes(settings: Settings, compiled: Compilation) -> list[Finding]:
    """Queries whose records would lie among others, or be versions of one subject."""
    return [*_among_others(settings, compiled.catalog), *_shared_subjects(settings, compiled)]


def idle(compiled: Compilation) -> list[Finding]:
    """Warnings: queries that read one that is not enabled, and so find nothing."""
    disabled = {stream_of(query.name) for query in compiled.queries if not query.enabled}
    return [
        Finding(
            f'query "{query.name}" finds nothing: it reads "{stream.removeprefix(QUERY_STREAM)}", which is not enabled',
            query.document.location("from"),
            "enable both, or none",
            Severity.WARNING,
        )
        for query in compiled.queries
        if query.enabled and query.plan is not None
        for stream in query.plan.streams
        if stream in disabled
    ]


def unforgetting(settings: Settings, compiled: Compilation) -> list[Finding]:
    """Warnings: queries by which nothing is forgotten of keys that come and go, where a stream's producers write each key in order."""
    catalog, findings = compiled.catalog, []
    for group in catalog.groups:
        stream = settings.streams.get(group.streams[0])
        rules = TimeRules(group.streams[0], ordered_by=None if stream is None else stream.ordered_by)
        if not trusted(catalog, group, rules) or trusted_slack_ms(catalog, group) < UNBOUNDED_MS:
            continue
        for plan in (catalog.plans[number] for number in group.queries):
            query = compiled.query(plan.name)
            if query is None or slack_ms(plan) < UNBOUNDED_MS:
                continue
            message = f'query "{plan.name}" has no within in time: of {rules.stream}, which is ordered_by {rules.ordered_by}, every key there ever was is remembered, for the queries beside it too'
            place = query.document.location("within" if plan.within is not None else "name")
            hint = "write within: 1 hour, say; with max_gap, N - 1 gaps leave a pattern of N events all matches of keys that keep up"
            findings.append(Finding(message, place, hint, Severity.WARNING))
    return findings


def _not_run(compiled: Compilation) -> list[Finding]:
    """Queries whose shedder cannot be run on them."""
    findings = []
    for query in compiled.queries:
        if query.plan is None or not query.enabled:
            continue
        shedder = query.plan.shedding.shedder
        if shedder != AUTO and (message := not_run(query.plan, shedder)) is not None:
            findings.append(Finding(f'query "{query.name}": {message}', query.document.location("shedding"), _instead(shedder)))
    return findings


def _instead(shedder: str) -> str:
    """What to write where a shedder cannot be run."""
    method = METHODS[shedder]
    if method.keyed:
        return "add [attribute] to where, or write for instance random or gspice"
    if method.remembers:
        return "write for instance gspice or random"
    if method.level == "partial matches":
        return "write for instance gspice or espice"
    return "write for instance gspice or bl" if method.level == "events per window" else "write for instance pspice"


def _undrained(compiled: Compilation) -> list[Finding]:
    """Queries that are read by others: their old version could not go on beside the new one."""
    read = {stream for plan in compiled.catalog.plans for stream in plan.streams}
    return [
        Finding(f'query "{query.name}" is read by another query and so cannot drain', query.document.location("on_change"), "write restart")
        for query in compiled.queries
        if query.plan is not None and query.document.plain("on_change") == "drain" and stream_of(query.plan.name) in read
    ]


def _endless(compiled: Compilation) -> list[Finding]:
    """Queries that are read by others, but whose composite events would never be known to be complete while the input goes on."""
    read = {stream for plan in compiled.catalog.plans for stream in plan.streams}
    plans = [plan for plan in compiled.catalog.plans if stream_of(plan.name) in read and emission_delay_ms(plan) is None]
    hint = "give it a within (or a window) in time, or no after: and no emit: longest"
    return [
        Finding(
            f'query "{plan.name}" is read by another query, but its matches may wait for each other without a bound in time',
            None if (query := compiled.query(plan.name)) is None else query.document.location("after" if plan.runs else "name"),
            hint,
        )
        for plan in plans
    ]


def _among_others(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Queries that would write among other records, perhaps their own input."""
    taken = _taken_topics(settings)
    targets = [(plan.name, output_topic(settings, plan)) for plan in catalog.plans]
    return [
        Finding(f'query "{name}": its composite events would go to {topic}, {taken[topic]}', hint="name another output.topic")
        for name, topic in targets
        if topic in taken
    ]


def _shared_subjects(settings: Settings, compiled: Compilation) -> list[Finding]:
    """Queries whose schemas would be versions of one subject: hyphens have no place in a record's name, ``door-1`` and ``door1`` are one there."""
    first: dict[str, str] = {}
    findings = []
    for plan in compiled.catalog.plans:
        written = {subject(output_topic(settings, plan), plan): ("composite events", "name another output.topic, or rename one of them")}
        if plan.on_timeout == "emit":
            written[timeout_subject(settings.topics.timeouts, plan)] = ("timeouts", "rename one of them")
        query = compiled.query(plan.name)
        place = None if query is None else query.document.location("name")
        for name, (what, hint) in written.items():
            other = first.setdefault(name, plan.name)
            if other != plan.name:
                findings.append(Finding(f'queries "{other}" and "{plan.name}": the {what} of both have the subject {name}', place, hint))
    return findings


def _taken_topics(settings: Settings) -> dict[str, str]:
    """Topics that hold no composite events, and what they hold."""
    topics = settings.topics
    own = {
        topics.late: "late events",
        topics.dead_letters: "dead letters",
        topics.audit: "reports",
        topics.timeouts: "timeouts",
        topics.heartbeat: "heartbeats",
    }
    read = {topic: f"events of the stream {name}" for name, stream in settings.streams.items() for topic in stream.topics}
    return {topic: f"which holds {what}" for topic, what in {**own, **read}.items()}
