"""What is shed, sampled and judged does not depend on which task got which topic partitions: on 1, 2, 3 or 4 executors, and after a restart with another number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from app.bucket.bucket import Bucket
from app.bucket.chunk import unpack_chunk
from app.bucket.hold import Progress
from app.bucket.ingress import IngressPlan
from app.cli.shedding.shed_queries import read_shed_queries
from app.cli.shedding.train import train
from app.config.settings import load_settings
from app.control.messages.directives import Directive, QueryShedding
from app.events.batch import EventBatch, source_number, take
from app.events.registry import Registry, RegistrySettings
from app.features.events import Features
from app.owners.deployment import Deployment
from app.owners.models import restored
from app.pipeline.gate import QueryModel, shedding_gate
from app.pipeline.preparation import compile_queries, prepare, read_streams
from shedding.registry import METHODS
from tests.naive.composites import composite_events

ROOT = Path(__file__).parents[2]
KINDS = ("ShelfReading", "CounterReading", "ExitReading")
QUERY = """
name: theft
event: SEQ(ShelfReading s, !(CounterReading c), ExitReading e)
where: "[tag_id]"
within: 20 s
return: {tag_id: e.tag_id}
shedding: {shedder: SHEDDER, latency_bound: 1 s}
"""
NEXT_MATCH = QUERY.replace("within: 20 s", "within: 1 s\nstrategy: skip-till-next-match")
"""Every event can decide about what it finds. Of the other one only counters can, of which gspice sheds none here, so nothing would be judged."""
EVENTS, STEPS, PARTITIONS, BUCKETS, SAMPLE = 1500, 3, 5, 3, 0.3
START_MS = 1_780_000_000_000
Place = tuple[int, int, int, int, bytes, bool]
"""Bucket, query group, source, offset, items, and whether it was shed."""


@dataclass(frozen=True, eq=False)
class World:
    deployment: Deployment
    batches: tuple[EventBatch, ...]
    learned: tuple[QueryModel | None, ...]
    shedder: str


@lru_cache(maxsize=8)
def world_of(shedder: str, query: str, folder: Path) -> World:
    """A query with this shedder, a model where it needs one, and micro-batches of events over some topic partitions."""
    (folder / "theft.yaml").write_text(query.replace("SHEDDER", shedder))
    rng, lines = np.random.default_rng(5), []
    for k, kind in enumerate(rng.choice(KINDS, EVENTS, p=[0.6, 0.2, 0.2]).tolist()):
        own = {"ShelfReading": {"shelf_id": int(rng.integers(1, 21))}, "CounterReading": {"counter_id": 1}, "ExitReading": {"exit_id": 1}}[
            kind
        ]
        lines.append({"type": kind, "time": START_MS + 20 * k, "tag_id": f"T{rng.integers(0, 40)}", "store_id": 1, **own})
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    retail = {"topics": ["retail"], "schemas": [str(ROOT / "schemas" / f"{name}.avsc") for name in KINDS], "time": "time"}
    told = {"streams": {"retail": retail}, "queries": {"paths": ["theft.yaml"], "models": "."}, "audit": {"sample": SAMPLE}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(told))
    files = [folder / "theft.yaml"], folder / "events.jsonl"
    if METHODS[shedder].learns:
        train(queries=files[0], events=files[1], out=folder / "theft.model", config=folder / "settings.yaml", shedder=None)
    loaded, registry = load_settings(folder / "settings.yaml", {}), Registry(RegistrySettings("mock://assignments"))
    streams = read_streams(loaded, registry)
    deployment = prepare(loaded, compile_queries(loaded, streams), streams, registry)
    (query,) = read_shed_queries(*files, folder / "settings.yaml", None)
    topic = deployment.topics.index("retail")
    placed = np.array([source_number(topic, int(one)) for one in rng.integers(0, PARTITIONS, EVENTS)])
    batch = replace(query.batch, source=placed, offset=np.arange(EVENTS))
    batches = tuple(take(batch, rows) for rows in np.array_split(np.arange(EVENTS), STEPS))
    pairs = zip(deployment.models, deployment.catalog.plans, strict=True)
    learned = tuple(None if stored is None else QueryModel(restored(stored), Features.of(plan)) for stored, plan in pairs)
    return World(deployment, batches, learned, shedder)


@dataclass
class Seen:
    """What came of all batches."""

    sent: set[Place]
    told: list[tuple[str, int]]
    sampled: NDArray[np.float64]


def run(world: World, ratio: float, assignments: Sequence[Sequence[int]]) -> Seen:
    """Batch by batch, with the topic partitions given to tasks as that batch's assignment says."""
    deployment = world.deployment
    catalog, (stream,) = deployment.catalog, deployment.streams
    plan = IngressPlan(catalog, stream.rules, BUCKETS)
    buckets = [Bucket(catalog, [stream.rules], number, deployment.topics) for number in range(BUCKETS)]
    seen, greatest = Seen(set(), [], np.zeros((2, 20))), {}
    sources = frozenset(int(one) for batch in world.batches for one in np.unique(batch.source))
    for number, (batch, tasks) in enumerate(zip(world.batches, assignments, strict=True)):
        directive = Directive(number, seed=9, shedding={"theft": QueryShedding(ratio, world.shedder)} if ratio else {})
        gate = shedding_gate(catalog, plan.selection, directive, lambda query: world.learned[query])
        partition = batch.source & ((1 << 20) - 1)
        chunks: list[list[bytes]] = [[] for _ in buckets]
        news: dict[int, int] = {}
        for task in sorted(set(tasks)):
            rows = np.flatnonzero(np.isin(partition, np.flatnonzero(np.array(tasks) == task)))
            ingested = plan.ingest(take(batch, rows), Progress(greatest, sources), gate)
            news |= ingested.judgement.greatest_times
            for bucket, packed in ingested.packed():
                chunks[bucket].append(packed)
                seen.sent |= set(places(bucket, packed))
        greatest = greatest | {source: max(time, greatest.get(source, time)) for source, time in news.items()}
        for bucket, own in zip(buckets, chunks, strict=True):
            closing = number == STEPS - 1
            for found in bucket.advance(own, Progress(greatest, sources, closing=closing)).found:
                made = [one.id for one in composite_events(catalog.plans[found.query], found.matches, deployment.topics)]
                codes = [0] * len(made) if found.verdicts is None else found.verdicts.codes.tolist()
                seen.told += zip(made, codes, strict=True)
            bucket.look_beside()
            seen.sampled += sum(bucket.sampled().values(), np.zeros_like(seen.sampled))
    seen.told.sort()
    return seen


