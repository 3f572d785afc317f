"""The schema registry (Confluent's API): writers' schemas by id, readers' schemas by subject, registration of our own.

Cheap to create and to pickle: only the settings travel to a Spark worker, the HTTP client is made with the first question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from app.config.secret_files import Mark, files_in, mark_of, reference, resolved, secret_file
from app.config.settings import SchemaRegistry
from app.errors import AccessRefusedError, DependencyError
from app.events.avro import AvroSchema, SchemaError, parse_schema, parse_writer_schema, self_contained

Answer = TypeVar("Answer")

DEFAULTS: Mapping[str, Any] = {"timeout": 5, "max.retries": 2, "retries.wait.ms": 200, "retries.max.wait.ms": 1000}
"""The client itself waits for ever and retries for up to a minute; a micro-batch must not."""
LARGEST_ID = (1 << 31) - 1
"""Registries count in signed 32 bit; random bytes do not, and a registry may answer them with a failure instead of "not found"."""


AUTHORITY = "ssl.ca.location"
"""The property that names a file of certificates."""
MOST_UNKNOWN = 300
"""Ids that are remembered to be unknown, the newest ones; and so many questions about such may be asked at once, and again in the time for which one is remembered. Further ids count as unknown, unasked. Records of another format that happen to begin
with a zero byte can hold a new id each, and a question takes some 3 ms. Questions come back one by one: decoders ask in ascending order, so true ids come before random ones, and a schema that is new is asked for in the next batch, whatever flood was before."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """How to reach the registry.

    Attributes:
        url: one, or several separated by commas.
        properties: of confluent-kafka's client, passed on: ``basic.auth.user.info``, ``ssl.ca.location``, ``bearer.auth.*``, ``timeout`` …;
            secrets as references (`app.config.secret_files`).
        unknown_for_s: how long an unknown id counts as unknown before the registry is asked again. Producers register before they
            send, so an unknown id is nearly always a stray record; asking for each would make a flood of them a flood of requests.
    """

    url: str
    properties: Mapping[str, str | int | float] = field(default_factory=dict)
    unknown_for_s: float = 10.0


def registry_settings(settings: SchemaRegistry) -> RegistrySettings:
    """The registry's settings as its client wants them; small, picklable and without secrets, tasks get them too."""
    properties: dict[str, str | int | float] = {"timeout": settings.timeout / 1000}
    if settings.username is not None:
        file = secret_file(settings.password, settings.password_file)
        properties["basic.auth.user.info"] = f"{settings.username}:{'' if file is None else reference(file)}"
    if settings.ca_file is not None:
        properties["ssl.ca.location"] = str(settings.ca_file)
    return RegistrySettings(settings.url, properties)


@dataclass(frozen=True, slots=True, eq=False)
class Registered:
    """A schema as the registry holds it."""

    schema_id: int
    version: int
    text: str
    schema: AvroSchema
    guid: str | None = None


class Subjects(Protocol):
    """The part of the registry that a driver needs."""

    def latest(self, subject: str) -> Registered | None:
        """The newest version of a subject; None if there is no such subject."""

    def register(self, subject: str, text: str) -> int:
        """Registers a schema and returns its id."""


