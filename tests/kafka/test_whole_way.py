"""The whole way: Kafka → Avro → selection → queries → composite events on Kafka, with the real application."""

import pytest
import yaml

from app.config.settings import load_settings
from app.delivery.security import client_options
from app.delivery.topics import TopicAdministrator, plan_changes, wanted_topics
from app.events.registry import Registry, RegistrySettings
from app.local.generators import generate
from app.local.outlets import outlet_of
from app.local.sending import Sender, at_once
from app.query.compile import read_queries
from app.query.resolved.vocabulary import UNKNOWN
from tests.kafka.application import ROOT, Application, expected_composites, records_of, until
from tests.undated import undated

START_MS = 1_780_000_000_000


SERIES = """
name: theft-after-theft
from: [query:shoplifting]
event: SEQ(shoplifting a, shoplifting b)
where: "[store_id] AND a.tag_id != b.tag_id"
within: 1 minute
return: {store_id: b.store_id, first: a.tag_id, second: b.tag_id}
"""
"""Reads another query's composite events."""


def settings_for(name: str, embedded, queries: list[str], **more) -> dict:
    schema = lambda *names: [str(ROOT / "schemas" / f"{one}.avsc") for one in names]  # noqa: E731
    retail = schema("ShelfReading", "CounterReading", "ExitReading", "BackroomReading")
    return {
        "application": f"cep-{name}",
        "kafka": {"bootstrap_servers": embedded.broker.bootstrap_servers, "starting_offsets": "earliest", **more.pop("kafka", {})},
        "schema_registry": {"url": embedded.registry.url, "retry_for": "3 s"},
        "streams": {
            "retail": {
                "topics": [f"{name}.retail"],
                "schemas": retail,
                "time": "time",
                "ordered_by": "tag_id",
                "idle_after": "1 s",
                "partitions": 3,
            },
            "stocks": {"topics": [f"{name}.stocks"], "schemas": schema("Quote"), "time": "time", "idle_after": "1 s", "partitions": 3},
        },
        "queries": {"paths": [str(ROOT / "queries" / f"{query}.yaml") for query in queries]},
        "topics": {"prefix": name, "partitions": 2},
        **more,
    }


def apply_topics(settings: dict, folder) -> None:
    file = folder / "topics.yaml"
    file.write_text(yaml.safe_dump(settings))
    loaded = load_settings(file, {})
    catalog = read_queries(loaded.queries.paths, UNKNOWN).catalog
    administrator, wanted = TopicAdministrator(loaded), wanted_topics(loaded, catalog)
    administrator.apply(plan_changes(wanted, administrator.existing(topic.name for topic in wanted)))


def send(application: Application, stream: str, batches) -> int:
    loaded = load_settings(application.file, {})
    registry = Registry(RegistrySettings(loaded.schema_registry.url))
    with Sender(client_options(loaded.kafka), outlet_of(stream, loaded.streams[stream], registry), at_once) as sender:
        return sender.send(batches).events


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_killed_and_restarted_application_emits_exactly_what_the_engine_finds(embedded, tmp_path):
    queries = ["shoplifting", "counterfeit-path", "price-run", "cross-symbol-move"]
    settings = settings_for("kill", embedded, queries, kafka={"max_offsets_per_trigger": 3000})
    (tmp_path / "series.yaml").write_text(SERIES)
    settings["queries"]["paths"].append(str(tmp_path / "series.yaml"))
    apply_topics(settings, tmp_path)
    application = Application(tmp_path, settings)
    retail = list(generate("retail", 12_000, seed=5, start_ms=START_MS, batch_rows=6000).batches)
    stocks = list(generate("stocks", 12_000, seed=6, start_ms=START_MS, batch_rows=6000).batches)
    inputs = ("kill.retail", "kill.stocks")
    application.started()
    sent = send(application, "retail", retail[:1]) + send(application, "stocks", stocks[:1])
    until(lambda: application.has_consumed(3000, *inputs), alive=application.alive)
    application.kill()
    sent += send(application, "retail", retail[1:]) + send(application, "stocks", stocks[1:])
    application.started()
    until(lambda: application.has_consumed(sent // 2, *inputs), alive=application.alive)
    application.kill()
    application.started()
    until(lambda: application.has_consumed(sent, *inputs), alive=application.alive)
    expected = expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, application.deployment())
    wanted = {event.id for events in expected.values() for event in events}
    topics = sorted({output.topic for output in application.deployment().outputs})

    def found() -> dict[str, set[str]]:
        by_id: dict[str, set[str]] = {}
        own = [r for r in records_of(embedded.broker.bootstrap_servers, *topics) if r.headers["ce_source"].startswith(b"/cep-kill/")]
        for record in own:  # thefts go to one topic, whichever test finds them
            by_id.setdefault(record.headers["ce_id"].decode(), set()).add(undated(record.value))
        return by_id

    # the last quotes wait until their topic partitions count as idle and heartbeats carry the time on
    until(lambda: wanted <= set(found()), seconds=60, pause=1.0, alive=application.alive)
    assert application.stop() == 0
    emitted = found()
    late = records_of(embedded.broker.bootstrap_servers, "kill.late")
    assert not late, f"{len(late)} late events: {late[:3]}"
    assert set(emitted) == wanted
    assert all(len(values) == 1 for values in emitted.values()), "a repeated batch must write the same but for the moment"
    assert all(expected[query] for query in [*queries, "theft-after-theft"]), "every query finds something, or the test shows nothing"
