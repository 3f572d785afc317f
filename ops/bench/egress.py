"""What it costs to make composite events records, in CPU time per composite event: ``python -m ops.bench.egress [--matches N] [--rounds N]``.

As columns (`app.owners.composites`) and object by object (the naive twin of the tests, which was the product's code before), in turn, the same matches: rising prices of ten symbols. Beside it: what handing the
records to a producer costs (to a broker that is not there; nothing is sent).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from confluent_kafka import Producer

from app.bucket.recording import match_sorted
from app.cep.matches import Matches
from app.delivery.composite_schema import composite_schema
from app.files.gathering import parse_events
from app.owners.composites import Destination, add_composite_events
from app.owners.deployment import OutputTopic
from app.owners.egress import Records
from app.query.compile import compile_texts
from app.query.plan import Plan
from app.query.resolved.vocabulary import Streams
from tests.naive.composites import add_objects, composite_events

QUERY = """name: rising
from: s
event: SEQ(Quote a, Quote b, Quote c)
where: "[symbol] AND b.price > a.price AND c.price > b.price"
within: 40 s
return: {symbol: a.symbol, first: a.price, last: c.price, took: c.time - a.time}
"""


def found(count: int) -> tuple[Plan, Matches]:
    """At least so many matches, of one feed."""
    rng = np.random.default_rng(3)
    prices = rng.integers(1, 1000, count)
    lines = [json.dumps({"type": "Quote", "time": 1000 * k, "symbol": f"S{k % 10}", "price": int(price)}) for k, price in enumerate(prices)]
    file = parse_events("\n".join(lines).encode())
    compilation = compile_texts([("q.yaml", QUERY)], Streams(everything=file.schema))
    (one,) = match_sorted(compilation.catalog, file.batch).found
    return compilation.catalog.plans[0], one.matches


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matches", type=int, default=20_000, help="events that are read; every one completes about one match")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    plan, matches = found(arguments.matches)
    to = Destination(OutputTopic("alerts", 1, json.dumps(composite_schema(plan))), "cep", ("quotes",), 0)
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "queue.buffering.max.messages": 10_000_000})

    def columns() -> Records:
        records = Records()
        add_composite_events(records, plan, matches, to)
        return records

    def objects() -> Records:
        records = Records()
        add_objects(records, composite_events(plan, matches, to.topics), to.output, to.application, to.detected_at_ms)
        return records

    made = columns()
    assert made.values == objects().values

    def produce() -> None:
        for topic, key, value, headers in zip(made.topics, made.keys, made.values, made.headers, strict=True):
            producer.produce(topic, value, key, headers=list(headers))
        producer.purge()
        producer.poll(0)

    ways: dict[str, Callable[[], object]] = {"columns": columns, "objects": objects, "produce": produce}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            before = time.thread_time_ns()
            way()
            spent[name].append((time.thread_time_ns() - before) / len(matches) / 1000)
    print(f"{len(matches):,} composite events of {np.mean([len(value) for value in made.values]):.0f} bytes; us of CPU time each")
    print("| way | least | median |\n|---|---|---|")
    for name, values in spent.items():
        print(f"| {name} | {min(values):.2f} | {median(values):.2f} |")


if __name__ == "__main__":
    main()
