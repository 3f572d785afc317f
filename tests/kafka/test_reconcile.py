"""After `cep reconcile` what stands on the topics is what the application would have found without shedding, identity by identity."""

import io
import json
import logging
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import fastavro
import pytest
import structlog
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from typer.testing import CliRunner

from app.bucket.values import field_values
from app.cli.main import cli
from app.cli.running.reconcile import as_json
from app.config.settings import Settings, load_settings
from app.control.law.watchdog import Watchdog
from app.delivery.security import client_options
from app.delivery.topics import TopicAdministrator
from app.errors import ConfigurationError
from app.events.registry import Registry, RegistrySettings
from app.local.generators import generate
from app.local.generators.avro_records import avro_records
from app.local.outlets import outlet_of
from app.pipeline.application import opened
from app.pipeline.assemble import ingested, matched
from app.pipeline.reconcile.aims import Request
from app.pipeline.reconcile.failure import NothingCameError, NotThereYetError, ReconcileError
from app.pipeline.reconcile.live import where_it_is
from app.pipeline.reconcile.reconcile import Telling, reconcile
from app.pipeline.reconcile.scope import Interval
from app.pipeline.session import start_session
from app.pipeline.source import kafka_records
from tests.kafka.application import ROOT, Record, expected_composites, records_of, until
from tests.kafka.retention import delete_records
from tests.kafka.test_whole_way import apply_topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
START_MS = int(time.time()) * 1000 - 60_000
"""Kafka's timestamps are the event times here, and brokers take none that are far off."""
LENGTH_MS = 20_000
EVENTS = LENGTH_MS // 2
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
where: "[symbol] AND x.price > a.price AND b.price > 1.003 * a.price"
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
within: 1 s
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
window: {range: 2 s, slide: 5 s}
"""
MIDDLE = (6_000, 9_000)
SHED = ("hasty", "calm", "last-word", "climb")
NOBODY = Telling(lambda what, records: None, lambda records: None)


@dataclass(frozen=True)
class World:
    """An application that has shed 60 % of four queries' events, all the time."""

    spark: object
    settings: Settings
    file: Path
    servers: str
    registry: str
    true: dict[str, dict[str, int]]
    """By query, match times by identity, without shedding."""

    def reconcile(self, begin: int, end: int, **asked):
        request = Request(Interval(START_MS + begin, START_MS + end), ahead_ms=0, **asked)
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

    def checkpoint(self) -> dict[str, tuple[int, int]]:
        """Size and time of every file of the application's checkpoint."""
        files = [path for path in Path(self.settings.checkpoint.path).rglob("*") if path.is_file() and path.name != "reconcile.lock"]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}

    def records(self) -> list[Record]:
        """All that was ever written."""
        found = records_of(self.servers, *(f"reconcile.{query}" for query in (*self.true, "timeouts", "audit")))
        return sorted(found, key=lambda one: (one.topic, one.partition, one.offset))


def time_of(record) -> int:
    return round(datetime.fromisoformat(record.headers["ce_time"].decode()).timestamp() * 1000)


def within(found: dict[str, int], begin: int, end: int) -> set[str]:
    return {id_ for id_, time in found.items() if START_MS + begin <= time < START_MS + end}


def send_in_time(settings: Settings, registry: Registry, batches) -> None:
    """Sends events whose records have their times as Kafka's timestamps."""
    topic = settings.streams["stocks"].topics[0]
    clients = client_options(settings.kafka)
    entry = ConfigEntry("message.timestamp.type", "CreateTime", incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient(clients)
    for future in admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]).values():
        future.result(timeout=30)
    until(lambda: TopicAdministrator(settings).existing([topic])[topic].config["message.timestamp.type"] == "CreateTime")
    outlet, producer = outlet_of("stocks", settings.streams["stocks"], registry), Producer({**clients, "enable.idempotence": True})
    for batch in batches:
        for _, rows, records in avro_records(batch, outlet.schemas, headers=outlet.headers):
            symbols = field_values(batch.columns["symbol"])
            for row, record in zip(rows.tolist(), records, strict=True):
                producer.produce(topic, record, symbols[row].encode(), timestamp=int(batch.time[row]))
    producer.flush()


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
            "kafka": {
                "bootstrap_servers": embedded.broker.bootstrap_servers,
                "starting_offsets": "earliest",
                "max_offsets_per_trigger": 2500,
            },
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
        send_in_time(settings, registry, generate("stocks", EVENTS, seed=4, start_ms=START_MS, rate_per_s=500.0).batches)
        patched.setattr(Watchdog, "ratios", property(lambda _: dict.fromkeys(SHED, 0.6)))
        with opened(spark, settings) as ready:
            reports = ingested(kafka_records(spark, settings, ready.deployment.topics), settings, ready.tasks)
            matched(reports, settings, ready.batches).trigger(availableNow=True).start().awaitTermination()
        deployment = where_it_is(settings).deployment
        expected = expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, deployment)
        true = {query: {one.id: one.time for one in events} for query, events in expected.items()}
        yield World(spark, settings, folder / "settings.yaml", embedded.broker.bootstrap_servers, embedded.registry.url, true)


