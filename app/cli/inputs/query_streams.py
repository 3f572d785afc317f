"""What queries are read against on the command line: the schemas of a settings file, or nothing in particular."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from app.config.settings import Settings, Stream, load_settings
from app.errors import ConfigurationError, Finding
from app.events.avro import AvroSchema, SchemaError, StreamDefinition, parse_schema, stream_records
from app.events.types import StreamSchema
from app.query.compile import elements_in
from app.query.resolved.vocabulary import UNKNOWN, Streams


def settings_of(config: Path | None) -> Settings | None:
    """The settings of a file, with the environment over it; None without a file.

    Raises:
        ConfigurationError: with all findings.
    """
    return None if config is None else load_settings(config, os.environ)


def configured_schemas(settings: Settings, elements: tuple[str, ...] = ()) -> dict[str, StreamSchema]:
    """The schemas of the streams whose configuration names schema files, by stream.

    Args:
        settings: the application's.
        elements: of arrays and maps that queries speak of.

    Raises:
        ConfigurationError: schema files that cannot be read or make no stream.
    """
    found: dict[str, StreamSchema] = {}
    findings: list[Finding] = []
    for name, stream in sorted(settings.streams.items()):
        if not stream.schemas:
            continue
        try:
            found[name] = _schema(name, stream, elements)
        except ConfigurationError as error:
            findings.extend(error.findings)
        except (SchemaError, OSError) as error:
            findings.append(Finding(f'stream "{name}": {error}'))
    if findings:
        raise ConfigurationError(findings)
    return found


def _schema(name: str, stream: Stream, elements: tuple[str, ...]) -> StreamSchema:
    readers = [_parsed(path) for path in stream.schemas]
    return stream_records(StreamDefinition(name, stream.type_attribute, stream.time, stream.rename, elements), readers).schema


def _parsed(path: Path) -> AvroSchema:
    try:
        return parse_schema(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: no UTF-8 text (byte {error.start})") from error


def streams_for_validation(settings: Settings | None, queries: Iterable[Path]) -> Streams:
    """Streams with schema files as they are, with the elements of arrays and maps that the queries speak of; streams without have any type with any attribute. Without settings every name is a stream."""
    if settings is None:
        return UNKNOWN
    schemas = configured_schemas(settings, elements_in(queries))
    return Streams({name: schemas.get(name) or StreamSchema(name, (), inferred=True) for name in settings.streams})


def print_findings(findings: Iterable[Finding]) -> None:
    """Findings go to standard error, one below the other."""
    for finding in findings:
        print(finding.render(), file=sys.stderr)
