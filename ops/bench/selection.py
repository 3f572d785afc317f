"""How fast selection is: events per second for 1, 10, 100 and 1,000 queries. Run:

    python -m ops.bench.selection [--events N] [--json FILE]

CPU time on one core, best of five: selection alone, and with the dispatch of candidates to all queries.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from app.asc.selection import Selection
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan

TYPES = [f"E{n}" for n in range(20)]


def plan(name: str, tests: tuple[tuple[ConstantTest, ...], ...], types: tuple[str, ...]) -> Plan:
    """A sequence of three items with the given types and tests."""
    items = tuple(Item(i, f"v{i}", (types[i],), tests=tests[i]) for i in range(3))
    return Plan(name, 1, "", (), 1.0, ("s",), items, (), (), None, (), ())


def type_only(queries: int, seed: int = 1) -> Catalog:
    """Queries of three type tests each."""
    rng = np.random.default_rng(seed)
    return Catalog.of(tuple(plan(f"q{q}", ((), (), ()), tuple(rng.choice(TYPES, 3, replace=False))) for q in range(queries)))


def selective(queries: int, seed: int = 1) -> Catalog:
    """As `type_only`, each item with one symbol of 500 and a lower bound of the price."""
    rng = np.random.default_rng(seed)
    plans = []
    for q in range(queries):
        tests = tuple(
            (
                ConstantTest("symbol", Kind.STRING, "=", (f"S{rng.integers(500)}",)),
                ConstantTest("price", Kind.FLOAT, ">", (float(rng.integers(100)),)),
            )
            for _ in range(3)
        )
        plans.append(plan(f"q{q}", tests, tuple(rng.choice(TYPES, 3, replace=False))))
    return Catalog.of(tuple(plans))


def batch(events: int, seed: int = 2) -> EventBatch:
    """Uniform types, symbols and prices."""
    rng = np.random.default_rng(seed)
    symbols = Dictionary.of([f"S{n}".encode() for n in range(500)])
    types = Column(Kind.STRING, rng.integers(0, 20, events, dtype=np.int32), None, Dictionary.of([t.encode() for t in TYPES]))
    columns = {
        "symbol": Column(Kind.STRING, rng.integers(0, 500, events, dtype=np.int32), None, symbols),
        "price": Column(Kind.FLOAT, rng.random(events) * 100),
    }
    zeros = np.zeros(events, dtype=np.int64)
    return EventBatch(np.arange(events), zeros, np.arange(events), types, columns)


def measure(catalog: Catalog, events: EventBatch) -> dict[str, Any]:
    """Figures of one catalog."""
    selection = Selection(catalog, "s")
    queries = range(len(catalog.plans))
    alone, both, relevant, pairs = [], [], 0.0, 0.0
    for _ in range(5):
        start = time.process_time()
        selected = selection.select(events)
        alone.append(time.process_time() - start)
        pairs = sum(len(selected.of_query(query)[0]) for query in queries) / len(events)
        both.append(time.process_time() - start)
        relevant = len(selected.relevant) / len(events)
    select, dispatch = (round(len(events) / min(times) / 1e6, 1) for times in (alone, both))
    return {
        "select_m_events_per_s": select,
        "dispatched_m_events_per_s": dispatch,
        "relevant": round(relevant, 4),
        "pairs_per_event": round(pairs, 2),
    }


def main() -> None:
    """Prints one line per workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1 << 18)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    events = batch(arguments.events)
    figures = {}
    for name, catalog_of in (("types", type_only), ("selective", selective)):
        for queries in (1, 10, 100, 1000):
            figures[f"{name} {queries}"] = found = measure(catalog_of(queries), events)
            print(
                f"{name:<10}{queries:>6} queries {found['select_m_events_per_s']:>8.1f} M/s selected {found['dispatched_m_events_per_s']:>8.1f} M/s"
                f" dispatched, {found['relevant']:.1%} relevant, {found['pairs_per_event']:g} pairs per event"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
