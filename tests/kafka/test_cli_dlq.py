"""`cep dlq` against a broker: what letters say, and that each is sent again once."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Producer

from app.delivery.dead_letters import MARK, LetterPlace, SendingAgain, letter_of
from app.delivery.originals import Original
from app.delivery.reading import Reading
from app.errors import CepError
from app.owners.egress import Failure
from tests.documented import documented
from tests.kafka.application import records_of
from tests.kafka.operating import World


@pytest.fixture
def world(embedded, tmp_path, request) -> World:
    name = f"dlq-{abs(hash(request.node.nodeid)) % 10**8}"
    return World(name, embedded, tmp_path)


def stocks(world: World) -> str:
    return f"{world.name}.stocks"


def letter(world: World, offset: int, reason: str = "undecodable", **more) -> tuple[Original, Failure]:
    headers = more.pop("headers", (("trace", b"t1"), ("empty", None)))
    more = {"value": b"bad", **more}
    at_ms = more.pop("timestamp_ms", 1_700_000_000_000 + offset)
    original = Original(more.pop("topic", stocks(world)), 1, offset, at_ms, b"key", headers=headers, **more)
    return original, Failure(offset, reason, f"why {offset}")


def in_topic(world: World, embedded, topic: str) -> list:
    return records_of(embedded.broker.bootstrap_servers, topic)


def test_letters_are_listed_with_reason_origin_and_what_to_do(world, shell):
    world.write_letters(letter(world, 7), letter(world, 8, "unknown-schema-id"), letter(world, 9, "unknown-schema-id"))
    ended = shell("dlq", "ls", "--settings", world.file)
    assert ended.code == 0
    assert f"{stocks(world)}/1@7" in ended.out
    assert "why 8" in ended.out
    assert f"2 × unknown-schema-id from {stocks(world)}" in ended.out
    assert "→ unknown-schema-id: register the schema, then cep dlq replay --reason unknown-schema-id" in ended.out
    lines = shell("dlq", "ls", "--settings", world.file, "--output", "json", "--reason", "unknown-schema-id", "--count", "1").lines
    (line,) = lines
    assert set(line) == documented("`dlq ls`")
    assert (line["place"], line["topic"], line["partition"], line["offset"]) == ("0/2", stocks(world), 1, 9)
    assert (line["reason"], line["text"], line["timestamp"], line["sent_again"]) == ("unknown-schema-id", "why 9", 1_700_000_000_009, False)
    assert line["next"]
    assert shell("dlq", "ls", "--settings", world.file, "--since", "2100-01-01").out == "no dead letters\n"


def test_a_letter_is_shown_whole(world, shell):
    schema = world.output("price-run")
    world.write_letters(
        letter(world, 7, value=b"\0" + schema.schema_id.to_bytes(4, "big") + b"\xff"), letter(world, 8, value=b"plain text")
    )
    told = shell("dlq", "show", "0/0", "--settings", world.file, "--output", "json").lines[0]
    assert (told["key"], told["headers"], told["schema_id"]) == ("key", {"trace": "t1", "empty": None}, schema.schema_id)
    assert set(told) == documented("`dlq ls`") | documented("`dlq show`")
    assert told["record"] is None
    assert "it is no record of its schema" in told["unreadable"]
    text = shell("dlq", "show", "0/1", "--settings", world.file)
    assert text.code == 0
    assert "undecodable: why 8" in text.out
    assert "plain text" in text.out
    assert "header trace: t1" in text.out
    missing = shell("dlq", "show", "0/17", "--settings", world.file)
    assert missing.code == 1
    assert "there is no dead letter 0/17" in missing.err
    assert "hint: cep dlq ls" in missing.err
    wrong = shell("dlq", "show", "seventeen", "--settings", world.file)
    assert wrong.code == 1
    assert "hint: write partition/offset" in wrong.err


def test_a_single_letter_is_read_where_it_lies_and_its_mark_behind_it(world, shell):
    world.write_letters(*(letter(world, k) for k in range(4)))
    settings = world.settings
    reading = Reading(settings.kafka, [settings.topics.dead_letters], None, only=(0, 2))
    assert [(one.partition(), one.offset()) for messages in reading.there() for one in messages] == [(0, 2), (0, 3)]
    reading.close()
    assert shell("dlq", "replay", "0/1", "--settings", world.file).code == 0
    told = [shell("dlq", "show", f"0/{k}", "--settings", world.file, "--output", "json").lines[0] for k in range(4)]
    assert [(one["place"], one["text"], one["sent_again"]) for one in told] == [(f"0/{k}", f"why {k}", k == 1) for k in range(4)]
    assert "there is no dead letter 7/0" in shell("dlq", "show", "7/0", "--settings", world.file).err


def test_letters_go_back_as_they_were_each_once(world, embedded, shell):
    world.write_letters(letter(world, 7), letter(world, 8, "schema"))
    dry = shell("dlq", "replay", "--all", "--dry-run", "--settings", world.file)
    assert (dry.code, "2 dead letters would be sent again" in dry.out) == (0, True)
    assert in_topic(world, embedded, stocks(world)) == []
    first = shell("dlq", "replay", "--reason", "schema", "--settings", world.file, "--output", "json").lines[0]
    assert set(first) == documented("`dlq replay`")
    assert first == {
        "sent": 1,
        "dry_run": False,
        "by_topic": {stocks(world): 1},
        "already_sent": 0,
        "left_out": {},
        "missing": [],
        "filtered": [],
    }
    second = shell("dlq", "replay", "--all", "--settings", world.file, "--output", "json").lines[0]
    assert (second["sent"], second["already_sent"]) == (1, 1)
    third = shell("dlq", "replay", "--all", "--settings", world.file, "--output", "json").lines[0]
    assert (third["sent"], third["already_sent"]) == (0, 2)
    records = in_topic(world, embedded, stocks(world))
    dead = world.settings.topics.dead_letters
    assert [(one.partition, one.key, one.value) for one in records] == [(1, b"key", b"bad")] * 2
    assert [one.headers for one in records] == [{"trace": b"t1", "empty": None, MARK: f"{dead}/0/{k}".encode()} for k in (1, 0)]
    lines = shell("dlq", "ls", "--settings", world.file, "--output", "json").lines
    assert [(line["place"], line["sent_again"]) for line in lines] == [("0/0", True), ("0/1", True)], "marks are no letters"


def test_single_letters_are_chosen_by_place_and_nothing_without_a_choice(world, embedded, shell):
    world.write_letters(*(letter(world, k) for k in range(3)))
    none = shell("dlq", "replay", "--settings", world.file)
    assert none.code == 1
    assert "no letters are chosen" in none.err
    assert "hint: name some" in none.err
    other = shell("dlq", "replay", "0/1", "--reason", "unknown-schema-id", "--settings", world.file)
    assert (other.code, other.err) == (0, "left out by --reason, --topic or --since: 0/1\n")
    older = shell("dlq", "replay", "0/1", "0/9", "--since", "2100-01-01", "--settings", world.file)
    assert older.code == 1
    assert "left out by --reason, --topic or --since: 0/1\n" in older.err
    assert "there is no such dead letter: 0/9\n" in older.err
    assert shell("dlq", "replay", "0/1", "--settings", world.file, "--output", "json").lines[0]["sent"] == 1
    (record,) = in_topic(world, embedded, stocks(world))
    assert record.headers[MARK].endswith(b"/0/1")


def test_what_cannot_help_is_left_out_with_the_reason(world, embedded, shell):
    world.write_letters(
        letter(world, 1, "null-value", value=None),
        letter(world, 2, topic="elsewhere"),
        letter(world, 3, value=None, found=False),
        letter(world, 4, value=None, found=False, problem="timed out"),
    )
    told = shell("dlq", "replay", "--all", "--settings", world.file, "--output", "json").lines[0]
    assert told["sent"] == 0
    assert told["left_out"] == {
        "a record without value becomes no event, however often it is sent": 1,
        "elsewhere is no topic of a stream of these settings": 1,
        "its value was gone before it could be kept": 1,
        "its record is no longer where it was": 1,
    }
    assert in_topic(world, embedded, stocks(world)) == []


def test_a_letter_too_large_for_its_topic_is_left_out_and_the_others_go(world, embedded, shell):
    large = os.urandom(300_000)  # nothing that packs
    world.write_letters(*(letter(world, k, value=large if k == 2 else b"small") for k in range(5)))
    world.limit(stocks(world), 100_000)
    ended = shell("dlq", "replay", "--all", "--settings", world.file, "--output", "json")
    assert ended.code == 0, ended.err
    told = ended.lines[0]
    assert told["sent"] == 4
    assert told["left_out"] == {f"it is larger than records of {stocks(world)} may be (max.message.bytes)": 1}
    assert [one.value for one in in_topic(world, embedded, stocks(world))] == [b"small"] * 4
    again = shell("dlq", "replay", "--all", "--settings", world.file, "--output", "json").lines[0]
    assert (again["sent"], again["already_sent"]) == (0, 4)


def test_a_letter_whose_value_could_not_be_kept_is_read_again_where_it_was(world, embedded, shell):
    offset = world.send(stocks(world), b"still there", b"k", [("a", b"1")], partition=1)
    unread = {"value": None, "found": False, "problem": "timed out"}
    world.write_letters(letter(world, offset, **unread, timestamp_ms=-1), letter(world, offset, **unread, timestamp_ms=1_700_000_000_000))
    told = shell("dlq", "replay", "--all", "--settings", world.file, "--output", "json").lines[0]
    assert told["sent"] == 1, "the other one was written for a record of another time: its topic was made again"
    first, again = in_topic(world, embedded, stocks(world))
    assert (again.key, again.value, again.headers["a"]) == (b"k", b"still there", b"1")
    assert MARK not in first.headers


def test_a_record_that_is_dead_again_is_another_letter_with_its_own_headers(world, shell):
    original, failure = letter(world, 9, headers=(("trace", b"t1"), (MARK, b"x/0/0")))
    world.write_letters((original, failure))
    (line,) = shell("dlq", "ls", "--settings", world.file, "--output", "json").lines
    assert (line["offset"], line["sent_again"]) == (9, False)


def test_an_interrupted_transaction_leaves_nothing_and_who_sends_later_shuts_the_earlier_one_out(world, embedded, shell):
    world.write_letters(letter(world, 7))
    settings = world.settings
    reading = Reading(settings.kafka, [settings.topics.dead_letters], None)
    found = [one for messages in reading.there() for message in messages if (one := letter_of(message)) is not None]
    reading.close()
    quiet = {"log_level": 0, "error_cb": lambda _: None}
    servers = settings.kafka.bootstrap_servers
    interrupted = Producer({"bootstrap.servers": servers, "transactional.id": f"{settings.application}-dlq", **quiet})
    interrupted.init_transactions(30)
    interrupted.begin_transaction()
    interrupted.produce(stocks(world), b"half", partition=1)
    interrupted.flush(30)  # it is on the topic, and nobody has committed it
    earlier = SendingAgain(settings)
    later = shell("dlq", "replay", "--all", "--settings", world.file, "--output", "json")
    assert later.lines[0]["sent"] == 1
    with pytest.raises(CepError, match="somebody else sends letters again"):
        earlier.send(found)
    assert [one.value for one in in_topic(world, embedded, stocks(world))] == [b"bad"]


def test_failures_are_told_with_what_to_do(world, embedded, tmp_path, shell):
    away = shell("dlq", "ls", "--settings", world.but(kafka__bootstrap_servers="127.0.0.1:9"))
    assert away.code == 69
    assert "hint: is kafka.bootstrap_servers right" in away.err
    (tmp_path / "none").mkdir()
    missing = shell("dlq", "replay", "--all", "--settings", World(f"{world.name}-none", embedded, tmp_path / "none", topics=False).file)
    assert missing.code == 78
    assert "there is no topic" in missing.err
    assert "cep topics apply" in missing.err


def test_places_are_read_as_they_are_written():
    assert str(LetterPlace.of("3/9")) == "3/9"
