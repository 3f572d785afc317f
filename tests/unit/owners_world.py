"""A small application without Spark and Kafka: quotes in micro-batches, as tasks deliver them, and what buckets find when they are fed directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from app.bucket.bucket import Bucket
from app.bucket.chunk import unpack_chunk
from app.bucket.hold import Progress
from app.bucket.ingress import Gate, IngressPlan
from app.config.settings import load_settings
from app.control.messages.directives import Directive
from app.events.batch import Column, EventBatch, source_number, take
from app.events.registry import Registry, RegistrySettings
from app.events.types import Kind
from app.local.generators import generate
from app.owners.deployment import INGESTED, Deployment, load_deployment, store_deployment
from app.owners.home import Deliveries, Home
from app.owners.orders import Advance, BucketOrder, OwnerSettings
from app.owners.shipment import CHUNK
from app.owners.tuple_memory import tuple_memory
from app.pipeline.preparation import compile_queries, prepare, read_streams
from tests.naive.composites import composite_events

ROOT = Path(__file__).parents[2]
BUCKETS, TASKS = 2, 2
START_MS = 1_780_000_000_000
QUERY = """\
name: hasty
version: {version}
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
strategy: skip-till-next-match
within: 30 s
return: {{symbol: b.symbol, price: b.price}}
"""


CHOOSY = """\
name: choosy
version: {version}
from: stocks
event: SEQ(Quote a, Quote+ b)
where: "[symbol] AND b[i].price > a.price"
strategy: skip-till-next-match
within: 2 s
after: skip-past-last-event
emit: longest
return: {{symbol: a.symbol, price: a.price}}
---
name: choosy-runs
version: {version}
from: stocks
event: SEQ(Quote a, ANY(1; Quote) b, Quote c)
where: "[symbol] AND b.price > a.price AND c.price < b.price"
strategy: skip-till-next-match
within: 2 s
after: skip-past-last-event
return: {{symbol: a.symbol, price: a.price}}
---
name: bounded
version: {version}
from: stocks
select: [volume]
key: [symbol]
coalesce: {{max_gap: 0 ms, duration: 700 ms}}
window: {{range: 2 s, slide: 100 ms}}
shedding: {{shedder: cals, memory: 2 tuples}}
"""
"""Queries of which what is told goes by what was told before, and one with bounded memory."""


@lru_cache(maxsize=4)
def _prepared(folder: Path, version: int, query: str) -> Deployment:
    stocks = {
        "topics": ["stocks"],
        "schemas": [str(ROOT / "schemas" / "Quote.avsc")],
        "time": "time",
        "allowed_lateness": "300 ms",
        "idle_after": "1 h",
    }
    (folder / "hasty.yaml").write_text(query.format(version=version))
    (folder / "settings.yaml").write_text(
        yaml.safe_dump({"streams": {"stocks": stocks}, "queries": {"paths": ["hasty.yaml"]}, "spark": {"buckets": BUCKETS}})
    )
    settings = load_settings(folder / "settings.yaml", {})
    registry = Registry(RegistrySettings("mock://owners"))
    streams = read_streams(settings, registry)
    return prepare(settings, compile_queries(settings, streams), streams, registry)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What tasks deliver, and what the driver knows."""

    directive: Directive
    greatest: Mapping[int, int]
    deliveries: Deliveries


@lru_cache(maxsize=4)
def _quotes(events: int) -> tuple[EventBatch, ...]:
    return tuple(generate("stocks", events, seed=4, start_ms=START_MS, rate_per_s=100.0).batches)


