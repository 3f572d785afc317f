"""How a stream of the settings is written: its schemas, registered, and its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.config.settings import Stream
from app.errors import ConfigurationError, Finding
from app.events.registry import Registry
from app.local.generators.avro_records import confluent_header
from app.local.sending import Outlet
from app.similar import did_you_mean

KEYS: Mapping[str, str] = {
    "retail": "tag_id",
    "stocks": "symbol",
    "transit": "stop_id",
    "climate": "mote_id",
    "positions": "vehicle_id",
    "football": "player_id",
}
"""Attributes whose events must keep their order, for streams without ``ordered_by``."""


def outlet_of(name: str, stream: Stream, registry: Registry, topic: str | None = None, key: str | None = None) -> Outlet:
    """The outlet of a stream: its schema files are registered (a schema that is known keeps its id).

    Subjects are ``<topic>-value`` for a stream of one type, ``<topic>-<record>`` for several types in one topic.

    Args:
        name: the stream's name.
        stream: its settings.
        registry: where the schemas are registered.
        topic: one of several; the first when not given.
        key: attribute that becomes the record key; ``ordered_by`` or the usual one when not given.

    Raises:
        ConfigurationError: the stream has no topic, not this one, no schema files, or no such attribute.
        DependencyError: the registry does not answer.
        SchemaError: the registry refuses a schema.
    """
    if not stream.topics:
        raise ConfigurationError([Finding(f'stream "{name}" has no topic to send to')])
    chosen = topic or stream.topics[0]
    if chosen not in stream.topics:
        raise ConfigurationError(
            [Finding(f'"{chosen}" is no topic of the stream "{name}"', hint=f"its topics are: {', '.join(stream.topics)}")]
        )
    schemas = {schema["name"]: schema for schema in map(_read_record, stream.schemas)}
    if not schemas:
        raise ConfigurationError([Finding(f'stream "{name}" names no schema files, so nothing is known about how to write its events')])
    named = _key(name, stream, schemas, key)
    headers = {}
    for record, schema in schemas.items():
        subject = f"{chosen}-value" if len(schemas) == 1 else f"{chosen}-{'.'.join(filter(None, [schema.get('namespace'), record]))}"
        headers[record] = confluent_header(registry.register(subject, json.dumps(schema)))
    typed = stream.type_attribute is None or len(schemas) > 1
    return Outlet(chosen, schemas, headers, stream.time or "time", named, stream.rename, typed)


def _key(name: str, stream: Stream, schemas: Mapping[str, Mapping[str, Any]], wanted: str | None) -> str | None:
    fields = [(record, field["name"]) for record, schema in schemas.items() for field in schema["fields"]]
    known = {stream.rename.get(f"{record}.{field}", stream.rename.get(field, field)) for record, field in fields}
    if wanted is not None and wanted not in known and not known & {wanted.partition(".")[0], wanted.partition("[")[0]}:
        raise ConfigurationError(
            [Finding(f'no event of the stream "{name}" has an attribute "{wanted}"', hint=did_you_mean(wanted, known))]
        )
    usual = KEYS.get(name)
    return wanted or stream.ordered_by or (usual if usual in known else None)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError([Finding(f"cannot read the schema {path}: {error}")]) from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ConfigurationError([Finding(f"{path}: the generators write Avro records only")])
    return schema
