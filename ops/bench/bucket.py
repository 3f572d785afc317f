"""How fast events go through a bucket's life: judged, selected, routed; packed; held, ordered and matched; snapshots. Run:

    python -m ops.bench.bucket [--events N] [--rounds N] [--json FILE]

CPU time on one core, median of the rounds after the first. *quotes*: 500 symbols, all events relevant, cheap query, two buckets.
*irrelevant*: as before, nine of ten events die in selection. *small*: batches of 1,000 events, where fixed costs rule.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog

SYMBOLS = [f"S{number}" for number in range(500)]
BUCKETS = 2


@dataclass(frozen=True, slots=True)
class Workload:
    """A condition on the first quote, and events per batch as a share of those asked for."""

    name: str
    condition: str
    share: float = 1.0


WORKLOADS = (
    Workload("quotes", "a.price > 99 AND b.price < 1"),
    Workload("irrelevant", "a.price > 95 AND b.price < 5"),
    Workload("small", "a.price > 99 AND b.price < 1", 0.005),
)


def catalog_of(workload: Workload) -> Catalog:
    """Two quotes of one symbol; *quotes* has a third item that any event can be, so that none is irrelevant."""
    third = "" if workload.name == "irrelevant" else ", Quote c"
    kept = f"SEQ(Quote a, Quote b{third})"
    text = f'name: q\nfrom: s\nevent: {kept}\nwhere: "[symbol] AND {workload.condition}"\nwithin: 100 ms\nreturn: {{at: b.time, price: b.price}}\n'
    attributes = (Attribute("symbol", Kind.STRING), Attribute("price", Kind.FLOAT), Attribute("volume", Kind.INTEGER))
    compiled = compile_texts([("q.yaml", text)], {"s": StreamSchema("s", (EventType("Quote", attributes),))})
    assert not compiled.errors, compiled.errors
    return compiled.catalog


def batch(first: int, events: int, seed: int) -> EventBatch:
    """Quotes, a millisecond apart, in two topic partitions."""
    rng = np.random.default_rng(seed)
    zeros = np.zeros(events, dtype=np.int32)
    columns = {
        "symbol": Column(Kind.STRING, rng.integers(0, 500, events, dtype=np.int32), None, Dictionary.of([s.encode() for s in SYMBOLS])),
        "price": Column(Kind.FLOAT, rng.random(events) * 100),
        "volume": Column(Kind.INTEGER, rng.integers(0, 1000, events)),
    }
    place = first + np.arange(events)
    return EventBatch(place, place % 2, place // 2, Column(Kind.STRING, zeros, None, Dictionary.of([b"Quote"])), columns)


def measure(workload: Workload, events: int, rounds: int) -> dict[str, Any]:
    """Rates of every step."""
    catalog, rules = catalog_of(workload), TimeRules("s")
    plan = IngressPlan(catalog, rules, BUCKETS)
    buckets = [Bucket(catalog, [rules], number) for number in range(BUCKETS)]
    size = max(1000, int(events * workload.share))
    taken: dict[str, list[float]] = {"ingest": [], "pack": [], "advance": [], "snapshot": []}
    known: dict[int, int] = {}
    shipped = 0
    for number in range(rounds + 1):
        arrived = batch(number * size, size, number)
        marks = [time.process_time()]
        ingested = plan.ingest(arrived, Progress(known))
        marks.append(time.process_time())
        packed = ingested.packed()
        marks.append(time.process_time())
        for bucket, chunk in packed:
            buckets[bucket].advance([chunk], Progress(known))
        marks.append(time.process_time())
        for bucket in buckets:
            bucket.snapshot()
        marks.append(time.process_time())
        known = dict(ingested.judgement.greatest_times)
        shipped = sum(len(chunk) for _, chunk in packed)
        for step, begin, end in zip(taken, marks, marks[1:], strict=False):
            taken[step].append(end - begin)
    seconds = {step: statistics.median(times[1:]) for step, times in taken.items()}
    return {
        "events": size,
        **{f"{step}_m_events_per_s": round(size / max(seconds[step], 1e-9) / 1e6, 2) for step in ("ingest", "pack", "advance")},
        **{f"{step}_ms": round(seconds[step] * 1e3, 3) for step in seconds},
        "bytes_per_event": round(shipped / size, 1),
    }


def main() -> None:
    """Prints a line per workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = {workload.name: measure(workload, arguments.events, arguments.rounds) for workload in WORKLOADS}
    for name, found in figures.items():
        steps = ", ".join(f"{s} {found[f'{s}_m_events_per_s']:g} M/s ({found[f'{s}_ms']:g} ms)" for s in ("ingest", "pack", "advance"))
        print(
            f"{name:<11}{found['events']:>8} events: {steps}, snapshot {found['snapshot_ms']:g} ms, {found['bytes_per_event']:g} bytes per event"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