class Registry:
    """A `SchemaSource` that asks the registry, once per schema.

    Args:
        settings: where it is.
        clock: seconds that never go back; for the time that unknown ids are remembered.
    """

    def __init__(self, settings: RegistrySettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._client: SchemaRegistryClient | None = None
        self._files = files_in(settings.properties.values()) + tuple(
            Path(str(one)) for name, one in settings.properties.items() if name == AUTHORITY
        )
        self._mark: Mark = ()
        self._known: dict[int | str, AvroSchema] = {}
        self._unknown: dict[int | str, float] = {}
        """Until when each counts as unknown; the oldest first."""
        self._questions, self._counted_s = float(MOST_UNKNOWN), clock()
        """About unknown ids that may be asked now, and when that was reckoned."""

    def __reduce__(self) -> tuple[type[Registry], tuple[RegistrySettings]]:
        return Registry, (self._settings,)

    def schema(self, key: int | str) -> AvroSchema | None:
        """The schema of an id (integer) or GUID (text); None if the registry does not know it.

        Raises:
            SchemaError: it is no Avro schema.
            DependencyError: the registry cannot be asked.
        """
        known = self._known.get(key)
        if known is not None:
            return known
        if self._unknown.get(key, 0.0) > self._clock():
            return None
        if (isinstance(key, int) and key > LARGEST_ID) or not self._may_ask():
            return None
        found = self._asked(
            lambda client: client.get_schema(key) if isinstance(key, int) else client.get_schema_by_guid(key), unknown=(400, 404, 405, 422)
        )
        if found is None:
            self._remember_unknown(key)
            return None
        parsed = self._parsed(found, parse_writer_schema)
        self._known[key] = parsed
        self._unknown.pop(key, None)
        return parsed

    def _may_ask(self) -> bool:
        now = self._clock()
        back = (now - self._counted_s) * MOST_UNKNOWN / self._settings.unknown_for_s
        self._questions, self._counted_s = min(float(MOST_UNKNOWN), self._questions + back), now
        return self._questions >= 1

    def _remember_unknown(self, key: int | str) -> None:
        self._questions -= 1
        self._unknown.pop(key, None)  # it goes behind the others
        self._unknown[key] = self._clock() + self._settings.unknown_for_s
        if len(self._unknown) > MOST_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]

    def latest(self, subject: str) -> Registered | None:
        """The newest version of a subject; None if there is no such subject.

        Raises:
            SchemaError: it is no Avro schema.
            DependencyError: the registry cannot be asked.
        """
        found = self._asked(lambda client: client.get_latest_version(subject))
        if found is None:
            return None
        parsed = self._parsed(found.schema, parse_schema)
        text = self_contained(parsed) if found.schema.references else found.schema.schema_str
        return Registered(found.schema_id, found.version, text, parsed, found.guid)

    def register(self, subject: str, text: str) -> int:
        """Registers a schema (again, if it is known: nothing happens) and returns its id.

        Raises:
            SchemaError: the registry refuses it, as a rule because it is incompatible with the version before.
            DependencyError: the registry cannot be asked.
        """
        schema = parse_schema(text)
        registered = self._asked(lambda client: client.register_schema(subject, Schema(text, "AVRO")), refusals=(409, 422))
        if registered is None:
            raise DependencyError(f"the schema registry at {self._settings.url} has no way to register schemas")
        self._known[registered] = schema
        return int(registered)

    def check(self) -> None:
        """Asks whether the registry is there.

        Raises:
            DependencyError: it is not.
        """
        self._asked(lambda client: client.get_subjects())

    def _asked(
        self, question: Callable[[SchemaRegistryClient], Answer], refusals: tuple[int, ...] = (), unknown: tuple[int, ...] = (404,)
    ) -> Answer | None:
        """The answer; None for "not found", in whatever words."""
        try:
            return question(self._present_client())
        except SchemaRegistryError as error:
            if error.http_status_code in unknown:
                return None
            if error.http_status_code in refusals:
                raise SchemaError(f"the schema registry refuses the schema: {error.error_message}") from error
            if error.http_status_code in (401, 403):
                hint = "are schema_registry.username and password right, and may this user read and register?"
                raise AccessRefusedError(f"the schema registry at {self._settings.url} refuses access: {error}\nhint: {hint}") from error
            raise DependencyError(f"the schema registry at {self._settings.url} fails: {error}") from error
        except Exception as error:
            # the HTTP library's own classes (connection refused, time-out, TLS), which depend on its version
            message = str(error) or type(error).__name__
            raise DependencyError(f"the schema registry at {self._settings.url} cannot be asked: {message}") from error

    def _present_client(self) -> SchemaRegistryClient:
        """Made when it is first needed, and when the files of its secrets are exchanged."""
        mark = mark_of(self._files)
        if self._client is None or mark != self._mark:
            settings = resolved({**DEFAULTS, **self._settings.properties, "url": self._settings.url})
            self._client, self._mark = SchemaRegistryClient.new_client(settings), mark
        return self._client

    def _parsed(self, schema: Schema, parse: Callable[[str, list[str]], AvroSchema]) -> AvroSchema:
        """A registered schema with all that it refers to."""
        kind = schema.schema_type or "AVRO"
        if kind != "AVRO":
            raise SchemaError(f"the registered schema is {kind}, not Avro")
        return parse(schema.schema_str, self._references(schema, {}))

    def _references(self, schema: Schema, gathered: dict[tuple[str, int], str]) -> list[str]:
        """Texts of the schemas referred to, those without needs of their own first."""
        for referred in schema.references or ():
            key = (referred.subject, referred.version)
            if key in gathered:
                continue
            found = self._asked(partial(_version, subject=key[0], version=key[1]))
            if found is None:
                raise SchemaError(f'version {key[1]} of "{key[0]}", to which the schema refers, is not in the registry')
            self._references(found.schema, gathered)
            gathered[key] = found.schema.schema_str
        return list(gathered.values())


def _version(client: SchemaRegistryClient, subject: str, version: int) -> Any:
    return client.get_version(subject, version, deleted=True)  # schemas that refer to it live on


class FixedSchemas:
    """A `SchemaSource` of given schemas, for tests and for files."""

    def __init__(self, schemas: Mapping[int | str, AvroSchema]) -> None:
        self._schemas = dict(schemas)

    def schema(self, key: int | str) -> AvroSchema | None:
        """The schema, or None."""
        return self._schemas.get(key)