def places(bucket: int, packed: bytes) -> Iterator[Place]:
    """The events of a chunk."""
    for section in unpack_chunk(packed).sections:
        for row in range(len(section.batch)):
            place = int(section.batch.source[row]), int(section.batch.offset[row])
            yield bucket, section.group, *place, section.bitmaps[row].tobytes(), bool(section.hidden)


ALONE = [[0] * PARTITIONS] * STEPS


@pytest.fixture(
    scope="module", params=[("random", QUERY), ("bl", QUERY), ("gspice", NEXT_MATCH), ("espice", QUERY)], ids=lambda param: param[0]
)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    shedder, query = request.param
    return world_of(shedder, query, tmp_path_factory.mktemp(shedder))


@pytest.mark.slow
@settings(max_examples=max(5, settings.default.max_examples // 20), deadline=None)
@given(data=st.data())
def test_what_is_shed_sampled_and_judged_does_not_depend_on_which_task_got_what(world: World, data: st.DataObject) -> None:
    ratio = data.draw(st.sampled_from([0.3, 0.6, 0.9]))
    of_each = st.lists(st.integers(0, 3), min_size=PARTITIONS, max_size=PARTITIONS)
    assignments = data.draw(st.lists(of_each, min_size=STEPS, max_size=STEPS))
    alone, spread = run(world, ratio, ALONE), run(world, ratio, assignments)
    assert spread.sent == alone.sent
    assert spread.told == alone.told
    assert (spread.sampled == alone.sampled).all()


def test_there_is_something_to_depend_on(world: World) -> None:
    shed, whole = run(world, 0.6, ALONE), run(world, 0.0, ALONE)
    kept = {place for place in shed.sent if not place[-1]}
    assert 0.3 < len(kept) / len(whole.sent) < 0.8
    assert len(shed.sent) > len(kept), "shed events travel to be judged by"
    assert {code for _, code in shed.told} > {0}, "verdicts of several kinds"
    assert shed.sampled.sum() > 0
