"""The events of `cep replay`: a file, perhaps a configuration, and what each query reads of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.bucket.hold import TimeRules
from app.bucket.recording import Arrivals
from app.cli.inputs.layout import AS_TOLD, Layout
from app.cli.inputs.query_streams import configured_records, print_findings
from app.config.settings import Settings, Stream
from app.errors import NO_SPACE, CepError, DependencyError, Finding, FindingsError
from app.events.avro import StreamRecords
from app.events.batch import EventBatch, concatenate_streams, in_total_order, take
from app.events.conform import conformed
from app.events.elements import with_named
from app.events.types import Kind, StreamSchema
from app.files.gathering import Advance, FileEvents, Gathered, gather, unseen
from app.files.opened import STANDARD_INPUT, EventFile, StandardInput, event_files
from app.files.reading import MAX_FINDINGS
from app.files.renamed import applying, name_in_queries, renamed, renamed_types
from app.files.required import names_in_files, required_attributes, required_texts
from app.files.row_files import FileFormat
from app.query.compile import elements_in, read_queries
from app.query.plan import QUERY_STREAM, Catalog, Plan
from app.query.resolved.assumed import asked_kinds
from app.query.resolved.vocabulary import NUMERIC, Streams


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose about reading.

    Attributes:
        infer: take all schemas from the data, also those of configured streams.
        skip: leave unreadable events out instead of stopping.
        elements: of arrays and maps that the queries speak of.
        queries: files and folders of the queries, which say as what they take attributes that are null in every event.
        layout: where in files what stands.
    """

    infer: bool = False
    skip: bool = False
    elements: tuple[str, ...] = ()
    queries: tuple[Path, ...] = ()
    layout: Layout = AS_TOLD

    @staticmethod
    def for_queries(queries: Iterable[Path], *, infer: bool = False, skip: bool = False, layout: Layout = AS_TOLD) -> Choices:
        """For query files and folders."""
        return Choices(infer, skip, elements_in(queries), tuple(queries), layout)


def choices_for(queries: Iterable[Path]) -> Choices:
    """What is read for query files and folders where nothing else was chosen."""
    return Choices.for_queries(queries)


