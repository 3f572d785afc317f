"""After `cep reconcile` what stands on the topics is what the application would have found without shedding, identity by identity."""

import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pytest
import yaml

from app.cli.running.reconcile import as_json
from app.config.settings import Settings, load_settings
from app.control.watchdog import Watchdog
from app.delivery.security import client_options
from app.events.registry import Registry, RegistrySettings
from app.local.generators import generate
from app.local.outlets import outlet_of
from app.local.sending import Sender, at_once
from app.owners.deployment import load_deployment
from app.pipeline.application import opened
from app.pipeline.assemble import ingested, matched
from app.pipeline.reconcile.aims import Request
from app.pipeline.reconcile.failure import ReconcileError
from app.pipeline.reconcile.live import where_it_is
from app.pipeline.reconcile.reconcile import Telling, reconcile
from app.pipeline.reconcile.scope import Interval
from app.pipeline.session import start_session
from app.pipeline.source import kafka_records
from tests.kafka.application import ROOT, expected_composites, records_of
from tests.kafka.test_whole_way import apply_topics

START_MS = 1_780_000_000_000
LENGTH_MS = 20_000
QUERIES = """
name: hasty
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > 1.002 * a.price"
strategy: skip-till-next-match
within: 2 s
on_timeout: emit
return: {symbol: b.symbol, price: b.price}
shedding: {shedder: random, latency_bound: 1 s}
---
name: calm
from: stocks
event: SEQ(Quote a, !(Quote x), Quote b)
where: "[symbol] AND x.price > a.price AND b.price > 1.005 * a.price"
within: 2 s
return: {symbol: b.symbol}
shedding: {shedder: random, latency_bound: 1 s}
---
name: last-word
from: stocks
event: SEQ(Quote a, Quote b, !(Quote c))
where: "[symbol] AND b.price > 1.004 * a.price AND c.price > b.price"
within: 1 s
return: {symbol: b.symbol}
shedding: {shedder: random, latency_bound: 1 s}
output: {hold_for_verdict: true}
---
name: climb
from: stocks
event: SEQ(Quote a, Quote b+, Quote c)
where: "[symbol] AND b[i].price > a.price AND c.price > 1.003 * b[last].price"
strategy: skip-till-next-match
within: 1500 ms
return: {symbol: c.symbol, count: count(b)}
shedding: {shedder: random, latency_bound: 1 s}
---
name: twice
from: [query:hasty]
event: SEQ(hasty a, hasty b)
where: "[symbol] AND b.price > a.price"
within: 500 ms
strategy: skip-till-next-match
return: {symbol: b.symbol}
---
name: whole
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > 1.02 * a.price"
within: 1 s
return: {symbol: b.symbol}
---
name: first-only
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > 1.004 * a.price"
within: 1 s
after: skip-past-last-event
return: {symbol: b.symbol}
---
name: steady
from: stocks
select: [volume]
key: [symbol]
coalesce: {duration: 1 s}
window: {range: 2 s, slide: 1 s}
"""
SHED = ("hasty", "calm", "last-word", "climb")
NOBODY = Telling(lambda what, records: None, lambda records: None)


@dataclass(frozen=True)
class World:
    """An application that has shed 60 % of four queries' events, all the time."""

    spark: object
    settings: Settings
    servers: str
    registry: str
    true: dict[str, dict[str, int]]
    """By query, match times by identity, without shedding."""

    def reconcile(self, begin: int, end: int, **asked):
        request = Request(Interval(START_MS + begin, START_MS + end), **asked)
        return reconcile(self.settings, request, lambda: self.spark, NOBODY)

    def standing(self, query: str, topic: str | None = None) -> dict[str, int]:
        """Match times of what stands on a query's topic, by identity."""
        found: dict[str, int] = {}
        records = records_of(self.servers, topic or f"reconcile.{query}")
        for record in sorted(records, key=lambda one: (one.partition, one.offset)):
            kind, id_ = record.headers["ce_type"].decode(), record.headers["ce_id"].decode()
            if kind.startswith(f"cep.{query}.v1") and kind.endswith(".retracted"):
                del found[id_]
            elif kind.startswith(f"cep.{query}.v1"):
                found[id_] = time_of(record)
        return found

    def records(self) -> int:
        return len(records_of(self.servers, *(f"reconcile.{query}" for query in (*self.true, "timeouts", "audit"))))


