"""An application whose query files change while it runs: how files are changed, what is told of it, and what the batches of a change took."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.config.settings import load_settings
from app.control.messages.batch_log import TOTALS, BatchLog
from app.delivery.security import client_options
from app.events.batch import EventBatch
from app.events.registry import Registry, RegistrySettings
from app.local.outlets import outlet_of
from app.local.sending import Sender, at_once, at_rate
from app.owners.deployment import load_deployment
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.storage.open import open_store
from tests.kafka.application import Application, expected_composites, until
from tests.naive.composites import CompositeEvent

TOKEN = "of-the-tests-and-of-nobody-else"


@dataclass(frozen=True)
class Batch:
    """A batch that is over.

    Attributes:
        versions: of the queries that ran in it.
        ms: that the driver worked on it, from the directive to the totals.
        over_at_ms: by the clock.
    """

    deployment: str
    versions: dict[str, int]
    ms: float
    over_at_ms: float


class Changing(Application):
    """An application with a folder of query files, one that is mounted as a ConfigMap, and a single file."""

    def __init__(self, folder: Path, settings: dict, single: Path) -> None:
        self.queries, self.mounted = folder / "queries", folder / "mounted"
        for one in (self.queries, self.mounted):
            one.mkdir()
        queries = {"paths": [str(self.queries), str(self.mounted), str(single)], "reload": {"interval": "1 s"}}
        super().__init__(folder, {**settings, "queries": queries}, {"CEP_HTTP__CONTROL__TOKEN": TOKEN})
        self._mounts = 0

    def write(self, **files: str) -> None:
        for name, content in files.items():
            (self.queries / f"{name}.yaml").write_text(content)

    def mount(self, **files: str) -> None:
        """As a node does with a ConfigMap: a new folder, and one symbolic link that is exchanged for all files at once."""
        self._mounts += 1
        versioned = self.mounted / f"..2026_{self._mounts}"
        versioned.mkdir()
        for name, content in files.items():
            (versioned / f"{name}.yaml").write_text(content)
        (self.mounted / "..data_tmp").symlink_to(versioned.name)
        (self.mounted / "..data_tmp").replace(self.mounted / "..data")
        for name in files:
            visible = self.mounted / f"{name}.yaml"
            if not visible.is_symlink():
                visible.symlink_to(Path("..data") / visible.name)

    def configure(self, settings: dict) -> None:
        """Writes other settings, as of the next start."""
        kept = {name: self.settings[name] for name in ("checkpoint", "http", "queries")}
        self.settings = {**settings, **kept}
        self.file.write_text(yaml.safe_dump(self.settings))

    def told(self) -> dict[str, Any]:
        return json.loads(self.text("/queries"))

    def last_reading(self) -> dict[str, Any]:
        return self.told()["last_reading"]

    def statuses(self) -> dict[tuple[str, int | None], str]:
        return {(one["query"], one.get("version")): one["status"] for one in self.told()["queries"]}

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.text("/metrics"), re.MULTILINE)
        return 0.0 if found is None else float(found[1])

    def logged(self, text: str) -> int:
        return self.log.read_text().count(text)

    def set_level(self, level: str, logger: str, token: str = TOKEN) -> int:
        """Asks for another level of a logger; returns the status."""
        body = json.dumps({"level": level, "logger": logger}).encode()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/log-level", body, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def after(self, change: Callable[[], None], outcome: str = "reloaded") -> float:
        """Changes files; returns how many seconds it took until it was told."""
        before = self.last_reading()["read_at_ms"]
        change()
        began = time.monotonic()
        until(lambda: self.last_reading()["read_at_ms"] != before, seconds=30, pause=0.05, alive=self.alive)
        assert self.last_reading()["outcome"] == outcome, self.last_reading()
        return time.monotonic() - began

    def batch_log(self) -> tuple[BatchLog, set[int]]:
        """The log as it is now, and which batches in it are over."""
        log = BatchLog(open_store(str(self.checkpoint)))
        return log, {number for number, kind in log.logged_files() if kind == TOTALS}

    def batches(self, but: set[int]) -> dict[int, Batch]:
        """Batches that are over, by number; without those that are known already: the log forgets old ones."""
        found = {}
        log, over = self.batch_log()
        for number in sorted(over - but):
            totals, directive = log.totals(number), log.logged(number)
            assert directive is not None
            ms = sum(totals.phases_ns.values()) / 1e6
            plans = load_deployment(str(self.checkpoint), directive.deployment).catalog.current
            versions = {plan.name: plan.version for plan in plans}
            found[number] = Batch(directive.deployment, versions, ms, directive.decided_at_ms + ms)
        return found


class Input:
    """The events of one stream, sent little by little."""

    def __init__(self, application: Application, stream: str, batches: list[EventBatch]) -> None:
        self._batches, self._application = batches, application
        loaded = load_settings(application.file, {})
        self.topic, self.sent = loaded.streams[stream].topics[0], 0
        outlet = outlet_of(stream, loaded.streams[stream], Registry(RegistrySettings(loaded.schema_registry.url)))
        self._sender = lambda due: Sender(client_options(loaded.kafka), outlet, due)

    def send(self, batches: int) -> None:
        with self._sender(at_once) as sender:
            self.sent += sender.send([self._batches.pop(0) for _ in range(batches)]).events

    def consumed(self) -> None:
        until(lambda: self._application.has_consumed(self.sent, self.topic), alive=self._application.alive)

    @contextmanager
    def flowing(self, per_second: float) -> Iterator[None]:
        """Sends at a steady rate while the block runs."""
        stopped = threading.Event()

        def coming() -> Iterator[EventBatch]:
            while not stopped.is_set():
                yield self._batches.pop(0)

        def flow() -> None:
            with self._sender(at_rate(per_second)) as sender:
                self.sent += sender.send(coming()).events

        thread = threading.Thread(target=flow)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def composites(embedded, application: Application, folder: Path, queries: dict[str, str]) -> dict[str, list[CompositeEvent]]:
    """What these queries find in all that was sent, by name."""
    folder.mkdir()
    for name, content in queries.items():
        (folder / f"{name}.yaml").write_text(content)
    file = folder.with_suffix(".settings")
    file.write_text(yaml.safe_dump({**application.settings, "queries": {"paths": [str(folder)]}}))
    settings, registry = load_settings(file, {}), Registry(RegistrySettings(embedded.registry.url))
    streams = read_streams(settings, registry)
    deployment = prepare(settings, compile_queries(settings, streams), streams, registry)
    return expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, deployment)
