"""How fast selection is: events per second for 1 to 1,000 queries, and how long its structures take to build. Run:

    python -m ops.bench.selection [--events N] [--only NAME,…] [--queries 1,10,…] [--repeats N] [--data FOLDER] [--baselines] [--mode macro|hybrid] [--json FILE]

CPU time on one core, best of the repeats: selection along the sequence that adaptive rearrangement finds on the first part of the events
(``selected``; ``--mode hybrid`` with micro-arrows), along the initial order (``initial``), and with the dispatch of candidates to all queries (``dispatched``). ``build``: from plans to
structures. Workloads:

* ``types``: three type tests; ``selective``: each with one symbol of 500 and a bound of the price;
* ``items``, ``items-float``: three items with ten ranges in all over ten attributes, integers below 100 or floats;
* ``shared``: three items out of ten, each of three or four such ranges;
* ``kdd``, ``kdd-rows``: one item with four ranges over the 15 integers of KDD99-int (needs ``--data``); bounds are distinct values, up to a
  quarter of them apart, or values of two random rows, so that ranges often hold the commonest value.

``--baselines`` adds one numpy mask per query, and a compiled loop over rows and queries with early exit (``kdd``, ``kdd-rows``).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from app.asc.adaptive import Adaptive, AdaptiveRules, Mode, Seen
from app.asc.selection import Selection
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan

TYPES = [f"E{n}" for n in range(20)]
KDD = "integers/kddcup99_int15.csv.gz"
TARGETS = {("kdd", 100): 6.0, ("kdd", 1000): 1.0, ("kdd-rows", 100): 6.0, ("kdd-rows", 1000): 1.0}


def plan(name: str, tests: tuple[tuple[ConstantTest, ...], ...], types: tuple[tuple[str, ...], ...]) -> Plan:
    """A sequence of items with the given types and tests."""
    items = tuple(Item(i, f"v{i}", types[i], tests=tests[i]) for i in range(len(tests)))
    return Plan(name, 1, "", (), 1.0, ("s",), items, (), (), None, (), ())


def three_types(rng: np.random.Generator) -> tuple[tuple[str, ...], ...]:
    """Three of the types."""
    return tuple((str(name),) for name in rng.choice(TYPES, 3, replace=False))


def type_only(queries: int, _: EventBatch) -> list[Plan]:
    """Queries of three type tests each."""
    rng = np.random.default_rng(1)
    return [plan(f"q{q}", ((), (), ()), three_types(rng)) for q in range(queries)]


def selective(queries: int, _: EventBatch) -> list[Plan]:
    """As `type_only`, each item with one symbol of 500 and a lower bound of the price."""
    rng = np.random.default_rng(1)
    plans = []
    for q in range(queries):
        tests = tuple(
            (
                ConstantTest("symbol", Kind.STRING, "=", (f"S{rng.integers(500)}",)),
                ConstantTest("price", Kind.FLOAT, ">", (float(rng.integers(100)),)),
            )
            for _ in range(3)
        )
        plans.append(plan(f"q{q}", tests, three_types(rng)))
    return plans


def ranges_of_items(queries: int, events: EventBatch) -> list[Plan]:
    """Three items with ten ranges of a quarter of the values, over ten attributes."""
    rng = np.random.default_rng(1)
    kind = events.columns["a0"].kind
    plans = []
    for q in range(queries):
        tests = []
        for size in (4, 3, 3):
            chosen, lows = rng.choice(10, size, replace=False), rng.random(size) * 75
            bounds = [(float(low), float(low) + 25) if kind is Kind.FLOAT else (int(low), int(low) + 24) for low in lows]
            tests.append(tuple(ConstantTest(f"a{a}", kind, "between", two) for a, two in zip(chosen, bounds, strict=True)))
        plans.append(plan(f"q{q}", tuple(tests), ((), (), ())))
    return plans


def shared_items(queries: int, events: EventBatch) -> list[Plan]:
    """Queries of three items each out of the ten of four queries of `ranges_of_items` (the last two left out)."""
    rng = np.random.default_rng(3)
    ten = [item.tests for plan in ranges_of_items(4, events) for item in plan.items][:10]
    return [plan(f"q{q}", tuple(ten[k] for k in rng.choice(10, 3, replace=False)), ((), (), ())) for q in range(queries)]


def four_distinct_ranges(queries: int, events: EventBatch) -> list[Plan]:
    """One item with ranges of four attributes; bounds are distinct values, up to a quarter of them apart."""
    rng = np.random.default_rng(1)
    distinct = {name: np.unique(column.values) for name, column in events.columns.items()}
    plans = []
    for q in range(queries):
        tests = []
        for name in map(str, rng.choice(list(distinct), 4, replace=False)):
            low = rng.integers(len(distinct[name]))
            high = min(len(distinct[name]) - 1, low + rng.integers(len(distinct[name]) // 4 + 1))
            tests.append(ConstantTest(name, Kind.INTEGER, "between", (int(distinct[name][low]), int(distinct[name][high]))))
        plans.append(plan(f"q{q}", (tuple(tests),), ((),)))
    return plans


def four_ranges(queries: int, events: EventBatch) -> list[Plan]:
    """One item with ranges of four attributes; bounds are values of two random rows."""
    rng = np.random.default_rng(1)
    names = list(events.columns)
    plans = []
    for q in range(queries):
        tests = []
        for name in rng.choice(names, 4, replace=False):
            values = events.columns[name].values
            low, high = sorted(int(values[row]) for row in rng.integers(0, len(values), 2))
            tests.append(ConstantTest(str(name), Kind.INTEGER, "between", (low, high)))
        plans.append(plan(f"q{q}", (tuple(tests),), ((),)))
    return plans


def batch_of(columns: dict[str, Column], events: int, codes: np.ndarray | None = None) -> EventBatch:
    """Events one millisecond apart."""
    codes = np.zeros(events, dtype=np.int32) if codes is None else codes
    types = Column(Kind.STRING, codes, None, Dictionary.of([t.encode() for t in TYPES]))
    return EventBatch(np.arange(events), np.zeros(events, dtype=np.int64), np.arange(events), types, columns)


def trades(events: int, _: Path) -> EventBatch:
    """Uniform types, symbols and prices."""
    rng = np.random.default_rng(2)
    symbols = Dictionary.of([f"S{n}".encode() for n in range(500)])
    columns = {
        "symbol": Column(Kind.STRING, rng.integers(0, 500, events, dtype=np.int32), None, symbols),
        "price": Column(Kind.FLOAT, rng.random(events) * 100),
    }
    return batch_of(columns, events, rng.integers(0, 20, events, dtype=np.int32))


def uniform_integers(events: int, _: Path) -> EventBatch:
    """Ten attributes, 0 to 99."""
    rng = np.random.default_rng(2)
    return batch_of({f"a{k}": Column(Kind.INTEGER, rng.integers(0, 100, events)) for k in range(10)}, events)


def uniform_floats(events: int, _: Path) -> EventBatch:
    """Ten attributes, 0 to 100."""
    rng = np.random.default_rng(2)
    return batch_of({f"a{k}": Column(Kind.FLOAT, rng.random(events) * 100) for k in range(10)}, events)


@lru_cache(maxsize=1)
def kdd(events: int, data: Path) -> EventBatch:
    """KDD99-int, in the order of the file."""
    path = data / KDD
    names = np.loadtxt(path, delimiter=",", max_rows=1, dtype=str)[1:16]
    rows = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, 16), max_rows=events, dtype=np.int64)
    return batch_of({str(name): Column(Kind.INTEGER, np.ascontiguousarray(rows[:, k])) for k, name in enumerate(names)}, len(rows))


@dataclass(frozen=True)
class Workload:
    """Queries and the events that they see."""

    queries: Callable[[int, EventBatch], list[Plan]]
    events: Callable[[int, Path], EventBatch]


WORKLOADS = {
    "types": Workload(type_only, trades),
    "selective": Workload(selective, trades),
    "items": Workload(ranges_of_items, uniform_integers),
    "items-float": Workload(ranges_of_items, uniform_floats),
    "shared": Workload(shared_items, uniform_integers),
    "kdd": Workload(four_distinct_ranges, kdd),
    "kdd-rows": Workload(four_ranges, kdd),
}


def adapted(selection: Selection, events: EventBatch, mode: Mode) -> Adaptive:
    """A sequence found on the first tenth of the events, every tenth of them sampled."""
    adaptive = Adaptive(selection.constructs, AdaptiveRules(mode), selection.initial)
    rows = np.arange(0, len(events) // 10, 10)
    adaptive.observe(Seen(len(events), 0), selection.regions(events, rows))
    return adaptive


def measure(plans: list[Plan], events: EventBatch, repeats: int, mode: Mode) -> dict[str, Any]:
    """Figures of one catalog."""
    built = []
    for _ in range(3):
        start = time.process_time()
        selection = Selection(Catalog.of(tuple(plans)), "s")
        constructs = selection.constructs
        built.append(time.process_time() - start)
    start = time.process_time()
    sequence = adapted(selection, events, mode).sequence
    searched = time.process_time() - start
    alone, both, initial = [], [], []
    for _ in range(repeats):
        start = time.process_time()
        selected = selection.select(events, sequence)
        alone.append(time.process_time() - start)
        pairs = sum(len(selected.of_query(query)[0]) for query in range(len(plans))) / len(events)
        both.append(time.process_time() - start)
        relevant, evaluated = len(selected.relevant) / len(events), selected.evaluated / len(events)
        start = time.process_time()
        usual = selection.select(events)
        initial.append(time.process_time() - start)
    return {
        "select_m_events_per_s": round(len(events) / min(alone) / 1e6, 2),
        "initial_m_events_per_s": round(len(events) / min(initial) / 1e6, 2),
        "dispatched_m_events_per_s": round(len(events) / min(both) / 1e6, 2),
        "ns_per_event": round(min(alone) / len(events) * 1e9, 1),
        "evaluated_per_event": round(evaluated, 2),
        "evaluated_initially": round(usual.evaluated / len(events), 2),
        "micro_arrows": sequence.micro_arrows,
        "constructs": len(constructs),
        "regions": sum(len(table) for table in constructs.tables),
        "relevant": round(relevant, 4),
        "pairs_per_event": round(pairs, 2),
        "build_ms": round(min(built) * 1e3, 1),
        "search_ms": round(searched * 1e3, 1),
    }


@njit
def count_passing(columns, attributes, lows, highs):  # pragma: no cover - compiled
    """Rows by rows, query by query, out at the first range that fails."""
    found = 0
    for row in range(columns.shape[1]):
        for query in range(attributes.shape[0]):
            passes = True
            for k in range(attributes.shape[1]):
                value = columns[attributes[query, k], row]
                if value < lows[query, k] or value > highs[query, k]:
                    passes = False
                    break
            found += passes
    return found


def baselines(plans: list[Plan], events: EventBatch) -> dict[str, Any]:
    """M events/s of one numpy mask per query, and of a compiled loop."""
    names = list(events.columns)
    columns = np.array([column.values for column in events.columns.values()])[:, : 1 << 16]
    tests = [plan.items[0].tests for plan in plans]
    attributes = np.array([[names.index(test.attribute) for test in own] for own in tests])
    lows, highs = (np.array([[test.values[k] for test in own] for own in tests]) for k in (0, 1))
    count_passing(columns[:, :10], attributes, lows, highs)
    start = time.process_time()
    compiled = count_passing(columns, attributes, lows, highs)
    middle = time.process_time()
    masked = 0
    for own in tests:
        mask = np.ones(columns.shape[1], dtype=bool)
        for test in own:
            values = columns[names.index(test.attribute)]
            mask &= (values >= test.values[0]) & (values <= test.values[1])
        masked += int(np.count_nonzero(mask))
    stop = time.process_time()
    assert masked == compiled
    rates = [round(columns.shape[1] / seconds / 1e6, 2) for seconds in (stop - middle, middle - start)]
    return {"numpy_m_events_per_s": rates[0], "compiled_loop_m_events_per_s": rates[1]}


def main() -> None:
    """Prints one line per workload and number of queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1 << 18)
    parser.add_argument("--only", default=",".join(WORKLOADS))
    parser.add_argument("--queries", default="1,10,100,1000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--mode", choices=("macro", "hybrid"), default="macro")
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = {}
    for name in arguments.only.split(","):
        if name.startswith("kdd") and not (arguments.data / KDD).is_file():
            print(f"{name}: {arguments.data / KDD} is not there; name the folder of the recordings with --data")
            continue
        workload = WORKLOADS[name]
        events = workload.events(arguments.events, arguments.data)
        for queries in map(int, arguments.queries.split(",")):
            plans = workload.queries(queries, events)
            figures[f"{name} {queries}"] = found = measure(plans, events, arguments.repeats, arguments.mode)
            if name.startswith("kdd") and arguments.baselines:
                found |= baselines(plans, events)
            target = f", target {TARGETS[name, queries]:g}" if (name, queries) in TARGETS else ""
            print(
                f"{name:<12}{queries:>5} queries {found['select_m_events_per_s']:>7.2f} M/s selected{target} (initial {found['initial_m_events_per_s']:.2f},"
                f" dispatched {found['dispatched_m_events_per_s']:.2f}); {found['evaluated_per_event']:.2f} of {found['constructs']} constructs"
                f" (initially {found['evaluated_initially']:.2f}), {found['micro_arrows']} arrows; {found['relevant']:.1%} relevant,"
                f" {found['pairs_per_event']:g} pairs; build {found['build_ms']:g} ms, search {found['search_ms']:g} ms"
                + "".join(f"; {key} {found[key]:g}" for key in ("numpy_m_events_per_s", "compiled_loop_m_events_per_s") if key in found),
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