class World:
    """A checkpoint with a deployment, and a stream cut into micro-batches.

    Args:
        folder: for everything.
        batches: how many there are.
        changed_at: from this batch on the query has another version.
        buckets: that tasks deliver to.
        deployments: before the change and after it, by fingerprint; by default the query alone.
        query: its text, or that of several.
        gate: sheds in all batches.
    """

    def __init__(
        self,
        folder: Path,
        batches: int = 10,
        events: int = 600,
        changed_at: int | None = None,
        buckets: int = BUCKETS,
        deployments: Sequence[str] = (),
        query: str = QUERY,
        gate: Gate | None = None,
    ) -> None:
        self.gate = gate
        self.checkpoint = folder / "checkpoint"
        self.buckets = buckets
        self.settings = OwnerSettings("test", str(self.checkpoint), "state")
        self.deployments = list(deployments) or [
            store_deployment(str(self.checkpoint), _prepared(folder, version, query)) for version in (1, 2)
        ]
        self.batches = self._cut(batches, events, batches if changed_at is None else changed_at)

    def home(self) -> Home:
        """An owner that holds nothing yet."""
        return Home(self.settings)

    def order(
        self, batch: int, epoch: int = 1, *, buckets: Sequence[int] = range(BUCKETS), why: str = "start", attempt: int = 1
    ) -> Advance:
        """The driver's order for these buckets."""
        one = self.batches[batch]
        orders = tuple(BucketOrder(number, epoch, why) for number in buckets)
        return Advance("test", batch, attempt, one.directive, one.greatest, dict.fromkeys(range(TASKS), 0), orders)

    def advance(self, home: Home, batch: int, epoch: int = 1, *, buckets: Sequence[int] = range(BUCKETS), why: str = "start"):
        """Report and identities of composite events."""
        report, returned = home.advance(self.order(batch, epoch, buckets=buckets, why=why), self.batches[batch].deliveries)
        return report, identities(returned)

    def expected(self, last: int | None = None) -> list[list[str]]:
        """Identities by batch, found by buckets that are fed directly and never lost."""
        found, states, running = [], [], ""
        for one in self.batches[:last]:
            known = load_deployment(str(self.checkpoint), one.directive.deployment)
            rules = [stream.rules for stream in known.streams]
            if not states:
                states = [Bucket(known.catalog, rules, number, known.topics, tuple_memory) for number in range(BUCKETS)]
            elif running != one.directive.deployment:
                states = [state.reload(known.catalog, rules, known.topics) for state in states]
            running, ids = one.directive.deployment, []
            for number, state in enumerate(states):
                payloads = sorted(bytes(p) for delivery in one.deliveries.values() for p in delivery.get(number, ()))
                progress = Progress({**one.directive.greatest_times, **one.greatest}, frozenset(one.directive.sources))
                output = state.advance([unpack_chunk(payload[1:]) for payload in payloads], progress)
                for match in output.found:
                    ids += [event.id for event in composite_events(known.catalog.plans[match.query], match.matches, known.topics)]
            found.append(sorted(ids))
        return found

    def _cut(self, batches: int, events: int, changed_at: int) -> list[MicroBatch]:
        known = load_deployment(str(self.checkpoint), self.deployments[0])
        topic = known.topics.index("stocks")
        whole = [self._placed(one, topic) for one in _quotes(events)]
        (stream,) = known.streams
        made: list[MicroBatch] = []
        greatest: dict[int, int] = {}
        sources = tuple(source_number(topic, partition) for partition in range(TASKS))
        (everything,) = whole
        for number, rows in enumerate(np.array_split(np.arange(len(everything)), batches)):
            deployment = self.deployments[number >= changed_at]
            plan = IngressPlan(load_deployment(str(self.checkpoint), deployment).catalog, stream.rules, self.buckets)
            directive = Directive(
                number, deployment=deployment, decided_at_ms=START_MS + number, greatest_times=dict(greatest), sources=sources
            )
            progress, deliveries, news = Progress(greatest, frozenset(sources)), {}, {}
            for task, source in enumerate(sources):
                own = take(everything, rows[everything.source[rows] == source])
                ingested = plan.ingest(own, progress, self.gate)
                news[source] = ingested.judgement.greatest_times[source]
                deliveries[task] = {bucket: [CHUNK + packed] for bucket, packed in ingested.packed(with_times=False)}
            made.append(MicroBatch(directive, news, deliveries))
            greatest = {**greatest, **news}
        return made

    def _placed(self, batch: EventBatch, topic: int) -> EventBatch:
        rows = np.arange(len(batch))
        columns = {**batch.columns, INGESTED: Column(Kind.TIME, batch.time)}
        return replace(
            batch,
            source=np.where(rows % TASKS == 0, source_number(topic, 0), source_number(topic, 1)),
            offset=rows // TASKS,
            columns=columns,
        )


def identities(returned: Sequence[bytes]) -> list[str]:
    """Of the composite events among returned records."""
    rows = [row for stream in returned for row in pa.ipc.open_stream(stream).read_all().to_pylist()]
    return sorted(header["value"].decode() for row in rows for header in row["headers"] or () if header["key"] == "ce_id")
