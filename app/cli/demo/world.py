"""The quick start's settings and its streams, which go on for ever."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from app.bootstrap.places import QUICKSTART
from app.config.settings import Settings
from app.delivery.security import client_options
from app.errors import CepError
from app.events.batch import EventBatch
from app.local.generators import generate
from app.local.generators.stream import Truth
from app.local.sending import Outlet, Sender, as_recorded

CHUNK_SECONDS: Mapping[str, float] = {"retail": 20.0, "stocks": 600.0}
"""Streams are generated in chunks of so much event time: items' journeys are short then, and are judged soon; prices run on for long."""
CHUNK_EVENTS = 1_000_000
"""Of no more events: a chunk is in memory as a whole, before its first event is sent."""
_LEAD_MS = 200
"""The first event lies a little ahead, so that encoding it does not make it late."""


def demo_settings(folder: Path, bootstrap_servers: str, registry_url: str, http_port: int) -> Path:
    """The shipped settings with the embedded addresses, as a file in the demo's folder; beside it copies of the queries, for people to change."""
    folder = folder.resolve()  # what a settings file names is relative to its own folder
    settings = yaml.safe_load(QUICKSTART.read_text(encoding="utf-8"))
    settings["kafka"] = {"bootstrap_servers": bootstrap_servers, "starting_offsets": "earliest"}
    settings["schema_registry"] = {"url": registry_url}
    settings["http"] = {"port": http_port, "host": "127.0.0.1"}
    settings["checkpoint"] = {"path": str(folder / "checkpoint")}
    settings["queries"]["paths"] = [str(_copied(map(_resolved, settings["queries"]["paths"]), folder / "queries"))]
    settings["topics"] = {"create_outputs": True}
    for stream in settings["streams"].values():
        stream["schemas"] = [str(_resolved(path)) for path in stream["schemas"]]
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return path


def _copied(queries: Iterable[Path], folder: Path) -> Path:
    """The folder with the queries; one that is there already stays as it is."""
    if not folder.exists():
        draft = folder.with_name(f".{folder.name}")
        draft.mkdir(parents=True, exist_ok=True)
        for query in queries:
            shutil.copyfile(query, draft / query.name)
        draft.rename(folder)
    return folder


def _resolved(path: str) -> Path:
    return (QUICKSTART.parent / path).resolve()


@dataclass(slots=True)
class Chunk:
    """A piece of a generated stream and what is to be found in it, once all of it was sent."""

    number: int
    truth: Mapping[str, Truth]
    complete: bool = False


@dataclass(slots=True)
class Feed:
    """A generated stream on its way to Kafka, in a thread of its own, every event at its own time."""

    kind: str
    rate_per_s: float
    outlet: Outlet
    chunks: list[Chunk] = field(default_factory=list)
    error: CepError | None = None
    _sender: Sender | None = None
    _thread: threading.Thread | None = None

    def start(self, settings: Settings) -> None:
        """Begin to send."""
        start_ms = int(time.time() * 1000) + _LEAD_MS
        self._sender = Sender(client_options(settings.kafka), self.outlet, as_recorded(start_ms))
        self._thread = threading.Thread(target=self._run, args=(self._sender, start_ms), name=f"feed-{self.kind}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending and wait for the acknowledgements."""
        if self._sender and self._thread:
            self._sender.stop()
            self._thread.join(30)

    @property
    def events(self) -> int:
        """Events sent so far."""
        return self._sender.sent.events if self._sender else 0

    def truth(self, query: str) -> Truth:
        """What the query has to find in the chunks that were sent as a whole."""
        truths = [chunk.truth[query] for chunk in self.chunks if chunk.complete]
        fields = truths[0].fields if truths else ()
        return Truth(fields, frozenset().union(*(truth.expected for truth in truths)))

    def _run(self, sender: Sender, start_ms: int) -> None:
        try:
            with sender:
                sender.check_topic()
                sender.send(self._batches(start_ms))
        except CepError as error:
            self.error = error

    def _batches(self, start_ms: int) -> Iterator[EventBatch]:
        begin_ms = start_ms
        for number in range(1_000_000):
            events = min(CHUNK_EVENTS, max(1, round(self.rate_per_s * CHUNK_SECONDS[self.kind])))
            stream = generate(self.kind, events, number, begin_ms, self.rate_per_s)
            chunk = Chunk(number, stream.truth)
            self.chunks.append(chunk)
            for batch in stream.batches:
                yield batch
                begin_ms = int(batch.time[-1]) + 1
            chunk.complete = True