@dataclass(frozen=True, slots=True, eq=False)
class StreamEvents:
    """The events of one stream, in file order.

    Attributes:
        line: int64 (events,), their lines.
    """

    schema: StreamSchema
    batch: EventBatch
    line: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ReplayInput:
    """A file of events, read.

    Attributes:
        file: as it was read.
        settings: None without a configuration.
        configured: by stream, events that a configured schema had its say about.
        skipped: events left out because they could not be read or violate a schema.
    """

    file: FileEvents
    settings: Settings | None = None
    configured: Mapping[str, StreamEvents] = field(default_factory=dict)
    skipped: int = 0

    @property
    def streams(self) -> Streams:
        """What queries are compiled against."""
        if self.settings is None:
            return Streams(everything=self.file.schema)
        return Streams({name: self.of_stream(name).schema for name in self.settings.streams})

    def of_stream(self, name: str) -> StreamEvents:
        """The events that belong to a stream, in file order."""
        known = self.configured.get(name)
        if known is not None:
            return known
        own = _events_of(self.file, name, self.settings)
        told = self.settings.streams[name].rename if self.settings is not None and name in self.settings.streams else {}
        renames = applying(own.batch, told)
        if not renames:
            return StreamEvents(StreamSchema(name, own.schema.types, None, inferred=True), own.batch, own.lines)
        batch = renamed(own.batch, renames)
        return StreamEvents(StreamSchema(name, renamed_types(own.schema.types, batch, renames), None, inferred=True), batch, own.lines)

    def by_arrival(self, plan: Plan) -> bool:
        """Whether the query's events are taken in file order: one of its streams says how late events may be, or which order to trust."""
        if self.settings is None:
            return False
        chosen = [self.settings.streams[stream].model_fields_set for stream in plan.streams if stream in self.settings.streams]
        return any({"allowed_lateness", "ordered_by"} & fields for fields in chosen)

    def sorted_events(self, streams: Sequence[str]) -> EventBatch:
        """The events of some streams in total order; an event that belongs to several is there once."""
        if self.settings is None and self.file.streams is None:
            return in_total_order(self.file.batch)
        parts = [self.of_stream(name) for name in streams]
        lines = np.concatenate([part.line for part in parts])
        batch = concatenate_streams([part.batch for part in parts])
        _, first = np.unique(lines, return_index=True)
        return in_total_order(batch if len(first) == len(batch) else take(batch, first))

    def arrivals(self, name: str) -> Arrivals:
        """A stream's events in order of arrival, with how time passes in it."""
        assert self.settings is not None  # noqa: S101 - by_arrival was asked before
        stream, events = self.settings.streams[name], self.of_stream(name)
        own = frozenset(k for k, topic in enumerate(self.file.topics) if topic in stream.topics)
        topics = own or frozenset(range(max(1, len(self.file.topics))))
        return Arrivals(TimeRules(name, stream.allowed_lateness, stream.ordered_by, topics), events.batch, events.line)

    def arrivals_of(self, plans: Sequence[Plan]) -> list[Arrivals]:
        """The streams that queries read: in order of arrival those of queries that are to be fed so, the others in total order."""
        own = {plan.name: [stream for stream in plan.streams if not stream.startswith(QUERY_STREAM)] for plan in plans}
        arriving = {stream for plan in plans if self.by_arrival(plan) for stream in own[plan.name]}
        names = sorted({stream for streams in own.values() for stream in streams})
        times = np.sort(np.concatenate([np.zeros(0, np.int64), *(self.of_stream(name).batch.time for name in names)]))
        return [self.arrivals(name) if name in arriving else self._in_total_order(name, times) for name in names]

    def _in_total_order(self, name: str, times: NDArray[np.int64]) -> Arrivals:
        batch = self.sorted_events((name,))
        rules = TimeRules(name, topics=frozenset(range(max(1, len(self.file.topics)))))
        return Arrivals(rules, batch, np.searchsorted(times, batch.time).astype(np.int64))

    def same_events(self, catalog: Catalog) -> list[tuple[tuple[str, ...], list[int]]]:
        """Queries (indices) that read the very same sorted events, with their streams: they share one pass."""
        if self.settings is None and self.file.streams is None:
            return [((), list(range(len(catalog.plans))))]
        shared: dict[tuple[str, ...], list[int]] = {}
        for query, plan in enumerate(catalog.plans):
            shared.setdefault(tuple(sorted(plan.streams)), []).append(query)
        return list(shared.items())

    def line_finder(self) -> LineFinder:
        """Finds the lines of events by their positions."""
        return LineFinder.of(self.file)


