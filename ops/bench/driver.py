"""What a batch costs the driver beside Spark, and what its headers weigh, with many queries, buckets and topic partitions.

    python -m ops.bench.driver [--queries 1000] [--owners 80] [--partitions 1000] [--json FILE]

Generated: as many ingress tasks as owners, every query has counts in every report. Measured is the processor time of everything that the driver does
with orders, reports and totals (`app.pipeline.batches`), and the bytes that travel beside the events.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from app.control.batch_log import BatchLog
from app.control.directives import Directive
from app.control.placement import OwnerId
from app.control.reports import QueryTally, SourceProgress, StageReport
from app.control.totals import add_up, head_of, pack_report
from app.observe.latency import LATENCY_BOUNDS_MS
from app.owners.orders import BucketOrder, OwnerPlace, TaskOrders
from app.pipeline.batches import advance_asks
from app.storage.open import open_store

ROUNDS = 9
START_MS = 1_780_000_000_000


def reports(names: list[str], owners: int, sources: list[int]) -> tuple[list[bytes], list[bytes]]:
    """Of all ingress tasks and of all owners, packed."""
    chance = np.random.default_rng(1)
    ingress, matching = [], []
    for part in range(owners):
        own = tuple(SourceProgress(n, 100, START_MS + part, START_MS, START_MS + 9, 10**9, 10**9 + 100) for n in sources[part::owners])
        counts = chance.integers(0, 300, (len(names), 3)).tolist()
        tallies = tuple(QueryTally(name, candidates=a, shed=b) for name, (a, b, _) in zip(names, counts, strict=True))
        ingress.append(pack_report(StageReport(7, "ingress", part, own, tallies, {"consumed": 1000, "matched": 1000}), names))
        latencies = tuple(int(x) for x in chance.integers(0, 3, len(LATENCY_BOUNDS_MS) + 1))
        found = tuple(
            QueryTally(name, matches=a, partial_matches=b * 100, cost_ns=c * 10_000, latencies=latencies)
            for name, (a, b, c) in zip(names, counts, strict=True)
        )
        matching.append(pack_report(StageReport(7, "cep", part, queries=found), names))
    return ingress, matching


def measured(queries: int, owners: int, partitions: int) -> dict[str, Any]:
    names = [f"query-number-{number}" for number in range(queries)]
    sources = [(1 << 20) | number for number in range(partitions)]
    ingress, matching = reports(names, owners, sources)
    directive = Directive(7, deployment="f" * 24, greatest_times=dict.fromkeys(sources, START_MS), sources=tuple(sources))
    places = tuple(OwnerPlace(f"10.0.{number}.1", 40_000, (number,)) for number in range(owners))
    orders = TaskOrders("/checkpoint", 1, directive, places)
    held = {OwnerId(one.host, one.port, number): [BucketOrder(number, number)] for number, one in enumerate(places)}
    spent: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        log = BatchLog(open_store(folder))
        for _ in range(ROUNDS):
            clock = time.process_time
            at = clock()
            text = orders.to_text()
            spent.setdefault("orders", []).append(clock() - at)
            at = clock()
            heads = [head_of(report) for report in ingress]
            greatest = {source[0]: source[2] for head in heads for source in head["sources"] if source[2] is not None}
            asks = advance_asks(orders, greatest, tuple(range(owners)), held)
            told = [orjson.dumps(dict(ask.head)) for ask in asks.values()]
            spent.setdefault("advance", []).append(clock() - at)
            at = clock()
            totals = add_up(7, [*ingress, *matching], names)
            spent.setdefault("add_up", []).append(clock() - at)
            at = clock()
            log.finish(totals)
            spent.setdefault("finish", []).append(clock() - at)
    delivery = orjson.dumps(
        {"op": "deliver", "application": "/checkpoint", "batch": 7, "attempt": 1, "part": 3, "buckets": [5], "parts": 1}
    )
    sent = {
        "orders_to_tasks": len(text) * owners,
        "orders_to_owners": sum(map(len, told)) + sum(len(ask.parts[0]) for ask in asks.values()),
        "deliveries": len(delivery) * owners * owners,
        "reports": sum(map(len, ingress)) + sum(map(len, matching)),
    }
    cpu = {name: 1000 * sorted(values)[len(values) // 2] for name, values in spent.items()}
    return {
        "queries": queries,
        "owners": owners,
        "partitions": partitions,
        "driver_cpu_ms": sum(cpu.values()),
        "cpu_ms": cpu,
        "headers_bytes": sum(sent.values()),
        "bytes": sent,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--owners", type=int, default=80)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    figures = measured(chosen.queries, chosen.owners, chosen.partitions)
    print(json.dumps(figures, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
