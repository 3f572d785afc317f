"""The tutorial to its end: the same query on Kafka, seen on its topic and in the console. The demo's broker and registry are the tests'."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from app.local.ports import free_ports
from tests.kafka.application import until
from tests.tutorial import PAGE, Step, agrees, reader_in, steps

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3000)]
KAFKA = "console kafka"
RUN = Step("", "python3 -m app run --settings fridges/settings.yaml\n")
SECONDS = 600.0


def page_of(port: int, path: str) -> str:
    """A page of the console; nothing while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_the_query_finds_on_kafka_what_it_found_in_the_file(embedded, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    reader = reader_in(tmp_path, embedded.broker.bootstrap_servers, embedded.registry.url, {"CEP_HTTP__PORT": str(port)})
    told = steps(PAGE)
    at = told.index(RUN)
    for step in told[:at]:
        reader.follow(step)
        for command, _ in step.commands() if step.kind == KAFKA else ():
            reader.succeed(command)
    ((tail, expected),) = [pair for step in told[at:] if step.kind == KAFKA for pair in step.commands()]
    log = tmp_path / "application.log"
    with reader.running(RUN.text.strip(), log) as application:

        def alive() -> None:
            assert application.poll() is None, log.read_text(encoding="utf-8")[-5000:]

        until(lambda: page_of(port, "/startupz"), SECONDS, alive=alive)
        until(lambda: agrees(reader.run(tail), expected), SECONDS, alive=alive)
        until(
            lambda: "Recent composite events" in (page := page_of(port, "/queries/left-open/")) and "fridges.events" in page,
            SECONDS,
            alive=alive,
        )
