"""What the runs evaluator does on one core: events in arrays, matches built as columns, nothing serialised.

    python -m ops.bench.runs [--repeats N] [--only NAME] [--data FOLDER] [--json FILE]

``any``/``next``/``partition`` name the strategy. Streams of uniform types as in `ops.bench.engine`; and a row per feature that a plain
sequence has not; with ``--data`` (a folder with the recordings, default ``../shared/data``) also rising prices and ten steps in windows on GF-2015. Selecting candidates is not in the figures.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.bucket.engines import new_engine
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan
from ops.bench.engine import line_of, slices, timed

RECORDING = "stocks/us_1min_2015-10-12_to_16.csv.gz"
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Scenario:
    """A query over a stream: ``keys`` of uniform types, or the recording (0). ``target``: what was promised, in M events/s."""

    name: str
    query: str
    keys: int
    target: float | None = None
    events: int = 1_000_000


UNIFORM = "name: q\nevent: SEQ({0} a, {1} b, {2} c)\nwhere: '[k]'\nwithin: {3}\nstrategy: {4}\nevaluator: runs\n"
RISING = """
name: q
event: SEQ(Stock a, Stock b+)
where: "[symbol] AND b[i].price > b[i-1].price AND b[first].price > a.price"
within: 10 minutes
strategy: {0}
return: {{symbol: a.symbol, low: a.price, high: "b[last].price"}}
"""
STEPS = 'name: q\nevent: SEQ({0})\nwhere: "{1}"\nstrategy: skip-till-next-match\nwindow: {{size: 8000 events, slide: 500 events}}\nreturn: {{first: a0.time, last: a9.time}}\n'


MORE = "name: q\nevent: SEQ({0})\nwhere: '[k]'\nwithin: 10 s\nstrategy: skip-till-next-match\n"
"""Features beside a plain sequence, on uniform types."""
FALLEN = """
name: q
event: SEQ(Stock a, !(Stock n), Stock b+)
where: "[symbol] AND b[i].price > b[i-1].price AND b[first].price > a.price AND n.price < a.price"
within: 10 minutes
strategy: skip-till-next-match
return: {symbol: a.symbol, low: a.price, high: "b[last].price"}
"""

RISEN = """
name: q
event: SEQ(Stock a, Stock b, !(Stock n))
where: "[symbol] AND b.price > a.price AND n.price < a.price"
within: 10 minutes
strategy: skip-till-next-match
return: {symbol: a.symbol, low: a.price, high: b.price}
"""


def with_features() -> list[Scenario]:
    """A row per feature on uniform types."""
    return [
        Scenario("!b between, 1k keys", MORE.format("T0 a, !(T1 b), T2 c"), 1_000),
        Scenario("timeouts, 1k keys", MORE.format("T0 a, T1 b, T2 c") + "on_timeout: emit\n", 1_000),
        Scenario("!b and timeouts, 1k keys", MORE.format("T0 a, !(T1 b), T2 c") + "on_timeout: emit\n", 1_000),
        Scenario("a gap, 1k keys", MORE.format("T0 a, T1 b, T2 c") + "max_gap: 5 s\n", 1_000),
        Scenario(
            "time windows, 1k keys", MORE.format("T0 a, T1 b, T2 c").replace("within: 10 s", "window: {size: 10 s, slide: 5 s}"), 1_000
        ),
        Scenario("within 50 events, 1k keys", MORE.format("T0 a, T1 b, T2 c").replace("10 s", "50 events"), 1_000),
        Scenario("!a at the start, 1k keys", MORE.format("!(T3 n), T0 a, T1 b, T2 c"), 1_000),
        Scenario("!c at the end, 1k keys", MORE.format("T0 a, T1 b, T2 c, !(T3 n)"), 1_000),
        Scenario("ANY(2; ..), 1k keys", MORE.format("T0 a, ANY(2; T1, T2) b"), 1_000),
        Scenario("b{2} in the middle, 1k keys", MORE.format("T0 a, T1 b{2}, T2 c"), 1_000),
        Scenario("b+ in the middle, 1k keys", MORE.format("T0 a, T1 b+, T2 c"), 1_000),
    ]


def rising_with_features() -> list[Scenario]:
    """A row per feature on rising prices."""
    rising = RISING.format("skip-till-next-match")
    windows = rising.replace("within: 10 minutes", "window: {size: 10 minutes, slide: 5 minutes}")
    return [
        Scenario("rising prices, a gap", rising + "max_gap: 3 minutes\n", 0),
        Scenario("rising prices, a gap, skip past last", rising + "max_gap: 3 minutes\nafter: skip-past-last-event\n", 0),
        Scenario("rising prices, timeouts", rising + "on_timeout: emit\n", 0),
        Scenario("rising prices, time windows", windows, 0),
        Scenario("rising prices, nothing cheaper between", FALLEN, 0),
        Scenario("rising prices, within 50 events", rising.replace("10 minutes", "50 events"), 0),
        Scenario(
            "rising prices, no drop before",
            rising.replace("Stock a,", "!(Stock n), Stock a,").replace('a.price"', 'a.price AND n.volume * 2 > 100000"'),
            0,
        ),
        Scenario("two risen prices, none cheaper behind", RISEN, 0),
        Scenario("rising prices in windows, skip past last", windows + "after: skip-past-last-event\n", 0),
        Scenario("rising prices in windows, longest", windows + "after: skip-past-last-event\nemit: longest\n", 0),
    ]


def ten_steps(symbols: list[str]) -> str:
    """A sequence of ten symbols in windows."""
    steps = ", ".join(f"Stock a{k}" for k in range(10))
    return STEPS.format(steps, " AND ".join(f"a{k}.symbol = '{symbols[k * 7]}'" for k in range(10)))


def scenarios(symbols: list[str]) -> list[Scenario]:
    """All of them; those on the recording only where it is there."""
    found = [
        Scenario("next, 1k keys", UNIFORM.format("T0", "T1", "T2", "10 s", "skip-till-next-match"), 1_000, 12),
        Scenario("next, 100k keys", UNIFORM.format("T0", "T1", "T2", "1000 s", "skip-till-next-match"), 100_000, 8, 2_000_000),
        Scenario("any, 1k keys (stacks can do that)", UNIFORM.format("T0", "T1", "T2", "10 s", "skip-till-any-match"), 1_000),
        Scenario("partition, 1k keys", UNIFORM.format("T0", "T1", "T2", "10 s", "partition-contiguity"), 1_000),
        *with_features(),
    ]
    if symbols:
        found += [
            Scenario("rising prices, next", RISING.format("skip-till-next-match"), 0, 1.5),
            Scenario("rising prices, partition", RISING.format("partition-contiguity"), 0, 6),
            Scenario("rising prices, skip past last", RISING.format("skip-till-next-match") + "after: skip-past-last-event\n", 0),
            Scenario("rising prices, longest", RISING.format("skip-till-next-match") + "after: skip-past-last-event\nemit: longest\n", 0),
            *rising_with_features(),
            Scenario("ten steps in windows", ten_steps(symbols), 0, 1),
        ]
    return found


def plan_of(scenario: Scenario) -> Plan:
    """The plan, as the application makes it."""
    kind = Kind.INTEGER
    if scenario.keys:
        types = tuple(EventType(f"T{k}", (Attribute("k", kind), Attribute("v", kind))) for k in range(20))
    else:
        types = (EventType("Stock", (Attribute("symbol", Kind.STRING), Attribute("price", Kind.FLOAT), Attribute("volume", kind))),)
    compiled = compile_texts([("q.yaml", scenario.query)], {"s": StreamSchema("s", types)})
    if compiled.errors:
        raise SystemExit("\n".join(finding.render() for finding in compiled.errors))
    return compiled.catalog.plans[0]


def uniform(keys: int, count: int) -> tuple[EventBatch, np.ndarray]:
    """Events of 20 uniform types, one per ms, and their types."""
    random = np.random.default_rng(7)
    types = random.integers(0, 20, count).astype(np.int32)
    columns = {"k": Column(Kind.INTEGER, random.integers(0, keys, count)), "v": Column(Kind.INTEGER, random.integers(0, 1000, count))}
    line = np.arange(count, dtype=np.int64)
    names = Dictionary.of([f"T{i}".encode() for i in range(20)])
    return EventBatch(line, np.zeros(count, np.int64), line, Column(Kind.STRING, types, None, names), columns), types


def recording(folder: Path) -> tuple[EventBatch, list[str]]:
    """GF-2015: the bars of a minute spread over it, in an order drawn once."""
    with gzip.open(folder / RECORDING, "rt") as file:
        rows = [(int(row["ts"]), row["symbol"], float(row["close"]), int(float(row["volume"]))) for row in csv.DictReader(file)]
    random = np.random.default_rng(1)
    time_ms = np.array([row[0] for row in rows], np.int64) * 1000 + random.integers(0, MINUTE_MS, len(rows))
    order = np.argsort(time_ms, kind="stable")
    symbols = sorted({row[1] for row in rows})
    code = {symbol: k for k, symbol in enumerate(symbols)}
    codes = np.array([code[row[1]] for row in rows], np.int32)[order]
    columns = {
        "symbol": Column(Kind.STRING, codes, None, Dictionary.of([symbol.encode() for symbol in symbols])),
        "price": Column(Kind.FLOAT, np.array([row[2] for row in rows])[order]),
        "volume": Column(Kind.INTEGER, np.array([row[3] for row in rows], np.int64)[order]),
    }
    line = np.arange(len(rows), dtype=np.int64)
    types = Column(Kind.STRING, np.zeros(len(rows), np.int32), None, Dictionary.of([b"Stock"]))
    return EventBatch(time_ms[order], np.zeros(len(rows), np.int64), line, types, columns), symbols


def masks_of(plan: Plan, batch: EventBatch) -> np.ndarray:
    """Candidate items by type and by the tests ``symbol = ...``."""
    masks = np.zeros(len(batch), np.uint64)
    names = [entry.decode() for entry in batch.type.dictionary.entries()]  # type: ignore[union-attr]
    for item in plan.items:
        fits = np.isin(batch.type.values, [names.index(name) for name in item.types])
        for test in item.tests:
            entries = [entry.decode() for entry in batch.columns[test.attribute].dictionary.entries()]  # type: ignore[union-attr]
            fits &= batch.columns[test.attribute].values == entries.index(str(test.values[0]))
        masks |= np.where(fits, np.uint64(1 << item.index), np.uint64(0))
    return masks


def measure(scenario: Scenario, stream: EventBatch, repeats: int) -> dict[str, Any]:
    """Median and spread, after one warm-up."""
    plan = plan_of(scenario)
    parts = slices(stream, masks_of(plan, stream), 262_144)
    return {**timed(lambda: new_engine(plan), parts, repeats), "target": scenario.target}


def main() -> None:
    """Prints a line per scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    quotes, symbols = recording(arguments.data) if (arguments.data / RECORDING).is_file() else (None, [])
    figures = {}
    for scenario in scenarios(symbols):
        if arguments.only not in scenario.name:
            continue
        stream = uniform(scenario.keys, scenario.events)[0] if scenario.keys else quotes
        assert stream is not None, "scenarios on the recording exist only where it is"
        f = figures[scenario.name] = measure(scenario, stream, arguments.repeats)
        print(line_of(scenario.name, f))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