def time_of(record) -> int:
    return round(fastavro_time(record.headers["ce_time"].decode()))


def fastavro_time(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp() * 1000


def within(found: dict[str, int], begin: int, end: int) -> set[str]:
    return {id_ for id_, time in found.items() if START_MS + begin <= time < START_MS + end}


@pytest.fixture(scope="module")
def spark():
    session = start_session(Settings())
    yield session
    session.stop()


@pytest.fixture(scope="module")
def world(embedded, spark):
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        folder = Path(name)
        (folder / "queries.yaml").write_text(QUERIES)
        plain = {
            "application": "cep-reconcile",
            "kafka": {"bootstrap_servers": embedded.broker.bootstrap_servers, "starting_offsets": "earliest", "max_offsets_per_trigger": 1500},
            "schema_registry": {"url": embedded.registry.url},
            "streams": {
                "stocks": {
                    "topics": ["reconcile.stocks"],
                    "schemas": [str(ROOT / "schemas" / "Quote.avsc")],
                    "time": "time",
                    "idle_after": "1 h",
                    "partitions": 3,
                }
            },
            "queries": {"paths": [str(folder / "queries.yaml")]},
            "topics": {"prefix": "reconcile", "partitions": 2},
            "heartbeat": {"enabled": False},
            "http": {"host": "127.0.0.1", "port": 0},
            "checkpoint": {"path": str(folder / "checkpoint")},
            "audit": {"sample": 0},
        }
        apply_topics(plain, folder)
        (folder / "settings.yaml").write_text(yaml.safe_dump(plain))
        settings = load_settings(folder / "settings.yaml", {})
        registry = Registry(RegistrySettings(embedded.registry.url))
        with Sender(client_options(settings.kafka), outlet_of("stocks", settings.streams["stocks"], registry), at_once) as sender:
            sender.send(generate("stocks", LENGTH_MS // 5, seed=4, start_ms=START_MS, rate_per_s=200.0).batches)
        patched.setattr(Watchdog, "ratios", property(lambda _: dict.fromkeys(SHED, 0.6)))
        with opened(spark, settings) as ready:
            reports = ingested(kafka_records(spark, settings, ready.deployment.topics), settings, ready.tasks)
            matched(reports, settings, ready.batches).trigger(availableNow=True).start().awaitTermination()
        deployment = where_it_is(settings).deployment
        expected = expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, deployment)
        true = {query: {one.id: one.time for one in events} for query, events in expected.items()}
        yield World(spark, settings, embedded.broker.bootstrap_servers, embedded.registry.url, true)


def test_a_dry_run_tells_the_true_recall_and_publishes_nothing(world):
    before = world.records()
    outcome = world.reconcile(4_000, 8_000, dry=True)
    assert world.records() == before
    told = {(one["query"], one["kind"]): one for one in as_json(outcome, dry=True)["queries"]}
    assert {query for query, _ in told} == {*SHED, "twice"}, "all that shed, and what reads them"
    for query in (*SHED, "twice"):
        one = told[query, "COMPOSITE_EVENTS"]
        begin, end = one["compared_from"] - START_MS, one["compared_to"] - START_MS + 1
        assert begin <= 4_000 and end > 8_000
        so, there = within(world.true[query], begin, end), within(world.standing(query), begin, end)
        assert one["true_events"] == len(so) > 5
        assert one["recall"] == pytest.approx(len(so & there) / len(so))
        assert one["precision"] == (pytest.approx(len(so & there) / len(there)) if there else None)
        assert (one["reconciled"], one["retracted"]) == (len(so - there), len(there - so))
    assert told["hasty", "COMPOSITE_EVENTS"]["precision"] < 1, "shedding made it find what is not so"
