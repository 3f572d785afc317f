import gzip
import json
import os
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from app.bootstrap.places import PROJECT
from app.cli.main import cli
from app.config.settings import load_settings
from app.errors import ConfigurationError
from app.events.registry import Registry, registry_settings
from app.local.outlets import outlet_of
from app.local.recordings import RECORDINGS, default_folder

QUICKSTART = PROJECT / "app" / "local" / "quickstart.yaml"


@pytest.fixture(scope="module")
def settings_file(tmp_path_factory, bootstrap_servers, registry_url) -> Path:
    """The shipped settings against the embedded services, with topics of this run."""
    settings = yaml.safe_load(QUICKSTART.read_text())
    settings["kafka"]["bootstrap_servers"] = bootstrap_servers
    settings["schema_registry"]["url"] = registry_url
    settings["topics"] = {"prefix": f"produce-{os.getpid()}"}
    settings["queries"]["paths"] = [str((QUICKSTART.parent / path).resolve()) for path in settings["queries"]["paths"]]
    for stream in settings["streams"].values():
        stream["schemas"] = [str((QUICKSTART.parent / path).resolve()) for path in stream["schemas"]]
        stream["topics"] = [f"{topic}-{os.getpid()}" for topic in stream["topics"]]
    path = tmp_path_factory.mktemp("produce") / "settings.yaml"
    path.write_text(yaml.safe_dump(settings))
    assert invoke("topics", "apply", "--settings", str(path)).exit_code == 0
    return path


def invoke(*arguments: str):
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def record_count(bootstrap_servers: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "count", "log_level": 0})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] for number in partitions]
    consumer.close()
    return sum(ends)


def topic_of(settings_file: Path, stream: str) -> str:
    return yaml.safe_load(settings_file.read_text())["streams"][stream]["topics"][0]


def test_topics_plan_after_apply_has_nothing_to_do(settings_file):
    assert "0 to create, 0 to change" in invoke("topics", "plan", "--settings", str(settings_file)).output


@pytest.mark.parametrize(("kind", "stream"), [("retail", "retail"), ("stocks", "stocks"), ("sensors", "climate"), ("vehicles", "transit")])
def test_every_generated_stream_reaches_its_topic(settings_file, bootstrap_servers, kind, stream):
    before = record_count(bootstrap_servers, topic_of(settings_file, stream))
    done = invoke("produce", kind, "--settings", str(settings_file), "--events", "2000")
    assert done.exit_code == 0
    assert done.stdout.startswith("2,000 events")
    assert record_count(bootstrap_servers, topic_of(settings_file, stream)) == before + 2000


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recording_reaches_its_topic(settings_file, bootstrap_servers, name):
    recording = RECORDINGS[name]
    if not (default_folder() / recording.file).is_file():
        pytest.skip(f"no {recording.file}")
    before = record_count(bootstrap_servers, topic_of(settings_file, recording.stream))
    done = invoke("produce", name, "--settings", str(settings_file), "--events", "3000")
    assert done.exit_code == 0
    assert record_count(bootstrap_servers, topic_of(settings_file, recording.stream)) == before + 3000


def test_a_file_of_json_lines_is_written_with_the_streams_schema(settings_file, bootstrap_servers, tmp_path):
    file = tmp_path / "events.jsonl"
    assert invoke("generate", "retail", "--events", "500", "--out", str(file)).exit_code == 0
    before = record_count(bootstrap_servers, topic_of(settings_file, "retail"))
    done = invoke("produce", str(file), "--stream", "retail", "--settings", str(settings_file))
    assert done.exit_code == 0
    assert record_count(bootstrap_servers, topic_of(settings_file, "retail")) == before + 500


def test_what_was_produced_can_be_recorded_and_is_the_same(settings_file, tmp_path):
    file, out = tmp_path / "events.jsonl", tmp_path / "recorded.jsonl.gz"
    assert invoke("generate", "vehicles", "--events", "3000", "--out", str(file)).exit_code == 0
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert invoke("produce", str(file), "--stream", "transit", "--settings", str(settings_file)).exit_code == 0
    done = invoke("record", "transit", "--settings", str(settings_file), "--out", str(out))
    assert done.exit_code == 0
    assert "0 records that the application refuses" in done.stderr
    found = [json.loads(line) for line in gzip.decompress(out.read_bytes()).splitlines()]
    places = [tuple(line.pop("position")) for line in found]
    assert len(set(places)) == len(places)
    assert {place[0] for place in places} == {topic_of(settings_file, "transit")}
    wanted = Counter(json.dumps(line, sort_keys=True) for line in lines)
    assert not wanted - Counter(json.dumps(line, sort_keys=True) for line in found)
    few = invoke("record", "transit", "--settings", str(settings_file), "--out", str(out), "--events", "7", "--since", "1 h")
    assert few.exit_code == 0
    assert len(gzip.decompress(out.read_bytes()).splitlines()) == 7


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "time", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "side", "type": "string"},
        {"name": "orderId", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "seal", "type": ["null", "bytes"], "default": None},
    ],
}


