"""What a batch costs the driver beside Spark, and what its headers weigh, with many queries, buckets and topic partitions.

    python -m ops.bench.driver [--queries 1000] [--owners 80] [--partitions 1000] [--rounds 9] [--json FILE]

The driver's own code does whole batches (`app.pipeline.batches`, `app.control.plane`): directive, orders, the owners' answers over real connections, totals,
accounts with Spark's log of offsets, the log of batches, owners that are told of the commit, and Spark's progress with all metrics. Generated are the reports of as
many ingress tasks as owners, with counts of every query in each, and the answers of owners, which another process gives.
Not in it: Spark's job, whose rows are handed in as they come, and `/metrics`, which whoever scrapes asks for (told beside).
Bytes: all that travels beside the events between driver, tasks and owners.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson
import yaml

from app.config.settings import Settings, load_settings
from app.control.arrivals.accounts import ACCOUNTS
from app.control.messages.directives import Directive
from app.control.messages.reports import QueryTally, SourceProgress, StageReport
from app.control.messages.totals import pack_report
from app.control.plane import ControlPlane
from app.events.batch import source_number
from app.events.registry import Registry, RegistrySettings
from app.observe.latency import LATENCY_BOUNDS_MS
from app.owners.orders import BucketOrder, OwnerSettings, TaskOrders
from app.owners.wire import PROTOCOL, WireError, WireKey, accepted
from app.pipeline.application import open_catalog
from app.pipeline.batches import Batches, BatchRules, advance_asks
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.pipeline.task_answers import TaskAnswer, answered

ROOT = Path(__file__).parents[2]
KEY, TOPIC, START_MS, PER_SOURCE = WireKey(b"bench"), "quotes", 1_780_000_000_000, 100
WARM_UP = 3
QUERY = """name: query-number-{number}
version: 1
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND a.price > {number} AND b.price > a.price"
within: 10 s
return: {{symbol: a.symbol}}
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is of everything; as many ingress tasks and buckets as owners."""

    queries: int = 1000
    owners: int = 80
    partitions: int = 1000


def settings_of(folder: Path, size: Size) -> Settings:
    """An application with so many queries of one stream."""
    (folder / "queries.yaml").write_text("---\n".join(QUERY.format(number=number) for number in range(size.queries)))
    stocks = {"topics": [TOPIC], "schemas": [str(ROOT / "schemas" / "Quote.avsc")], "time": "time"}
    plain = {
        "streams": {"stocks": stocks},
        "queries": {"paths": ["queries.yaml"]},
        "spark": {"buckets": size.owners},
        "heartbeat": {"enabled": False},
        "checkpoint": {"path": str(folder / "checkpoint")},
        "http": {"host": "127.0.0.1", "port": 0},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(plain))
    return load_settings(folder / "settings.yaml", {})


def ingress_reports(batch: int, names: Sequence[str], size: Size, topic: int) -> list[bytes]:
    """Of all ingress tasks of a batch: what each read of its topic partitions, and every query's candidates."""
    chance, first, found = np.random.default_rng(1), batch * PER_SOURCE, []
    for part in range(size.owners):
        sources = tuple(
            SourceProgress(source_number(topic, n), PER_SOURCE, START_MS + batch, START_MS, START_MS + 9, first, first + PER_SOURCE, 9000)
            for n in range(part, size.partitions, size.owners)
        )
        tallies = tuple(
            QueryTally(name, candidates=a, shed=b)
            for name, (a, b) in zip(names, chance.integers(0, 300, (len(names), 2)).tolist(), strict=True)
        )
        events = PER_SOURCE * len(sources)
        found.append(pack_report(StageReport(batch, "ingress", part, sources, tallies, {"consumed": events, "matched": events}), names))
    return found


def owner_reports(names: Sequence[str], size: Size) -> list[bytes]:
    """Of all owners: every query found something, at different latencies."""
    chance, found = np.random.default_rng(2), []
    for part in range(size.owners):
        latencies = tuple(int(x) for x in chance.integers(0, 3, len(LATENCY_BOUNDS_MS) + 1))
        tallies = tuple(
            QueryTally(name, matches=a, partial_matches=b * 100, cost_ns=c * 10_000, latencies=latencies)
            for name, (a, b, c) in zip(names, chance.integers(0, 300, (len(names), 3)).tolist(), strict=True)
        )
        found.append(pack_report(StageReport(0, "cep", part, queries=tallies), names))
    return found


