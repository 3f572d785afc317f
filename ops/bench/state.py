"""Owners with gigabytes of live state: what a batch takes beside one with little, and how long a killed owner's buckets take to be back.

    python -m ops.bench.state [--gigabytes 2] [--batches 200] [--json FILE]

Real owner processes and a real checkpoint, without Spark and Kafka around them: every batch is a delivery to each owner and the driver's order to advance
(`app.owners.driver`), with log entries written, synced, and snapshots beside the batches. Shelf readings of tags that were never seen before wait for an exit
within twelve hours, so everything stays. Batches of 5,000 events are timed with little state and with much, in the same run; then both owners are killed
with SIGKILL, and the time is taken until the next batch is done: what had to be read and fed again is told with it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from app.bucket.hold import Progress
from app.bucket.ingress import IngressPlan
from app.config.settings import Http, load_settings
from app.config.task_token import token_file
from app.control.messages.directives import Directive
from app.control.messages.totals import head_of
from app.control.placement import OwnerId
from app.events.batch import Column, Dictionary, EventBatch, source_number, take
from app.events.registry import Registry, RegistrySettings
from app.events.types import Kind
from app.local.generators import generate
from app.owners.delivering import Outbox
from app.owners.deployment import INGESTED, load_deployment, store_deployment
from app.owners.driver import Ask, Owners
from app.owners.keeper import SETTING, OwnerSlots, local_owners, start_owners
from app.owners.orders import BucketOrder, OwnerPlace, OwnerSettings, TaskOrders
from app.owners.server import serve
from app.owners.shipment import CHUNK
from app.owners.state_log import state_log
from app.pipeline.batches import advance_asks
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.storage.open import open_store

ROOT = Path(__file__).resolve().parents[2]
OWNERS = 2
EVENTS = 5_000
FILL = 100_000
START_MS = 1_780_000_000_000
QUERY = """
name: left
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
within: 12 hours
return: {tag_id: s.tag_id}
"""


class World:
    """Two owners, the driver's end of them, and readings without end."""

    def __init__(self, folder: Path, slots: OwnerSlots, application: str) -> None:
        checkpoint = str(folder / application)
        self._plan, self.fingerprint = self._prepared(folder, checkpoint)
        self.store = open_store(checkpoint)
        self.owners = Owners(slots.key, OwnerSettings(application, checkpoint, "state"))
        self._outbox, self._application = Outbox(slots.key), application
        self._template = _shelf_readings()
        self._source = source_number(0, 0)
        self.batch, self._epoch, self._sent, self._time = 0, 1, 0, START_MS
        self.found: list[OwnerId] = []

    def find(self) -> None:
        """Greets the owners that are there now; they get the buckets."""
        local = local_owners()
        for owner in self.found:
            self.owners.give_up(owner)
        self.found = []
        while len(self.found) < OWNERS:
            self.found += self.owners.find((local.host, port) for port in local.ports)
        self._epoch += 1

    def advance(self, events: int, attempt: int = 1) -> tuple[float, dict[str, Any]]:
        """One batch; seconds until all owners have answered, and their reports added up."""
        readings = self._readings(events)
        greatest = {self._source: self._time - 1}
        directive = Directive(self.batch, deployment=self.fingerprint, greatest_times=greatest, sources=(self._source,))
        ingested = self._plan.ingest(readings, Progress(greatest, frozenset((self._source,))))
        rows = [(bucket, CHUNK + packed) for bucket, packed in ingested.packed(with_times=False)]
        places = tuple(OwnerPlace(owner.host, owner.port, (number,)) for number, owner in enumerate(self.found))
        orders = TaskOrders(self._application, attempt, directive, places)
        started = time.perf_counter()
        assert not self._outbox.deliver(orders, 0, rows)
        held = {owner: [BucketOrder(number, self._epoch * 1000 + number, "lost")] for number, owner in enumerate(self.found)}
        answers = self.owners.ask(advance_asks(orders, {self._source: int(readings.time[-1])}, {0: 0}, held))
        seconds = time.perf_counter() - started
        heads = [head_of(bytes(answer.parts[0])) for answer in answers.values()]
        self.batch += 1
        self.owners.tell(Ask({"op": "committed", "application": self._application, "batch": self.batch - 2}))
        return seconds, {name: sum(head[name] for head in heads) for name in ("state_rows", "state_bytes")} | {"fed": heads[0]["fed"]}

    def snapshots(self) -> int:
        """Bytes of the newest snapshots' files, and of older ones whose blocks they name."""
        return sum(one.size for number in range(OWNERS) for one in state_log(self.store, "state", number).listing().generations[-1:])

    def _readings(self, events: int) -> EventBatch:
        rows = take(self._template, np.arange(events) % len(self._template))
        tags = np.char.mod("T%011d", np.arange(self._sent, self._sent + events)).astype("S12")
        dictionary = Dictionary(np.frombuffer(tags.tobytes(), dtype=np.uint8), np.arange(events + 1, dtype=np.int64) * 12)
        times = self._time + np.arange(events, dtype=np.int64) // 10
        column = Column(Kind.STRING, np.arange(events, dtype=np.int32), None, dictionary)
        columns = {**rows.columns, "tag_id": column, INGESTED: Column(Kind.TIME, times)}
        offsets = np.arange(self._sent, self._sent + events, dtype=np.int64)
        self._sent, self._time = self._sent + events, int(times[-1]) + 1
        return replace(rows, time=times, source=np.full(events, self._source), offset=offsets, columns=columns)

    def _prepared(self, folder: Path, checkpoint: str) -> tuple[IngressPlan, str]:
        (folder / "left.yaml").write_text(QUERY)
        schemas = [str(ROOT / "schemas" / f"{name}.avsc") for name in ("ShelfReading", "ExitReading")]
        retail = {"topics": ["retail"], "schemas": schemas, "time": "time", "ordered_by": "tag_id", "idle_after": "1 h"}
        plain = {
            "streams": {"retail": retail},
            "queries": {"paths": ["left.yaml"]},
            "spark": {"buckets": OWNERS},
            "heartbeat": {"enabled": False},
        }
        (folder / "settings.yaml").write_text(yaml.safe_dump(plain))
        settings, registry = load_settings(folder / "settings.yaml", {}), Registry(RegistrySettings("mock://state"))
        streams = read_streams(settings, registry)
        fingerprint = store_deployment(checkpoint, prepare(settings, compile_queries(settings, streams), streams, registry))
        known = load_deployment(checkpoint, fingerprint)
        return IngressPlan(known.catalog, known.streams[0].rules, OWNERS), fingerprint


