"""Bad input ends in a dead letter, a late record or a clear message; never in a stack trace or a stopped stream.

One application for all records: bad ones among good ones go in, then everything that comes out is looked at. Its registry goes down last.
What is wrong at the start has tests of its own, which never get as far as Spark.
"""

import io
import json
import os
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field

import fastavro
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from app.events.wire import guid_prefix, prefix
from app.local.registry import embedded_registry
from tests.kafka.application import ROOT, Application, Record, records_of, until
from tests.kafka.test_whole_way import apply_topics

READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "time", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "tag", "type": ["null", "string"]},
        {"name": "step", "type": "int"},
        {"name": "count", "type": "long", "default": 0},
        {"name": "weight", "type": ["null", "double"], "default": None},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    ],
}
PACKED = {**READING, "fields": [*READING["fields"], {"name": "colour", "type": "string", "default": "red"}]}
"""What a newer producer writes: the same and more."""
PERSON = {"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}, {"name": "tag", "type": "int"}]}
QUERY = """\
name: pair
version: 1
title: Two readings of a tag
from: readings
event: SEQ(Reading a, Reading b)
where: "[tag] AND a.step = 1 AND b.step = 2"
within: 10 s
return:
  tag: a.tag
  total: a.count + b.count
  quotient: b.count / a.count
  rest: b.count % a.count
  weight: a.weight * b.weight
  lightest: min(a.weight, b.weight)
  seen: b.seen
  waited: b.seen - a.seen
output: {key: tag}
"""
STREAM = "bad.readings"
COMPOSITES, DEAD, LATE = "bad.pair", "bad.dead-letters", "bad.late"
REASON = "__connect.errors.exception.class.name"
RETRY_S = 3


def settings_of(folder, servers, registry_url, **more):
    (folder / "reading.avsc").write_text(json.dumps(READING))
    return {
        "kafka": {"bootstrap_servers": servers, "starting_offsets": "earliest"},
        "schema_registry": {"url": registry_url, "retry_for": f"{RETRY_S} s", "on_registry_down": "dead_letter", "timeout": "1 s"},
        "streams": {
            "readings": {
                "topics": [STREAM],
                "schemas": [str(folder / "reading.avsc")],
                "time": "time",
                "allowed_lateness": "2 s",
                "idle_after": "1 h",
                "partitions": 1,
            }
        },
        "queries": {"paths": [str(folder / "pair.yaml")]},
        "topics": {"prefix": "bad", "partitions": 1},
        **more,
    }


def encoded(schema, schema_id, **values):
    stream = io.BytesIO(prefix(schema_id))
    stream.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(stream, schema, values)
    return stream.getvalue()


@dataclass
class World:
    """The application, what was sent to it, and what is to come of it."""

    application: Application
    servers: str
    registry: object
    ids: dict[str, int]
    base_ms: int = field(default_factory=lambda: int(time.time() * 1000) - 600_000)
    sent: int = 0
    dead: dict[str, str] = field(default_factory=dict)
    """Name of the case → reason."""
    late: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)
    originals: dict[str, bytes | None] = field(default_factory=dict)

    def __post_init__(self):
        self.producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "message.max.bytes": 2_000_000})

    def send(self, case, value):
        self.producer.produce(STREAM, key=case.encode(), value=value, headers=[("case", case.encode()), ("nothing", None)])
        self.originals[case] = value
        self.sent += 1

    def reading(self, tag, step, at_ms, schema="reading", **more):
        kind = PACKED if schema == "packed" else READING
        return encoded(kind, self.ids[schema], time=self.base_ms + at_ms, tag=tag, step=step, **more)

    def pair(self, tag, at_ms, schema="reading", first=None, second=None):
        self.send(f"{tag}-1", self.reading(tag, 1, at_ms, schema, **(first or {})))
        self.send(f"{tag}-2", self.reading(tag, 2, at_ms + 10, schema, **(second or {})))
        self.pairs.append(tag)

    def tick(self, at_ms):
        """Carries the watermark on."""
        self.send(f"tick-{at_ms}", self.reading(None, 0, at_ms))

    def bad(self, case, value, reason):
        self.send(case, value)
        self.dead[case] = reason

    def done(self):
        """Everything sent has been consumed, and every pair has come out."""
        self.producer.flush()
        until(lambda: self.application.has_consumed(self.sent, STREAM), alive=self.application.alive)
        until(lambda: set(self.pairs) <= set(self.composites()), seconds=30, alive=self.application.alive)
        # the driver hears of a batch when it is over, a moment after its records are there
        until(lambda: self.metric("cep_events_consumed_total") >= self.sent, seconds=30, alive=self.application.alive)

    def composites(self):
        return [record.key.decode() for record in records_of(self.servers, COMPOSITES)]

    def letters(self, topic) -> dict[str, Record]:
        """By case; one that came twice would be an error."""
        records = records_of(self.servers, topic)
        found = {record.headers["case"].decode(): record for record in records}
        assert len(found) == len(records)
        return found

    def metric(self, name, **labels):
        """The sum of a metric's samples that have these labels."""
        lines = [line for line in self.application.text("/metrics").splitlines() if re.match(rf"{name}[{{ ]", line)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(f'{k}="{v}"' in line for k, v in labels.items()))


