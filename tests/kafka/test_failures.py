"""A streaming query that fails ends the driver's process: with an exit code, and with words that say why."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.local.generators import generate
from tests.kafka.application import Application, until
from tests.kafka.test_whole_way import START_MS, apply_topics, send, settings_for


@contextmanager
def running(embedded, folder: Path, name: str) -> Iterator[Application]:
    settings = settings_for(name, embedded, ["shoplifting"])
    apply_topics(settings, folder)
    application = Application(folder, settings)
    try:
        application.started()
        until(lambda: application.get("/readyz") == 200, alive=application.alive)
        yield application
    finally:
        application.kill()


def ended(application: Application, code: int = 1) -> str:
    """The end of what the driver wrote; it must be gone soon, and with this code."""
    assert application.process.wait(100) == code
    return application.log.read_text()[-3000:]


def retail(application: Application) -> None:
    send(application, "retail", generate("retail", 2000, seed=5, start_ms=START_MS).batches)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("lost", "code", "words"),
    [("spark/commits", 1, "the streaming query ended: "), ("state", 65, "failed 4 times: cannot ")],
)
def test_a_checkpoint_that_cannot_be_written_ends_the_process(embedded, tmp_path, lost, code, words):
    """Spark's own log fails in the JVM, the state's in the owners, in every attempt of a batch."""
    with running(embedded, tmp_path, f"fail-{lost.replace('/', '-')}") as application:
        shutil.rmtree(application.checkpoint / lost, ignore_errors=True)
        (application.checkpoint / lost).write_text("a file where a folder was")
        retail(application)
        assert words in ended(application, code)


@pytest.mark.spark
def test_a_jvm_that_dies_ends_the_process(embedded, tmp_path):
    with running(embedded, tmp_path, "fail-jvm") as application:
        (jvm,) = children(application.process.pid, "SparkSubmit")
        os.kill(jvm, signal.SIGKILL)
        assert "the streaming query ended: Spark's JVM is gone" in ended(application)


def children(parent: int, word: str) -> list[int]:
    """Processes below another one whose command line holds a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            above = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            command = path.joinpath("cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if above == parent:
            found += [int(path.name)] if word in command else children(int(path.name), word)
    return found
