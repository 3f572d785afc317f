"""``cep produce``: a generated stream, a recording or a file → Kafka as Avro, at a rate, as recorded, or as fast as possible."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from app.cli.inputs.events import Choices, read_input
from app.cli.output import Output, OutputOption, write_json
from app.cli.settings_file import SettingsFile
from app.config.settings import Settings, Stream, load_settings
from app.delivery.connection import absent, connect, no_topic
from app.delivery.security import client_options
from app.errors import CepError, ConfigurationError, Finding
from app.events.batch import EventBatch
from app.events.registry import Registry, registry_settings
from app.local.generators import KINDS
from app.local.generators import generate as generate_stream
from app.local.generators.stream import slices
from app.local.outlets import outlet_of
from app.local.recordings import RECORDINGS, read_recording
from app.local.sending import Due, Sender, Sent, as_recorded, at_once, at_rate

_TELL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Source:
    """Events to send, and the stream they belong to."""

    stream: str
    batches: tuple[EventBatch, ...]

    @property
    def first_ms(self) -> int:
        """Time of the first event."""
        return int(self.batches[0].time[0]) if self.batches and len(self.batches[0]) else 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much of a source, and for generators which stream."""

    events: int | None
    seed: int
    rate_per_s: float
    start_ms: int
    data: Path | None


def produce(  # noqa: PLR0917 - the command's options
    source: Annotated[
        str, typer.Argument(help=f"A generator ({', '.join(KINDS)}), a recording ({', '.join(RECORDINGS)}), or a file of events.")
    ],
    settings: SettingsFile = None,
    stream: Annotated[str | None, typer.Option(help="Stream of the settings; needed for files.")] = None,
    topic: Annotated[str | None, typer.Option(help="One of the stream's topics; the first when not given.")] = None,
    key: Annotated[str | None, typer.Option(help="Attribute that becomes the record key.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Events per second; as fast as possible when not given.")] = None,
    speed: Annotated[float | None, typer.Option(min=0.001, help="As recorded, this many times as fast; 1 is real time.")] = None,
    events: Annotated[int | None, typer.Option(min=1, help="Send at most so many; generators make 100,000 when not told.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generator.")] = 0,
    data: Annotated[Path | None, typer.Option(help="Folder of the recordings.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Let a generated stream begin now.")] = False,  # noqa: FBT002
    output: OutputOption = Output.text,
) -> None:
    """Send events to Kafka and say how many, how fast, and how far behind schedule at worst."""
    if rate is not None and speed is not None:
        raise ConfigurationError([Finding("give either --rate or --speed, not both")])
    if now and source not in KINDS:
        raise ConfigurationError([Finding("--now is for generated streams: events of recordings and files keep their times")])
    loaded = load_settings(settings, os.environ)
    chosen = _source(source, stream, Wanted(events, seed, rate or 1000.0, int(time.time() * 1000) if now else 0, data), loaded)
    metadata, own = connect(loaded.kafka).metadata, _stream(loaded, chosen.stream)  # says why, where it does not get through
    if missing := absent(metadata, [topic] if topic in own.topics else own.topics[:1]):  # before a schema is registered for it
        raise no_topic(missing, loaded.kafka)
    outlet = outlet_of(chosen.stream, own, Registry(registry_settings(loaded.schema_registry)), topic, key)
    due: Due = at_rate(rate) if rate else as_recorded(chosen.first_ms, speed) if speed else at_once
    with Sender(client_options(loaded.kafka), outlet, due) as sender, _stopped_by_ctrl_c(sender):
        partitions = sender.check_topic()
        print(f"→ {outlet.topic}: {partitions} partitions, key {outlet.key or 'none'}", file=sys.stderr)
        try:
            sender.send(_limited(chosen.batches, events), _teller())
        except ValueError as error:
            raise CepError(f"the events cannot be written: {error}") from error
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if output is Output.json:
        sent = sender.sent
        write_json({"topic": outlet.topic, "events": sent.events, "bytes": sent.bytes, "seconds": sent.seconds, "behind_s": sent.behind_s})
    else:
        print(_summary(sender.sent))
    if sender.stopped:
        raise typer.Exit(130)


@contextmanager
def _stopped_by_ctrl_c(sender: Sender) -> Iterator[None]:
    """Ctrl-C ends the sending; what was sent is still acknowledged and told."""
    before = signal.signal(signal.SIGINT, lambda *_: sender.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _source(name: str, stream: str | None, wanted: Wanted, settings: Settings) -> Source:
    if name in KINDS:
        generated = generate_stream(name, wanted.events or 100_000, wanted.seed, wanted.start_ms, wanted.rate_per_s)
        return Source(stream or generated.stream, generated.batches)
    if name in RECORDINGS:
        recording = read_recording(name, wanted.data, wanted.events, wanted.seed)
        return Source(stream or recording.stream, recording.batches)
    path = Path(name)
    if not path.is_file():
        raise ConfigurationError([Finding(f'"{name}" is no generator, no recording and no file')])
    if stream is None:
        raise ConfigurationError([Finding("events of a file need --stream: the stream of the settings that they belong to")])
    return Source(stream, (_of_file(path, settings, stream),))


def _of_file(path: Path, settings: Settings, stream: str) -> EventBatch:
    """A file's events as the stream's schemas have them.

    Raises:
        FindingsError: some of them cannot be events of the stream.
        CepError: none of them is one.
    """
    alone = settings.model_copy(update={"streams": {stream: _stream(settings, stream)}})
    read = read_input(path, alone, Choices())
    batch = read.sorted_events((stream,))
    others = len(read.file.batch) - len(batch)
    if not len(batch):
        raise CepError(f'{path} holds no events of the stream "{stream}"\nhint: "type" of each line is to name one of its schemas')
    if others:
        print(f"{others:,} events of other types are not sent", file=sys.stderr)
    return batch


def _stream(settings: Settings, name: str) -> Stream:
    if name not in settings.streams:
        known = ", ".join(settings.streams) or "none"
        raise ConfigurationError([Finding(f'the settings know no stream "{name}"', hint=f"there are: {known}")])
    return settings.streams[name]


def _limited(batches: tuple[EventBatch, ...], events: int | None) -> tuple[EventBatch, ...]:
    """The first so many events."""
    kept, left = [], events if events is not None else sum(map(len, batches))
    for batch in batches:
        if left <= 0:
            break
        kept.append(batch if len(batch) <= left else next(slices(batch, left)))
        left -= len(batch)
    return tuple(kept)


def _teller() -> Callable[[Sent], None]:
    """Prints a line of progress on a terminal, at most once a second."""
    last = [time.monotonic()]

    def tell(sent: Sent) -> None:
        if sys.stderr.isatty() and time.monotonic() - last[0] > _TELL_SECONDS:
            last[0] = time.monotonic()
            sys.stderr.write(f"\r\x1b[K… {sent.events:,} events, {sent.per_second:,.0f}/s")

    return tell


def _summary(sent: Sent) -> str:
    late = f", at worst {sent.behind_s * 1000:.0f} ms behind schedule" if sent.behind_s else ""
    return f"{sent.events:,} events, {sent.bytes / 1e6:.1f} MB in {sent.seconds:.1f} s: {sent.per_second:,.0f}/s{late}"
