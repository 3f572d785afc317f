"""`cep topics` against a broker."""

from __future__ import annotations

import pytest

from tests.documented import documented
from tests.kafka.operating import World


@pytest.fixture
def world(embedded, tmp_path, request) -> World:
    return World(f"topics-{abs(hash(request.node.nodeid)) % 10**8}", embedded, tmp_path, topics=False)


def test_missing_topics_are_planned_and_created_and_then_there_is_nothing_to_do(world, shell):
    planned = shell("topics", "plan", "--settings", world.file, "--output", "json").lines
    assert set(planned[0]) == documented("`topics plan`, `topics apply`")
    own = [line for line in planned if line["topic"].startswith(world.name)]
    assert own
    assert all(line["action"] == "create" and not line["applied"] for line in own)
    applied = shell("topics", "apply", "--settings", world.file, "--output", "json").lines
    assert [line["topic"] for line in applied] == [line["topic"] for line in planned]
    assert all(line["applied"] for line in applied if line["topic"].startswith(world.name))
    again = shell("topics", "plan", "--settings", world.file, "--output", "json").lines
    assert {line["action"] for line in again} == {"none"}
    assert "0 to create, 0 to change" in shell("topics", "plan", "--settings", world.file).out


def test_what_is_there_is_listed_with_records_and_purpose(world, shell):
    before = {line["topic"]: line for line in shell("topics", "ls", "--settings", world.file, "--output", "json").lines}
    stocks = f"{world.name}.stocks"
    assert set(before[stocks]) == documented("`topics ls`")
    assert before[stocks] == {
        "topic": stocks,
        "purpose": "events of the stream stocks",
        "partitions": None,
        "records": None,
        "state": "missing",
    }
    told = shell("topics", "ls", "--settings", world.file)
    assert "→ cep topics plan" in told.out
    shell("topics", "apply", "--settings", world.file)
    for value in (b"a", b"b"):
        world.send(stocks, value)
    after = {line["topic"]: line for line in shell("topics", "ls", "--settings", world.file, "--output", "json").lines}
    assert (after[stocks]["partitions"], after[stocks]["records"], after[stocks]["state"]) == (3, 2, "ok")
    assert "→" not in shell("topics", "ls", "--settings", world.file).out


@pytest.mark.parametrize("command", ["ls", "plan", "apply"])
def test_a_broker_that_is_away_is_told_with_what_to_do(world, shell, command):
    ended = shell("topics", command, "--settings", world.but(kafka__bootstrap_servers="127.0.0.1:9"))
    assert ended.code == 69
    assert "no answer from the brokers 127.0.0.1:9" in ended.err
    assert "hint: is kafka.bootstrap_servers right" in ended.err