@dataclass(frozen=True, slots=True, eq=False)
class LineFinder:
    """Positions → lines.

    Attributes:
        places: (source, offset) as complex numbers, which sort by real and imaginary part; None where the offset is the line.
        lines: int64, in the order of ``places``.
    """

    places: NDArray[np.complex128] | None
    lines: NDArray[np.int64]

    @staticmethod
    def of(file: FileEvents) -> LineFinder:
        """A finder for a file's events."""
        if not file.topics:
            return LineFinder(None, file.lines)
        places = _complex(file.batch.source, file.batch.offset)
        order = np.argsort(places)
        return LineFinder(places[order], file.lines[order])

    def lines_of(self, source: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """The lines of events, in the shape of the arguments."""
        if self.places is None:
            return offset
        return self.lines[np.searchsorted(self.places, _complex(source, offset))]


def _complex(source: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.complex128]:
    places = source.astype(np.complex128)
    places.imag = offset
    return places


def read_input(paths: Path | Sequence[Path], settings: Settings | None, choices: Choices) -> ReplayInput:
    """Reads files of events into memory, and makes them events of the configured streams.

    Raises:
        FindingsError: unreadable events, each with its line, unless they are to be skipped.
        CepError: a file cannot be read.
    """
    return in_streams(gather_input([paths] if isinstance(paths, Path) else paths, settings, choices), settings, choices)


def gather_input(paths: Sequence[Path], settings: Settings | None, choices: Choices, advance: Advance = unseen) -> Gathered:
    """Reads files of events, folders, globs, and standard input (``-``).

    Raises:
        FindingsError: unreadable events, each with its line, unless they are to be skipped.
        CepError: a file cannot be read.
        DependencyError: no room for temporary files.
    """
    named = [path for path in paths if str(path) != STANDARD_INPUT]
    try:
        with ExitStack() as stack:
            given = [stack.enter_context(StandardInput()) for path in paths if str(path) == STANDARD_INPUT][:1]
            files = [*event_files(named), *given]
            kinds, texts = _kinds(files, settings, choices), _empty_texts(files, settings, choices)
            stays = _time_stays(settings, choices)
            chosen = {file: file_format(file, settings, choices) for file in files}
            formats = {file: replace(one, kinds=kinds, time_stays=stays, empty_texts=texts) for file, one in chosen.items()}
            gathered = gather(files, formats, advance)
    except OSError as error:
        if error.errno in NO_SPACE:  # of what does not fit into memory
            raise DependencyError(
                f"no room for temporary files in {tempfile.gettempdir()}\nhint: make room, or name another folder in TMPDIR"
            ) from error
        raise unreadable(error, paths) from error
    print_findings(gathered.warnings)
    _take_asked_kinds(gathered, settings, choices.queries)
    return gathered


def unreadable(error: OSError, paths: Iterable[Path]) -> CepError:
    """What is to be told of files of events that cannot be read."""
    name = error.filename or ", ".join(map(str, paths))
    return CepError(f"{name}: cannot be read: {(error.strerror or str(error)).lower()}")


def _kinds(files: Iterable[EventFile], settings: Settings | None, choices: Choices) -> Mapping[str, Kind]:
    """What the configured schemas say about the cells of text files, so that one wrong cell is told, and not all the others.

    Only where every event is one of a schema, the schemas agree, and text files have values of the kind.
    """
    if settings is None or choices.infer or any(file.kind not in ("csv", "json") for file in files):
        return {}
    if not all(stream.schemas for stream in settings.streams.values()):
        return {}
    found: dict[str, set[Kind]] = {}
    for records in configured_records(settings, choices.elements).values():
        for leaf in (leaf for record in records.types for leaf in record.leaves):
            for name in names_in_files(leaf):
                found.setdefault(name, set()).add(leaf.attribute.kind)
    kinds = {
        name: Kind.FLOAT if own == set(NUMERIC) else next(iter(own)) for name, own in found.items() if len(own) == 1 or own == set(NUMERIC)
    }
    return {name: kind for name, kind in kinds.items() if kind in TEXT_KINDS}


def _empty_texts(files: Iterable[EventFile], settings: Settings | None, choices: Choices) -> Mapping[str, frozenset[str] | None]:
    """Columns of CSV files whose empty cells the configured schemas want to be texts."""
    if settings is None or choices.infer or all(file.kind != "csv" for file in files):
        return {}
    return required_texts(configured_records(settings, choices.elements).values())


TEXT_KINDS = (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.STRING)
"""Kinds that text files have. Times and bytes are made of other kinds when all is read (`app.events.conform`)."""


def _take_asked_kinds(gathered: Gathered, settings: Settings | None, queries: Sequence[Path]) -> None:
    """Attributes without any value become what they are in queries: of the kind that the name has in other events, else what it is compared with."""
    valueless = gathered.learnt.valueless
    if valueless and queries:
        compiled = read_queries(queries, Streams(everything=gathered.schema))
        resolved = [query.resolved for query in compiled.queries if query.resolved is not None]
        named = {name: _names_in_queries(name, gathered.schema, settings) for name in valueless}
        asked = {**asked_kinds(resolved, {one for names in named.values() for one in names}), **gathered.learnt.kinds}
        for name, names in named.items():
            gathered.learnt.kinds[name] = next((asked[one] for one in names if asked[one] is not Kind.STRING), Kind.STRING)


def _names_in_queries(name: str, schema: StreamSchema, settings: Settings | None) -> list[str]:
    """What queries call an attribute of a file: in one stream, or of one type, perhaps otherwise than in the next."""
    if settings is None:
        return [name]
    owners = [one.name for one in schema.types if one.attribute(name) is not None]
    return list(dict.fromkeys(name_in_queries(name, owner, stream.rename) for stream in settings.streams.values() for owner in owners))


def in_streams(gathered: Gathered, settings: Settings | None, choices: Choices) -> ReplayInput:
    """All events in memory, as the configured streams have them.

    Raises:
        FindingsError: events that violate a schema, unless they are to be skipped.
    """
    records = configured_records(settings, choices.elements) if settings and not choices.infer else {}
    file = gathered.whole()
    bad: dict[int, str] = {}
    configured = {name: _conformed(_events_of(file, name, settings), one, bad) for name, one in records.items()}
    if bad and not choices.skip:
        shown = sorted(bad.items())
        findings = [Finding(message, gathered.location(line)) for line, message in shown[:MAX_FINDINGS]]
        if len(shown) > MAX_FINDINGS:
            findings.append(Finding(f"{len(shown) - MAX_FINDINGS} more unreadable lines", gathered.location(shown[MAX_FINDINGS][0])))
        raise FindingsError(findings)
    return ReplayInput(file, settings, configured, file.skipped + len(bad))


def _events_of(file: FileEvents, name: str, settings: Settings | None) -> FileEvents:
    """The events that belong to a stream, not those that stood in topics of other streams of the settings."""
    streams = {} if settings is None else settings.streams
    return file.of_stream(name, {topic for other, stream in streams.items() if other != name for topic in stream.topics})


def _conformed(events: FileEvents, records: StreamRecords, bad: dict[int, str]) -> StreamEvents:
    schema = records.schema
    record = schema.types[0].name if schema.type_attribute is not None else None
    renames = applying(events.batch, records.definition.renames, record)
    batch = renamed(events.batch, renames, record, schema.type_attribute)
    found = conformed(batch, schema, required_attributes(records))
    bad.update({int(events.lines[row]): message for row, message in found.bad.items()})
    return StreamEvents(schema, found.batch, events.lines[found.rows])


def file_format(file: EventFile, settings: Settings | None, choices: Choices) -> FileFormat:
    """How to read a file. JSON lines may say type and time themselves where the streams disagree; the other formats follow the configuration.

    Raises:
        CepError: streams of one file that disagree about where type or time are.
    """
    streams: list[Stream] = list(settings.streams.values()) if settings else []
    types = {stream.type_attribute or "type" for stream in streams} or {"type"}
    layout = choices.layout
    times = {layout.time_column} if layout.time_column is not None else {stream.time or "time" for stream in streams} or {"time"}
    if file.tabular and max(len(types), len(times)) > 1:
        hint = "\nhint: --time-column names one for all" if len(types) == 1 else ""
        raise CepError(f"{file.name}: the configured streams disagree about type or time; give each its own file and configuration" + hint)
    kind = next(iter(types)) if len(types) == 1 else "type"
    time = next(iter(times)) if len(times) == 1 else "time"
    elements = choices.elements
    for stream in streams:
        elements = with_named(elements, stream.rename)
    return FileFormat(
        kind,
        time_attribute=time,
        time_unit=layout.time_unit,
        elements=elements,
        on_error="skip" if choices.skip else "stop",
        separator=layout.separator or ",",
        time_named=layout.time_column is not None,
    )


def _time_stays(settings: Settings | None, choices: Choices) -> bool:
    """Whether configured schemas have an attribute of the name that an option says for the time, which is none of their times."""
    name = choices.layout.time_column
    if name is None or settings is None or choices.infer:
        return False
    records = configured_records(settings, choices.elements).values()
    return any(name in names_in_files(leaf) for one in records for record in one.types for leaf in record.leaves)
