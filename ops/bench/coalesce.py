"""What temporal queries do on one core: tuples in arrays, coalesced tuples built as columns, nothing serialised.

    python -m ops.bench.coalesce [--tuples N] [--repeats N] [--only NAME] [--batch N] [--json FILE]

Stream: one tuple per millisecond, uniform keys; a key's value stays with the given probability (the coalescing probability of the CALS paper),
else it is one of 1,000. Figures are million tuples per second of the clock, and per second that the processor worked on it (on a shared
machine); reading attributes, ``where`` and the columns of what is found are in them, selection is not. Every repeat has a fresh engine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.bucket.engines import new_engine
from app.cep.engine import Watermarks
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.owners.tuple_memory import tuple_memory
from app.query.compile import compile_texts
from app.query.plan import Plan
from ops.bench.engine import slices


@dataclass(frozen=True)
class Scenario:
    """A stream, and what the query has beside ``select: [v]``, ``key: [k]``."""

    name: str
    query: str
    keys: int = 1_000
    staying: float = 0.9
    tuples: int = 2_000_000
    text: bool = False


TIME = "window: {range: 1 minute, slide: 1 s}"
SCENARIOS = (
    Scenario("changes, 1k keys", f"coalesce: {{duration: until-next}}\nvalid: '>= 5 s'\n{TIME}"),
    Scenario("changes, 1k keys, text values", f"coalesce: {{duration: until-next}}\nvalid: '>= 5 s'\n{TIME}", text=True),
    Scenario("changes, 1k keys, where", f"where: v < 500\ncoalesce: {{duration: until-next, max_gap: 2 s}}\nvalid: '>= 5 s'\n{TIME}"),
    Scenario("changes, 1k keys, every interval", f"coalesce: {{duration: until-next}}\n{TIME}"),
    Scenario("all, 1k keys", f"coalesce: {{duration: until-next}}\nvalid: '>= 30 s'\nemit: all\n{TIME}"),
    Scenario("changes, 1k keys, tuples of 3 s", f"coalesce: {{duration: 3 s}}\nvalid: '>= 5 s'\n{TIME}"),
    Scenario("changes, 100k keys", f"coalesce: {{duration: until-next}}\nvalid: '>= 5 s'\n{TIME}", keys=100_000),
    Scenario("count window, 1k keys", "coalesce: {duration: until-next}\nwindow: {range: 10000 events, slide: 1000 events}"),
)


def plan_of(scenario: Scenario) -> Plan:
    """The scenario's query, compiled."""
    kind = Kind.STRING if scenario.text else Kind.INTEGER
    schema = StreamSchema("s", (EventType("T", (Attribute("k", Kind.INTEGER), Attribute("v", kind))),))
    compiled = compile_texts([("bench.yaml", f"name: bench\nselect: [v]\nkey: [k]\n{scenario.query}\n")], {"s": schema})
    assert not compiled.errors, compiled.errors
    return compiled.catalog.plans[0]


def stream_of(scenario: Scenario, count: int) -> tuple[EventBatch, np.ndarray]:
    """Tuples, and their mask: all are the query's only item."""
    random = np.random.default_rng(7)
    keys = random.integers(0, scenario.keys, count)
    changed = random.uniform(size=count) >= scenario.staying
    by_key = np.argsort(keys, kind="stable")
    spells = np.empty(count, np.int64)
    spells[by_key] = np.cumsum(changed[by_key] | (np.diff(keys[by_key], prepend=-1) != 0))
    values = random.integers(0, 1_000, spells.max() + 1)[spells]
    columns = {"k": Column(Kind.INTEGER, keys), "v": Column(Kind.INTEGER, values)}
    if scenario.text:
        columns["v"] = Column(Kind.STRING, values.astype(np.int32), None, Dictionary.of([f"value-{i:06d}".encode() for i in range(1_000)]))
    line = np.arange(count, dtype=np.int64)
    kinds = Column(Kind.STRING, np.zeros(count, np.int32), None, Dictionary.of([b"T"]))
    return EventBatch(line, np.zeros(count, np.int64), line, kinds, columns), np.ones(count, np.uint64)


def once(plan: Plan, parts: list[tuple[EventBatch, np.ndarray]]) -> tuple[float, float, int, int]:
    """Seconds, seconds of the processor, coalesced tuples, and tuples held at the end, of one run with a fresh engine."""
    engine = new_engine(plan, tuple_memory)
    found = held = 0
    begin, busy = time.perf_counter(), time.process_time()
    for batch, masks in parts:
        matches, tally = engine.feed(batch, masks, Watermarks(int(batch.time[-1]) + 1))
        found, held = found + len(matches), tally.live_events
    return time.perf_counter() - begin, time.process_time() - busy, found, held


def measure(scenario: Scenario, tuples: int | None, repeats: int, batch: int) -> dict[str, Any]:
    """Median and spread of a scenario's repeats, after one warm-up."""
    count = tuples or scenario.tuples
    parts = slices(*stream_of(scenario, count), batch)
    plan = plan_of(scenario)
    once(plan, parts[:2])
    runs = [once(plan, parts) for _ in range(repeats)]
    rates = sorted(count / seconds / 1e6 for seconds, *_ in runs)
    return {
        "tuples": count,
        "coalesced_per_tuple": round(runs[0][2] / count, 4),
        "held": runs[0][3],
        "m_tuples_per_s": round(statistics.median(rates), 2),
        "m_tuples_per_busy_s": round(statistics.median(count / busy / 1e6 for _, busy, *_ in runs), 2),
        "lowest": round(rates[0], 2),
        "highest": round(rates[-1], 2),
    }


def main() -> None:
    """Prints one line per scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=131_072)
    parser.add_argument("--only")
    parser.add_argument("--memory", type=int, help="tuples that CALS keeps per key; default: all")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for scenario in SCENARIOS:
        if arguments.memory:
            scenario = replace(scenario, query=f"{scenario.query}\nshedding: {{shedder: cals, memory: {arguments.memory} tuples}}")  # noqa: PLW2901
        if arguments.only is None or arguments.only in scenario.name:
            one = results[scenario.name] = measure(scenario, arguments.tuples, arguments.repeats, arguments.batch)
            print(
                f"{scenario.name:34} {one['m_tuples_per_s']:6.2f} M/s, {one['m_tuples_per_busy_s']:6.2f} M per busy s "
                f"({one['lowest']}-{one['highest']}); {one['coalesced_per_tuple']} coalesced per tuple, {one['held']:,} held"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