def told_of(outcome) -> dict[str, dict]:
    """By query, what is told of its composite events."""
    return {one["query"]: one for one in as_json(outcome, dry=True)["queries"] if one["kind"] == "COMPOSITE_EVENTS"}


def scope_of(told: dict) -> tuple[int, int]:
    return told["compared_from"] - START_MS, told["compared_to"] - START_MS + 1


@dataclass(frozen=True)
class Corrected:
    """What was before, what a dry run told, and what the reconciliation of `MIDDLE` told."""

    records: list[Record]
    standing: dict[str, dict[str, int]]
    dry: dict[str, dict]
    records_after_dry: list[Record]
    told: dict[str, dict]
    checkpoints: tuple[dict, dict]
    """Before and afterwards."""


@pytest.fixture(scope="module")
def corrected(world) -> Corrected:
    checkpoint = world.checkpoint()
    records, standing = world.records(), {query: world.standing(query) for query in world.true}
    dry = told_of(world.reconcile(*MIDDLE, dry=True))
    after_dry, told = world.records(), told_of(world.reconcile(*MIDDLE))
    return Corrected(records, standing, dry, after_dry, told, (checkpoint, world.checkpoint()))


def test_a_dry_run_tells_the_true_recall_and_publishes_nothing(world, corrected):
    assert corrected.records_after_dry == corrected.records
    assert set(corrected.dry) == {*SHED, "twice"}, "all that shed, and what reads them"
    for query, one in corrected.dry.items():
        begin, end = scope_of(one)
        assert begin <= MIDDLE[0] < MIDDLE[1] < end < LENGTH_MS - 2_000
        so, there = within(world.true[query], begin, end), within(corrected.standing[query], begin, end)
        assert one["true_events"] == len(so) > 5, query
        assert one["published"] == len(there)
        assert one["recall"] == pytest.approx(len(so & there) / len(so))
        assert one["precision"] == pytest.approx(len(so & there) / len(there))
        assert (one["reconciled"], one["retracted"]) == (len(so - there), len(there - so))
    assert corrected.dry["hasty"]["precision"] < 1, "shedding made it find what is not so"
    assert corrected.dry["last-word"]["precision"] == 1, "which this query kept back"


def test_what_stands_afterwards_is_what_is_found_without_shedding(world, corrected):
    was = corrected.standing
    for query, one in corrected.told.items():
        begin, end = scope_of(one)
        there = world.standing(query)
        assert within(there, begin, end) == within(world.true[query], begin, end), query
        assert one["reconciled"] + one["retracted"] > 0
        outside = within(there, -LENGTH_MS, begin) | within(there, end, 2 * LENGTH_MS)
        assert outside == within(was[query], -LENGTH_MS, begin) | within(was[query], end, 2 * LENGTH_MS), "nothing else is touched"
    assert world.standing("whole") == was["whole"]


def test_the_checkpoint_of_the_application_is_only_read_but_for_the_lock(corrected):
    before, after = corrected.checkpoints
    assert before == after
    assert len(before) > 20


def test_a_second_time_there_is_nothing_to_do_and_the_recall_is_told_again(world, corrected):
    before = world.records()
    outcome = world.reconcile(*MIDDLE)
    assert world.records() == before
    assert outcome.records < 0.95 * EVENTS, "what is long before is not read"
    assert any(row.kind.timeouts and row.difference.true > 100 for row in outcome.rows)
    assert not any(row.difference.missing or row.difference.false for row in outcome.rows), "timeouts neither"
    kept = ("recall", "precision", "true_events", "published")
    again = told_of(outcome)
    assert all([one[name] for name in kept] == [again[query][name] for name in kept] for query, one in corrected.dry.items())
    assert again["hasty"]["recall"] < 0.9


def test_all_that_the_application_has_come_to_is_reconciled_and_the_rest_left_to_it(world, corrected):
    outcome = world.reconcile(0, LENGTH_MS, queries=(*SHED, "twice", "first-only"))
    for query, one in told_of(outcome).items():
        end = one["compared_to"] - START_MS + 1
        assert LENGTH_MS - 4_000 < end < LENGTH_MS
        assert not one["complete"], "the application has not come to the end of what was asked for"
        assert within(world.standing(query), -LENGTH_MS, end) == within(world.true[query], -LENGTH_MS, end), query