def _shelf_readings() -> EventBatch:
    (batch,) = generate("retail", 2_000, seed=1, start_ms=START_MS, rate_per_s=100.0, batch_rows=2_000).batches
    names = [batch.type.dictionary.entry(code) for code in range(len(batch.type.dictionary))]
    return take(batch, np.flatnonzero(batch.type.values == names.index(b"ShelfReading")))


def measured(folder: Path, gigabytes: float, batches: int) -> dict[str, Any]:
    slots = OwnerSlots(str(token_file(Http())), OWNERS, local=True)
    os.environ[SETTING] = slots.to_text()
    start_owners(serve)
    little = World(folder, slots, "little")
    little.find()
    small = [little.advance(EVENTS)[0] for _ in range(batches + 10)][10:]
    little.owners.close()
    much = World(folder, slots, "much")
    much.find()
    for memory in _filled(much, gigabytes):
        print(f"{memory / 1e9:.2f} GB of live state, {much.batch} batches", flush=True)
    large = [much.advance(EVENTS)[0] for _ in range(batches + 10)][10:]
    live = sum(map(_private, (owner.pid for owner in much.found)))
    snapshots = much.snapshots()
    entries = sum(len(state_log(much.store, "state", n).listing().entries) for n in range(OWNERS))
    for owner in much.found:
        os.kill(owner.pid, signal.SIGKILL)
    started = time.perf_counter()
    much.find()
    _, report = much.advance(EVENTS, attempt=2)
    recovery = time.perf_counter() - started
    much.owners.close()
    quantile = lambda values, q: 1000 * float(np.quantile(values, q))  # noqa: E731
    return {
        "live_bytes": live,
        "little_p50_ms": quantile(small, 0.5),
        "little_p99_ms": quantile(small, 0.99),
        "much_p50_ms": quantile(large, 0.5),
        "much_p99_ms": quantile(large, 0.99),
        "p99_ratio": quantile(large, 0.99) / quantile(small, 0.99),
        "mean_ratio": statistics.mean(large) / statistics.mean(small),
        "snapshot_bytes": snapshots,
        "log_entries": entries,
        "recovery_s": recovery,
        "recovery_bytes_per_s": live / recovery,
        "fed_again": report["fed"],
    }


def _filled(world: World, gigabytes: float) -> Iterator[int]:
    """Feeds until the owners' own memory is that large."""
    while True:
        for _ in range(5):
            world.advance(FILL)
        memory = sum(map(_private, (owner.pid for owner in world.found)))
        yield memory
        if memory >= gigabytes * 1e9:
            return


def _private(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), chosen.gigabytes, chosen.batches)
    print(json.dumps(figures, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
