"""What the SASE engine does on one core: events in arrays, matches built as columns, nothing serialised.

    python -m ops.bench.engine [--events N] [--repeats N] [--only NAME] [--batch N] [--json FILE]

Streams: events of uniform types and keys, one per millisecond, with two integer attributes ``k`` and ``v``; the query returns both of every
positive variable (the default return). Figures are million events per second, all events counted: those that are no candidate too, whose
mask the engine reads and skips. Per second of the clock, and per second that the processor worked on it (on a shared machine). Selecting candidates by type is selection's work and not in the figure. Every repeat has a fresh engine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.bucket.engines import QueryEngine
from app.cep.engine import EngineOptions, Watermarks
from app.cep.stacks.engine import StacksEngine
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.expressions import AttributeOf, Comparison
from app.query.plan import Item, JoinPredicate, Plan, ReturnField, Within

ATTRIBUTES = ("k", "v")


@dataclass(frozen=True)
class Scenario:
    """A stream and a query. ``target`` is what was promised, in M events/s."""

    name: str
    keys: int
    window_ms: int
    negated: tuple[int, ...] = ()
    end: bool = False
    join: bool = False
    types: int = 20
    events: int = 2_000_000
    text_keys: bool = False
    target: float | None = None


SCENARIOS = (
    Scenario("abc 1k keys 10 s", 1_000, 10_000, target=15),
    Scenario("abc 100k keys 1000 s", 100_000, 1_000_000, events=4_000_000, target=10),
    Scenario("a !b c 1k keys 10 s", 1_000, 10_000, negated=(1,), target=10),
    Scenario("a !b c 100k keys 1000 s", 100_000, 1_000_000, events=4_000_000, negated=(1,), target=8),
    Scenario("abc 20 keys 4 matches/event", 20, 5_280, events=600_000, target=4),
    Scenario("abc 20 keys 41 matches/event", 20, 16_300, events=300_000, target=0.6),
    Scenario("abc 20 keys, join a.v < c.v", 20, 5_280, events=600_000, join=True),
    Scenario("a b !c, 1k keys 10 s", 1_000, 10_000, negated=(2,), end=True),
    Scenario("!a b c, 1k keys 10 s", 1_000, 10_000, negated=(0,)),
    Scenario("abc 1k text keys 10 s", 1_000, 10_000, text_keys=True),
    Scenario("abc all types candidates", 1_000, 1_500, types=3),
)


def plan_of(scenario: Scenario) -> Plan:
    """``SEQ(A a, B b, C c) WHERE [k]`` with some items negated."""
    items = tuple(Item(i, "abc"[i], (f"T{i}",), negated=i in scenario.negated) for i in range(3))
    returns = tuple(
        ReturnField(f"{item.variable}_{name}", AttributeOf(kind_of(scenario, name), item.index, name), kind_of(scenario, name))
        for item in items
        if not item.negated
        for name in ATTRIBUTES
    )
    smaller = Comparison("<", AttributeOf(Kind.INTEGER, 0, "v"), AttributeOf(Kind.INTEGER, 2, "v"))
    joins = (JoinPredicate(smaller, (0, 2)),) if scenario.join else ()
    return Plan("bench", 1, "", (), 1.0, ("s",), items, ("k",), joins, Within(scenario.window_ms), returns, ATTRIBUTES, fingerprint="bench")


def kind_of(scenario: Scenario, name: str) -> Kind:
    return Kind.STRING if scenario.text_keys and name == "k" else Kind.INTEGER


def stream_of(scenario: Scenario, count: int) -> tuple[EventBatch, np.ndarray]:
    """Events, and the mask of items that each can be."""
    random = np.random.default_rng(7)
    types = random.integers(0, scenario.types, count).astype(np.int32)
    keys = random.integers(0, scenario.keys, count)
    names = Dictionary.of([f"T{i}".encode() for i in range(scenario.types)])
    columns = {"k": Column(Kind.INTEGER, keys), "v": Column(Kind.INTEGER, random.integers(0, 1000, count))}
    if scenario.text_keys:
        columns["k"] = Column(
            Kind.STRING, keys.astype(np.int32), None, Dictionary.of([f"tag-{i:012d}".encode() for i in range(scenario.keys)])
        )
    mask_of_type = np.zeros(scenario.types, np.uint64)
    mask_of_type[:3] = (1, 2, 4)
    line = np.arange(count, dtype=np.int64)
    return EventBatch(line, np.zeros(count, np.int64), line, Column(Kind.STRING, types, None, names), columns), mask_of_type[types]


def slices(batch: EventBatch, masks: np.ndarray, size: int) -> list[tuple[EventBatch, np.ndarray]]:
    """The stream as batches (views)."""
    parts = []
    for start in range(0, len(batch), size):
        part = slice(start, start + size)

        def cut(column: Column, part: slice = part) -> Column:
            return Column(column.kind, column.values[part], None, column.dictionary)

        columns = {name: cut(column) for name, column in batch.columns.items()}
        parts.append((EventBatch(batch.time[part], batch.source[part], batch.offset[part], cut(batch.type), columns), masks[part]))
    return parts


def once(engine: QueryEngine, parts: list[tuple[EventBatch, np.ndarray]]) -> tuple[float, float, int]:
    """Seconds, seconds of the processor (fewer where others use it too), and matches of one run with a fresh engine."""
    found = 0
    begin, busy = time.perf_counter(), time.process_time()
    for batch, masks in parts:
        matches, _ = engine.feed(batch, masks, Watermarks(int(batch.time[-1]) + 1))
        found += len(matches)
    return time.perf_counter() - begin, time.process_time() - busy, found


def measure(scenario: Scenario, events: int | None, repeats: int, batch: int, options: EngineOptions) -> dict[str, Any]:
    """Median and spread of a scenario's repeats, after one warm-up."""
    stream, masks = stream_of(scenario, events or scenario.events)
    plan = plan_of(scenario)
    return {**timed(lambda: StacksEngine(plan, options), slices(stream, masks, batch), repeats), "target": scenario.target}


