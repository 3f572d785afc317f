"""One application to which everything happens that can: overload, bad records, late ones, an owner that hangs and is killed, a registry that is away, queries that change;
and at last its driver is killed in a burst, and starts again with two executors.

All of it is one story (`story`); each test looks at something else that came of it.
"""

from __future__ import annotations

import ast
import io
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from app.events.wire import prefix
from app.local.embedded import Embedded
from app.local.generators import generate
from app.observe.table import METRICS
from ops.bench.processes import LOCAL_CLUSTER, spark_home
from ops.observability.dashboards import DASHBOARDS
from tests.chart.conftest import tool
from tests.kafka.application import ROOT, records_of, until
from tests.kafka.changing import Changing, Input
from tests.kafka.gateway import Gateway
from tests.kafka.prometheus import Prometheus, scraping
from tests.kafka.scraped import Scraped
from tests.kafka.test_kills import victims
from tests.kafka.test_transactions import Sending
from tests.kafka.test_whole_way import START_MS, apply_topics, settings_for
from tests.kafka.torn import by_identity, epochs_of, fed_again, torn, uncommitted, was_written

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000)]

NAME = "overloaded"
DEAR = """
name: dear
from: stocks
event: SEQ(Quote a, !(Quote n), Quote b, Quote c)
where: "[symbol] AND n.volume >= 200 * a.volume AND b.volume >= 3 * a.volume AND c.volume >= 3 * b.volume AND c.price >= 1.01 * a.price"
within: 10 s
return: {symbol: c.symbol, low: a.price, high: c.price}
shedding: {shedder: random, latency_bound: 100 ms}
"""
"""Its bound is less than any batch takes, so it sheds whatever the machine is; and shedding can make it find what is not so."""
STATE = """
name: state
from: stocks
event: SEQ(Quote a, Quote b, Quote c)
where: "[symbol] AND b.volume >= 2 * a.volume AND c.volume >= 8 * b.volume AND c.price >= 1.01 * a.price"
within: 6 s
evaluator: runs
return: {symbol: c.symbol}
shedding: {shedder: pm-random, latency_bound: 100 ms}
"""
QUIET = {
    "patient": """
name: patient
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > 1.004 * a.price"
strategy: skip-till-next-match
within: 2 s
on_timeout: emit
return: {symbol: b.symbol, price: b.price}
shedding: {shedder: random, latency_bound: 1 h}
""",
    "limited": """
name: limited
from: stocks
event: SEQ(Quote a, Quote b, Quote c)
where: "[symbol]"
within: 1 s
limits: {matches_per_event: 1, partial_matches_per_partition: 20, state_bytes: 30000}
return: {symbol: c.symbol}
""",
    "remembered": """
name: remembered
from: stocks
select: [price]
key: [symbol]
coalesce: {max_gap: 0 s, duration: until-next}
valid: ">= 1 s"
window: {range: 10 s, slide: 1 s}
shedding: {shedder: rand, memory: 3 tuples}
""",
    "learned": """
name: learned
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.volume >= 8 * a.volume"
within: 400 ms
return: {symbol: b.symbol}
shedding: {shedder: gspice, latency_bound: 1 h}
""",
    "seldom": """
name: seldom
from: retail
event: SEQ(ShelfReading a, ExitReading b)
where: "[tag_id] AND a.store_id > -1 AND a.store_id > -2 AND a.shelf_id < -7"
within: 1 s
return: {tag_id: a.tag_id}
""",
}
COMPOSITES = [f"{NAME}.{query}" for query in ("dear", "state", "patient", "limited")]
BROKEN = QUIET["seldom"].replace("tag_id", "tagid")
BUCKETS = 4
SLICE = 500
SLOW_S = 600.0
"""Whatever is waited for comes in a few seconds, or in minutes where others have the processor."""
BATCHES = 8
"""Batches of a burst, as many records as fit into them."""
BATCH = 1000


