"""Deployment: everything that tasks must know of one version of the catalog, as plain data in the checkpoint.

A directive names the deployment of its batch by fingerprint; tasks load it once per worker. Old ones stay while the state log may still
need them: a bucket's inputs are replayed with the deployment they were fed under. No secrets in here.

The file holds the texts of the queries and of the streams' schemas, never plans: whoever loads it plans again, so that it outlives the version
that wrote it. What that means for state: `app.query.planning.fingerprint`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from app.bucket.hold import TimeRules
from app.errors import ConfigurationError, SnapshotError
from app.events.avro import SchemaError, StreamDefinition
from app.observe.logs import get_logger
from app.owners.models import StoredModel, restored
from app.owners.query_texts import QueryFile, QueryTexts, StreamTexts, plan_named, planned
from app.query.plan import Catalog, Draining, Plan
from app.storage.frames import read_frame, write_frame
from app.storage.open import open_store
from app.storage.store import MissingError, Store
from shedding.interface import Model

log = get_logger(__name__)

INGESTED = "@ingested"
"""Column with the broker's timestamp (ms), carried beside the attributes for measuring latency; no query can name it."""
KIND, FORMAT = "deployment", 1
FOLDER, MODELS, MODEL_KIND = "deployments", "models", "model"
"""Of the checkpoint: deployments by fingerprint, and the models that they name, by digest."""


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """Where a query's composite events go, and under which registered schema."""

    topic: str
    schema_id: int
    schema: str
    """Avro JSON."""

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {"topic": self.topic, "schema_id": self.schema_id, "schema": self.schema}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> OutputTopic:
        """Reads what `to_plain` gave."""
        return OutputTopic(plain["topic"], plain["schema_id"], plain["schema"])


@dataclass(frozen=True, slots=True)
class StreamDeployment:
    """One input stream: how its records are read, and how time passes in it."""

    definition: StreamDefinition
    readers: tuple[str, ...]
    """Readers' schemas, Avro JSON."""
    rules: TimeRules
    idle_after_ms: int
    max_ahead_ms: int
    """How far an event's time may be ahead of its record's Kafka timestamp."""
    with_headers: bool = False

    @property
    def texts(self) -> StreamTexts:
        """What queries were compiled against."""
        return StreamTexts(self.definition, self.readers)

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            **self.texts.to_plain(),
            "allowed_lateness_ms": self.rules.allowed_lateness_ms,
            "ordered_by": self.rules.ordered_by,
            "topics": sorted(self.rules.topics),
            "idle_after_ms": self.idle_after_ms,
            "max_ahead_ms": self.max_ahead_ms,
            "with_headers": self.with_headers,
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> StreamDeployment:
        """Reads what `to_plain` gave."""
        texts = StreamTexts.from_plain(plain)
        rules = TimeRules(texts.definition.stream, plain["allowed_lateness_ms"], plain["ordered_by"], frozenset(plain["topics"]))
        return StreamDeployment(
            texts.definition, texts.readers, rules, plain["idle_after_ms"], plain["max_ahead_ms"], plain["with_headers"]
        )


