"""A streaming query that fails ends the driver's process: with an exit code, and with words that say why."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli.main import cli
from app.events.batch import take
from app.local.generators import generate
from tests.kafka.application import Application, expected_composites, until
from tests.kafka.test_changed_topics import changed, ids, newest
from tests.kafka.test_changed_topics import told as told_of
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
    [("spark/commits", 1, "the streaming query ended: "), ("state", 1, "skipping it would not help")],
)
def test_a_checkpoint_that_cannot_be_written_ends_the_process(embedded, tmp_path, lost, code, words):
    """Spark's own log fails in the JVM, the state's in the owners, in every attempt of a batch."""
    with running(embedded, tmp_path, f"fail-{lost.replace('/', '-')}") as application:
        shutil.rmtree(application.checkpoint / lost, ignore_errors=True)
        (application.checkpoint / lost).write_text("a file where a folder was")
        retail(application)
        assert words in ended(application, code)
        if lost == "state":
            assert "Traceback" not in application.log.read_text()


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_jvm_that_dies_ends_the_process_and_so_do_accounts_that_do_not_close_whose_batch_can_be_left_out(embedded, tmp_path):
    """One checkpoint for both. Another hand has written into Spark's log: records were planned that nobody reads. Whoever leaves the batch out loses its records and no others."""
    settings = settings_for("breach", embedded, ["shoplifting"])
    apply_topics(settings, tmp_path)
    quiet = {**settings, "heartbeat": {"enabled": False}}  # or batches come beside those that are sent
    application, topic = Application(tmp_path, quiet), "breach.retail"
    first, second, third = generate("retail", 3000, seed=5, start_ms=START_MS, batch_rows=1000).batches
    tags = second.columns["tag_id"].values
    second = take(second, np.flatnonzero(tags == np.bincount(tags).argmax()))  # of one tag, so they all go to one partition
    try:
        application.started()
        send(application, "retail", [first])
        until(lambda: application.has_consumed(1000, topic), alive=application.alive)
        (jvm,) = children(application.process.pid, "SparkSubmit")
        os.kill(jvm, signal.SIGKILL)
        assert "the streaming query ended: Spark's JVM is gone" in ended(application)
        application.started()
        until(lambda: application.get("/readyz") == 200, alive=application.alive)  # Spark has read its log by now, and the driver has not
        begins, entry = application.committed(), rewritten(application, topic)
        send(application, "retail", [second])
        told = ended(application, os.EX_SOFTWARE)
        batch = int(entry.name) + 1
        assert re.search(
            rf"batch {batch}: {topic}/\d: offsets \d+ to \d+ were planned and nothing was read, though there is a record at", told
        )
        assert "on_accounting_breach: warn" in told
        assert "Traceback" not in told
        entry.write_text((tmp_path / "kept").read_text())
        done = CliRunner().invoke(cli, ["checkpoint", "skip", str(batch), "--settings", str(application.file)])
        assert done.exit_code == 0, done.output
        left_out = json.loads((application.checkpoint / "skipped" / f"batch-{batch}.json").read_text())["offsets"][topic]
        assert {int(p): begin for p, (begin, _) in left_out.items()} == {p: end for (name, p), end in begins.items() if name == topic}
        assert 0 < sum(end - begin for begin, end in left_out.values()) <= len(second)
        send(application, "retail", [third])
        changed(application, settings)
        application.started()
        expected = expected_composites(
            embedded.broker.bootstrap_servers,
            embedded.registry.url,
            newest(application),
            lambda one: left_out[str(one.partition)][0] <= one.offset < left_out[str(one.partition)][1],
        )["shoplifting"]
        wanted = {event.id for event in expected}
        until(lambda: wanted <= ids(told_of(embedded, application, "shoplifting")), pause=1.0, alive=application.alive)
        assert application.stop() == 0
        emitted = told_of(embedded, application, "shoplifting")
        assert len(emitted) == len(wanted) > 20
        assert ids(emitted) == wanted
    finally:
        if application.process.poll() is None:
            application.kill()


def rewritten(application: Application, topic: str) -> Path:
    """Spark's entry of the last batch, which is said to have ended a record earlier in every partition; what it was is kept."""
    entry = max((application.checkpoint / "spark" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    *lines, offsets = entry.read_text().splitlines()
    earlier = {name: {p: end - (name == topic) for p, end in parts.items()} for name, parts in json.loads(offsets).items()}
    (application.folder / "kept").write_text(entry.read_text())
    entry.with_name(f".{entry.name}.crc").unlink()
    entry.write_text("\n".join([*lines, json.dumps(earlier)]))
    return entry


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
