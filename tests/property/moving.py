"""Buckets whose number, or whose catalog, changes between two steps: everything that they hold is moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.bucket.rescale import rescaled
from app.events.batch import EventBatch
from app.owners.tuple_memory import tuple_memory
from app.query.plan import Catalog
from tests.naive.composites import CompositeEvent, composite_events
from tests.property.application_way import by_value

SOURCES = frozenset((0, 1))
TOPICS = ("t",)


@dataclass(frozen=True)
class World:
    """A catalog in so many buckets."""

    catalog: Catalog
    buckets: int


def whole(made: CompositeEvent) -> tuple[Any, ...]:
    """All that a composite event says, by value."""
    fields = {name: tuple(map(by_value, value)) if isinstance(value, list) else by_value(value) for name, value in made.fields.items()}
    return made.id, made.time, made.window, made.partition_key, tuple(sorted(fields.items())), made.events, made.missing


def moved(rules: TimeRules, steps: list[list[EventBatch]], worlds: Mapping[int, World]) -> tuple[Counter[Any], set[Any]]:
    """What all steps find together (query, kind, `whole`), and late events.

    Args:
        rules: of the one stream.
        steps: micro-batches of tasks; closing comes as a last, empty step.
        worlds: by step, in what it begins to run; there is one for step 0.
    """
    found: Counter[Any] = Counter()
    late: set[Any] = set()
    greatest: dict[int, int] = {}
    states: list[Bucket] = []
    for number, tasks in enumerate([*steps, []]):
        if number in worlds:
            world = worlds[number]
            catalog, known = world.catalog, ([rules],)
            plan = IngressPlan(catalog, rules, world.buckets)
            if states:
                snapshots = rescaled([state.snapshot() for state in states], catalog, [rules], world.buckets, tuple_memory)
                states = [Bucket.restore(catalog, *known, n, data, TOPICS, memory_of=tuple_memory) for n, data in enumerate(snapshots)]
                for state in states:
                    state.validate()
            else:
                states = [Bucket(catalog, *known, n, TOPICS, tuple_memory) for n in range(world.buckets)]
        progress = Progress(greatest, SOURCES, closing=number == len(steps))
        chunks: list[list[bytes]] = [[] for _ in states]
        news = dict(greatest)
        for batch in tasks:
            ingested = plan.ingest(batch, progress)
            late |= {(int(batch.source[row]), int(batch.offset[row])) for row in ingested.late}
            news |= {s: t for s, t in ingested.judgement.greatest_times.items() if t > news.get(s, t - 1)}
            for bucket, packed in ingested.packed():
                chunks[bucket].append(packed)
        greatest = news
        for state, own in zip(states, chunks, strict=True):
            output = state.advance(own, progress)
            state.validate()
            late |= {(int(source), int(offset)) for source, offset in output.late}
            for one in output.found:
                query = world.catalog.plans[one.query]
                for kind, matches in (("match", one.matches), ("timeout", one.timeouts)):
                    if matches is not None:
                        found += Counter((query.name, kind, *whole(made)) for made in composite_events(query, matches, TOPICS, kind))
    return found, late