def test_events_with_other_names_typed_by_an_attribute_come_back_as_they_were(settings_file, tmp_path):
    (tmp_path / "Order.avsc").write_text(json.dumps(ORDER))
    settings = yaml.safe_load(settings_file.read_text())
    stream = {"schemas": [str(tmp_path / "Order.avsc")], "time": "time", "type": "side", "rename": {"orderId": "order_id"}}
    settings["streams"] = {"orders": {"topics": [f"orders-{os.getpid()}"], **stream}}
    settings["queries"] = {"paths": []}
    own = tmp_path / "settings.yaml"
    own.write_text(yaml.safe_dump(settings))
    assert invoke("topics", "apply", "--settings", str(own)).exit_code == 0
    lines = [
        {"type": "BUY", "time": 1_700_000_000_123, "side": "BUY", "order_id": 17, "price": -12.34, "seal": "\u00ff\u0000"},
        {"type": "SELL", "time": 1_700_000_000_124, "side": "SELL", "order_id": 18, "price": 0.05, "seal": None},
    ]
    first, again = tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert invoke("produce", str(first), "--stream", "orders", "--settings", str(own)).exit_code == 0
    assert invoke("record", "orders", "--settings", str(own), "--out", str(again)).exit_code == 0
    recorded = [json.loads(line) for line in again.read_bytes().splitlines()]
    assert [line.pop("position")[0] for line in recorded] == [f"orders-{os.getpid()}"] * 2
    assert sorted(recorded, key=lambda line: line["time"]) == lines


def test_a_recording_of_several_partitions_is_replayed_as_the_application_saw_it(settings_file, tmp_path):
    settings = yaml.safe_load(settings_file.read_text())
    settings["streams"]["retail"] = {**settings["streams"]["retail"], "topics": [f"retail-parts-{os.getpid()}"], "ordered_by": "tag_id"}
    settings["topics"] = {**settings.get("topics", {}), "partitions": 4}
    own = tmp_path / "settings.yaml"
    own.write_text(yaml.safe_dump(settings))
    assert invoke("topics", "apply", "--settings", str(own)).exit_code == 0
    file, recorded, answers = tmp_path / "events.jsonl", tmp_path / "recorded.jsonl", []
    assert invoke("generate", "retail", "--events", "20000", "--out", str(file)).exit_code == 0
    assert invoke("produce", str(file), "--stream", "retail", "--settings", str(own)).exit_code == 0
    assert invoke("record", "retail", "--settings", str(own), "--out", str(recorded)).exit_code == 0
    lines = recorded.read_bytes().splitlines(keepends=True)
    assert {json.loads(line)["position"][1] for line in lines} == {0, 1, 2, 3}
    # partitions one behind the other, as a client may fetch them
    recorded.write_bytes(b"".join(sorted(lines, key=lambda line: json.loads(line)["position"])))
    for events in (file, recorded):
        out = tmp_path / "matches.jsonl"
        done = invoke(
            "replay",
            "--events",
            str(events),
            "--queries",
            str(Path(__file__).parents[2] / "queries" / "shoplifting.yaml"),
            "--settings",
            str(own),
            "--out",
            str(out),
        )
        assert (done.exit_code, "late" in done.stderr) == (0, False)
        found = [json.loads(line) for line in out.read_bytes().splitlines()]
        answers.append(sorted(json.dumps({name: value for name, value in one.items() if name != "events"}) for one in found))
    assert len(answers[0]) > 10
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topic", "retial"], '"retial" is no topic of the stream "retail"'),
        (["--key", "tag"], 'no event of the stream "retail" has an attribute "tag"\nhint: did you mean "tag_id"?'),
    ],
)
def test_a_mistyped_topic_or_key_is_told_and_leaves_nothing_behind(settings_file, registry_url, options, message):
    done = CliRunner().invoke(cli, ["produce", "retail", "--settings", str(settings_file), "--events", "10", *options])
    assert message in str(done.exception)
    with urllib.request.urlopen(f"{registry_url}/subjects") as answer:
        assert "retial" not in answer.read().decode()


