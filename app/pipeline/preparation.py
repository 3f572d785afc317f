"""From settings to a deployment: schemas, queries, registered output schemas, topics that exist. All that can be wrong is said before Spark starts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from app.bucket.composition import with_all_read
from app.bucket.hold import TimeRules
from app.config.settings import Settings, Stream
from app.delivery.composite_schema import composite_schema, subject, timeout_schema, timeout_subject
from app.delivery.topics import TopicAdministrator, output_topic, plan_changes, wanted_topics
from app.errors import CepError, ConfigurationError, DependencyError, Finding
from app.events.avro import SchemaError, StreamDefinition, parse_schema, stream_records
from app.events.elements import with_named
from app.events.registry import Subjects
from app.events.topics import topic_numbers
from app.events.types import StreamSchema
from app.observe.logs import get_logger
from app.owners.deployment import Deployment, OutputTopic, StreamDeployment, attributes_of, shipped
from app.owners.model_store import ModelStore
from app.owners.models import WITHOUT_MODEL, as_it_sheds, learns, read_models
from app.owners.query_texts import files_of
from app.pipeline.draining import Past, old_versions
from app.pipeline.startable import errors_of
from app.query.compile import Compilation, elements_in, read_queries
from app.query.plan import Catalog, Plan
from app.query.resolved.vocabulary import UNKNOWN
from app.similar import did_you_mean
from app.storage.open import open_store

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"

log = get_logger(__name__)


class TopicsMissingError(CepError):
    """Topics do not exist; a missing output topic would block the sink for a minute and then end the query."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(f"topics do not exist: {', '.join(names)}\nhint: cep topics plan shows them, cep topics apply creates them")


def read_streams(settings: Settings, registry: Subjects, topics: Sequence[str] | None = None) -> tuple[StreamDeployment, ...]:
    """All streams with their readers' schemas, from files or the registry, in order of name.

    Args:
        settings: of the application.
        registry: asked for schemas.
        topics: by number (`app.pipeline.numbers`); where nothing is kept, those of the settings.

    Raises:
        ConfigurationError: schemas that are missing or make no stream; all findings at once, those of the queries' files as well.
        DependencyError: the registry cannot be asked.
    """
    number = topic_numbers(settings.source_topics if topics is None else topics)
    findings: list[Finding] = []
    streams: list[StreamDeployment] = []
    for name, stream in sorted(settings.streams.items()):
        definition = StreamDefinition(name, stream.type_attribute, stream.time, stream.rename)
        rules = TimeRules(name, stream.allowed_lateness, stream.ordered_by, frozenset(number[topic] for topic in stream.topics))
        readers, missing = _reader_schemas(name, stream, registry)
        wrong = missing or _misfits(definition, stream, readers)
        findings.extend(wrong)
        if wrong:
            continue
        with_headers = stream.wire == "guid-header"
        streams.append(StreamDeployment(definition, readers, rules, stream.idle_after, stream.max_ahead, with_headers))
    if findings:
        # without the streams' schemas the queries cannot be checked against them, but what is wrong in any case is said at once
        raise ConfigurationError([*findings, *read_queries(settings.queries.paths, UNKNOWN).errors])
    return tuple(streams)


def _reader_schemas(name: str, stream: Stream, registry: Subjects) -> tuple[tuple[str, ...], list[Finding]]:
    """The schemas' texts, and what is wrong with those that are not among them."""
    texts: list[str] = []
    findings: list[Finding] = []
    for path in stream.schemas:
        try:
            text = path.read_text(encoding="utf-8")
            parse_schema(text)
            texts.append(text)
        except OSError as error:
            findings.append(Finding(f'stream "{name}": the schema {path} cannot be read: {(error.strerror or "unknown reason").lower()}'))
        except (SchemaError, UnicodeDecodeError) as error:
            findings.append(Finding(f'stream "{name}": {path}: {error}'))
    for subject_name in () if stream.schemas else stream.subjects or tuple(f"{topic}-value" for topic in stream.topics):
        try:
            registered = registry.latest(subject_name)
        except SchemaError as error:
            findings.append(Finding(f'stream "{name}": subject "{subject_name}": {error}'))
            continue
        if registered is None:
            hint = "name schema files under schemas:, or register it"
            findings.append(Finding(f'stream "{name}": the registry has no subject "{subject_name}"', hint=hint))
        else:
            texts.append(registered.text)
    return tuple(texts), findings


