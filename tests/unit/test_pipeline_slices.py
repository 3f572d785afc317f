"""A task's share is decoded slice by slice; what comes of it is that of the whole."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import yaml

from app.bucket.bucket import Bucket
from app.bucket.chunk import unpack_chunk
from app.bucket.hold import Progress
from app.config.settings import load_settings
from app.control.messages.directives import Directive, QueryShedding
from app.control.server.desk import Desk
from app.local.generators import generate
from app.owners.deployment import store_deployment
from app.owners.orders import TaskOrders
from app.owners.shipment import CHUNK, REFUSED, Refused
from app.pipeline import ingress as stage
from app.pipeline.application import schema_keeping
from app.pipeline.ingress import TaskSettings
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.pipeline.slices import SLICE_BYTES, Read, slices
from tests.naive.composites import composite_events
from tests.spark.recorded import ROOT, KnownSchemas, recorded

START_MS = 1_780_000_000_000
QUERY = """
name: rise
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
strategy: skip-till-next-match
within: 2 s
return: {symbol: b.symbol, price: b.price}
shedding: {shedder: random, latency_bound: 1 s}
"""
WHOLE = 1 << 40


def arrow(size: int, values: int = 10) -> pa.RecordBatch:
    names = ["value", "source", "offset", "ingested_us"]
    numbers = pa.array(range(values), pa.int64())
    return pa.RecordBatch.from_arrays([pa.array([b"x" * size] * values, pa.binary()), numbers, numbers, numbers], names=names)


def test_slices_are_as_large_as_they_may_and_keep_the_order():
    batches = [arrow(100), arrow(0, 0), arrow(100), arrow(5000), arrow(100)]
    assert [table.num_rows for table in slices(iter(batches), 3000)] == [20, 10, 10]
    assert [table.num_rows for table in slices(iter(batches), 1)] == [10] * 4
    assert [table.num_rows for table in slices(iter(batches))] == [40]
    assert not list(slices(iter([arrow(0, 0)])))


def test_a_slice_is_given_back_before_the_next_one_is_read():
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for table in slices((arrow(1 << 20) for _ in range(8)), 20 << 20) if table.num_rows]
    assert max(held) < 60 << 20, f"{[size >> 20 for size in held]} MiB"


def test_what_was_read_is_told_per_topic_partition_whatever_the_slices():
    batch = arrow(100).set_column(1, "source", pa.array([3] * 4 + [5] * 6, pa.int64()))
    whole, cut = Read(), Read()
    whole.add(pa.Table.from_batches([batch]))
    for first in range(0, 10, 3):
        cut.add(pa.Table.from_batches([batch.slice(first, 3)]))
    assert whole.progress({3: 77}) == cut.progress({3: 77})
    assert [
        (one.source, one.events, one.greatest_time, one.first_offset, one.next_offset, one.bytes) for one in whole.progress({3: 77})
    ] == [
        (3, 4, 77, 0, 4, 400),
        (5, 6, None, 4, 10, 600),
    ]
    assert Read().progress({}) == ()


COPY = 5


class Delivered:
    """Takes what is sent to owners."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, bytes]] = []

    def deliver(self, _orders, _part, rows, copy) -> tuple[str, ...]:
        assert copy == COPY
        self.rows += rows
        return ()