def timed(new: Callable[[], QueryEngine], parts: list[tuple[EventBatch, np.ndarray]], repeats: int) -> dict[str, Any]:
    """Figures of runs with fresh engines over batches, after one warm-up on the first two of them."""
    count = sum(len(batch) for batch, _ in parts)
    once(new(), parts[:2])
    runs = [once(new(), parts) for _ in range(repeats)]
    return rates_of(count, runs)


def rates_of(count: int, runs: list[tuple[float, float, int]]) -> dict[str, Any]:
    """Figures of several runs over so many events: by the clock, and by the second that the processor worked on them."""
    rates = sorted(count / seconds / 1e6 for seconds, _, _ in runs)
    return {
        "events": count,
        "matches": runs[0][2],
        "matches_per_event": round(runs[0][2] / count, 3),
        "m_events_per_s": round(statistics.median(rates), 2),
        "m_events_per_busy_s": round(statistics.median(count / busy / 1e6 for _, busy, _ in runs), 2),
        "lowest": round(rates[0], 2),
        "highest": round(rates[-1], 2),
    }


def line_of(name: str, f: dict[str, Any]) -> str:
    """A scenario's figures for people."""
    target = f"target {f['target']:g}" if f["target"] else ""
    clock = f"{f['m_events_per_s']:7.2f} M/s ({f['lowest']:.1f} .. {f['highest']:.1f})"
    return f"{name:34} {clock:28} {f['m_events_per_busy_s']:7.2f} M per busy s  {f['matches_per_event']:.2f} matches/event  {target}"


def run(
    events: int | None = None, repeats: int = 5, batch: int = 262_144, only: str = "", options: EngineOptions | None = None
) -> dict[str, Any]:
    """Figures by scenario."""
    chosen = [scenario for scenario in SCENARIOS if only in scenario.name]
    return {scenario.name: measure(scenario, events, repeats, batch, options or EngineOptions()) for scenario in chosen}


def main() -> None:
    """Prints a line per scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=262_144)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = run(arguments.events, arguments.repeats, arguments.batch, arguments.only)
    for name, f in figures.items():
        print(line_of(name, f))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