@dataclass
class Story:
    """What was seen while everything happened."""

    embedded: Embedded
    application: Changing
    gateway: Gateway
    stocks: Input
    seen: Scraped
    prometheus: Prometheus | None
    notes: dict[str, object] = field(default_factory=dict)

    def until(self, condition: Callable[[], object], pause: float = 0.2) -> None:
        until(condition, seconds=SLOW_S, pause=pause, alive=self.application.alive)

    def started(self) -> None:
        self.application.start()
        self.until(lambda: self.application.get("/startupz") == 200)

    def until_moved(self, name: str, **labels: str) -> None:
        self.until(lambda: any(self.seen.values(name, **labels)))

    def until_consumed(self) -> None:
        self.until(lambda: self.application.has_consumed(self.stocks.sent, self.stocks.topic))


@pytest.fixture(scope="module")
def story(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp(NAME)
    gateway = Gateway(embedded.registry.url)
    settings = settings_for(NAME, embedded, [], kafka={"max_offsets_per_trigger": BATCH})
    settings["schema_registry"] = {"url": gateway.url, "retry_for": "2 s", "timeout": "1 s"}
    settings |= {"watchdog": {"warm_up_batches": 1}, "selection": {"sample": 200}, "audit": {"sample": 0.3}}
    settings["learning"] = {"first": "1 s", "every": "15 s", "events": 4000}
    settings["spark"] = {"stall_after": "4 s", "buckets": BUCKETS, "batch_attempts": 8}
    settings["streams"]["stocks"] |= {"idle_after": "1 h", "partitions": 2}  # retail's partitions fall silent
    everything = folder / "of-topics"
    everything.mkdir()
    for name, text in {**QUIET, "dear": DEAR, "state": STATE}.items():
        (everything / f"{name}.yaml").write_text(text)
    apply_topics({**settings, "queries": {"paths": [str(everything)]}}, folder)
    (folder / "single.yaml").write_text(QUIET["patient"])
    application = Changing(folder, settings, folder / "single.yaml")
    application.write(**{name: text for name, text in QUIET.items() if name != "patient"})
    quotes = list(generate("stocks", 150_000, seed=6, start_ms=START_MS, rate_per_s=1000.0, batch_rows=SLICE).batches)
    try:
        with scraping(folder / "prometheus", application.port) as prometheus:
            story = Story(embedded, application, gateway, Input(application, "stocks", quotes), Scraped(application), prometheus)
            with story.seen.watching():
                everything_happens(story)
            yield story
    finally:
        gateway.shut()
        if application.process is not None and application.process.poll() is None:
            application.kill()


def everything_happens(story: Story) -> None:
    """The story from its beginning to its end."""
    story.started()
    quiet_hours(story)
    queries_that_shed_come(story)
    a_burst(story)
    an_owner_hangs_and_is_killed(story)
    the_registry_is_away(story)
    the_driver_is_killed_in_a_burst(story)
    story.seen.look()


def quiet_hours(story: Story) -> None:
    """Some events of both streams, a bad record and a late one, offsets without records; then silence."""
    topic = story.stocks.topic
    retail = Input(story.application, "retail", list(generate("retail", 1000, seed=5, start_ms=START_MS, batch_rows=SLICE).batches))
    retail.send(2)
    retail.consumed()
    story.stocks.send(4)
    junk = Sending(story.embedded.broker.bootstrap_servers, topic)
    junk.committed(b"no Avro at all")
    junk.aborted(b"never seen")
    story.stocks.sent += 3  # the record and both markers
    story.until_consumed()
    story.until_moved("cep_dead_letters_total")
    late = Input(story.application, "stocks", list(generate("stocks", 10, seed=7, start_ms=START_MS - 600_000).batches))
    late.send(1)
    story.stocks.sent += late.sent
    waited = ("cep_idle_partitions", "cep_heartbeats_total", "cep_latency_bound_reachable", "cep_model_newest_event_timestamp_seconds")
    for name in waited:
        story.until_moved(name)
    story.until(lambda: model_is_told(story))


def model_is_told(story: Story) -> bool:
    """A model is opened first and told afterwards; the next change must not be taken for it."""
    told = story.application.told()
    return (told["last_reading"]["read_at_ms"] or 0) >= told["opened_at_ms"]


def queries_that_shed_come(story: Story) -> None:
    application = story.application
    application.after(lambda: application.write(seldom=BROKEN), "broken")
    story.notes["bounds in reach"] = application.metric("cep_latency_bound_reachable")
    application.after(lambda: application.write(seldom=QUIET["seldom"], dear=DEAR, state=STATE))


def a_burst(story: Story) -> None:
    story.stocks.send(BATCHES * BATCH // SLICE)
    story.until_consumed()
    story.until_moved("cep_audit_verdicts_total")


def an_owner_hangs_and_is_killed(story: Story) -> None:
    """A batch cannot end while an owner hangs; when it is dead, the attempt has failed and another one begins."""
    application = story.application
    with story.stocks.flowing(300):
        while not application.metric("cep_batch_attempts_failed_total"):
            told = application.metric("cep_stalled_batches_total")
            hanging = min(victims(application, "owner"))
            os.kill(hanging, signal.SIGSTOP)
            story.until(lambda: application.metric("cep_stalled_batches_total") > told)  # noqa: B023
            os.kill(hanging, signal.SIGKILL)
            story.until(lambda: application.get("/readyz") == 200)
    story.until_consumed()


def the_registry_is_away(story: Story) -> None:
    """Somebody uses a schema that nobody has seen."""
    newer = json.loads((ROOT / "schemas" / "Quote.avsc").read_text())
    newer["fields"].append({"name": "colour", "type": "string", "default": "red"})
    story.gateway.shut()
    schema_id = SchemaRegistryClient({"url": story.embedded.registry.url}).register_schema(
        f"{NAME}-newer", Schema(json.dumps(newer), "AVRO")
    )
    stream = io.BytesIO(prefix(schema_id))
    stream.seek(0, io.SEEK_END)
    quote = {"time": START_MS + 200_000, "symbol": "IBM", "price": 1.0, "volume": 1}
    fastavro.schemaless_writer(stream, newer, quote)
    producer = Producer({"bootstrap.servers": story.embedded.broker.bootstrap_servers})
    producer.produce(story.stocks.topic, stream.getvalue(), partition=0)
    producer.flush()
    story.stocks.sent += 1
    story.until_moved("cep_schema_registry_waiting_seconds")
    story.gateway.open()
    story.until_consumed()


def the_driver_is_killed_in_a_burst(story: Story) -> None:
    """It is held when owners have done something of a batch, so that the batch cannot end; then everybody is killed, and two executors with other tasks do it again."""
    application, servers = story.application, story.embedded.broker.bootstrap_servers
    story.until(lambda: application.get("/readyz") == 200)
    quiet = story.stocks.sent
    story.stocks.send(2 * BATCHES * BATCH // SLICE)
    story.until(lambda: application.has_consumed(quiet + BATCH, story.stocks.topic), pause=0.02)
    held_in_a_batch(story)
    story.until(lambda: was_written(application, servers, COMPOSITES), pause=1.0)
    application.kill()
    before = torn(application, servers, COMPOSITES, BUCKETS)
    application.env["SPARK_HOME"] = str(spark_home(application.folder / "home"))
    spark = {**application.settings["spark"], "master": "local-cluster[2,1,1024]", "ingress_tasks": 3, "conf": dict(LOCAL_CLUSTER)}
    application.configure({**application.settings, "spark": spark})
    story.started()
    story.until(lambda: uncommitted(application) > before.number)
    story.notes |= {"torn": before, "again": fed_again(application, before)}
    story.until_consumed()
    assert application.stop() == 0


def held_in_a_batch(story: Story) -> None:
    """Stops the driver's process in the middle of a batch that leaves something behind."""
    application, pid = story.application, story.application.process.pid
    while True:
        story.until(lambda: epochs_of(application, uncommitted(application), BUCKETS), pause=0.005)
        os.kill(pid, signal.SIGSTOP)
        number = uncommitted(application)
        if epochs_of(application, number, BUCKETS) and number not in application.batch_log()[1]:
            return
        os.kill(pid, signal.SIGCONT)  # it was just over


ELSEWHERE = {
    "cep_events_unaccounted_total": ("tests/unit/test_control_plane.py", "test_metrics_of_a_batch"),
    "cep_accounting_breaches_total": ("tests/unit/test_control_plane.py", "test_breaches_are_counted_by_account"),
    "cep_damaged_snapshots_total": (
        "tests/unit/test_control_batch_metrics.py",
        "test_snapshots_that_were_passed_over_are_counted_over_all_buckets_and_batches",
    ),
    "cep_heartbeat_errors_total": ("tests/unit/test_control_plane.py", "test_lost_heartbeats_are_counted_and_logged_once_per_outage"),
    "cep_shadow_commit_errors_total": (
        "tests/unit/test_control_shadow_group.py",
        "test_failures_are_counted_every_time_logged_once_and_over_with_the_first_success",
    ),
    "cep_originals_errors_total": (
        "tests/unit/test_control_plane.py",
        "test_originals_that_could_not_be_read_are_counted_and_logged_once_per_outage",
    ),
}
"""What stays 0 in a run without defects and damage, with a broker that is there; and the tests that move it."""
BOTH_WAYS = (
    "cep_latency_bound_reachable",
    "cep_config_reload_success",
    "cep_schema_registry_waiting_seconds",
    "cep_drop_ratio",
    "cep_idle_partitions",
)
"""Gauges that must have been 0 as well as something else."""


@pytest.mark.parametrize("metric", [one for one in METRICS if one.name not in ELSEWHERE], ids=lambda one: one.name)
def test_every_metric_moves_in_a_running_application(story, metric):
    assert story.seen.moved(metric.name), f"nobody sets {metric.name}"
    for labels in story.seen.labels(metric.name):
        assert labels == set(metric.labels)


@pytest.mark.parametrize("metric", BOTH_WAYS)
def test_a_gauge_that_says_yes_or_no_said_both(story, metric):
    assert len(story.seen.values(metric)) > 1
    assert 0 in story.seen.values(metric)


@pytest.mark.parametrize("metric", ELSEWHERE)
def test_what_moves_only_when_something_is_broken_stayed_and_has_a_test_of_its_own(story, metric):
    assert not story.seen.moved(metric)
    file, name = ELSEWHERE[metric]
    functions = {one.name: one for one in ast.parse((ROOT / file).read_text()).body if isinstance(one, ast.FunctionDef)}
    assert metric in {one.value for one in ast.walk(functions[name]) if isinstance(one, ast.Constant)}


PANELS = [(board.name, panel.title, expression) for board in DASHBOARDS for panel in board.panels for expression, _ in panel.series]


@pytest.fixture
def prometheus(story) -> Prometheus:
    """That scraped the story."""
    for name in ("prometheus", "helm"):
        tool(name)
    return story.prometheus


@pytest.mark.parametrize(("board", "title", "expression"), PANELS)
def test_every_panel_of_the_dashboards_shows_what_happened(prometheus, board, title, expression):
    assert prometheus.shown(expression)


def test_prometheus_can_evaluate_every_rule_of_the_chart(prometheus):
    assert prometheus.faults() == {}


@pytest.fixture(scope="module")
def audited(story) -> list[tuple[str, str, dict]]:
    """Key, schema and content of the audit topic's records, read by a consumer that knows the broker, the registry and Avro, and nothing of us."""
    registry, schemas, found = SchemaRegistryClient({"url": story.embedded.registry.url}), {}, []
    for record in records_of(story.embedded.broker.bootstrap_servers, f"{NAME}.audit"):
        assert record.value[0] == 0
        number = int.from_bytes(record.value[1:5], "big")
        if number not in schemas:
            schemas[number] = fastavro.parse_schema(json.loads(registry.get_schema(number).schema_str))
        read = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schemas[number])
        found.append((record.key.decode(), schemas[number]["name"], read))
    return found


KINDS = ("ShedReport", "Verdict", "Estimate", "WatchdogDecision", "ModelChange")


def test_all_kinds_of_audit_records_are_read_by_who_knows_only_the_registry(audited):
    assert {name for _, name, _ in audited} == {f"cep.audit.{one}" for one in KINDS}
    for key, _, read in audited:
        assert key == read["query"]
        assert (read["version"], read.get("batch_id", 0) >= 0) == (1, True)
        assert abs(read["time"].timestamp() - time.time()) < 3600


def test_decisions_say_why_and_are_few(audited):
    decisions = [read for _, name, read in audited if name == "cep.audit.WatchdogDecision"]
    reports = [
        read for _, name, read in audited if name == "cep.audit.ShedReport" and read["shedder"] == "random" and read["query"] == "dear"
    ]
    told = [one for one in decisions if one["query"] == "dear"]
    assert {one["query"] for one in decisions} <= {"dear", "state", "patient", "learned"}, "who has no bound sheds nothing"
    assert (told[0]["reason"], told[0]["latency_bound_ms"], told[0]["former_drop_ratio"]) == ("SHEDDING_BEGINS", 100, 0.0)
    assert not all(one["in_reach"] for one in told), "nothing keeps its bound"
    asked = {one["batch_id"]: one["asked_drop_ratio"] for one in reports}
    assert all(asked[one["batch_id"]] == one["drop_ratio"] for one in told if one["batch_id"] in asked)
    assert 0 < len(told) < len(asked)
    assert all(one["arrivals_per_s"] >= 0 and one["backlog"] >= 0 and one["latency_ms"] > 0 for one in told)
    assert any(one["arrivals_per_s"] for one in told)


def test_what_a_limit_for_state_ended_is_told_with_its_reason(story, audited):
    reports = [
        read for key, name, read in audited if key == "limited" and name == "cep.audit.ShedReport" and read["limit"] == "state_bytes"
    ]
    assert reports
    assert {(one["shedder"], one["level"]) for one in reports} == {("least-progress", "PARTIAL_MATCHES")}
    assert all(0 < one["dropped"] <= one["considered"] for one in reports)
    assert any(story.seen.values("cep_limited_total", query="limited", limit="state_bytes"))


def test_the_batch_in_which_the_driver_was_killed_sheds_the_same_events_on_two_executors(story):
    before, again = story.notes["torn"], story.notes["again"]
    shed = {query for query, asked in before.directive.shedding.items() if asked.drop_ratio > 0}
    assert shed, (
        "`dear` among them or not: where its verdicts cost more than its shedding saves, the others alone are asked (`Outlook.worthwhile`)"
    )
    assert again == before.fed
    assert any(shed for events in again.values() for *_, shed in events), "the bucket was told of shed ones"
    assert sum(map(len, again.values())) > 50


def test_what_was_written_before_the_driver_was_killed_is_written_again_the_same(story, audited):
    records = records_of(story.embedded.broker.bootstrap_servers, *COMPOSITES)
    emitted = by_identity(records)
    assert all(len(set(values)) == 1 for values in emitted.values())
    assert any(len(values) > 1 for values in emitted.values()), "some of the batch was written twice"
    told: dict[tuple, list[str]] = {}
    for key, name, read in audited:
        if name == "cep.audit.ModelChange":
            continue  # of no batch
        identity = (key, name, read["batch_id"], *(read.get(field) for field in ("level", "limit", "reason", "composite_event")))
        told.setdefault(identity, []).append(str(read))
    assert {len(set(values)) for values in told.values()} == {1}, "audit records are repeated byte by byte"
    assert any(len(values) > 1 for values in told.values()), "and some of them are"


def test_nothing_was_wrong_with_the_application_itself(story):
    """What it tells people to look at is what was done to it."""
    told = [json.loads(line) for line in story.application.log.read_text().splitlines() if line.startswith("{")]
    errors = {one["event"] for one in told if one["level"] == "error"}
    assert errors == {"batch does not end", "query files", "queries not reloaded: those that run go on"}
    assert story.notes["bounds in reach"] == 1, "before queries came whose bounds nothing keeps"