@pytest.fixture(params=["trusted", "waiting"])
def world(request, tmp_path):
    """A deployment, and records of two topic partitions: good ones, late ones, and some that are none."""
    (tmp_path / "rise.yaml").write_text(QUERY)
    stocks = {"topics": ["stocks"], "schemas": [str(ROOT / "schemas" / "Quote.avsc")], "time": "time", "allowed_lateness": "100 ms"}
    if request.param == "trusted":
        stocks["ordered_by"] = "symbol"
    plain = {
        "streams": {"stocks": stocks},
        "queries": {"paths": [str(tmp_path / "rise.yaml")]},
        "heartbeat": {"enabled": False},
        "checkpoint": {"path": str(tmp_path / "checkpoint")},
    }
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(plain))
    settings, registry = load_settings(tmp_path / "settings.yaml", {}), KnownSchemas()
    streams = read_streams(settings, registry)
    deployment = prepare(settings, compile_queries(settings, streams), streams, registry)
    fingerprint = store_deployment(settings.checkpoint.path, deployment)
    registry.teach(schema_keeping(settings))
    records = [
        row
        for batch in generate("stocks", 3000, seed=4, start_ms=START_MS, rate_per_s=200.0).batches
        for row in recorded(batch, "stocks", "symbol", registry)[0]
    ]
    by_place = sorted(records, key=lambda row: (row["partition"], row["offset"]))
    values = [row["value"] for row in by_place]
    for k in range(50, len(values), 97):
        values[k] = b"no event" if k % 2 else None
    for k in range(400, len(values), 211):
        values[k] = values[k - 350]  # told again, and now late
    columns = [
        pa.array(values, pa.binary()),
        pa.array([row["partition"] for row in by_place], pa.int64()),
        pa.array([row["offset"] for row in by_place], pa.int64()),
        pa.array(np.arange(len(values)) + START_MS * 1000, pa.int64()),
    ]
    whole = pa.RecordBatch.from_arrays(columns, names=["value", "source", "offset", "ingested_us"])
    tasks = TaskSettings(settings.checkpoint.path, schema_keeping(settings), Desk("nowhere", 1, ""))
    return deployment, tasks, Directive(0, deployment=fingerprint, seed=3), whole


def outcome(world, monkeypatch, limit: int, directive: Directive, rows: int = 100):
    """What leaves the ingress: composite events of all buckets, refused records, and the report."""
    deployment, tasks, _, whole = world
    delivered, reports = Delivered(), []
    context = SimpleNamespace(getLocalProperty=lambda _: "", partitionId=lambda: 0, taskAttemptId=lambda: COPY)
    monkeypatch.setattr(stage, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(stage, "_orders", lambda _: TaskOrders("test", 1, directive))
    monkeypatch.setattr(stage, "_outbox", lambda: delivered)
    monkeypatch.setattr(stage, "pack_report", lambda report, _: reports.append(report) or b"")
    monkeypatch.setattr(stage, "slices", lambda batches: slices(batches, limit))
    list(stage.ingress((whole.slice(k, rows) for k in range(0, whole.num_rows, rows)), tasks))
    arrived: dict[int, list[bytes]] = {}
    for number, payload in delivered.rows:
        arrived.setdefault(number, []).append(payload)
    found, refused = [], []
    for number, payloads in sorted(arrived.items()):
        bucket = Bucket(deployment.catalog, [stream.rules for stream in deployment.streams], number, deployment.topics)
        chunks = [unpack_chunk(payload[1:]) for payload in payloads if payload[:1] == CHUNK]
        output = bucket.advance(chunks, Progress(closing=True))
        for one in output.found:
            found += composite_events(deployment.catalog.plans[one.query], one.matches, deployment.topics)
        refused += [Refused.unpack(payload) for payload in payloads if payload[:1] == REFUSED]
        found.append(sorted(map(tuple, output.late.tolist())))
    (report,) = reports
    # what was evaluated is a matter of cost: joined dictionaries repeat entries, and cannot be seen through at a glance
    selection = tuple(replace(tally, evaluated=0) for tally in report.selection)
    return found, refused, replace(report, cost_ns={}, selection=selection)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.0, 0.4])
def test_slices_give_what_the_whole_gives(world, monkeypatch, ratio):
    directive = replace(world[2], shedding={"rise": QueryShedding(ratio)} if ratio else {})
    whole = outcome(world, monkeypatch, WHOLE, directive)
    composites, refused, report = whole
    assert len(composites) > 100
    assert {one.reason for one in refused} >= {"null-value", "undecodable"}
    assert report.counts["consumed"] == world[3].num_rows
    assert report.counts["late"] + sum(len(part) for part in composites if isinstance(part, list)) > 0
    assert (report.counts["shed"] > 0) == bool(ratio)
    for limit, rows in ((1, 100), (40_000, 100), (1, 1), (1, 977)):
        assert outcome(world, monkeypatch, limit, directive, rows) == whole, f"slices of {limit} bytes, Arrow batches of {rows}"


def test_the_usual_share_of_a_task_is_one_slice():
    assert SLICE_BYTES > 200_000 * 100
