"""What is wrong with a command line is told before kernels are compiled and events are read, which may take minutes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.cli.inputs.events import Choices, file_format, unreadable
from app.cli.inputs.query_streams import require_queries, streams_for_validation
from app.config.settings import Settings
from app.errors import CepError, FindingsError
from app.events.types import StreamSchema
from app.files.csv_files import require_columns
from app.files.opened import STANDARD_INPUT, event_files
from app.query.compile import Compilation, read_queries
from app.query.resolved.vocabulary import UNKNOWN, Streams

MAX_FILES = 3
"""Files that are listed."""


def check_inputs(queries: Sequence[Path], events: Sequence[Path], settings: Settings | None, choices: Choices) -> Compilation:
    """Compiles queries against what is known without the events, and looks whether these can be opened.

    What is not in a schema nobody knows yet: there every type may be, with every attribute. Who has read the events compiles again.

    Args:
        queries: files and folders.
        events: files, folders and globs.
        settings: with the streams.
        choices: about reading.

    Raises:
        FindingsError: the queries have errors, or there are none.
        ConfigurationError: schema files that cannot be read or make no stream.
        CepError: events that cannot be opened, streams that disagree about a file, or a separator where nothing is separated.
    """
    compiled = read_queries(queries, _streams(queries, settings, choices))
    if compiled.errors:
        raise FindingsError(compiled.errors)
    require_queries(compiled, queries)
    _require_events(events, settings, choices)
    return compiled


def _streams(queries: Sequence[Path], settings: Settings | None, choices: Choices) -> Streams:
    if settings is None:
        return Streams(everything=UNKNOWN.everything)
    if not choices.infer:
        known = streams_for_validation(settings, queries)
        if all(stream.schemas for stream in settings.streams.values()):
            return known
    # of a stream without schemas nothing is known yet, and queries may read it together with others
    return Streams({name: StreamSchema(name, (), inferred=True) for name in settings.streams})


def _require_events(paths: Sequence[Path], settings: Settings | None, choices: Choices) -> None:
    named = [path for path in paths if str(path) != STANDARD_INPUT]  # what is not named shows its format when it is read
    try:
        files = event_files(named)
        for file in files:
            chosen = file_format(file, settings, choices)
            if file.path.exists() and not file.path.is_file():  # a pipe is opened once
                continue
            file.path.open("rb").close()
            if file.kind == "csv":
                require_columns(file, chosen)
    except OSError as error:
        raise unreadable(error, paths) from error
    if choices.layout.separator is not None and len(named) == len(paths) and all(file.kind != "csv" for file in files):
        listed = ", ".join(file.name for file in files[:MAX_FILES])
        raise CepError(f"--separator is for CSV files, and none of these is one: {listed}\nhint: CSV files are named .csv")
