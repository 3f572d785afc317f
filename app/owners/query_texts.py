"""What queries are planned from, as texts: their files, and the schemas of the streams that they read. Whoever has them plans the same queries again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.errors import SnapshotError
from app.events.avro import StreamDefinition, parse_schema, stream_records
from app.events.types import StreamSchema
from app.query.compile import Compilation, compile_texts
from app.query.plan import QUERY_STREAM, Plan


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A query file as it was read; the path is for messages."""

    path: str
    text: str = field(repr=False)

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {"path": self.path, "text": self.text}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> QueryFile:
        """Reads what `to_plain` gave."""
        return QueryFile(plain["path"], plain["text"])


@dataclass(frozen=True, slots=True)
class StreamTexts:
    """An input stream as queries see it: how its records are read, and its readers' schemas (Avro JSON)."""

    definition: StreamDefinition
    readers: tuple[str, ...]

    @property
    def schema(self) -> StreamSchema:
        """What queries are resolved against."""
        return stream_records(self.definition, [parse_schema(text) for text in self.readers]).schema

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        own = self.definition
        return {
            "stream": own.stream,
            "type_attribute": own.type_attribute,
            "time_attribute": own.time_attribute,
            "renames": dict(sorted(own.renames.items())),
            "elements": list(own.elements),
            "readers": list(self.readers),
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> StreamTexts:
        """Reads what `to_plain` gave."""
        definition = StreamDefinition(
            plain["stream"], plain["type_attribute"], plain["time_attribute"], dict(plain["renames"]), tuple(plain["elements"])
        )
        return StreamTexts(definition, tuple(plain["readers"]))


@dataclass(frozen=True, slots=True)
class QueryTexts:
    """Query files and the streams that they were compiled against."""

    files: tuple[QueryFile, ...]
    streams: tuple[StreamTexts, ...]

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {"files": [one.to_plain() for one in self.files], "streams": [one.to_plain() for one in self.streams]}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> QueryTexts:
        """Reads what `to_plain` gave."""
        return QueryTexts(tuple(map(QueryFile.from_plain, plain["files"])), tuple(map(StreamTexts.from_plain, plain["streams"])))


def files_of(compiled: Compilation) -> tuple[QueryFile, ...]:
    """The files in which the compiled queries stand, in the order in which they were read."""
    sources = {query.document.node.file.path: query.document.node.file.text for query in compiled.queries}
    return tuple(QueryFile(path, text) for path, text in sources.items())


def planned(texts: QueryTexts) -> Compilation:
    """The queries, compiled as they were when the texts were read."""
    schemas = {one.definition.stream: one.schema for one in texts.streams}
    return compile_texts([(one.path, one.text) for one in texts.files], schemas)


def plan_named(compiled: Compilation, name: str) -> Plan:
    """The plan of a query that a deployment names.

    Raises:
        SnapshotError: this version finds an error in it, where the one that deployed it found none, or the texts have no such query.
    """
    query = compiled.query(name)
    if query is not None and query.plan is not None:
        return query.plan
    errors = "".join(f"\n{one.render()}" for one in compiled.errors)
    raise SnapshotError(f'query "{name}" of the deployment cannot be planned by this version{errors}')


def narrowed(texts: QueryTexts, name: str) -> QueryTexts:
    """Of the texts what planning this query alone needs: its file, those of the queries that it reads, and the streams of all these."""
    compiled = planned(texts)
    wanted, waiting = {name}, [name]
    while waiting:
        read = [stream.removeprefix(QUERY_STREAM) for stream in _streams_of(compiled, waiting.pop()) if stream.startswith(QUERY_STREAM)]
        waiting += [other for other in read if other not in wanted]
        wanted |= set(read)
    paths = {query.document.node.file.path for query in compiled.queries if query.name in wanted}
    streams = {stream for other in wanted for stream in _streams_of(compiled, other)}
    return QueryTexts(
        tuple(file for file in texts.files if file.path in paths),
        tuple(one for one in texts.streams if one.definition.stream in streams),
    )


def _streams_of(compiled: Compilation, name: str) -> Iterable[str]:
    query = compiled.query(name)
    return () if query is None or query.resolved is None else query.resolved.streams
