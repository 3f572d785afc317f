"""`cep tail` against a broker and a registry: composite events as the application writes them."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from app.bootstrap.places import PROJECT
from tests.documented import documented
from tests.kafka.application import until
from tests.kafka.gateway import Gateway
from tests.kafka.operating import World

RISE = {"symbol": "IBM", "began": 1, "ended": 2, "low": 100.0, "high": 103.0, "rise": 0.03}


@pytest.fixture(scope="module")
def world(embedded, tmp_path_factory) -> World:
    made = World("tail", embedded, tmp_path_factory.mktemp("tail"))
    made.write_composites("price-run", RISE, {**RISE, "symbol": "AAPL", "rise": 0.2}, key="k1")
    made.write_composites("price-run", {**RISE, "symbol": "IBM", "rise": None}, key="k2")
    return made


def test_composite_events_are_shown_oldest_first_with_their_fields(world, shell):
    ended = shell("tail", "--settings", world.file)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [("IBM" in line, "AAPL" in line) for line in lines] == [(True, False), (False, True), (True, False)]
    assert all("price-run v1" in line for line in lines)
    assert "rise=0.2" in lines[1]
    assert "[k1]" in lines[0]


def test_one_object_per_composite_event_says_all_of_it(world, shell):
    lines = shell("tail", "--settings", world.file, "--output", "json").lines
    assert len(lines) == 3
    first = lines[0]
    assert {*first, "missing"} == documented("`tail`")
    assert (first["query"], first["version"], first["kind"], first["partition_key"]) == ("price-run", 1, "match", "k1")
    assert first["fields"] == RISE
    assert abs(first["written_at"] - time.time() * 1000) < 3_600_000
    assert first["detected_at"] == first["time"] + 1
    (constituent,) = first["events"]
    assert (constituent["variable"], constituent["type"], constituent["topic"]) == ("a", "Quote", "tail.stocks")
    assert (first["topic"], first["partition"], first["offset"]) == ("tail.price-run", 0, 0)


@pytest.mark.parametrize(
    ("arguments", "symbols"),
    [
        (["--query", "price-run"], ["IBM", "AAPL", "IBM"]),
        (["--query", "shoplifting"], []),
        (["--key", "k1"], ["IBM", "AAPL"]),
        (["--count", "1"], ["IBM"]),
        (["--where", "rise > 0.1"], ["AAPL"]),
        (["--where", "symbol IN ('IBM', 'X') AND rise IS NOT NULL"], ["IBM"]),
        (["--where", "rise IS NULL"], ["IBM"]),
        (["--where", "NOT (symbol LIKE 'A%')"], ["IBM", "IBM"]),
        (["--where", "ended - began = 1 ms AND time > '2020-01-01'"], ["IBM", "AAPL", "IBM"]),
        (["--where", "type = 'shoplifting'"], []),
        (["--since", "2100-01-01"], []),
        (["--since", "0"], ["IBM", "AAPL", "IBM"]),
    ],
    ids=" ".join,
)
def test_filters(world, shell, arguments, symbols):
    world.output("shoplifting")  # its schema is known, too
    ended = shell("tail", "--settings", world.file, "--output", "json", *arguments)
    assert ended.code == 0, ended.err
    assert [line["fields"]["symbol"] for line in ended.lines if line["query"] == "price-run"] == symbols


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--where", "rize > 0.1"], 1, ['"rize"', 'did you mean "rise"']),
        (["--where", "rise > "], 1, ["--where:1:", "is expected", "hint: "]),
        (["--where", "symbol > 3"], 1, ["compared with", "hint: "]),
        (["--where", "rise"], 1, ["hint: "]),
        (["--query", "price-rum"], 78, ['no enabled query "price-rum"', 'hint: did you mean "price-run"']),
        (["--since", "yesterday"], 1, ['"yesterday" is no moment', "hint: "]),
    ],
)
def test_mistakes_are_told_with_what_to_do(world, shell, arguments, code, words):
    ended = shell("tail", "--settings", world.file, *arguments)
    assert ended.code == code
    assert all(word in ended.err for word in words), ended.err
    assert ended.out == ""


def test_a_condition_before_anything_is_registered_is_refused(embedded, tmp_path, shell):
    fresh = World("tail-fresh", embedded, tmp_path)
    ended = shell("tail", "--settings", fresh.file, "--query", "price-run", "--where", "rise > 1")
    assert ended.code == 78
    assert "the registry has no schema" in ended.err
    assert "hint: the application registers them when it starts" in ended.err


def test_topics_that_are_missing_are_named(embedded, tmp_path, shell):
    ended = shell("tail", "--settings", World("tail-none", embedded, tmp_path, topics=False).file)
    assert ended.code == 78
    assert "there is no topic" in ended.err
    assert "tail-none.price-run" in ended.err
    assert "cep topics apply" in ended.err


def test_a_broker_that_is_away_is_told_with_the_setting_that_names_it(world, shell):
    ended = shell("tail", "--settings", world.but(kafka__bootstrap_servers="127.0.0.1:9"))
    assert ended.code == 69
    assert "no answer from the brokers 127.0.0.1:9" in ended.err
    assert "hint: is kafka.bootstrap_servers right" in ended.err


def test_a_registry_that_is_away_ends_it(world, embedded, shell):
    gateway = Gateway(embedded.registry.url)
    gateway.shut()
    ended = shell("tail", "--settings", world.but(schema_registry__url=gateway.url))
    assert ended.code == 69
    assert "schema registry" in ended.err
    assert "hint: " in ended.err


def test_records_of_an_unregistered_schema_are_counted_and_the_others_shown(embedded, tmp_path, shell):
    own = World("tail-strange", embedded, tmp_path)
    own.write_composites("price-run", RISE)
    own.send("tail-strange.price-run", b"\0" + (1 << 30).to_bytes(4, "big") + b"x")
    own.send("tail-strange.price-run", b"text")
    ended = shell("tail", "--settings", own.file, "--output", "json")
    assert ended.code == 1
    assert len(ended.lines) == 1
    assert f"does not know its schema {1 << 30}" in ended.err
    assert "hint: is schema_registry.url the registry that the writer uses?" in ended.err
    assert "not in the registry's wire format" in ended.err


def test_follow_shows_what_comes_and_ends_after_so_many(embedded, tmp_path):
    own = World("tail-follow", embedded, tmp_path)
    own.write_composites("price-run", {**RISE, "symbol": "OLD"})
    command = [sys.executable, "-m", "app", "tail", "--settings", str(own.file), "--follow", "--count", "2", "--output", "json"]
    with subprocess.Popen([*command, "--since", "1 h"], cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        assert json.loads(process.stdout.readline())["fields"]["symbol"] == "OLD"
        assert process.poll() is None
        own.write_composites("price-run", {**RISE, "symbol": "NEW"}, {**RISE, "symbol": "NEWER"})
        assert [json.loads(line)["fields"]["symbol"] for line in process.stdout] == ["NEW"]
        until(lambda: process.poll() is not None, 60)
    assert process.returncode == 0
