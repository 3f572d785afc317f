"""Real recordings, sent by `cep produce` to the running application, give the composite events of `cep replay`: the same identities."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import fastavro
import numpy as np
import orjson
import pytest
import yaml
from confluent_kafka import Producer
from typer.testing import CliRunner

from app.bootstrap.places import PROJECT
from app.cli.main import cli
from app.config.settings import load_settings
from app.events.batch import PARTITION_BITS
from app.events.registry import Registry, RegistrySettings
from app.local.outlets import outlet_of
from app.local.recordings import RECORDINGS, default_folder
from app.pipeline.recorded import newest_of, streams_at_a_start
from tests.kafka.application import Application, records_of, until
from tests.kafka.test_whole_way import apply_topics

QUICKSTART = PROJECT / "app" / "local" / "quickstart.yaml"
IDLE_S = 3.0
LONG_AGO_MS = 1_000_000_000_000
"""Before all recordings, which come later on the same topics."""
SENT = {"KCM-2026": None, "DETEGO": None, "ROOM-CLIMATE": None, "GF-2015": 60_000}
"""Events of each recording; None for all."""
QUERIES = {"KCM-2026": "delayed-vehicles", "DETEGO": "moving-item", "ROOM-CLIMATE": "humid-room", "GF-2015": "price-run"}


@pytest.fixture(scope="module")
def application(embedded, tmp_path_factory) -> Iterator[Application]:
    """The quick start's application, which has had nothing to do for longer than it takes to count as idle."""
    settings = yaml.safe_load(QUICKSTART.read_text())
    settings["kafka"] = {"bootstrap_servers": embedded.broker.bootstrap_servers, "starting_offsets": "earliest"}
    settings["schema_registry"] = {"url": embedded.registry.url}
    settings["topics"] = {"prefix": "recorded"}
    settings["queries"]["paths"] = [str(PROJECT / "queries" / f"{query}.yaml") for query in QUERIES.values()]
    for name, stream in settings["streams"].items():
        stream["schemas"] = [str((QUICKSTART.parent / path).resolve()) for path in stream["schemas"]]
        stream["topics"] = [f"recorded.{name}"]
        stream["idle_after"] = f"{IDLE_S} s"
    folder = tmp_path_factory.mktemp("recordings")
    apply_topics(settings, folder)
    application = Application(folder, settings)
    application.started()
    until(lambda: application.get("/readyz") == 200, alive=application.alive)
    yield application
    assert application.stop() == 0


def test_partitions_that_get_their_records_one_after_the_other_wait_for_each_other(application, embedded):
    """As a producer at full speed does it, only slowly: without the others' patience all but the first partition's events would be late."""
    loaded = load_settings(application.file, {})
    outlet = outlet_of("transit", loaded.streams["transit"], Registry(RegistrySettings(embedded.registry.url)))
    schema, header = fastavro.parse_schema(outlet.schemas["StopArrival"]), outlet.headers["StopArrival"]
    time.sleep(IDLE_S + 0.5)
    producer = Producer({"bootstrap.servers": embedded.broker.bootstrap_servers, "linger.ms": 0})
    for partition in range(3, -1, -1):
        for minute in range(0, 60, 2):
            at = LONG_AGO_MS + 60_000 * minute + partition
            event = {"time": at, "stop_id": f"S{partition}", "vehicle_id": f"V{minute}", "route_id": "R", "delay_s": 400.0}
            body = io.BytesIO()
            fastavro.schemaless_writer(body, schema, event)
            producer.produce(outlet.topic, header + body.getvalue(), partition=partition)
        producer.flush(10)
        time.sleep(IDLE_S / 5)
    compare(application, embedded, "transit", "delayed-vehicles")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SENT)
def test_a_recording_sent_to_the_application_gives_what_replay_gives(application, embedded, name):
    if not (default_folder() / RECORDINGS[name].file).exists():
        pytest.skip(f"the recording {name} is not here")
    time.sleep(IDLE_S + 0.5)
    limit = [] if SENT[name] is None else ["--events", str(SENT[name])]
    done = CliRunner().invoke(cli, ["produce", name, "--settings", str(application.file), *limit], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    compare(application, embedded, RECORDINGS[name].stream, QUERIES[name])


def test_the_newest_events_of_several_streams_have_places_of_their_own(application):
    """What is learned from is known by its place: two events of one place would be taken for one another."""
    for stream in ("stocks", "retail"):
        produce = ["produce", stream, "--settings", str(application.file), "--events", "400", "--now"]
        sent = CliRunner().invoke(cli, produce, catch_exceptions=False)
        assert sent.exit_code == 0, sent.output
    settings = load_settings(application.file, {})
    retail, stocks = streams_at_a_start(settings, ("retail", "stocks"))
    batch = newest_of(settings, (stocks, retail), 1_000_000, print)
    places = np.stack([batch.source, batch.offset], axis=1)
    assert len(np.unique(places, axis=0)) == len(batch) > 0
    quotes = np.array(batch.type.dictionary.entries())[batch.type.values] == b"Quote"
    assert {int(one) >> PARTITION_BITS for one in batch.source[quotes]} == {0}, "the first stream's topic"
    assert {int(one) >> PARTITION_BITS for one in batch.source[~quotes]} == {1}, "the second stream's"
    assert (np.diff(batch.time) >= 0).all()


def compare(application: Application, embedded, stream: str, query: str) -> None:
    """What the application emitted for all that is on the stream's topic, against `cep replay` of the same records."""
    servers, topic = embedded.broker.bootstrap_servers, f"recorded.{stream}"
    expected = replayed(application.folder, application.settings, servers, topic, query)
    assert expected, "something is found, or the test shows nothing"

    def emitted() -> list[str]:
        return [record.headers["ce_id"].decode() for record in records_of(servers, f"recorded.{query}")]

    until(lambda: set(emitted()) >= expected or late(servers, topic), seconds=120, pause=1.0, alive=application.alive)
    assert late(servers, topic) == 0
    found = emitted()
    assert (len(found), set(found)) == (len(expected), expected)


def late(servers: str, topic: str) -> int:
    return sum(record.headers["__connect.errors.topic"].decode() == topic for record in records_of(servers, "recorded.late"))


def replayed(folder: Path, settings: dict, servers: str, topic: str, query: str) -> set[str]:
    """Identities of the composite events of `cep replay` over the records of a topic."""
    schemas = [fastavro.parse_schema(json.loads(Path(path).read_text())) for path in settings["streams"][topic.split(".")[1]]["schemas"]]
    assert len(schemas) == 1 or query == "moving-item"
    schema = schemas[0]  # DETEGO has shelf readings only
    lines = []
    for record in records_of(servers, topic):
        event = fastavro.schemaless_reader(io.BytesIO(record.value[5:]), schema)
        event["time"] = round(event["time"].timestamp() * 1000)
        place = [record.topic, record.partition, record.offset]
        lines.append(orjson.dumps({**event, "type": schema["name"].rpartition(".")[2], "position": place}, default=lambda t: t.isoformat()))
    events, out = folder / f"{query}.jsonl", folder / f"{query}.out.jsonl"
    events.write_bytes(b"\n".join(lines) + b"\n")
    arguments = ["--queries", str(PROJECT / "queries" / f"{query}.yaml"), "--events", str(events), "--identities", "--out", str(out)]
    done = CliRunner().invoke(cli, ["replay", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return {json.loads(line)["id"] for line in out.read_text().splitlines()}
