"""Topics and partitions come and go, the heartbeat is switched, buckets become more, a topic is created again: with the real application, composite events are
what they should be. What happens to one checkpoint happens once, in `story`; each test looks at what came of one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from typer.testing import CliRunner

from app.cli.main import cli
from app.local.embedded import Embedded
from app.local.generators import generate
from app.owners.deployment import Deployment, load_deployment
from app.pipeline.numbers import load_numbers
from tests.kafka.application import Application, Record, expected_composites, records_of, until
from tests.kafka.test_whole_way import START_MS, apply_topics, send, settings_for
from tests.naive.composites import CompositeEvent

DAY_MS = 86_400_000
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


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


@dataclass
class Story:
    """What was seen while topics, partitions, buckets and the heartbeat changed under one checkpoint."""

    application: Application
    thefts: list[Record] = field(default_factory=list)
    runs: list[Record] = field(default_factory=list)
    expected: dict[str, list[CompositeEvent]] = field(default_factory=dict)
    refused: str = ""
    rescaled: str = ""
    labels: list[tuple[str, ...]] = field(default_factory=list)
    committed: list[dict[tuple[str, int], int]] = field(default_factory=list)
    misplaced: list[Record] = field(default_factory=list)

    def ended(self) -> None:
        self.labels.append(load_numbers(str(self.application.checkpoint)).labels)
        self.committed.append(self.application.committed())


RETAIL, STOCKS, ARCHIVE, HEARTBEAT = "changed.retail", "changed.stocks", "changed.archive", "changed.heartbeat"


@pytest.fixture(scope="module")
def story(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Three runs: both streams and the heartbeat; without stocks and heartbeat, with a new topic, in other buckets; as at first, and partitions are added."""
    folder = tmp_path_factory.mktemp("changed")
    both = settings_for("changed", embedded, ["shoplifting", "price-run"], spark={"buckets": 2})
    alone = settings_for("changed", embedded, ["shoplifting"], heartbeat={"enabled": False}, spark={"buckets": 3})
    del alone["streams"]["stocks"]
    alone["streams"]["archive"] = {**alone["streams"]["retail"], "topics": [ARCHIVE]}
    apply_topics(both, folder)
    apply_topics(alone, folder)
    application = Application(folder, both)
    story = Story(application)
    retail = list(generate("retail", 4000, seed=5, start_ms=START_MS, batch_rows=1000).batches)
    stocks = list(generate("stocks", 2000, seed=6, start_ms=START_MS, batch_rows=1000).batches)
    try:
        send(application, "retail", retail[:1])
        send(application, "stocks", stocks[:1])
        run(application, both, 2000, RETAIL, STOCKS)
        story.ended()
        send(application, "retail", retail[1:2])
        send(application, "stocks", stocks[1:])
        changed(application, alone)
        story.refused = refused_start(application)
        story.rescaled = CliRunner().invoke(cli, ["checkpoint", "rescale", "--buckets", "3", "--settings", str(application.file)]).output
        run(application, alone, 2000, RETAIL)
        story.ended()
        send(application, "retail", retail[2:3])
        start(application, {**both, "spark": {"buckets": 3}}, 5000, RETAIL, STOCKS)
        add_partitions(embedded, RETAIL, 2)
        send(application, "retail", retail[3:])
        until(lambda: application.has_consumed(6000, RETAIL, STOCKS), seconds=300, alive=application.alive)
        story.expected = expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, newest(application))
        for query in ("shoplifting", "price-run"):
            wanted = {event.id for event in story.expected[query]}
            until(lambda query=query, wanted=wanted: wanted <= ids(told(embedded, application, query)), pause=1.0, alive=application.alive)
        assert application.stop() == 0
        story.ended()
        story.thefts, story.runs = told(embedded, application, "shoplifting"), told(embedded, application, "price-run")
        story.misplaced = records_of(embedded.broker.bootstrap_servers, "changed.late", "changed.dead-letters")
        yield story
    finally:
        if application.process is not None and application.process.poll() is None:
            application.kill()


def refused_start(application: Application) -> str:
    """What was said where a start was refused."""
    before = len(application.log.read_text())
    application.start()
    assert application.process.wait(120) == os.EX_CONFIG
    return application.log.read_text()[before:]


def add_partitions(embedded: Embedded, topic: str, more: int) -> None:
    admin = AdminClient({"bootstrap.servers": embedded.broker.bootstrap_servers, "log_level": 0})
    count = len(admin.list_topics(topic, timeout=10).topics[topic].partitions) + more
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(30)
    until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == count)


def test_whatever_changes_composite_events_are_those_of_an_undisturbed_run(story: Story) -> None:
    assert ids(story.thefts) == {event.id for event in story.expected["shoplifting"]}
    assert len(story.thefts) == len(story.expected["shoplifting"]) > 20
    assert not story.misplaced


def test_topics_that_come_and_go_keep_their_numbers(story: Story) -> None:
    assert story.labels == [(HEARTBEAT, RETAIL, STOCKS), *[(HEARTBEAT, RETAIL, STOCKS, ARCHIVE)] * 2], "new ones are appended"
    assert [STOCKS in {topic for topic, _ in ends} for ends in story.committed] == [True, False, True]
    assert [HEARTBEAT in {topic for topic, _ in ends} for ends in story.committed] == [True, False, True], "it is switched"


def test_a_topic_that_comes_back_is_read_on_from_where_it_was_left(story: Story) -> None:
    assert len(story.runs) == len(ids(story.runs)) > 0, "no quote was read twice"
    assert ids(story.runs) == {event.id for event in story.expected["price-run"]}, "and none left out"


def test_another_number_of_buckets_is_refused_with_what_to_do_and_that_does_it(story: Story) -> None:
    assert "spark.buckets is 3, but the checkpoint's state is in 2 buckets" in story.refused
    assert "hint: set it to 2, or stop the application and run cep checkpoint rescale --buckets 3" in story.refused
    assert "Traceback" not in story.refused
    assert "was moved from 2 to 3 buckets" in story.rescaled
    assert {path.name for path in (story.application.checkpoint / "state-1").iterdir()} == {"bucket-0", "bucket-1", "bucket-2"}


def test_partitions_that_are_added_while_it_runs_are_read_from_their_beginning(story: Story) -> None:
    before, after = ({place: end for place, end in ends.items() if place[0] == RETAIL} for ends in story.committed[1:])
    added = {place: end for place, end in after.items() if place not in before}
    assert len(added) == 2
    assert all(added.values()), "both got records"
    assert sum(after.values()) == 4000


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