@dataclass(frozen=True, slots=True)
class Deployment:
    """A catalog with the streams it was compiled against and its outputs."""

    catalog: Catalog
    streams: tuple[StreamDeployment, ...]
    topics: tuple[str, ...]
    """By number (`app.events.topics`): those that are read, and those that ever were."""
    stream_of_topic: tuple[int | None, ...]
    """For each of `topics` its place in `streams`; None for the heartbeat, and for those that are no longer read."""
    outputs: tuple[OutputTopic, ...]
    """By query, in the order of `Catalog.plans`."""
    timeouts: tuple[OutputTopic | None, ...]
    """By query; None for those that do not write them."""
    reports: OutputTopic
    """The audit topic's shed reports."""
    verdicts: OutputTopic | None
    """The audit topic's verdicts; None in deployments from before there were any."""
    estimates: OutputTopic | None
    """The audit topic's estimates; None as well."""
    decisions: OutputTopic | None
    """The audit topic's decisions of the watchdog; None as well."""
    late_topic: str
    dead_letters_topic: str
    buckets: int
    files: tuple[QueryFile, ...]
    """Of the running queries."""
    models: tuple[StoredModel | None, ...]
    """By query; None for those whose shedders go by no model."""
    old: tuple[QueryTexts | None, ...]
    """By query; what an old version that goes on is planned from, None for the running ones."""
    since: tuple[int | None, ...]
    """By query; since when it finds what it finds and writes it where it does (`app.pipeline.preparation.numbered`), ms: when its present version was put beside others that ran already, or how its streams are read, or its topic, was changed; None: it runs since the checkpoint began, or nobody noted it."""

    @property
    def texts(self) -> QueryTexts:
        """What the running queries are planned from."""
        return QueryTexts(self.files, tuple(stream.texts for stream in self.streams))

    def texts_of(self, query: int) -> QueryTexts:
        """What this query (by its index in the catalog) is planned from, perhaps among others."""
        return self.old[query] or self.texts

    def to_json(self) -> bytes:
        """Plain data; equal deployments give equal bytes."""
        plain = {
            "files": [file.to_plain() for file in self.files],
            "streams": [stream.to_plain() for stream in self.streams],
            "topics": list(self.topics),
            "stream_of_topic": list(self.stream_of_topic),
            "catalog_version": self.catalog.version,
            "queries": [self._query(number) for number in range(len(self.catalog.plans))],
            "reports": self.reports.to_plain(),
            **({} if self.verdicts is None else {"verdicts": self.verdicts.to_plain()}),
            **({} if self.estimates is None else {"estimates": self.estimates.to_plain()}),
            **({} if self.decisions is None else {"decisions": self.decisions.to_plain()}),
            "late_topic": self.late_topic,
            "dead_letters_topic": self.dead_letters_topic,
            "buckets": self.buckets,
            **({"sample": self.catalog.sample} if self.catalog.sample else {}),
            "audit_bytes": self.catalog.audit_bytes,
        }
        return json.dumps(plain, indent=1, sort_keys=True).encode()

    def _query(self, number: int) -> dict[str, Any]:
        plan, timeouts, model, old = self.catalog.plans[number], self.timeouts[number], self.models[number], self.old[number]
        since = self.since[number]
        return {
            "name": plan.name,
            "fingerprint": plan.fingerprint,
            "shedder": plan.shedding.shedder,
            "old": None if old is None or plan.draining is None else {**_draining(plan.draining), **old.to_plain()},
            "output": self.outputs[number].to_plain(),
            "timeouts": None if timeouts is None else timeouts.to_plain(),
            "model": None if model is None else {"file": model.file, "digest": model.digest},
            **({} if since is None else {"since_ms": since}),
        }

    @property
    def fingerprint(self) -> str:
        """Changes when anything in here does."""
        return _fingerprint(self.to_json())

    def learned(self, query: int) -> Model[Any]:
        """The model of a query (its index in the catalog) whose shedder goes by one.

        Raises:
            AssertionError: it has none; then it would not have that shedder (`app.owners.models.as_it_sheds`).
        """
        stored = self.models[query]
        if stored is None:
            raise AssertionError(f"the deployment {self.fingerprint} has no model of {self.catalog.plans[query].name}")
        return restored(stored)


def _draining(known: Draining) -> dict[str, Any]:
    return {"until_ms": known.until_ms, **({"last": known.last} if known.last else {})}


def _fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class _Query:
    """A query of a deployment, planned again."""

    plan: Plan
    output: OutputTopic
    timeouts: OutputTopic | None
    model: StoredModel | None
    old: QueryTexts | None
    since: int | None


ModelOf = Callable[[str], bytes]
"""The content of a model's file, by its digest."""