@pytest.fixture(scope="module")
def world(bootstrap_servers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad-input")
    with embedded_registry(folder / "registry") as registry:
        client = SchemaRegistryClient({"url": registry.url})
        ids = {
            "reading": client.register_schema(f"{STREAM}-value", Schema(json.dumps(READING), "AVRO")),
            "packed": client.register_schema("packed-value", Schema(json.dumps(PACKED), "AVRO")),
            "person": client.register_schema("person-value", Schema(json.dumps(PERSON), "AVRO")),
            "json": client.register_schema(
                "json-value", Schema('{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}', "JSON")
            ),
        }
        (folder / "pair.yaml").write_text(QUERY)
        settings = settings_of(folder, bootstrap_servers, registry.url)
        apply_topics(settings, folder)
        application = Application(folder, settings)
        world = World(application, bootstrap_servers, registry, ids)
        try:
            application.started()
            send_everything(world)
            world.done()
            yield world
        finally:
            if application.process.poll() is None:
                application.kill()


def send_everything(world):
    """Good and bad ones, mixed, as they come in life."""
    good = world.reading("good", 1, 5000)
    world.producer.produce("bad.heartbeat", value=b"what does this do here")
    noise = random.Random(7)
    world.pair("before", 1000)
    world.bad("tombstone", None, "null-value")
    world.bad("empty", b"", "undecodable")
    world.bad("only a magic byte", b"\0", "undecodable")
    world.bad("no wire format", b'{"tag": "x"}', "undecodable")
    world.bad("truncated", good[:-2], "undecodable")
    world.bad("nothing after the id", good[:5], "undecodable")
    world.bad("bytes left over", good + b"\0\0", "undecodable")
    world.bad("no UTF-8", good.replace(b"good", b"g\xffod"), "undecodable")
    for k in range(200):
        world.bad(f"noise {k}", bytes([2 + k]) + noise.randbytes(noise.randrange(60)), "undecodable")
    world.pair("between", 3000)
    world.bad("bytes of another schema", prefix(world.ids["reading"]) + encoded(PERSON, 0, name="Ann", tag=3)[5:], "undecodable")
    world.bad("another schema", encoded(PERSON, world.ids["person"], name="Ann", tag=3), "schema")
    world.bad("a schema that is not Avro", prefix(world.ids["json"]) + b"{}", "schema")
    world.bad("unknown id", prefix(999_999) + good[5:], "unknown-schema-id")
    world.bad("id beyond all registries", b"\0\xff\xff\xff\xf0" + good[5:], "unknown-schema-id")
    world.bad("unknown guid", guid_prefix("0190a7c2-0000-4000-8000-000000000001") + good[5:], "unknown-schema-id")
    world.bad("null time", encoded(READING, world.ids["reading"], time=None, tag="x", step=1), "no-time")
    world.bad("tomorrow and more", world.reading("x", 1, 2 * 86_400_000), "time-ahead")
    world.bad("microseconds", world.reading("x", 1, world.base_ms * 999), "time-out-of-range")
    world.bad("before all times", world.reading("x", 1, -(1 << 63) - world.base_ms), "time-out-of-range")
    world.bad("after all times", world.reading("x", 1, (1 << 63) - 1 - world.base_ms), "time-out-of-range")
    world.bad("nearly too large", b"\7" + noise.randbytes(1_040_000), "undecodable")
    world.send("null tag", world.reading(None, 1, 5000))
    world.pair("newer producer", 6000, "packed")
    strange = {"count": -(1 << 63), "weight": float("nan"), "seen": -(1 << 63)}
    world.pair("strange values", 7000, first=strange, second={"count": 0, "weight": float("-inf"), "seen": (1 << 63) - 1})
    world.pair("division by zero", 7500, first={"count": 0, "weight": 0.0}, second={"count": 5, "weight": 1e308})
    world.send("disorder-2", world.reading("disorder", 2, 9100))
    world.send("disorder-1", world.reading("disorder", 1, 9000))  # earlier, but within the allowed lateness
    world.pairs.append("disorder")
    world.tick(20_000)
    world.send("late", world.reading("before", 2, 1500))
    world.late.append("late")
    world.pair("after", 30_000)
    world.tick(60_000)


@pytest.mark.spark
@pytest.mark.timeout(400)
class TestRecords:
    def test_good_events_give_composite_events_before_between_and_after_bad_ones(self, world):
        assert sorted(world.composites()) == sorted(world.pairs)

    def test_every_bad_record_is_a_dead_letter_with_its_reason(self, world):
        letters = world.letters(DEAD)
        assert {case: letter.headers[REASON].decode() for case, letter in letters.items()} == world.dead
        assert all(letter.headers["__connect.errors.exception.message"] for letter in letters.values())

    def test_dead_letters_carry_key_value_headers_and_origin(self, world):
        for case, letter in world.letters(DEAD).items():
            assert letter.key == case.encode()
            assert letter.headers["nothing"] is None
            assert letter.headers["__connect.errors.topic"] == STREAM.encode()
            assert letter.headers["__connect.errors.partition"] == b"0"
            assert int(letter.headers["__connect.errors.offset"]) == list(world.originals).index(case)
            assert int(letter.headers["__connect.errors.timestamp"]) > world.base_ms
            if case == "nearly too large":
                assert letter.value is None
                assert letter.headers["cep.original"] == b"oversized"
            else:
                assert letter.value == world.originals[case]

    def test_late_events_are_on_the_late_topic_as_they_came(self, world):
        letters = world.letters(LATE)
        assert sorted(letters) == world.late
        letter = letters["late"]
        assert (letter.key, letter.value) == (b"late", world.originals["late"])
        assert letter.headers["cep.reason"] == b"late"
        assert int(letter.headers["__connect.errors.offset"]) == list(world.originals).index("late")

    def test_nothing_is_lost_silently(self, world):
        ended = {end: world.metric("cep_events_ended_total", outcome=end) for end in ("irrelevant", "matched", "shed", "late", "dead")}
        assert sum(ended.values()) == world.metric("cep_events_consumed_total") == world.sent
        assert (ended["dead"], ended["late"], ended["shed"]) == (len(world.dead), len(world.late), 0)
        assert world.metric("cep_events_unaccounted_total") == 0
        for reason in set(world.dead.values()):
            assert world.metric("cep_dead_letters_total", reason=reason) == list(world.dead.values()).count(reason), reason

    def test_a_registry_that_goes_down_stops_only_schemas_that_nobody_has_seen(self, world):
        never_seen = 31_337
        world.registry.child.kill()
        world.pair("registry down", 100_000)
        world.tick(120_000)
        world.done()
        before = time.monotonic()
        for k in range(3):
            world.bad(f"unknown while down {k}", prefix(never_seen + k) + world.originals["before-1"][5:], "unknown-schema-id")
        world.pair("known while down", 130_000, "packed")
        world.tick(160_000)
        world.done()
        assert time.monotonic() - before > RETRY_S, "it was asked again before it was given up"
        self.test_every_bad_record_is_a_dead_letter_with_its_reason(world)
        self.test_good_events_give_composite_events_before_between_and_after_bad_ones(world)
        self.test_nothing_is_lost_silently(world)

    def test_the_application_never_stumbled_and_stops_as_asked(self, world):
        world.application.alive()
        assert world.application.stop() == 0
        log = world.application.log.read_text()
        assert "Traceback" not in log
        assert not re.search(r"^\s+at (org|java|scala)\.", log, re.MULTILINE)
        assert '"level": "error"' not in log


def failed_start(folder, settings):
    """Exit code and standard error of an application that cannot start."""
    file = folder / "settings.yaml"
    own = {"checkpoint": {"path": str(folder / "checkpoint")}, "http": {"port": 0, "host": "127.0.0.1"}}
    file.write_text(settings if isinstance(settings, str) else yaml.safe_dump({**settings, **own}))
    done = subprocess.run(
        [sys.executable, "-m", "app", "run", "--settings", str(file)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "Traceback" not in done.stdout
    assert not (folder / "checkpoint" / "spark").exists(), "it was found out before Spark was started"
    return done.returncode, done.stderr


def test_broken_settings_exit_78_with_all_findings(tmp_path):
    broken = """\
kafka: {bootstrap_server: "localhost:1"}
streams:
  readings: {topics: [a], allowed_lateness: 5, max_ahead: soon}
spark: {buckets: 0}
"""
    code, errors = failed_start(tmp_path, broken)
    assert code == 78
    assert 'unknown setting "kafka.bootstrap_server"' in errors
    assert 'did you mean "bootstrap_servers"?' in errors
    assert re.search(r"settings\.yaml:3:\d+: streams\.readings\.allowed_lateness: a duration needs a unit", errors)
    assert re.search(r"settings\.yaml:3:\d+: streams\.readings\.max_ahead: ", errors)
    assert re.search(r"settings\.yaml:4:\d+: spark\.buckets: ", errors)


def test_broken_query_files_and_two_queries_of_one_name_exit_78_with_all_findings(tmp_path):
    queries = {
        "pair": QUERY,
        "twin": QUERY,
        "misspelt": QUERY.replace("name: pair", "name: misspelt").replace("a.tag", "a.tagg"),
        "unclosed": QUERY.replace("name: pair", "name: unclosed").replace("Reading b)", "Reading b"),
        "torn": "name: [torn",
        "empty": "",
    }
    for name, text in queries.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    # nobody listens on either address: the files are found broken before anybody is asked
    settings = settings_of(tmp_path, "127.0.0.1:9", "http://127.0.0.1:9", queries={"paths": [str(tmp_path / f"{n}.yaml") for n in queries]})
    code, errors = failed_start(tmp_path, settings)
    assert code == 78
    assert re.search(r'twin\.yaml:1:\d+: two queries are named "pair"', errors)
    assert re.search(r"misspelt\.yaml:\d+:\d+: .*tagg", errors)
    assert 'did you mean "tag"?' in errors
    assert re.search(r"unclosed\.yaml:5:\d+: ", errors)
    assert re.search(r"torn\.yaml:1:\d+: ", errors)


def test_missing_topics_exit_78_and_say_how_to_make_them(tmp_path, bootstrap_servers, registry_url):
    (tmp_path / "pair.yaml").write_text(QUERY)
    settings = settings_of(tmp_path, bootstrap_servers, registry_url, topics={"prefix": "nowhere"})
    settings["streams"]["readings"]["topics"] = ["no-such-topic"]
    code, errors = failed_start(tmp_path, settings)
    assert code == 78
    assert "no-such-topic" in errors
    assert "nowhere.pair" in errors
    assert "hint: cep topics plan shows them, cep topics apply creates them" in errors


def test_a_registry_that_is_down_at_the_start_exits_69_after_waiting_for_it(tmp_path, bootstrap_servers):
    (tmp_path / "pair.yaml").write_text(QUERY)
    settings = settings_of(tmp_path, bootstrap_servers, "http://127.0.0.1:9")
    settings["streams"]["readings"] |= {"schemas": [], "subjects": ["readings-value"]}
    code, errors = failed_start(tmp_path, settings)
    assert code == 69
    assert "the schema registry at http://127.0.0.1:9 cannot be asked" in errors
    assert f"was waited for {RETRY_S} s" in errors