def _misfits(definition: StreamDefinition, stream: Stream, readers: tuple[str, ...]) -> list[Finding]:
    """What in the stream's settings its schemas do not bear out."""
    try:
        schema = stream_records(definition, [parse_schema(text) for text in readers]).schema
    except ConfigurationError as error:
        return list(error.findings)
    except SchemaError as error:
        return [Finding(f'stream "{definition.stream}": {error}')]
    names = sorted({attribute.name for kind in schema.types for attribute in kind.attributes})
    if stream.ordered_by is not None and names and stream.ordered_by not in names:
        message = f'stream "{definition.stream}": ordered_by: no record has an attribute "{stream.ordered_by}"'
        return [Finding(message, hint=did_you_mean(stream.ordered_by, names))]
    return []


def compile_queries(settings: Settings, streams: tuple[StreamDeployment, ...]) -> Compilation:
    """The queries against the streams' schemas.

    Raises:
        ConfigurationError: with all findings of all files.
    """
    compiled = read_query_set(settings, streams)
    if wrong := errors_of(settings, compiled):
        raise ConfigurationError(wrong)
    return compiled


def read_query_set(settings: Settings, streams: tuple[StreamDeployment, ...]) -> Compilation:
    """What the query files say, right or wrong. They may speak of other elements of arrays and maps than those that the streams' events have now."""
    elements = elements_in(settings.queries.paths)
    schemas: dict[str, StreamSchema] = {one.rules.stream: with_elements(one, elements).texts.schema for one in streams}
    return read_queries(settings.queries.paths, schemas)


def with_elements(stream: StreamDeployment, elements: Iterable[str]) -> StreamDeployment:
    """The stream, its events with these elements of arrays and maps, and those that its settings give a name."""
    named = with_named(elements, stream.definition.renames)
    return replace(stream, definition=replace(stream.definition, elements=tuple(sorted(named))))


def _output(settings: Settings, registry: Subjects, plan: Plan) -> OutputTopic:
    """Where a query's composite events go, with the schema that is registered for them."""
    topic, schema = output_topic(settings, plan), json.dumps(composite_schema(plan))
    return OutputTopic(topic, _registered(settings, registry, subject(topic, plan), schema), schema)


def prepare(
    settings: Settings,
    compiled: Compilation,
    streams: tuple[StreamDeployment, ...],
    registry: Subjects,
    past: Past | None = None,
    *,
    topics: Sequence[str] | None = None,
) -> Deployment:
    """Registers the schemas of what the application writes, and puts the deployment together.

    Args:
        settings: of the application.
        compiled: its queries.
        streams: that they read.
        registry: asked for schemas.
        past: what ran last in the checkpoint; old versions of changed queries go on where their files say so.
        topics: as of `read_streams`.

    Raises:
        DependencyError: the registry cannot be asked.
        ConfigurationError: it refuses a schema, or a model does not fit its query.
    """
    labels = settings.source_topics if topics is None else tuple(topics)
    stream_of_topic = {number: place for place, stream in enumerate(streams) for number in stream.rules.topics}
    past = None if past is None else past.of_topics(frozenset(stream_of_topic))
    old = {one.plan: one for one in old_versions(compiled, past, max(stream.rules.allowed_lateness_ms for stream in streams))}
    catalog = Catalog.of((*compiled.catalog.plans, *old), compiled.catalog.version)
    models, wrong = read_models(compiled, settings.queries.models, ModelStore(open_store(settings.checkpoint.uri)))
    if wrong:
        raise ConfigurationError(wrong)
    plans = tuple(plan if plan in old else as_it_sheds(plan, models) for plan in catalog.plans)
    elements = {name for plan in plans for name in attributes_of(plan) if "[" in name}  # of old versions, too
    streams = tuple(with_elements(one, elements) for one in streams)
    deployment = Deployment(
        shipped(replace(catalog, plans=plans, sample=settings.audit.sample, audit_bytes=settings.audit.memory_bytes)),
        streams,
        labels,
        tuple(stream_of_topic.get(number) for number in range(len(labels))),
        tuple(old[plan].output if plan in old else _output(settings, registry, plan) for plan in catalog.plans),
        tuple(old[plan].timeouts if plan in old else _timeouts(settings, registry, plan) for plan in catalog.plans),
        audit_records(settings, registry, "ShedReport"),
        audit_records(settings, registry, "Verdict"),
        audit_records(settings, registry, "Estimate"),
        audit_records(settings, registry, "WatchdogDecision"),
        settings.topics.late,
        settings.topics.dead_letters,
        settings.spark.buckets,
        files_of(compiled),
        tuple(old[plan].model if plan in old else models.get(plan.name) for plan in catalog.plans),
        tuple(old[plan].texts if plan in old else None for plan in catalog.plans),
        (None,) * len(catalog.plans),
    )
    return deployment if past is None else numbered(deployment, past.deployment)


