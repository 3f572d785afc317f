"""`cep doctor` against real services: each thing that can be wrong is found, and said with its exit code and what to do."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from app.cli.running import doctor
from app.config.settings import load_settings
from app.delivery.originals import OriginalReader
from app.delivery.topics import wanted_topics
from app.delivery.witness import Witness
from app.owners.sole import sole_driver
from app.pipeline.checkup import machine
from app.pipeline.checkup.kafka import Written
from app.pipeline.numbers import Numbers, store_numbers
from app.query.compile import read_queries
from app.query.resolved.vocabulary import UNKNOWN
from tests.command_line import Ended, Shell
from tests.documented import documented
from tests.kafka.application import ROOT, records_of, until
from tests.kafka.gateway import Gateway
from tests.kafka.guarded import Guarded, guarded_broker
from tests.kafka.operating import World

READ, WRITE, DESCRIBE, CONFIGS = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS


@pytest.fixture(scope="module")
def world(embedded, tmp_path_factory) -> World:
    return World("doctor", embedded, tmp_path_factory.mktemp("doctor"))


def asked(shell: Shell, file: Path, *more: str) -> tuple[Ended, dict[str, list[dict]]]:
    """How it ended, and the checks by name."""
    ended = shell("doctor", "--settings", file, "--output", "json", *more)
    checks: dict[str, list[dict]] = {}
    for line in ended.lines:
        checks.setdefault(line["check"], []).append(line)
    return ended, checks


def states(checks: dict[str, list[dict]], name: str) -> set[str]:
    return {check["state"] for check in checks[name]}


def failing(checks: dict[str, list[dict]], name: str) -> dict:
    """The one failure of this name; it says what to do."""
    (found,) = [check for check in checks[name] if check["state"] == "failed"]
    assert found["next"]
    return found


def test_all_is_well_and_only_heartbeats_were_written(world, embedded, shell):
    before = len(records_of(embedded.broker.bootstrap_servers, "doctor.heartbeat"))
    ended, checks = asked(shell, world.file)
    assert ended.code == 0, ended.out
    assert "failed" not in {check["state"] for group in checks.values() for check in group}
    assert {key for line in ended.lines for key in line} == documented("`doctor`")
    names = [
        "versions",
        "disk",
        "checkpoint",
        "port",
        "registry",
        "schemas",
        "queries",
        "brokers",
        "permissions",
        "topics",
        "partitions",
        "clock",
    ]
    assert list(checks) == names
    assert len(records_of(embedded.broker.bootstrap_servers, "doctor.heartbeat")) == before + 2
    assert [file for file in (world.folder / "checkpoint").rglob("*") if file.is_file()] == [], "the probe is gone"
    _, checks = asked(shell, world.file, "--read-only")
    assert states(checks, "clock") == {"skipped"}
    assert len(records_of(embedded.broker.bootstrap_servers, "doctor.heartbeat")) == before + 2


def test_people_get_a_line_per_check_and_the_next_step_below_it(world, shell):
    ended = shell("doctor", "--settings", world.but(kafka__bootstrap_servers="127.0.0.1:9"), "--read-only")
    assert ended.code == 69
    assert "✓ registry" in ended.out
    at = ended.out.splitlines().index(next(line for line in ended.out.splitlines() if line.startswith("✗ brokers")))
    assert "→ is kafka.bootstrap_servers right" in ended.out.splitlines()[at + 1]
    assert "1 failed" in ended.out.splitlines()[-1]


def test_a_broker_that_is_away(world, shell):
    ended, checks = asked(shell, world.but(kafka__bootstrap_servers="127.0.0.1:9"))
    assert ended.code == 69
    assert "no answer from the brokers 127.0.0.1:9" in failing(checks, "brokers")["found"]
    assert all(states(checks, name) == {"skipped"} for name in ("topics", "partitions", "permissions", "clock"))


def test_a_registry_that_is_away(world, embedded, shell):
    gateway = Gateway(embedded.registry.url)
    gateway.shut()
    ended, checks = asked(shell, world.but(schema_registry__url=gateway.url), "--read-only")
    assert ended.code == 69
    assert gateway.url in failing(checks, "registry")["found"]
    assert "schema_registry.url" in failing(checks, "registry")["next"]
    assert states(checks, "topics") == {"ok"}, "the brokers are asked all the same"


class _Guarded(BaseHTTPRequestHandler):
    """A registry that lets nobody in."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"error_code": 401, "message": "who are you?"}')

    def log_message(self, format, *args) -> None:  # noqa: A002 - the base class' name
        pass


