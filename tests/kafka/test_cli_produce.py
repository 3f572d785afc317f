import gzip
import json
import os
from collections import Counter
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from app.bootstrap.places import PROJECT
from app.cli.main import cli
from app.errors import ConfigurationError
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
    assert "0 records that cannot be decoded" in done.stderr
    found = Counter(gzip.decompress(out.read_bytes()).splitlines())
    wanted = Counter(json.dumps(line, sort_keys=True) for line in lines)
    assert not wanted - Counter(json.dumps(json.loads(line), sort_keys=True) for line in found.elements())
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
    assert sorted(recorded, key=lambda line: line["time"]) == lines


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
