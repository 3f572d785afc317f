"""``cep replay``: queries over a file of events, without Spark and Kafka."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import orjson
import typer

from app.asc.selection import Selection
from app.bootstrap.kernels import warm_kernels
from app.bucket.ingress import Gate
from app.bucket.matching import Found
from app.bucket.recording import Recording, match_arrivals, match_sorted
from app.cep.engine import Tally
from app.cli.inputs.checks import check_inputs
from app.cli.inputs.events import Choices, ReplayInput, gather_input, in_streams
from app.cli.inputs.layout import SeparatorOption, TimeColumnOption, TimeUnitOption, layout_of
from app.cli.inputs.query_streams import print_findings, require_queries, settings_of
from app.cli.inputs.unread import unread_events, unread_types
from app.cli.later import Later
from app.cli.output import require_folders
from app.cli.progress import Progress
from app.cli.replay.late import late_events, late_findings
from app.cli.replay.output import ordered_queries
from app.cli.replay.sink import opened
from app.cli.replay.streamed import can_stream, composes_nothing, stream_events
from app.cli.replay.target import require_target
from app.cli.whole_files import write_whole
from app.errors import FindingsError
from app.owners.tuple_memory import tuple_memory
from app.query.compile import Compilation, read_queries
from app.query.plan import Catalog
from app.query.resolved.vocabulary import Streams
from shedding.registry import METHODS

GateOf = Callable[[Catalog, Selection], Gate | None]
# Shedders bring scikit-learn
chosen_shedding, shed_recording = Later("shedding.replay_shedding", "chosen_shedding"), Later("shedding.replay_shedding", "shed_recording")
gate_of_shedding, require_models = Later("shedding.replay_shedding", "gate_of"), Later("shedding.replay_shedding", "require_models")

OF_EVENTS = tuple(name for name, method in METHODS.items() if method.level != "tuples")
"""Those that a replay takes; of temporal queries the bounded memory is written into the query."""


def replay(  # noqa: PLR0917 - the command's options
    queries: Annotated[list[Path], typer.Option(help="Query files or folders; may be repeated.")],
    events: Annotated[
        list[Path],
        typer.Option(
            help="JSON lines, .csv, .avro, .parquet, .feather or .arrow, perhaps .gz or .zst; a folder of such files, a glob, or - for standard input. May be repeated."
        ),
    ],
    more: Annotated[
        list[Path] | None, typer.Argument(help="More files of events, as a shell's glob gives them.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            "--config",
            help="Settings file with the streams: schemas, allowed lateness, trusted order. Holds all events in memory.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the composite events: .parquet, .avro, .feather or .arrow, else JSON lines, perhaps .gz or .zst (names of other formats, as .csv, are refused); standard output when not given. Never one of the files of events."
        ),
    ] = None,
    stats: Annotated[
        Path | None,
        typer.Option(help="Write counts and times as JSON. Matching is then warmed up by a first run; holds all events in memory."),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Match so many times from arrays in memory, which hold all events, each time with fresh engines.")
    ] = 1,
    types: Annotated[
        Literal["infer", "config"], typer.Option(help="infer: all schemas from the data. config: where a stream has them.")
    ] = "config",
    on_error: Annotated[Literal["stop", "skip"], typer.Option(help="What unreadable events do; skipped ones are counted.")] = "stop",
    shedder: Annotated[str | None, typer.Option(help=f"Shed with it: {', '.join(OF_EVENTS)}. Holds all events in memory.")] = None,
    drop_ratio: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Share that the shedder drops of what it drops: events, or live partial matches.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The shedder's model, written by cep train; with several queries a folder of <query>.model.")
    ] = None,
    separator: SeparatorOption = None,
    time_column: TimeColumnOption = None,
    time_unit: TimeUnitOption = "ms",
    *,
    identities: Annotated[
        bool, typer.Option("--identities", help="Write the identity of each composite event, too. Holds all events in memory.")
    ] = False,
) -> None:
    """Run queries over a file of events and write one JSON object per composite event.

    A line is {"type": "...", "time": <ms or ISO-8601>, attribute: value, ...}, perhaps with "stream" and "position" [topic, partition, offset].
    A line that names no stream belongs to all of them; with --settings and a position, to the one that has its topic, if any has.
    Empty cells of a CSV are null, and empty texts where a schema of the settings requires a text.
    Without --settings the file is every stream and is sorted first. A configured stream with allowed_lateness or ordered_by is taken in file
    order, and late events are left out; the first ten are told, with line, time, and how far they are behind. At the end of the file all waiting
    matches are released.

    Files may be longer than memory: events are read in pieces, and composite events written when their time is complete. Queries that read other
    queries hold all events in memory, and so do the options that say so. Composite events of temporal queries, and of those with after:, emit:
    longest, window:, or within so many events beside a negation or timeouts, are held until the end of the file.

    Exit codes: 0 also when nothing matched, 1 for invalid queries and unreadable events (findings on standard error, no output file).
    """
    shed = chosen_shedding(shedder, drop_ratio, model)
    require_folders(out, stats)
    files = [*events, *(more or [])]
    require_target(out, files, stats)
    layout = layout_of(separator, time_column, time_unit)
    settings, choices = settings_of(config), Choices.for_queries(queries, infer=types == "infer", skip=on_error == "skip", layout=layout)
    checked = check_inputs(queries, files, settings, choices)
    if shed is not None:
        require_models(shed, checked)
    warm_kernels()
    read_s = time.perf_counter()
    progress = Progress("reading", 0)
    gathered = gather_input(files, settings, choices, progress.advance)
    progress.end()
    if shed is None and settings is None and stats is None and repeat == 1 and not identities and can_stream(gathered):
        compiled = _compiled(queries, Streams(everything=gathered.schema))
        if composes_nothing(compiled.catalog):
            print_findings(unread_types([one.name for one in gathered.schema.types], compiled.catalog.plans))
            told = stream_events(compiled.catalog, gathered, out, time.perf_counter() - read_s)
            _tell(told.measured)
            _tell_limits(compiled.catalog, told.tallies)
            return
    source = in_streams(gathered, settings, choices)
    read_s = time.perf_counter() - read_s
    compiled = _compiled(queries, source.streams)
    print_findings(unread_events(source, compiled.catalog.plans))
    matching = _matching(compiled, source, shed)
    if stats is not None or repeat > 1:
        matching()
    times, recording = [], Recording([])
    for _ in range(repeat):
        started = time.perf_counter()
        recording = matching()
        times.append(time.perf_counter() - started)
    started = time.perf_counter()
    _write(out, compiled.catalog, recording.found, source, identities=identities)
    write_s = time.perf_counter() - started
    late = late_events(recording.late, source, compiled.catalog.plans, gathered.location)
    measured = {
        "events": len(source.file.batch),
        "matches": sum(len(one.matches) for one in recording.found),
        "timeouts": sum(len(one.timeouts) for one in recording.found if one.timeouts is not None),
        "late": len(recording.late),
        "late_events": [one.plain() for one in late],
        "skipped": source.skipped,
        "read_s": read_s,
        "match_s": times,
        "write_s": write_s,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    if stats is not None:
        write_whole(stats, orjson.dumps(measured, option=orjson.OPT_INDENT_2) + b"\n")
    print_findings(late_findings(late, len(recording.late)))
    _tell(measured)
    _tell_limits(compiled.catalog, [(one.query, one.tally) for one in recording.found])


def _compiled(queries: Sequence[Path], streams: Streams) -> Compilation:
    compiled = read_queries(queries, streams)
    if compiled.errors:
        raise FindingsError(compiled.errors)
    require_queries(compiled, queries)
    print_findings(compiled.warnings)
    if disabled := [query.name for query in compiled.queries if not query.enabled]:
        print(f"left out, since they are not enabled: {', '.join(disabled)}", file=sys.stderr)
    return compiled


def _matching(compiled: Compilation, source: ReplayInput, shed: Any) -> Callable[[], Recording]:
    """Matches everything, each time with fresh engines; ``shed`` is a `app.cli.shedding.replay_shedding.Shed`, or None."""
    if shed is None or shed.by_identity:
        return Matching(compiled.catalog, source, None if shed is None else gate_of_shedding(shed)).once
    return lambda: shed_recording(compiled, source, shed)


class Matching:
    """Everything that is ready before the clock starts: arrays in memory, one part per set of streams."""

    def __init__(self, catalog: Catalog, source: ReplayInput, gate_of: GateOf | None) -> None:
        self._gate_of = gate_of
        composed = sorted(query for group in catalog.groups if group.composed for query in group.queries)
        arriving = [query for query, plan in enumerate(catalog.plans) if source.by_arrival(plan) and query not in composed]
        self._sorted = []
        for streams, queries in source.same_events(catalog):
            own = [query for query in queries if query not in arriving and query not in composed]
            if own:
                self._sorted.append((own, _part(catalog, own), source.sorted_events(streams)))
        self._arriving = [
            (queries, _part(catalog, queries), source.arrivals_of([catalog.plans[query] for query in queries]))
            for queries in (arriving, composed)
        ]
        self._topics = source.file.topics

    def once(self) -> Recording:
        """Matches everything with fresh engines."""
        found: list[Found] = []
        late = [np.zeros((0, 2), dtype=np.int64)]
        arriving = sum(len(stream.batch) for _, _, streams in self._arriving for stream in streams)
        progress = Progress("matching", sum(len(batch) for _, _, batch in self._sorted) + arriving)
        for queries, catalog, batch in self._sorted:
            found += _renumbered(match_sorted(catalog, batch, self._gates(catalog), progress.advance, tuple_memory), queries)
        for queries, catalog, streams in self._arriving:
            if queries:
                recording = match_arrivals(catalog, streams, self._gates(catalog), progress.advance, self._topics, memory_of=tuple_memory)
                found += _renumbered(recording, queries)
                late.append(recording.late)
        progress.end()
        return Recording(found, np.unique(np.concatenate(late), axis=0))

    def _gates(self, catalog: Catalog) -> Callable[[Selection], Gate | None] | None:
        gate_of = self._gate_of
        return None if gate_of is None else lambda selection: gate_of(catalog, selection)


def _part(catalog: Catalog, queries: list[int]) -> Catalog:
    """A catalog of some queries; they keep their order, since both are sorted by name."""
    return Catalog.of(tuple(catalog.plans[query] for query in queries), catalog.version)


def _renumbered(recording: Recording, queries: list[int]) -> list[Found]:
    return [replace(one, query=queries[one.query]) for one in recording.found]


def _write(out: Path | None, catalog: Catalog, found: Any, source: ReplayInput, *, identities: bool) -> None:
    topics = source.file.topics
    with opened(out, catalog, identities=identities) as sink:
        sink.write(ordered_queries(catalog, found, topics), source.line_finder(), topics if identities else None)


def _tell_limits(catalog: Catalog, told: Sequence[tuple[int, Tally]]) -> None:
    """What the queries' limits kept from being made, and what their memory did not hold: the answer is then not the whole one."""
    for query, plan in enumerate(catalog.plans):
        tallies = [tally for own, tally in told if own == query]
        for limit, count in (
            ("matches_per_event", sum(tally.limited_matches for tally in tallies)),
            ("partial_matches_per_partition", sum(tally.limited_runs for tally in tallies)),
        ):
            if count:
                print(f"warning: query {plan.name}: limits.{limit} was reached, {count:,} were not made", file=sys.stderr)
        if shed := sum(tally.shed_tuples for tally in tallies):
            print(f"warning: query {plan.name}: memory was full, {shed:,} tuples went ({plan.shedding.shedder})", file=sys.stderr)


def _tell(measured: Mapping[str, Any]) -> None:
    """One line for people; standard output belongs to the composite events."""
    fastest = min(measured["match_s"])
    extra = "".join(f", {measured[name]:,} {name}" for name in ("timeouts", "late", "skipped") if measured[name])
    print(
        f"{measured['events']:,} events, {measured['matches']:,} composite events{extra}; "
        f"read {measured['read_s']:.2f} s, matched {fastest:.3f} s, written {measured['write_s']:.2f} s",
        file=sys.stderr,
    )
