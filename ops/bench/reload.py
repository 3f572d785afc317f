"""``python -m ops.bench.reload``: what it costs a bucket with a million live events, alone and beside 1,000 alert rules, that queries change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog

EVENTS, STEP = 1_000_000, 250_000
KEYED = 'name: keyed\nversion: 1\nfrom: input\nevent: SEQ(A a, B b)\nwhere: "[k]"\nwithin: 1 h\nreturn: {k: a.k}\n'
RULE = """name: rule-{n:04d}
version: 1
from: input
event: SEQ(A a, B b)
where: "[k] AND a.v = {n} AND b.v = {n}"
within: 1 h
return: {{k: a.k, w: b.v}}
"""
RULES = TimeRules("input")
SOURCES = frozenset((0,))


def catalog(rules: list[int]) -> Catalog:
    """A partitioned sequence, and alert rules of one shape."""
    attributes = tuple(Attribute(name, Kind.INTEGER) for name in "kv")
    schema = StreamSchema("input", tuple(EventType(name, attributes) for name in "AB"))
    compiled = compile_texts([("q.yaml", "---\n".join([KEYED, *(RULE.format(n=n) for n in rules)]))], {"input": schema})
    assert not compiled.errors, compiled.errors[0].render()
    return compiled.catalog


def filled(known: Catalog, rules: int) -> Bucket:
    """A bucket in which every event waits for a B that does not come."""
    bucket, plan, random, greatest = Bucket(known, [RULES], 0), IngressPlan(known, RULES, 1), np.random.default_rng(1), {}
    for start in range(0, EVENTS, STEP):
        numbers, nothing = np.arange(start, start + STEP), np.zeros(STEP, np.int64)
        kind = Column(Kind.STRING, np.zeros(STEP, np.int32), None, Dictionary.of([b"A"]))
        columns = {"k": random.integers(0, 100_000, STEP), "v": random.integers(0, max(rules, 1), STEP)}
        batch = EventBatch(numbers // 10, nothing, numbers, kind, {name: Column(Kind.INTEGER, one) for name, one in columns.items()})
        ingested = plan.ingest(batch, Progress(greatest, SOURCES))
        greatest = dict(ingested.judgement.greatest_times)
        found = bucket.advance([packed for _, packed in ingested.packed()], Progress(greatest, SOURCES)).found
    print(f"{len(known.plans)} queries, {sum(one.tally.live_events for one in found):,} live events")
    return bucket


def timed(what: str, change: Callable[[], Bucket]) -> Bucket:
    """The bucket after the change; prints what it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    bucket = change()
    print(f"  {what}: {1e3 * (time.process_time() - cpu):.1f} ms CPU, {1e3 * (time.perf_counter() - wall):.1f} ms")
    return bucket


def main() -> None:
    """Prints all figures."""
    for rules in (0, 1000):
        known, some = catalog([*range(rules)]), catalog([*range(rules), 5000])
        bucket = filled(known, rules)
        bucket = timed("nothing changed", lambda: bucket.reload(replace(known, version=2), [RULES]))  # noqa: B023 - called at once
        bucket = timed("a query added", lambda: bucket.reload(some, [RULES]))  # noqa: B023
        bucket = timed("and removed", lambda: bucket.reload(known, [RULES]))  # noqa: B023
        timed("by snapshot and restore", lambda: Bucket.restore(known, [RULES], 0, bucket.snapshot()))  # noqa: B023


if __name__ == "__main__":
    main()
