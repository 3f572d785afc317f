"""Topics come and go, the heartbeat is switched, a topic is created again: with the real application, composite events are what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from app.local.generators import generate
from app.owners.deployment import Deployment, load_deployment
from tests.kafka.application import Application, Record, expected_composites, records_of, until
from tests.kafka.test_whole_way import START_MS, apply_topics, send, settings_for

DAY_MS = 86_400_000


def changed(application: Application, settings: dict) -> None:
    """Other settings for the next start."""
    application.settings = {**settings, "checkpoint": application.settings["checkpoint"], "http": application.settings["http"]}
    application.file.write_text(yaml.safe_dump(application.settings))


def newest(application: Application) -> Deployment:
    file = max((application.checkpoint / "deployments").iterdir(), key=lambda path: path.stat().st_mtime)
    return load_deployment(str(application.checkpoint), file.stem)


def told(embedded, application: Application, query: str) -> list[Record]:
    deployment = newest(application)
    (output,) = (o for plan, o in zip(deployment.catalog.plans, deployment.outputs, strict=True) if plan.name == query)
    source = f"/{application.settings['application']}/".encode()
    return [
        record for record in records_of(embedded.broker.bootstrap_servers, output.topic) if record.headers["ce_source"].startswith(source)
    ]


def ids(records: list[Record]) -> set[str]:
    return {record.headers["ce_id"].decode() for record in records}


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_topics_come_and_go_and_the_heartbeat_is_switched(embedded, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    name = "changed"
    both = settings_for(name, embedded, ["shoplifting", "price-run"])
    stock_topic, archive, retail = f"{name}.stocks", f"{name}.archive", f"{name}.retail"
    alone = settings_for(name, embedded, ["shoplifting"], heartbeat={"enabled": False})
    del alone["streams"]["stocks"]
    alone["streams"]["archive"] = {**alone["streams"]["retail"], "topics": [archive]}
    apply_topics(both, tmp_path)
    apply_topics(alone, tmp_path)
    application = Application(tmp_path, both)
    request.addfinalizer(lambda: application.process and application.kill())
    events = list(generate("retail", 3000, seed=5, start_ms=START_MS, batch_rows=1000).batches)
    stocks = list(generate("stocks", 2000, seed=6, start_ms=START_MS, batch_rows=1000).batches)

    send(application, "retail", events[:1])
    send(application, "stocks", stocks[:1])
    run(application, both, 2000, retail, stock_topic)
    send(application, "retail", events[1:2])
    send(application, "stocks", stocks[1:])
    run(application, alone, 2000, retail)
    assert stock_topic not in {topic for topic, _ in application.committed()}
    send(application, "retail", events[2:])
    start(application, both, 5000, retail, stock_topic)
    expected = expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, newest(application))["shoplifting"]
    until(lambda: {event.id for event in expected} <= ids(told(embedded, application, "shoplifting")), alive=application.alive)
    assert application.stop() == 0
    thefts = told(embedded, application, "shoplifting")
    assert ids(thefts) == {event.id for event in expected}
    runs = told(embedded, application, "price-run")
    assert len(runs) == len(ids(runs)) > 0, "no quote was read twice"
    assert newest(application).topics == ("changed.heartbeat", retail, stock_topic, archive)
    assert not records_of(embedded.broker.bootstrap_servers, f"{name}.late", f"{name}.dead-letters")


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_topic_that_was_created_again_does_not_repeat_identities(embedded, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    name = "again"
    strict, retail = settings_for(name, embedded, ["shoplifting"]), f"{name}.retail"
    lenient = {**strict, "kafka": {**strict["kafka"], "fail_on_data_loss": False}}
    apply_topics(strict, tmp_path)
    application = Application(tmp_path, strict)
    request.addfinalizer(lambda: application.process and application.kill())
    send(application, "retail", generate("retail", 3000, seed=5, start_ms=START_MS).batches)
    run(application, strict, 3000, retail)
    before = told(embedded, application, "shoplifting")
    assert len(before) > 20
    recreate(embedded, retail, strict, tmp_path)
    application.start()
    assert application.process.wait(400) == 78
    assert f'topic "{retail}" was deleted and created again' in application.log.read_text()
    assert "set kafka.fail_on_data_loss: false" in application.log.read_text()
    changed(application, lenient)
    send(application, "retail", generate("retail", 3000, seed=5, start_ms=START_MS + DAY_MS).batches)
    application.start()
    until(lambda: len(told(embedded, application, "shoplifting")) >= 2 * len(before), seconds=300, pause=1.0, alive=application.alive)
    assert application.stop() == 0
    after = ids(told(embedded, application, "shoplifting")) - ids(before)
    assert len(after) == len(ids(before)), "the same events at the same offsets a day later"
    assert newest(application).topics[-1] == f"{retail}#2"


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_partitions_that_are_added_while_it_runs_are_read_from_their_beginning(
    embedded, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = "wider"
    settings, retail = settings_for(name, embedded, ["shoplifting"]), f"{name}.retail"
    apply_topics(settings, tmp_path)
    application = Application(tmp_path, settings)
    request.addfinalizer(lambda: application.process and application.kill())
    events = list(generate("retail", 3000, seed=5, start_ms=START_MS, batch_rows=1000).batches)
    send(application, "retail", events[:1])
    start(application, settings, 1000, retail)
    before = {place for place in application.committed() if place[0] == retail}
    admin = AdminClient({"bootstrap.servers": embedded.broker.bootstrap_servers, "log_level": 0})
    admin.create_partitions([NewPartitions(retail, len(before) + 2)])[retail].result(30)
    until(lambda: len(admin.list_topics(retail, timeout=10).topics[retail].partitions) == len(before) + 2)
    send(application, "retail", events[1:])
    until(lambda: application.has_consumed(3000, retail), seconds=300, alive=application.alive)
    expected = expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, newest(application))["shoplifting"]
    until(lambda: {event.id for event in expected} <= ids(told(embedded, application, "shoplifting")), alive=application.alive)
    assert application.stop() == 0
    thefts = told(embedded, application, "shoplifting")
    assert ids(thefts) == {event.id for event in expected}
    assert len(thefts) == len(expected) > 20
    added = {place: end for place, end in application.committed().items() if place[0] == retail and place not in before}
    assert len(added) == 2
    assert all(added.values()), "both got records"


def start(application: Application, settings: dict, wanted: int, *topics: str) -> None:
    changed(application, settings)
    application.start()
    until(lambda: application.has_consumed(wanted, *topics), seconds=300, alive=application.alive)


def run(application: Application, settings: dict, wanted: int, *topics: str) -> None:
    start(application, settings, wanted, *topics)
    assert application.stop() == 0


def recreate(embedded, topic: str, settings: dict, folder: Path) -> None:
    admin = AdminClient({"bootstrap.servers": embedded.broker.bootstrap_servers, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)
    until(lambda: topic not in admin.list_topics(timeout=10).topics)
    apply_topics(settings, folder)
