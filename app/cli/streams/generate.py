"""``cep generate``: a stream with known ground truth as JSON lines, and how well composite events match that truth."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Annotated

import orjson
import typer

from app.cli.output import require_folders
from app.cli.whole_files import lines_file, require_apart, write_whole
from app.errors import CepError, ConfigurationError, Finding, FindingsError, Location
from app.files.opened import EventFile
from app.local.generators import KINDS, GeneratedStream
from app.local.generators import generate as generate_stream
from app.local.generators.json_lines import json_lines

LATEST_MS = 1 << 53
"""So far from the epoch a stream may begin: some 285,000 years, and any stream has room behind it."""

WRITTEN_BY = "write them with `cep replay --out FILE.jsonl`"


def generate(  # noqa: PLR0917 - the command's options
    kind: Annotated[str, typer.Argument(help=f"What to generate: {', '.join(KINDS)}.")],
    events: Annotated[int, typer.Option(min=1, help="How many events.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds, equal streams.")] = 0,
    start_ms: Annotated[
        int, typer.Option(min=-LATEST_MS, max=LATEST_MS, help="Time of the first event, milliseconds since the epoch.")
    ] = 0,
    rate: Annotated[float, typer.Option(min=0.001, help="Events per second of event time.")] = 1000.0,
    out: Annotated[Path | None, typer.Option(help="File of JSON lines; .gz and .zst are packed; standard output when not given.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Write what the shipped queries have to find, as JSON.")] = None,
    score: Annotated[
        Path | None, typer.Option(help="Compare composite events (the output of `cep replay` on this very stream) with the truth.")
    ] = None,
) -> None:
    """Write a stream with known ground truth as JSON lines that `cep replay` reads."""
    if kind not in KINDS:
        raise ConfigurationError([Finding(f'no generator is named "{kind}"', hint=f"there are {', '.join(KINDS)}")])
    if score and out:
        raise ConfigurationError([Finding("--score compares and writes no stream: leave --out out")])
    require_folders(out, truth)
    require_apart({"--out": out, "--truth": truth}, [score] if score else [])
    stream = generate_stream(kind, events, seed, start_ms, rate)
    if truth:
        write_whole(truth, _truth_json(stream))
    if score:
        print(_scores(stream, score))
        return
    if out:
        with lines_file(out) as file:
            for line in json_lines(stream.batches):
                file.write(line)
        return
    try:
        sys.stdout.buffer.writelines(json_lines(stream.batches))
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # `… | head`: whoever reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _truth_json(stream: GeneratedStream) -> bytes:
    found = {name: {"fields": truth.fields, "expected": sorted(truth.expected, key=repr)} for name, truth in stream.truth.items()}
    return orjson.dumps(found, option=orjson.OPT_INDENT_2)


def _scores(stream: GeneratedStream, path: Path) -> str:
    found: dict[str, list[dict[str, object]]] = {name: [] for name in stream.truth}
    try:
        for number, line in enumerate(_lines(EventFile.of(path)), 1):
            query, fields = _composite(line, path, number)
            if query in found:
                _require_fields(stream.truth[query].fields, fields, Location(str(path), number, 1))
                found[query].append(fields)
    except OSError as error:
        raise CepError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}\nhint: {WRITTEN_BY}") from error
    lines = []
    for name, truth in sorted(stream.truth.items()):
        precision, recall = truth.score(found[name])
        lines.append(f"{name}: {len(truth.expected)} expected, {len(found[name])} found, precision {precision:.4f}, recall {recall:.4f}")
    return "\n".join(lines)


def _require_fields(compared: Iterable[str], fields: Mapping[str, object], place: Location) -> None:
    """Refuses a composite event that cannot be held against the truth: of a query of the same name with another `return:`."""
    lacking = [name for name in compared if isinstance(fields.get(name), dict | list) or name not in fields]
    if lacking:
        hint = "the truth is that of the queries as they are shipped, in the folder queries"
        raise FindingsError([Finding(f"no value of {', '.join(lacking)} to compare", place, hint)])


def _lines(file: EventFile) -> Iterator[bytes]:
    return (line for block in file.blocks() for line in BytesIO(block))


def _composite(line: bytes, path: Path, number: int) -> tuple[str, dict[str, object]]:
    """The query and the fields of a composite event as `cep replay` writes it."""
    try:
        match orjson.loads(line):
            case {"query": str(query), "fields": dict(fields)}:
                return query, fields
    except orjson.JSONDecodeError:
        pass
    place = Location(str(path), number, 1)
    raise FindingsError([Finding("no composite event as `cep replay` writes it", place, WRITTEN_BY)])
