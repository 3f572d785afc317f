"""``cep record``: what a stream's topics hold → a file of JSON lines, for replay, training and evaluation."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from app.cli.inputs.moments import moment_ms
from app.cli.output import Output, OutputOption, require_folders, write_json
from app.cli.progress import Progress
from app.cli.settings_file import SettingsFile
from app.cli.whole_files import lines_file
from app.config.settings import load_settings
from app.delivery.connection import absent, connect, no_topic
from app.errors import ConfigurationError, Finding
from app.events.batch import EventBatch
from app.local.generators.json_lines import json_lines
from app.pipeline.recorded import StreamReader, streams_at_a_start


def record(  # noqa: PLR0917 - the command's options
    stream: Annotated[str, typer.Argument(help="A stream of the settings.")],
    out: Annotated[Path, typer.Option(help="The file: JSON lines; .gz and .zst are packed.")],
    settings: SettingsFile = None,
    since: Annotated[
        str | None, typer.Option(help="Only what came to Kafka since then: how long ago, as 30 m, or a time.", show_default="all there is")
    ] = None,
    events: Annotated[int | None, typer.Option(min=1, help="At most so many.", show_default="all there are")] = None,
    output: OutputOption = Output.text,
) -> None:
    """Record what a stream's topics hold, as `cep replay`, `cep train` and `cep evaluate` read it.

    Reads up to what is there at the start; commits nothing. Records that the application refuses are left out and
    counted: those that cannot be decoded, and times that are too far ahead of Kafka's (`max_ahead` of the stream).
    Times are milliseconds, and bytes and floats that are no numbers (NaN, Infinity, -Infinity) are texts, as JSON has them: with
    --settings they are read again as what they were. Every line says where its event stood ("position": topic, partition, offset),
    so that `cep replay --settings` finds what the application found: events keep their stream, partitions their own order, and
    composite events their identities. Not where the stream has an attribute of that name.
    """
    require_folders(out)
    loaded = load_settings(settings, os.environ)
    if stream not in loaded.streams:
        known = ", ".join(loaded.streams) or "none"
        raise ConfigurationError([Finding(f'the settings know no stream "{stream}"', hint=f"there are: {known}")])
    metadata, topics = connect(loaded.kafka).metadata, loaded.streams[stream].topics  # says why, where it does not get through
    if missing := absent(metadata, topics):
        raise no_topic(missing, loaded.kafka)
    (deployed,) = streams_at_a_start(loaded, [stream])
    reader = StreamReader(loaded, deployed)
    since_ms = None if since is None else moment_ms(since, "--since")
    span = reader.span(since_ms)
    written, refused = 0, 0
    progress = Progress(f"recording {stream}, records", span.size)
    with lines_file(out) as file:
        for part in span.parts():
            decoded = reader.decode(part)
            refused += len(decoded.failures)
            for line in json_lines([decoded.batch], topics=_placed(decoded.batch, stream, topics)):
                if written == events:
                    break
                file.write(line)
                written += 1
            progress.advance(len(part.offset))
            if written == events:
                break
    progress.end()
    if output is Output.json:
        write_json({"stream": stream, "events": written, "undecodable": refused, "file": str(out)})
        return
    print(f"{written:,} events of {stream}, {refused:,} records that the application refuses; {out}", file=sys.stderr)


def _placed(batch: EventBatch, stream: str, topics: Sequence[str]) -> Sequence[str] | None:
    """The topics that positions are to name; None where "position" is an attribute.

    Raises:
        ConfigurationError: an attribute is called as what says which stream a line belongs to.
    """
    if "stream" in batch.columns:
        hint = f"give it another name: streams: {{{stream}: {{rename: {{stream: stream_name}}}}}}"
        raise ConfigurationError(
            [Finding(f'{stream} has an attribute "stream", and in JSON lines "stream" says which stream a line belongs to', hint=hint)]
        )
    return None if "position" in batch.columns else topics
