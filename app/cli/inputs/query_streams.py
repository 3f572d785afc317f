"""What queries are read against on the command line: the schemas of a settings file, or nothing in particular."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from app.config.settings import Settings, Stream, load_settings
from app.errors import ConfigurationError, Finding, FindingsError
from app.events.avro import AvroSchema, SchemaError, StreamDefinition, StreamRecords, parse_schema, stream_records
from app.events.elements import with_named
from app.events.types import StreamSchema
from app.query.compile import Compilation, elements_in
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
    return {name: records.schema for name, records in configured_records(settings, elements).items()}


def configured_records(settings: Settings, elements: tuple[str, ...] = ()) -> dict[str, StreamRecords]:
    """As `configured_schemas`, with the records that define the schemas.

    Raises:
        ConfigurationError: schema files that cannot be read or make no stream.
    """
    found: dict[str, StreamRecords] = {}
    findings: list[Finding] = []
    for name, stream in sorted(settings.streams.items()):
        if not stream.schemas:
            continue
        try:
            found[name] = _records(name, stream, elements)
        except ConfigurationError as error:
            findings.extend(error.findings)
        except SchemaError as error:
            findings.append(Finding(f'stream "{name}": {error}'))
    if findings:
        raise ConfigurationError(findings)
    return found


def _records(name: str, stream: Stream, elements: tuple[str, ...]) -> StreamRecords:
    readers = [_parsed(path) for path in stream.schemas]
    return stream_records(
        StreamDefinition(name, stream.type_attribute, stream.time, stream.rename, with_named(elements, stream.rename)), readers
    )


def _parsed(path: Path) -> AvroSchema:
    try:
        return parse_schema(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: no UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise SchemaError(f"the schema {path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from error


def streams_for_validation(settings: Settings | None, queries: Iterable[Path]) -> Streams:
    """Streams with schema files as they are, with the elements of arrays and maps that the queries speak of; streams without have any type with any attribute. Without settings every name is a stream."""
    if settings is None:
        return UNKNOWN
    schemas = configured_schemas(settings, elements_in(queries))
    return Streams({name: schemas.get(name) or StreamSchema(name, (), inferred=True) for name in settings.streams})


def require_queries(compiled: Compilation, paths: Iterable[Path]) -> None:
    """A mistyped folder, or an empty file, must not look like queries that are all right.

    Raises:
        FindingsError: there is not a single query, nor anything that is wrong.
    """
    if not compiled.queries and not compiled.findings:
        hint = "query files end in .yaml or .yml; of folders all below are taken, but hidden ones"
        raise FindingsError([Finding(f"there is no query in {', '.join(map(str, paths))}", hint=hint)])


def print_findings(findings: Iterable[Finding]) -> None:
    """Findings go to standard error, one below the other."""
    for finding in findings:
        print(finding.render(), file=sys.stderr)