def test_corrections_are_records_as_the_application_writes_them_and_the_audit_topic_tells_of_them(world, corrected):
    registry = Registry(RegistrySettings(world.registry))

    def read(record):
        schema = registry.schema(int.from_bytes(record.value[1:5], "big"))
        return schema.root["name"], fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schema.root)

    by_type: dict[str, list[Record]] = {}
    for record in records_of(world.servers, "reconcile.hasty"):
        by_type.setdefault(record.headers["ce_type"].decode(), []).append(record)
    late, back = by_type["cep.hasty.v1.reconciled"], by_type["cep.hasty.v1.retracted"]
    for record in late:
        _, value = read(record)
        assert value["id"] == record.headers["ce_id"].decode()
        assert set(value["fields"]) == {"symbol", "price"} and len(value["events"]) == 2
        assert record.key.decode() == value["fields"]["symbol"]
        assert record.headers["cep.reason"] == b"shed"
    own = {record.headers["ce_id"]: record for record in by_type["cep.hasty.v1"]}
    for record in back:
        first = own[record.headers["ce_id"]]
        assert (record.key, record.value, record.partition) == (first.key, first.value, first.partition)
        assert record.headers["cep.reason"] == b"false-positive"
    told = [value for name, value in map(read, records_of(world.servers, "reconcile.audit")) if name == "cep.audit.Reconciliation"]
    own = [one for one in told if one["query"] == "hasty" and one["kind"] == "COMPOSITE_EVENTS"]
    assert sum(one["reconciled"] for one in own) == len(late)
    assert sum(one["retracted"] for one in own) == len(back)
    assert all(0 < one["recall"] < 1 and 0 < one["precision"] < 1 for one in own)


def test_who_cannot_be_reconciled_is_told_by_name(world):
    with pytest.raises(ReconcileError, match='query "steady" cannot be reconciled: a temporal query'):
        world.reconcile(*MIDDLE, queries=("steady",))
    with pytest.raises(ConfigurationError, match='runs no query "stedy"'):
        world.reconcile(*MIDDLE, queries=("stedy",))
    with pytest.raises(NothingCameError, match="the application has only come to "):
        world.reconcile(LENGTH_MS + 10_000, LENGTH_MS + 20_000)


def test_what_the_application_has_refused_as_late_is_not_found(world, corrected):
    told = corrected.told["calm"]
    begin, end = scope_of(told)
    chosen = min(within(world.true["calm"], begin, end))
    record = next(one for one in records_of(world.servers, "reconcile.calm") if one.headers["ce_id"].decode() == chosen)
    schema = Registry(RegistrySettings(world.registry)).schema(int.from_bytes(record.value[1:5], "big"))
    place = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schema.root)["events"][0]
    headers = {f"__connect.errors.{name}": str(place[name]).encode() for name in ("topic", "partition", "offset")}
    producer = Producer({"bootstrap.servers": world.servers})
    producer.produce("reconcile.late", b"", headers=[*headers.items(), ("cep.reason", b"late")])
    producer.flush()
    again = told_of(world.reconcile(*MIDDLE, queries=("calm",), dry=True))["calm"]
    assert again["true_events"] < told["true_events"]
    assert again["retracted"] >= 1, "it stands on the topic, as if the application had found it before"


@pytest.fixture
def logging_as_before():
    config, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    structlog.configure(**config)
    root.handlers, root.level = handlers, level


def test_the_command_tells_all_of_it(world, logging_as_before):
    asked = ["reconcile", "--settings", str(world.file), "--from", str(START_MS + MIDDLE[0]), "--to", str(START_MS + MIDDLE[1])]
    done = CliRunner().invoke(cli, [*asked, "--ahead", "0 s", "--query", "calm", "--dry-run", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert not told["published"]
    assert [one["query"] for one in told["queries"]] == ["calm"]
    assert told["queries"][0]["recall"] < 1


def test_what_retention_has_deleted_is_told_with_when_it_is_possible_again(world):
    admin = AdminClient({"bootstrap.servers": world.servers, "log_level": 0})
    delete_records(admin, {("reconcile.stocks", number): EVENTS // 6 for number in range(3)})  # MIDDLE and more
    with pytest.raises(ReconcileError, match=r"are deleted, and events from .* on are needed\nhint: it is possible from --from "):
        world.reconcile(*MIDDLE, dry=True)
    with pytest.raises(ReconcileError, match="retention has deleted records of reconcile"):
        world.reconcile(*MIDDLE, queries=("first-only",), dry=True)


def test_an_interval_of_which_records_may_wait_is_not_taken_for_a_quiet_one(world):
    producer = Producer({"bootstrap.servers": world.servers})
    producer.produce("reconcile.stocks", b"nobody has read it")
    producer.flush()
    with pytest.raises(NotThereYetError, match="the application has only come to "):
        world.reconcile(LENGTH_MS + 10_000, LENGTH_MS + 20_000)