def test_records_of_all_shipped_streams_have_a_key_that_their_events_have(registry_url):
    loaded = load_settings(PROJECT / "app" / "local" / "all-streams.yaml", {"CEP_SCHEMA_REGISTRY__URL": registry_url})
    outlets = {name: outlet_of(name, own, Registry(registry_settings(loaded.schema_registry))) for name, own in loaded.streams.items()}
    keys = {"retail": "tag_id", "stocks": "symbol", "transit": "stop_id", "climate": "mote_id", "positions": "vehicle_id"}
    assert {name: outlet.key for name, outlet in outlets.items()} == {**keys, "football": "player_id"}
    for outlet in outlets.values():
        assert outlet.key in {
            outlet.attributes.get(field["name"], field["name"]) for one in outlet.schemas.values() for field in one["fields"]
        }


def test_an_attribute_that_lines_cannot_hold_is_told_with_what_to_do(settings_file, tmp_path):
    schema = {"type": "record", "name": "Shot", "fields": [{"name": "time", "type": "long"}, {"name": "stream", "type": "string"}]}
    (tmp_path / "Shot.avsc").write_text(json.dumps(schema))
    settings = yaml.safe_load(settings_file.read_text())
    stream = {"topics": [f"shots-{os.getpid()}"], "schemas": [str(tmp_path / "Shot.avsc")], "time": "time", "rename": {"stream": "camera"}}
    settings["streams"], settings["queries"] = {"shots": stream}, {"paths": []}
    own, out = tmp_path / "settings.yaml", tmp_path / "x.jsonl"
    own.write_text(yaml.safe_dump(settings))
    (tmp_path / "shots.jsonl").write_text('{"type": "Shot", "time": 5, "camera": "hd"}\n')
    assert invoke("topics", "apply", "--settings", str(own)).exit_code == 0
    assert invoke("produce", str(tmp_path / "shots.jsonl"), "--stream", "shots", "--settings", str(own)).exit_code == 0
    del stream["rename"]
    own.write_text(yaml.safe_dump(settings))
    done = CliRunner().invoke(cli, ["record", "shots", "--settings", str(own), "--out", str(out)])
    assert "rename: {stream: stream_name}" in str(done.exception)
    assert not out.exists()


def test_recording_a_stream_that_does_not_exist_is_told(settings_file, tmp_path):
    done = CliRunner().invoke(cli, ["record", "transits", "--settings", str(settings_file), "--out", str(tmp_path / "x.jsonl")])
    assert 'the settings know no stream "transits"' in str(done.exception)
    assert not (tmp_path / "x.jsonl").exists()


def test_what_was_sent_and_recorded_is_told_as_json(settings_file, tmp_path):
    sent = json.loads(invoke("produce", "stocks", "--settings", str(settings_file), "--events", "200", "--output", "json").stdout)
    assert (sent["topic"], sent["events"]) == (topic_of(settings_file, "stocks"), 200)
    assert sent["bytes"] > 0
    out = tmp_path / "recorded.jsonl"
    recorded = json.loads(invoke("record", "stocks", "--settings", str(settings_file), "--out", str(out), "--output", "json").stdout)
    assert recorded == {"stream": "stocks", "events": len(out.read_text().splitlines()), "undecodable": 0, "file": str(out)}
    assert recorded["events"] >= 200


@pytest.mark.parametrize("command", [["record", "transit", "--out", "r.jsonl"], ["produce", "vehicles", "--events", "10"]])
def test_a_topic_that_is_missing_is_a_wrong_configuration(settings_file, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    settings = yaml.safe_load(settings_file.read_text())
    settings["streams"]["transit"]["topics"] = ["nowhere-at-all"]
    Path("elsewhere.yaml").write_text(yaml.safe_dump(settings))
    done = CliRunner().invoke(cli, [*command, "--settings", "elsewhere.yaml"])
    assert isinstance(done.exception, ConfigurationError)
    assert str(done.exception).startswith("there is no topic nowhere-at-all")
    assert "\nhint: cep topics" in str(done.exception)
    assert not Path("r.jsonl").exists()
