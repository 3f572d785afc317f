"""``cep demo``: the whole application on this machine — broker, registry, Spark, generated streams — and what it detects, live."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from app.bootstrap.artifacts import fetch_all
from app.bootstrap.kernels import warming_kernels
from app.bootstrap.places import PROJECT
from app.bootstrap.progress import say, step
from app.cli.demo.composites import Composite, CompositeReader, Seen
from app.cli.demo.screen import LinesScreen, Scene, Screen, TableScreen
from app.cli.demo.world import Feed, demo_settings
from app.cli.streams.topics import catalog_of
from app.config.settings import Settings, load_settings
from app.config.sources import is_setting
from app.delivery.topics import TopicAdministrator, output_topic, plan_changes, wanted_topics
from app.errors import DependencyError
from app.events.registry import Registry, registry_settings
from app.local.child import Child
from app.local.embedded import embedded_services
from app.local.generators.stream import Truth
from app.local.outlets import outlet_of
from app.local.ports import free_ports
from app.query.plan import Catalog

_READY_SECONDS = 240.0
"""Spark is up after 10 to 20 s; on a machine that compiles and installs beside it takes a multiple."""
_STOP_SECONDS = 40.0
_SETTLE_SECONDS = 60.0
"""After the last event: longest wait for composite events that are still under way. A busy machine lags by tens of seconds."""
_QUIET_SECONDS = 3.0
"""So long nothing new came, and the known truth was found: that was all."""
_SCREEN_SECONDS = 0.5
_TRUTH_QUERY = "shoplifting"


@dataclass(frozen=True, slots=True)
class Demo:
    """Everything that runs while the demo does."""

    settings: Settings
    catalog: Catalog
    application: Child
    feeds: tuple[Feed, ...]
    http_port: int

    @property
    def address(self) -> str:
        """Of the console."""
        return f"http://127.0.0.1:{self.http_port}"


def demo(
    retail_rate: Annotated[float, typer.Option(min=1, help="Readings of tagged items per second.")] = 300.0,
    stock_rate: Annotated[float, typer.Option(min=1, help="Quotes per second.")] = 1000.0,
    seconds: Annotated[float | None, typer.Option(min=1, help="End after this time of streaming.")] = None,
    until_composites: Annotated[int | None, typer.Option(min=1, help="End after so many composite events.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for settings, queries, logs, checkpoint and topics; kept, and gone on with the next time.")
    ] = None,
) -> None:
    """Run everything on this machine and watch composite events arrive; Ctrl-C ends it."""
    interrupted = _on_interrupt()
    began_ms = int(time.time() * 1000)
    started = time.monotonic() - max(0.0, time.time() - float(os.environ.get("CEP_STARTED_AT", time.time())))
    folder = keep or Path(tempfile.mkdtemp(prefix="cep-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    seen = Seen()
    with ExitStack() as cleanup:
        if keep is None:
            cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            running = cleanup.enter_context(_running(folder, (("retail", retail_rate), ("stocks", stock_rate))))
            screen = TableScreen() if sys.stdout.isatty() else LinesScreen()
            reader = cleanup.enter_context(contextlib.closing(_reader(running, began_ms)))
            say(f"→ console: {running.address}/")
            with contextlib.suppress(KeyboardInterrupt), screen:
                _watch(running, reader, seen, screen, Limits(started, seconds, until_composites, interrupted))
            _finish(running, reader, seen)
        except KeyboardInterrupt:
            say("interrupted")
            raise typer.Exit(130) from None
        except DependencyError:
            cleanup.pop_all()  # the logs tell more than the message: leave them
            say(f"logs: {folder}")
            raise


@dataclass(frozen=True, slots=True)
class Limits:
    """When the demo ends by itself."""

    started: float
    seconds: float | None
    composites: int | None
    interrupted: threading.Event

    def reached(self, streaming_s: float, composites: int) -> bool:
        """Whether it is time."""
        over = self.seconds is not None and streaming_s >= self.seconds
        return over or self.interrupted.is_set() or (self.composites is not None and composites >= self.composites)


def _on_interrupt() -> threading.Event:
    """SIGTERM ends the demo as Ctrl-C does; and neither gets lost.

    Python drops a KeyboardInterrupt that happens to be raised inside a finalizer, so the demo looks at what is returned as well.
    """
    interrupted = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
        signal.signal(signal.SIGINT, interrupt)
    return interrupted


@contextlib.contextmanager
def _running(folder: Path, streams: tuple[tuple[str, float], ...]) -> Iterator[Demo]:
    with ExitStack() as cleanup:
        cleanup.enter_context(warming_kernels())
        fetch_all()
        with step("broker and registry", "an embedded Kafka and an embedded schema registry"):
            services = cleanup.enter_context(embedded_services(folder / "services"))
        (http_port,) = free_ports(1)
        path = demo_settings(folder, services.broker.bootstrap_servers, services.registry.url, http_port)
        settings = load_settings(path, {})
        registry = Registry(registry_settings(settings.schema_registry))
        with step("topics and schemas"):
            catalog = catalog_of(settings)
            wanted = wanted_topics(settings, catalog)
            administrator = TopicAdministrator(settings)
            administrator.apply(plan_changes(wanted, administrator.existing(topic.name for topic in wanted)))
            outlets = {name: outlet_of(name, settings.streams[name], registry) for name, _ in streams}
        with step("application", f"{len(catalog.plans)} queries on Spark; `python3 -m app run --settings {path}`"):
            application = _start_application(path, folder)
            cleanup.callback(application.terminate, _STOP_SECONDS)
            _until_ready(application, http_port)
        feeds = tuple(Feed(name, rate, outlets[name]) for name, rate in streams)
        for feed in feeds:
            cleanup.callback(feed.stop)
            feed.start(settings)
        try:
            yield Demo(settings, catalog, application, feeds, http_port)
        finally:
            say("→ stopping: streams, application, broker, registry")


def _until_ready(application: Child, port: int) -> None:
    try:
        application.wait_until(lambda: _answers(port, "/readyz"), _READY_SECONDS)
    except DependencyError as error:
        if application.exit_code is not None:
            raise
        raise DependencyError(f"{error}\nhint: is the machine busy? Start it again: what was compiled meanwhile is kept") from error


def _start_application(settings: Path, folder: Path) -> Child:
    paths = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    # settings in variables are some other application's: ours are all in its file
    others: dict[str, str | None] = {name: None for name in os.environ if is_setting(name, Settings)}
    environment = others | {"PYTHONPATH": paths, "CEP_BOOTSTRAP": "off", "CEP_KERNELS": "off"}
    return Child("application", [sys.executable, "-m", "app", "run", "--settings", str(settings)], folder / "application.log", environment)


def _answers(port: int, path: str) -> bool:
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _reader(running: Demo, since_ms: int) -> CompositeReader:
    topics = sorted({output_topic(running.settings, plan) for plan in running.catalog.plans})
    return CompositeReader(running.settings, topics, Registry(registry_settings(running.settings.schema_registry)), since_ms)


def _watch(running: Demo, reader: CompositeReader, seen: Seen, screen: Screen, limits: Limits) -> None:
    began = time.monotonic()
    shown = 0.0
    first = None
    new: list[Composite] = []
    while True:
        new += seen.add(reader.read(0.1))
        now = time.monotonic()
        if first is None and seen.total:
            first = now - limits.started
        if now - shown >= _SCREEN_SECONDS:
            shown = now
            screen.show(_scene(running, seen, now - began, first), new)
            new = []
        _check(running)
        if limits.reached(now - began, seen.total):
            screen.show(_scene(running, seen, now - began, first), new)
            return


def _scene(running: Demo, seen: Seen, streaming_s: float, first_after_s: float | None) -> Scene:
    sent = {feed.kind: feed.events for feed in running.feeds}
    return Scene(sent, streaming_s, first_after_s, seen, running.address)


def _check(running: Demo) -> None:
    if running.application.exit_code is not None:
        raise DependencyError(f"the application ended with {running.application.exit_code}; its log: {running.application.log}")
    for feed in running.feeds:
        if feed.error:
            raise feed.error


def _finish(running: Demo, reader: CompositeReader, seen: Seen) -> None:
    """Stop the streams, let the rest arrive, and compare with what is known about the stream."""
    for feed in running.feeds:
        feed.stop()
    retail = next(feed for feed in running.feeds if feed.kind == "retail")
    truth = retail.truth(_TRUTH_QUERY)
    _await_stragglers(running, reader, seen, truth)
    print(f"\n{sum(feed.events for feed in running.feeds):,} events, {seen.total:,} composite events: {_counts(seen)}")
    if seen.total:
        print(f"latency p50 {seen.latency_ms(50):.0f} ms, p95 {seen.latency_ms(95):.0f} ms (event happened → composite event on its topic)")
    if truth.expected:
        found = _judged(retail, seen)
        precision, recall = truth.score(found)
        print(f"{_TRUTH_QUERY}: {len(truth.expected)} items were stolen, {len(found)} composite events tell of them", end="")
        print(f" (one per shelf that the item was taken from): precision {precision:.4f}, recall {recall:.4f}")
    else:
        print(
            f"{_TRUTH_QUERY}: too short a run to compare with the known truth (a stretch of the stream is judged when all of it was sent)"
        )


def _judged(retail: Feed, seen: Seen) -> list[Mapping[str, Any]]:
    """Composite events about items of the stretches that were sent as a whole; a tag's name tells its stretch."""
    stretches = {f"T{chunk.number:03d}" for chunk in retail.chunks if chunk.complete}
    return [fields for fields in seen.found.get(_TRUTH_QUERY, []) if str(fields["tag_id"])[:-8] in stretches]


def _await_stragglers(running: Demo, reader: CompositeReader, seen: Seen, truth: Truth) -> None:
    say("… waiting for what is still under way")
    deadline = time.monotonic() + _SETTLE_SECONDS
    last_news = time.monotonic()
    while time.monotonic() < deadline:
        _check(running)
        if seen.add(reader.read(0.2)):
            last_news = time.monotonic()
        elif time.monotonic() - last_news > _QUIET_SECONDS and truth.score(seen.found.get(_TRUTH_QUERY, []))[1] == 1.0:
            return


def _counts(seen: Seen) -> str:
    return ", ".join(f"{query} {count:,}" for query, count in seen.by_query.most_common()) or "none"
