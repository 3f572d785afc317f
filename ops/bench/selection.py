"""How fast selection is: events per second for 1, 10, 100 and 1,000 queries. Run: ``python -m ops.bench.selection [--events N]``."""

from __future__ import annotations

import argparse
import time

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


def main() -> None:
    """Prints one line per workload; the best of five, selection alone and with the dispatch to all queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1 << 20)
    events = batch(parser.parse_args().events)
    print(f"{'workload':<12}{'queries':>8}{'select M/s':>12}{'+dispatch M/s':>15}{'relevant':>10}{'pairs/event':>13}")
    for name, catalog_of in (("types", type_only), ("selective", selective)):
        for queries in (1, 10, 100, 1000):
            selection = Selection(catalog_of(queries), "s")
            alone, both, relevant, pairs = [], [], 0.0, 0.0
            for _ in range(5):
                start = time.perf_counter()
                selected = selection.select(events)
                alone.append(time.perf_counter() - start)
                pairs = sum(len(selected.of_query(q)[0]) for q in range(queries)) / len(events)
                both.append(time.perf_counter() - start)
                relevant = len(selected.relevant) / len(events)
            rates = [len(events) / min(times) / 1e6 for times in (alone, both)]
            print(f"{name:<12}{queries:>8}{rates[0]:>12.1f}{rates[1]:>15.1f}{relevant:>10.3f}{pairs:>13.2f}")


if __name__ == "__main__":
    main()
