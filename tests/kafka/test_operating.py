"""A running application as operators see it: lag tools, `cep doctor`, `status`, `tail`, `dlq`, and the line of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from app.config.settings import load_settings
from app.delivery.topics import wanted_topics
from app.local.generators import generate
from app.pipeline.checkup.kafka import needed
from app.query.compile import read_queries
from app.query.resolved.vocabulary import UNKNOWN
from tests.kafka.application import Application, until
from tests.kafka.guarded import guarded_broker
from tests.kafka.scraped import Scraped
from tests.kafka.test_shadow_group import group_offsets
from tests.kafka.test_whole_way import START_MS, apply_topics, send, settings_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def running(embedded, tmp_path_factory) -> Iterator[tuple[Application, int]]:
    """An application that has worked off some events, all ways of looking at it turned on; and how many events."""
    folder = tmp_path_factory.mktemp("operating")
    settings = settings_for("operating", embedded, ["shoplifting"], logging={"levels": {"app.control.batch_line": "DEBUG"}})
    apply_topics(settings, folder)
    application = Application(folder, settings)
    try:
        application.started()
        until(lambda: application.get("/readyz") == 200, 300, alive=application.alive)
        sent = send(application, "retail", generate("retail", 6000, seed=5, start_ms=START_MS).batches)
        until(lambda: application.has_consumed(sent, "operating.retail"), 300, alive=application.alive)
        yield application, sent
    finally:
        application.kill()


def test_lag_tools_see_how_far_it_has_read(running, admin):
    application, sent = running
    read = lambda: {place: end for place, end in group_offsets(admin, "cep-operating").items() if place[0] == "operating.retail"}  # noqa: E731
    until(lambda: sum(read().values()) == sent, alive=application.alive)
    committed = application.committed()
    assert read() == {place: committed[place] for place in read()}
    assert ("operating.heartbeat", 0) not in group_offsets(admin, "cep-operating")
    seen = Scraped(application)
    until(lambda: seen.look() or seen.moved("cep_shadow_commits_total"), alive=application.alive)
    assert not seen.moved("cep_shadow_commit_errors_total")


def test_every_batch_is_one_line_with_ids_of_queries_and_buckets(running):
    application, sent = running

    def lines() -> list[dict]:
        texts = [line for line in application.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, texts) if line["event"] == "batch finished"]

    until(lambda: sum(line["consumed"] for line in lines()) >= sent, alive=application.alive)
    numbers = [line["batch_id"] for line in lines()]
    assert numbers == sorted(set(numbers))
    full = max(lines(), key=lambda line: line["consumed"])
    assert full["queries"]["shoplifting"]["candidates"] > 0
    assert sorted(bucket for held in full["buckets"].values() for bucket in held) == [0, 1]
    assert set(full["phases_ms"]) >= {"ingress", "match"}


def test_status_and_doctor_look_at_it_without_disturbing(running, shell):
    application, _ = running
    ended = shell("status", "--settings", application.file, "--output", "json")
    assert ended.code == 0, ended.err
    (told,) = ended.lines
    (query,) = told["queries"]
    assert (told["ready"], query["query"], query["status"]) == (True, "shoplifting", "running")
    assert query["composite_events"] > 0
    assert query["latency_p99_ms"] > 0
    checks = shell("doctor", "--settings", application.file, "--output", "json")
    assert checks.code == 0, checks.out
    found = {line["check"]: line["found"] for line in checks.lines}
    assert f"process id {application.process.pid} works on it" in found["checkpoint"]
    application.alive()


def test_what_it_found_is_shown(running, shell):
    application, _ = running
    ended = shell("tail", "--settings", application.file, "--output", "json", "--since", "0", "--count", "1000", "--where", "store_id >= 0")
    assert ended.code == 0, ended.err
    own = [line for line in ended.lines if {event["topic"] for event in line["events"]} == {"operating.retail"}]
    (told,) = shell("status", "--settings", application.file, "--over", "0 s", "--output", "json").lines
    assert len(own) == told["queries"][0]["composite_events"]
    assert all(line["fields"]["tag_id"] for line in own)


def test_a_letter_of_its_own_is_understood_sent_again_and_comes_back_as_another_one(running, embedded, shell):
    application, _ = running
    producer = Producer({"bootstrap.servers": embedded.broker.bootstrap_servers})
    producer.produce("operating.retail", b"no Avro", key=b"tag", headers=[("trace", b"t1")], partition=2)
    assert producer.flush(30) == 0

    def letters() -> list[dict]:
        return shell("dlq", "ls", "--settings", application.file, "--output", "json").lines

    until(lambda: len(letters()) == 1, alive=application.alive)
    (first,) = letters()
    assert (first["reason"], first["topic"], first["partition"], first["sent_again"]) == ("undecodable", "operating.retail", 2, False)
    told = shell("dlq", "replay", first["place"], "--settings", application.file, "--output", "json").lines[0]
    assert told["sent"] == 1
    until(lambda: len(letters()) == 2, alive=application.alive)
    again = next(letter for letter in letters() if letter["place"] != first["place"])
    assert (again["reason"], again["partition"], again["offset"] > first["offset"]) == ("undecodable", 2, True)
    shown = shell("dlq", "show", again["place"], "--settings", application.file, "--output", "json").lines[0]
    assert (shown["key"], shown["headers"]["trace"], shown["value_text"]) == ("tag", "t1", "no Avro")
    assert shown["headers"]["cep.sent-again"].endswith(first["place"])
    told = shell("dlq", "replay", "--all", "--dry-run", "--settings", application.file, "--output", "json").lines[0]
    assert (told["sent"], told["already_sent"]) == (1, 1)


def test_nothing_is_committed_where_the_settings_say_so(embedded, admin, tmp_path):
    settings = settings_for("unseen", embedded, ["shoplifting"], kafka={"shadow_group": {"enabled": False}})
    apply_topics(settings, tmp_path)
    application = Application(tmp_path, settings)
    try:
        application.started()
        sent = send(application, "retail", generate("retail", 500, seed=5, start_ms=START_MS).batches)
        until(lambda: application.has_consumed(sent, "unseen.retail"), 300, alive=application.alive)
        assert application.stop() == 0
        assert group_offsets(admin, "cep-unseen") == {}
        assert "batch finished" not in application.log.read_text()
    finally:
        application.kill()


def test_the_permissions_that_doctor_asks_for_are_enough_and_lag_tools_see_nothing_before_they_may(embedded, tmp_path, shell):
    """A broker that forbids what is not allowed; the user of the application gets what `app.pipeline.checkup` says, and no more."""
    with guarded_broker(tmp_path) as guarded:
        settings = settings_for("allowed", embedded, ["shoplifting"])
        settings["kafka"] |= {"bootstrap_servers": guarded.servers, "security": guarded.security()}
        application = Application(tmp_path, settings)
        by_admin = tmp_path / "admin.yaml"
        by_admin.write_text(yaml.safe_dump({**settings, "kafka": {**settings["kafka"], "security": guarded.security("admin")}}))
        assert shell("topics", "apply", "--settings", by_admin).code == 0
        loaded = load_settings(application.file, {})
        wanted = wanted_topics(loaded, read_queries(loaded.queries.paths, UNKNOWN).catalog)
        guarded.allow(ResourceType.TOPIC, {name: list(operations) for name, operations in needed(loaded, wanted).items()})
        checks = shell("doctor", "--settings", application.file, "--output", "json")
        assert (checks.code, [line["check"] for line in checks.lines if line["state"] == "warning"]) == (0, ["permissions"]), checks.out
        try:
            application.started()
            sent = send(SimpleNamespace(file=by_admin), "retail", generate("retail", 2000, seed=5, start_ms=START_MS).batches)
            until(lambda: application.has_consumed(sent, "allowed.retail"), 300, alive=application.alive)
            seen = Scraped(application)
            until(lambda: seen.look() or seen.moved("cep_shadow_commit_errors_total"), alive=application.alive)
            assert not seen.moved("cep_shadow_commits_total")
            log = application.log.read_text()
            assert log.count("offsets are not committed to the shadow group") == 1
            guarded.allow(ResourceType.GROUP, {"cep-allowed": [AclOperation.READ]})
            until(lambda: seen.look() or seen.moved("cep_shadow_commits_total"), alive=application.alive)
            shown = group_offsets(AdminClient(guarded.client("admin")), "cep-allowed")
            assert sum(end for (topic, _), end in shown.items() if topic == "allowed.retail") == sent
            assert application.stop() == 0
        finally:
            application.kill()