def audit_records(settings: Settings, registry: Subjects, record: str) -> OutputTopic:
    """Records of one kind on the audit topic; registers their schema.

    Raises:
        DependencyError: the registry cannot be asked.
        ConfigurationError: it refuses the schema.
    """
    topic, schema = settings.topics.audit, (SCHEMAS / f"{record}.avsc").read_text(encoding="utf-8")
    return OutputTopic(topic, _registered(settings, registry, f"{topic}-cep.{record}", schema), schema)


def numbered(deployment: Deployment, before: Deployment) -> Deployment:
    """The deployment with the generation of the one before where nothing else changed, and with the next one otherwise; queries that it did not have run since now."""
    deployment = replace(deployment, since=_since(deployment, before))
    same = replace(deployment, catalog=replace(deployment.catalog, version=before.catalog.version))
    if same.fingerprint == before.fingerprint:
        return same
    return replace(deployment, catalog=replace(deployment.catalog, version=before.catalog.version + 1))


def _since(deployment: Deployment, before: Deployment) -> tuple[int | None, ...]:
    known = dict(zip(_answers(before), before.since, strict=True))
    now_ms = int(time.time() * 1000)
    return tuple(known.get(answer, now_ms) for answer in _answers(deployment))


def _answers(deployment: Deployment) -> list[tuple[object, ...]]:
    """By query what says which composite events it tells of its input, and where they are: the query, whether it drains, how its streams and those of the queries that it reads are read, its topics."""
    streams = {
        one.rules.stream: (
            *(one.rules.allowed_lateness_ms, one.rules.ordered_by, one.max_ahead_ms),
            *(one.definition.time_attribute, one.definition.type_attribute, tuple(sorted(one.definition.renames.items()))),
            tuple(sorted(deployment.topics[number] for number in one.rules.topics)),
        )
        for one in deployment.streams
    }
    found: list[tuple[object, ...]] = []
    for plan, output, timeouts in zip(deployment.catalog.plans, deployment.outputs, deployment.timeouts, strict=True):
        read = sorted({stream for one in with_all_read([plan], deployment.catalog) for stream in one.streams} & streams.keys())
        topics = (output.topic, None if timeouts is None else timeouts.topic)
        found.append((plan.name, plan.fingerprint, plan.draining is None, topics, tuple((stream, streams[stream]) for stream in read)))
    return found


def without_models(compiled: Compilation, deployment: Deployment) -> list[tuple[str, str]]:
    """(query, shedder that it names) of those that shed at random until there is a model."""
    pairs = zip(compiled.catalog.plans, deployment.catalog.current, strict=True)
    return [(named.name, named.shedding.shedder) for named, running in pairs if learns(named) and running.shedding.shedder == WITHOUT_MODEL]


def _timeouts(settings: Settings, registry: Subjects, plan: Plan) -> OutputTopic | None:
    """Where the query's timeouts go: one topic for all queries, a subject for each."""
    if plan.on_timeout != "emit":
        return None
    topic, schema = settings.topics.timeouts, json.dumps(timeout_schema(plan))
    return OutputTopic(topic, _registered(settings, registry, timeout_subject(topic, plan), schema), schema)


def _registered(settings: Settings, registry: Subjects, name: str, schema: str) -> int:
    try:
        if settings.schema_registry.register_schemas:
            return registry.register(name, schema)
        known = registry.latest(name)
    except SchemaError as error:
        hint = "raise the query's version and give it another output topic, or relax the subject's compatibility"
        raise ConfigurationError([Finding(f'subject "{name}": {error}', hint=hint)]) from error
    if known is None:
        raise DependencyError(f'the registry has no subject "{name}", and schema_registry.register_schemas is false')
    return known.schema_id


def ensure_topics(settings: Settings, catalog: Catalog) -> None:
    """Makes sure that every topic exists; makes those of composite events where `topics.create_outputs` says so.

    Raises:
        TopicsMissingError: some do not, which others have to make.
        AccessRefusedError: we may not make them.
        DependencyError: the broker does not answer.
    """
    administrator, wanted = TopicAdministrator(settings), wanted_topics(settings, catalog)
    absent = [change for change in plan_changes(wanted, administrator.existing(topic.name for topic in wanted)) if change.create]
    if missing := tuple(change.topic.name for change in absent if not change.topic.made_when_missing):
        raise TopicsMissingError(missing)
    if absent:
        administrator.apply(absent)
        log.info("topics created", topics=[change.topic.name for change in absent])