@contextmanager
def playing_owners(reports: Sequence[bytes]) -> Iterator[list[tuple[str, int]]]:
    """Addresses of owners that give these answers, in a process of their own."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in reports]
    process = multiprocessing.get_context("fork").Process(target=_play, args=(listeners, reports), daemon=True)
    process.start()
    try:
        yield [listener.getsockname()[:2] for listener in listeners]
    finally:
        process.terminate()
        process.join()
        for listener in listeners:
            listener.close()


def _play(listeners: Sequence[socket.socket], reports: Sequence[bytes]) -> None:
    threads = [threading.Thread(target=_answer, args=one) for one in zip(listeners, range(len(reports)), reports, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _answer(listener: socket.socket, number: int, report: bytes) -> None:
    wire = accepted(listener.accept()[0], KEY)
    said: dict[str, dict[str, Any]] = {"hello": {"protocol": PROTOCOL, "pid": number}, "advance": {"held": [number], "cpu_ns": 10**8}}
    try:
        while True:
            op = wire.receive().head["op"]
            wire.send(said.get(op, {}), [report] if op == "advance" else [])
    except WireError:
        wire.close()


class Driven(Batches):
    """Batches whose ingress is not Spark's: its tasks' rows are there already."""

    rows: Sequence[bytes] = ()
    orders = ""

    def _ingress(self, frame: Any, directive: Directive) -> tuple[list[bytes], set[tuple[str, int]]]:
        self.orders = TaskOrders(self._settings.application, self._attempt, directive, self._places()).to_text()
        return [TaskAnswer.unpack(row).report for row in self.rows], set()


class Bench:
    """A driver over a checkpoint in a folder, whose batches come one after the other."""

    def __init__(self, folder: Path, size: Size, addresses: Sequence[tuple[str, int]], names: Sequence[str]) -> None:
        self.size, self.names, self.checkpoint = size, names, folder / "checkpoint"
        settings = settings_of(folder, size)
        registry = Registry(RegistrySettings("mock://driver"))
        streams = read_streams(settings, registry)
        deployment = prepare(settings, compile_queries(settings, streams), streams, registry)
        self.topic = deployment.topics.index(TOPIC)
        self.plane = ControlPlane(settings, {})
        open_catalog(settings, self.plane, deployment)
        self.plane.assign((TOPIC, number) for number in range(size.partitions))
        (self.checkpoint / "spark" / "offsets").mkdir(parents=True)
        own = OwnerSettings("bench", str(self.checkpoint), "state")
        self.batches = Driven(self.plane, BatchRules(size.owners), own, KEY)
        assert self.batches.find(addresses) == size.owners

    def offsets(self, batch: int) -> dict[str, dict[str, int]]:
        """As Spark plans them, after the last record of a batch."""
        return {TOPIC: dict.fromkeys(map(str, range(self.size.partitions)), (batch + 1) * PER_SOURCE)}

    def run(self, batch: int) -> dict[str, float]:
        """One batch; seconds of the driver's processor time, by part."""
        (self.checkpoint / "spark" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(self.offsets(batch))}")
        reports = ingress_reports(batch, self.names, self.size, self.topic)
        self.batches.rows = [answered(report).column("answer")[0].as_py() for report in reports]
        told, clock = self.progress(batch), time.process_time
        begun = clock()
        self.batches(None, batch)  # type: ignore[arg-type]
        matched = clock()
        for thread in threading.enumerate():
            if thread.name == "tending":
                thread.join()
        tended = clock()
        self.plane.on_progress(json.loads(told))
        return {"batch": matched - begun, "tending": tended - matched, "progress": clock() - tended}

    def progress(self, batch: int) -> str:
        """What Spark tells of a batch."""
        ends = self.offsets(batch)
        source = {"startOffset": self.offsets(batch - 1), "endOffset": ends, "latestOffset": ends}
        return json.dumps(
            {
                "batchId": batch,
                "runId": "bench",
                "timestamp": "2026-06-01T00:00:00.000Z",
                "durationMs": {"addBatch": 200, "triggerExecution": 250},
                "numInputRows": PER_SOURCE * self.size.partitions,
                "sources": [source],
            }
        )

    def sent(self, batch: int) -> dict[str, int]:
        """Bytes that travelled beside the events of the last batch."""
        directive, size = self.plane.directive(batch), self.size
        greatest = {source_number(self.topic, number): START_MS + batch for number in range(size.partitions)}
        held: dict[Any, list[Any]] = {}
        for bucket, holding in self.batches.holdings().items():
            held.setdefault(holding.owner, []).append(BucketOrder(bucket, holding.epoch, holding.why))
        asks = advance_asks(TaskOrders("bench", 1, directive), greatest, dict.fromkeys(range(size.owners), 0), held)
        delivery = {
            "op": "deliver",
            "application": str(self.checkpoint),
            "batch": batch,
            "attempt": batch,
            "part": 3,
            "copy": 0,
            "buckets": [5],
        }
        return {
            "orders_to_tasks": len(self.batches.orders) * size.owners,
            "orders_to_owners": sum(len(orjson.dumps(dict(ask.head))) + sum(map(len, ask.parts)) for ask in asks.values()),
            "deliveries": len(orjson.dumps({**delivery, "parts": 1})) * size.owners * size.owners,
            "reports_of_tasks": sum(map(len, self.batches.rows)),
        }


def measured(size: Size, rounds: int = 9) -> dict[str, Any]:
    """Medians over so many batches, after some to warm up."""
    names = [f"query-number-{number}" for number in range(size.queries)]
    answers = owner_reports(names, size)
    with tempfile.TemporaryDirectory() as folder, playing_owners(answers) as addresses:
        bench = Bench(Path(folder), size, addresses, names)
        spent = [bench.run(batch) for batch in range(WARM_UP + rounds)][WARM_UP:]
        sent = {**bench.sent(WARM_UP + rounds - 1), "reports_of_owners": sum(map(len, answers))}
        breaches = sum(bench.plane.metrics.value("cep_accounting_breaches_total", account=account) or 0 for account in ACCOUNTS)
        begun = time.process_time()
        bench.plane.metrics.text()
        scrape = time.process_time() - begun
        bench.batches.close()
        bench.plane.close()
    if breaches:
        raise SystemExit("the accounts of what was generated do not close: the figures are those of another path")
    return {
        "queries": size.queries,
        "owners": size.owners,
        "partitions": size.partitions,
        "driver_cpu_ms": 1000 * median(sum(one.values()) for one in spent),
        "cpu_ms": {name: 1000 * median(one[name] for one in spent) for name in spent[0]},
        "scrape_cpu_ms": 1000 * scrape,
        "headers_bytes": sum(sent.values()),
        "bytes": sent,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--owners", type=int, default=80)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    figures = measured(Size(chosen.queries, chosen.owners, chosen.partitions), chosen.rounds)
    print(json.dumps(figures, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