def deployment_from_json(data: bytes, number: int, model_of: ModelOf) -> Deployment:
    """Plans the queries of a deployment again.

    Args:
        data: what `Deployment.to_json` gave, of this version or an older one.
        number: its format, one of `READERS`.
        model_of: reads models.

    Raises:
        SnapshotError: no deployment, or one whose queries this version cannot plan.
    """
    try:
        return READERS[number](json.loads(data), model_of)
    except (SchemaError, ConfigurationError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise SnapshotError(f"this is no deployment: {error!r}") from error


def _from_plain(plain: Mapping[str, Any], model_of: ModelOf) -> Deployment:
    streams = tuple(map(StreamDeployment.from_plain, plain["streams"]))
    files = tuple(map(QueryFile.from_plain, plain["files"]))
    running = QueryTexts(files, tuple(stream.texts for stream in streams))
    queries = {id(query.plan): query for query in _planned(plain["queries"], running, model_of)}
    catalog = Catalog.of(tuple(query.plan for query in queries.values()), plain["catalog_version"])
    catalog = replace(catalog, sample=plain.get("sample", 0.0), audit_bytes=plain.get("audit_bytes", catalog.audit_bytes))
    ordered = [queries[id(plan)] for plan in catalog.plans]
    return Deployment(
        catalog=shipped(catalog),
        streams=streams,
        topics=tuple(plain["topics"]),
        stream_of_topic=tuple(plain["stream_of_topic"]),
        outputs=tuple(query.output for query in ordered),
        timeouts=tuple(query.timeouts for query in ordered),
        reports=OutputTopic.from_plain(plain["reports"]),
        verdicts=OutputTopic.from_plain(plain["verdicts"]) if "verdicts" in plain else None,
        estimates=OutputTopic.from_plain(plain["estimates"]) if "estimates" in plain else None,
        decisions=OutputTopic.from_plain(plain["decisions"]) if "decisions" in plain else None,
        late_topic=plain["late_topic"],
        dead_letters_topic=plain["dead_letters_topic"],
        buckets=plain["buckets"],
        files=files,
        models=tuple(query.model for query in ordered),
        old=tuple(query.old for query in ordered),
        since=tuple(query.since for query in ordered),
    )


READERS: Mapping[int, Callable[[Mapping[str, Any], ModelOf], Deployment]] = {1: _from_plain}
"""By format; those of old formats stay."""


def _planned(described: Sequence[Mapping[str, Any]], running: QueryTexts, model_of: ModelOf) -> Iterator[_Query]:
    compiled = planned(running)
    for one in described:
        old = None if one["old"] is None else QueryTexts.from_plain(one["old"])
        plan = plan_named(compiled if old is None else planned(old), one["name"])
        if plan.fingerprint != one["fingerprint"]:
            log.warning("this version plans a query differently: its state begins anew", query=plan.name)
        # the shedder at work may be another one than the text names: see `app.owners.models.as_it_sheds`
        plan = replace(plan, shedding=replace(plan.shedding, shedder=one["shedder"]))
        if old is not None:
            plan = replace(plan, draining=Draining(one["old"]["until_ms"], one["old"].get("last", 0)))
        model = one["model"]
        yield _Query(
            plan,
            OutputTopic.from_plain(one["output"]),
            None if one["timeouts"] is None else OutputTopic.from_plain(one["timeouts"]),
            None if model is None else StoredModel(model["file"], model["digest"], model_of(model["digest"])),
            old,
            one.get("since_ms"),
        )


def shipped(catalog: Catalog) -> Catalog:
    """The catalog as tasks run it: with the broker's timestamp among the columns of every group."""
    return replace(catalog, groups=tuple(replace(group, columns=(*group.columns, INGESTED)) for group in catalog.groups))


def attributes_of(plan: Plan) -> frozenset[str]:
    """All that a query reads of events: columns, and what selection alone tests."""
    tests = (test for item in plan.items for several in (item.tests, *item.either) for test in several)
    return frozenset({*plan.columns, *(test.attribute for test in tests)})


def store_deployment(checkpoint: str, deployment: Deployment) -> str:
    """Writes the deployment and its models into the checkpoint (idempotent) and returns its fingerprint.

    Raises:
        StorageError: the checkpoint cannot be written.
    """
    store = open_store(checkpoint)
    for model in deployment.models:
        if model is not None and not _is_whole(store, f"{MODELS}/{model.digest}", MODEL_KIND, {1}):
            write_frame(store, f"{MODELS}/{model.digest}", MODEL_KIND, 1, [model.content])
    data = deployment.to_json()
    fingerprint = _fingerprint(data)
    if not _is_whole(store, f"{FOLDER}/{fingerprint}", KIND, {FORMAT}):
        write_frame(store, f"{FOLDER}/{fingerprint}", KIND, FORMAT, [data])
    return fingerprint


def _is_whole(store: Store, name: str, kind: str, formats: Collection[int]) -> bool:
    """Whether a file is stored as it would be written: directives and snapshots name it, and an upload that fails must not cost it."""
    try:
        _read(store, name, kind, formats)
    except (MissingError, SnapshotError):
        return False
    return True


@lru_cache(maxsize=8)
def load_deployment(checkpoint: str, fingerprint: str) -> Deployment:
    """The deployment of this fingerprint; cached per worker, since every task asks.

    Raises:
        StorageError: it, or a model of it, cannot be read.
        SnapshotError: it, or a model of it, is damaged, foreign, or of a newer version, or this version cannot plan its queries.
    """
    store = open_store(checkpoint)
    number, data = _read(store, f"{FOLDER}/{fingerprint}", KIND, READERS)
    if _fingerprint(data) != fingerprint:
        raise SnapshotError(f"{FOLDER}/{fingerprint} in {store.uri} is another deployment than its name says")

    def model_of(digest: str) -> bytes:
        _, content = _read(store, f"{MODELS}/{digest}", MODEL_KIND, {1})
        if hashlib.sha256(content).hexdigest() != digest:
            raise SnapshotError(f"{MODELS}/{digest} in {store.uri} is another model than its name says")
        return content

    try:
        return deployment_from_json(data, number, model_of)
    except SnapshotError as error:
        raise SnapshotError(f"{FOLDER}/{fingerprint} in {store.uri}: {error}") from error


def prune_deployments(store: Store, kept: Collection[str]) -> None:
    """Removes deployments, and models that only they name.

    Args:
        store: of the checkpoint.
        kept: fingerprints that a directive, log entry or snapshot names.

    Raises:
        StorageError: the checkpoint cannot be read or written.
    """
    names = {file.name for file in store.names(FOLDER)}
    going = {name for name in names if name.removeprefix(f"{FOLDER}/") not in kept}
    store.delete(sorted(going))
    try:
        models = {f"{MODELS}/{digest}" for name in names - going for digest in _models_in(_read(store, name, KIND, READERS)[1])}
    except (SnapshotError, ValueError, KeyError, TypeError):
        return  # a damaged one, or one of a newer version: nobody knows which models it names
    own = {
        file.name for file in store.names(MODELS) if file.name.count("/") == 1
    }  # deeper ones are what was learned: `app.owners.model_store`
    store.delete(sorted(own - models))


def _models_in(data: bytes) -> list[str]:
    return [query["model"]["digest"] for query in json.loads(data)["queries"] if query["model"] is not None]


def _read(store: Store, name: str, kind: str, formats: Collection[int]) -> tuple[int, bytes]:
    """Format and content of a file of one part."""
    frame = read_frame(store, name, kind, formats)
    (content,) = frame.parts
    return frame.format, bytes(content)