def test_a_registry_that_refuses_access_is_told_from_one_that_is_away(world, shell):
    with ThreadingHTTPServer(("127.0.0.1", 0), _Guarded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = world.but(schema_registry__url=f"http://127.0.0.1:{server.server_port}")
        ended, checks = asked(shell, file, "--read-only")
        tail = shell("tail", "--settings", file, "--where", "rise > 1")
        server.shutdown()
    assert ended.code == 77
    assert "refuses access" in failing(checks, "registry")["found"]
    assert "schema_registry.username and password" in failing(checks, "registry")["next"]
    assert tail.code == 77
    assert "hint: are schema_registry.username" in tail.err


def test_topics_that_are_missing_or_differ(embedded, tmp_path, admin, shell):
    own = World("doctor-topics", embedded, tmp_path)
    for future in admin.delete_topics(["doctor-topics.audit", "doctor-topics.late"]).values():
        future.result(30)
    settings = {"message.timestamp.type": "CreateTime", "max.message.bytes": "50000"}
    for future in admin.create_topics([NewTopic("doctor-topics.late", 3, 1, config=settings)]).values():
        future.result(30)
    ended, checks = asked(shell, own.file, "--read-only")
    assert ended.code == 78
    missing = next(check for check in checks["topics"] if "missing" in check["found"])
    assert "doctor-topics.audit" in missing["found"]
    assert "cep topics apply" in missing["next"]
    warnings = [check["found"] for check in checks["topics"] if check["state"] == "warning"]
    assert any("message.timestamp.type is CreateTime, wanted LogAppendTime" in found for found in warnings)
    assert any("has 3 partitions, settings say 2" in found for found in warnings)
    assert any("takes records of 50,000 bytes" in check["found"] and check["exit_code"] == 78 for check in checks["topics"])


def test_topics_that_the_application_will_make_are_not_missed(world, tmp_path, shell):
    (tmp_path / "own.yaml").write_text((ROOT / "queries" / "misplaced-item.yaml").read_text())
    paths = [*world.plain["queries"]["paths"], str(tmp_path / "own.yaml")]
    _, checks = asked(shell, world.but(queries__paths=paths), "--read-only")
    assert "doctor.misplaced-item" in failing(checks, "topics")["found"]
    _, checks = asked(shell, world.but(queries__paths=paths, topics__create_outputs=True), "--read-only")
    assert states(checks, "topics") == {"ok"}
    assert "doctor.misplaced-item will be made by the application" in checks["topics"][0]["found"]


def test_a_stream_whose_schema_nobody_has_registered(world, shell):
    file = world.but(streams__stocks__schemas=None)
    ended, checks = asked(shell, file, "--read-only")
    assert ended.code == 78
    assert 'the registry has no subject "doctor.stocks-value"' in failing(checks, "schemas")["found"]
    assert "register it" in failing(checks, "schemas")["next"]


def test_output_schemas_that_only_a_pipeline_may_register(embedded, tmp_path, shell):
    own = World("doctor-pipeline", embedded, tmp_path)
    file = own.but(schema_registry__register_schemas=False)
    ended, checks = asked(shell, file, "--read-only")
    assert ended.code == 69
    assert "price-run, shoplifting are not registered" in failing(checks, "schemas")["found"]
    for query in ("price-run", "shoplifting"):
        own.output(query)
    ended, checks = asked(shell, file, "--read-only")
    assert states(checks, "schemas") == {"ok"}


def test_a_query_that_cannot_run(world, tmp_path, shell):
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: broken\nfrom: stocks\nevent: SEQ(Quote a, Quote b)\nwhere: a.prize > 3\nwithin: 5 s\n")
    ended, checks = asked(shell, world.but(queries__paths=[str(broken)]), "--read-only")
    assert ended.code == 78
    assert f"{broken}:4:" in failing(checks, "queries")["found"]
    assert "price" in failing(checks, "queries")["next"]


def test_settings_that_are_wrong_end_it_before_anything_is_asked(world, shell):
    ended = shell("doctor", "--settings", world.but(kafka__bootstrap_server="a:1"))
    assert ended.code == 78
    assert "bootstrap_servers" in ended.err
    assert ended.out == ""


def test_a_checkpoint_that_cannot_be_written(world, tmp_path, shell):
    (tmp_path / "file").write_text("no folder")
    ended, checks = asked(shell, world.but(checkpoint__path=str(tmp_path / "file" / "checkpoint")), "--read-only")
    assert ended.code == 78
    assert "checkpoint.path" in failing(checks, "checkpoint")["found"]
    assert "name a folder" in failing(checks, "checkpoint")["next"]


@pytest.mark.parametrize(("folder", "state"), [("new", "ok"), ("lost/new", "warning")])
def test_a_checkpoint_that_is_not_there_is_not_made(world, tmp_path, shell, folder, state):
    _, checks = asked(shell, world.but(checkpoint__path=str(tmp_path / folder)), "--read-only")
    (check,) = checks["checkpoint"]
    assert check["state"] == state
    assert str(tmp_path / folder) in check["found"]
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_in_another_number_of_buckets(world, tmp_path, shell):
    store_numbers(str(tmp_path / "c"), Numbers(buckets=7))
    ended, checks = asked(shell, world.but(checkpoint__path=str(tmp_path / "c")), "--read-only")
    assert ended.code == 78
    assert "the checkpoint's state is in 7 buckets" in failing(checks, "checkpoint")["found"]
    assert "cep checkpoint rescale" in failing(checks, "checkpoint")["next"]


def test_a_running_driver_is_seen_and_not_disturbed(world, tmp_path, shell):
    file = world.but(checkpoint__path=str(tmp_path / "c"))
    with sole_driver(load_settings(file, {})):
        ended, checks = asked(shell, file, "--read-only")
        assert ended.code == 0
        assert f"the driver with process id {os.getpid()} works on it" in checks["checkpoint"][0]["found"]
        assert "the running application's" in checks["port"][0]["found"]
    _, checks = asked(shell, file, "--read-only")
    assert "works on it" not in checks["checkpoint"][0]["found"]


def test_a_port_that_is_taken(world, shell):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended, checks = asked(shell, world.but(http__port=taken.getsockname()[1]), "--read-only")
    assert ended.code == 78
    assert "address already in use" in failing(checks, "port")["found"]
    assert "http.port" in failing(checks, "port")["next"]


@pytest.mark.parametrize(("free", "state", "code"), [(1 << 20, "failed", 69), (500 << 20, "warning", 0), (100 << 30, "ok", 0)])
def test_a_disk_that_fills_up(world, free, state, code):
    room = SimpleNamespace(total=200 << 30, used=0, free=free)
    found = machine.disks(world.settings, lambda _: room)
    assert {(check.state, check.code) for check in found} == {(state, code)}
    assert all(check.next for check in found) == (state != "ok")


@pytest.mark.parametrize(
    ("shift_ms", "state", "code", "words"),
    [(0, "ok", 0, "agree"), (-60_000, "failed", 69, "behind"), (60_000, "failed", 69, "ahead of"), (90_000_000, "failed", 69, "ahead of")],
)
def test_a_clock_that_differs_from_the_brokers(world, shell, monkeypatch, shift_ms, state, code, words):
    monkeypatch.setattr(doctor, "clock_ms", lambda: time.time_ns() // 1_000_000 + shift_ms)
    ended, checks = asked(shell, world.file)
    assert ended.code == code
    (found,) = checks["clock"]
    assert found["state"] == state
    assert words in found["found"]
    assert ("time server" in found["next"]) == (state == "failed")


@pytest.mark.parametrize(
    ("written", "skew_ms"),
    [(Written(1000, 900, 1100), 0), (Written(1000, 900, 60_000), 0), (Written(1000, 4000, 4100), 3000), (Written(1000, 100, 200), -800)],
)
def test_only_what_cannot_be_the_way_to_the_broker_counts_as_skew(written, skew_ms):
    assert written.skew_ms == skew_ms


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as broker:
        yield broker


@pytest.fixture
def inside(guarded, embedded, tmp_path, request) -> World:
    """Settings of an application that the guarded broker knows, with all topics made by somebody else."""
    made = World(f"guarded-{abs(hash(request.node.name)) % 10**6}", embedded, tmp_path, topics=False)
    made.file = made.but(kafka__bootstrap_servers=guarded.servers, kafka__security=guarded.security())
    made.plain = yaml.safe_load(made.file.read_text())
    admin_file = made.but(kafka__security=guarded.security("admin"))
    made.settings = load_settings(admin_file, {})
    return made


def everything(world: World) -> dict[str, list[AclOperation]]:
    catalog = read_queries(world.settings.queries.paths, UNKNOWN).catalog
    return {topic.name: [READ, WRITE, DESCRIBE, CONFIGS] for topic in wanted_topics(world.settings, catalog)}


def test_a_wrong_password_is_told_from_a_broker_that_is_away(guarded, inside, shell):
    ended, checks = asked(shell, inside.but(kafka__security=guarded.security(password="wrong")), "--read-only")
    assert ended.code == 77
    found = failing(checks, "brokers")
    assert 'refuse the user "app"' in found["found"]
    assert "password" in found["next"]
    assert "wrong" not in json.dumps(checks["brokers"]), "the secret itself is not told"
    tail = shell("tail", "--settings", inside.but(kafka__security=guarded.security(password="wrong")))
    assert tail.code == 77
    assert "hint: kafka.security says" in tail.err


def test_a_protocol_that_the_port_does_not_speak(inside, shell):
    ended, checks = asked(shell, inside.but(kafka__security={"protocol": "PLAINTEXT"}), "--read-only")
    assert ended.code == 69
    assert "kafka.security.protocol" in failing(checks, "brokers")["next"]


def test_permissions_that_are_missing_are_named_one_by_one(guarded, inside, shell):
    admin_file = inside.but(kafka__security=guarded.security("admin"))
    assert shell("topics", "apply", "--settings", admin_file).code == 0
    rules = everything(inside)
    name = inside.name
    rules[f"{name}.audit"] = [DESCRIBE, CONFIGS]
    del rules[f"{name}.late"]
    guarded.allow(ResourceType.TOPIC, rules)
    ended, checks = asked(shell, inside.file, "--read-only")
    assert ended.code == 77
    told = {check["found"]: check["next"] for check in checks["permissions"] if check["state"] == "failed"}
    assert set(told) == {
        f"the topic {name}.audit: WRITE is missing",
        f"the topic {name}.late: DESCRIBE, DESCRIBE_CONFIGS, WRITE are missing",
    }
    assert f'grant WRITE on the topic {name}.audit to the user "app"' in told.values()
    (group,) = [check for check in checks["permissions"] if check["state"] == "warning"]
    assert f"grant READ on the group cep-{name}" in group["next"]
    assert "kafka.shadow_group.enabled: false" in group["next"]
    apply = shell("topics", "plan", "--settings", inside.file)
    assert apply.code in (0, 77), "a topic that may not be seen looks as if it were missing"
    guarded.allow(ResourceType.TOPIC, {f"{name}.audit": [WRITE], f"{name}.late": [WRITE, DESCRIBE, CONFIGS]})
    guarded.allow(ResourceType.GROUP, {f"cep-{name}": [READ]})
    ended, checks = asked(shell, inside.file)
    assert ended.code == 0, ended.out
    assert states(checks, "permissions") == {"ok"}


def test_a_topic_that_may_be_seen_and_not_read_is_told(guarded, inside, shell):
    admin_file = inside.but(kafka__security=guarded.security("admin"))
    assert shell("topics", "apply", "--settings", admin_file).code == 0
    dead = inside.settings.topics.dead_letters
    producer = Producer(guarded.client("admin"))
    producer.produce(dead, b"x", partition=0)
    assert producer.flush(30) == 0
    guarded.allow(ResourceType.TOPIC, {dead: [DESCRIBE]})
    ended = shell("dlq", "ls", "--settings", inside.file)
    assert ended.code == 77
    assert dead in ended.err
    assert "hint: grant it to the user app" in ended.err


def test_readers_that_commit_nothing_need_no_permission_on_a_group(guarded, inside, shell):
    """The client asks for its group's coordinator all the same, and is refused."""
    admin_file = inside.but(kafka__security=guarded.security("admin"))
    assert shell("topics", "apply", "--settings", admin_file).code == 0
    topic = f"{inside.name}.stocks"
    producer = Producer(guarded.client("admin"))
    for value in (b"a", b"b"):
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    guarded.allow(ResourceType.TOPIC, {topic: [READ, DESCRIBE]})
    reader, witness = OriginalReader(guarded.client("app")), Witness(guarded.client("app"), timeout_s=60)
    assert witness.first(topic, 0, 0, 2) == 0
    told_of_the_group(guarded, topic)  # by now they have been told as well
    assert [(one.found, one.value, one.problem) for one in reader.read(topic, 0, [0, 1])] == [(True, b"a", ""), (True, b"b", "")]
    assert witness.first(topic, 0, 1, 2) == 1
    reader.close()
    witness.close()


def told_of_the_group(guarded: Guarded, topic: str) -> None:
    """Waits until the broker has refused another client its group, too."""
    other = Consumer({**guarded.client("app"), "group.id": "other"})
    other.assign([TopicPartition(topic, 0, 0)])

    def refused() -> bool:
        message = other.poll(1.0)
        return message is not None and message.error() is not None and message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED

    until(refused, 60, 0.0)
    other.close()
