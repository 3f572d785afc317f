"""``cep checkpoint`` on a checkpoint that real Spark made: what is in it, what is damaged, a copy that goes on, a batch that is left out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from app.cli.main import cli
from app.config.settings import load_settings
from app.local.generators import generate
from app.pipeline.batches import BatchFailedError
from app.storage.store import StorageError
from tests.spark.recorded import ROOT, KnownSchemas, recorded, run_recorded, write_parquet

START_MS = 1_780_000_000_000
FILES = 4


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Recorded quotes in four files, and the query."""
    folder = tmp_path_factory.mktemp("parts")
    records = []
    for batch in generate("stocks", 4000, seed=8, start_ms=START_MS, rate_per_s=100.0).batches:
        records += recorded(batch, "stocks", "symbol", KnownSchemas())[0]
    write_parquet(folder / "all", sorted(records, key=lambda one: one["time"]), FILES)
    return sorted((folder / "all").iterdir())


class World:
    """An application over recorded files, run file by file."""

    def __init__(self, folder: Path, spark) -> None:
        self.folder, self.spark, self.found = folder, spark, {}
        stocks = {
            "topics": ["stocks"],
            "schemas": [str(ROOT / "schemas" / "Quote.avsc")],
            "time": "time",
            "ordered_by": "symbol",
            "idle_after": "1 h",
            "max_ahead": "1000000 d",
        }
        plain = {
            "streams": {"stocks": stocks},
            "queries": {"paths": [str(ROOT / "queries" / "price-run.yaml")]},
            "heartbeat": {"enabled": False},
            "checkpoint": {"path": str(folder / "checkpoint")},
            "http": {"host": "127.0.0.1", "port": 0},
        }
        self.file = folder / "settings.yaml"
        self.file.write_text(yaml.safe_dump(plain))
        (folder / "topics").mkdir()

    def run(self, *files: Path) -> None:
        for file in files:
            (self.folder / "topics" / file.name).hardlink_to(file)
        settings = load_settings(self.file, {})
        run_recorded(self.spark, settings, str(self.folder / "topics"), KnownSchemas(), self.take)

    def take(self, batch: int, table) -> None:
        rows = table.to_pylist()
        self.found[batch] = {h["value"].decode() for row in rows for h in row["headers"] or () if h["key"] == "ce_id"}

    def cep(self, *arguments: str):
        return CliRunner().invoke(cli, ["checkpoint", *arguments, "--settings", str(self.file)])


@pytest.fixture
def world(tmp_path, spark):
    return World(tmp_path, spark)


def test_a_checkpoint_is_shown_verified_and_copied_and_the_copy_goes_on(world, parts, spark, tmp_path):
    world.run(*parts[:2])
    shown = world.cep("ls")
    assert shown.exit_code == 0
    assert "committed up to batch 1" in shown.output
    assert "2 snapshots" not in shown.output
    assert world.cep("verify").output.endswith("no faults\n")
    copied = world.cep("fork", str(tmp_path / "fork"))
    assert copied.exit_code == 0, copied.output
    again = world.cep("fork", str(tmp_path / "fork"))
    assert again.exit_code != 0, "a copy is not written over"
    world.run(*parts[2:])
    twin = World.__new__(World)
    twin.__dict__ |= {**world.__dict__, "found": {}, "file": tmp_path / "twin.yaml"}
    twin.file.write_text(world.file.read_text().replace(str(world.folder / "checkpoint"), str(tmp_path / "fork")))
    twin.run()
    assert twin.found[2] | twin.found[3] == world.found[2] | world.found[3]
    assert world.found[2] | world.found[3], "or the test shows nothing"


def test_what_is_damaged_or_missing_is_named(world, parts):
    world.run(*parts[:2])
    entries = sorted((world.folder / "checkpoint" / "state").rglob("log-000000000001-*.bin"))
    entries[0].write_bytes(entries[0].read_bytes()[:-1])
    entries[1].unlink()
    checked = world.cep("verify")
    assert checked.exit_code == 1
    assert entries[0].name in checked.stderr
    assert "lacks the batches [1]" in checked.stderr
    assert checked.stdout.rstrip().endswith("2 faults")


def test_a_batch_that_is_left_out_never_happened(world, parts, spark, tmp_path):
    refused = world.cep("skip", "1")
    assert refused.exit_code != 0
    world.run(*parts[:2])
    assert "cannot be left out" in str(world.cep("skip", "1").exception)
    for commit in (world.folder / "checkpoint" / "spark" / "commits").glob("*1*"):  # as if it had failed again and again
        commit.unlink()
    done = world.cep("skip", "1")
    assert done.exit_code == 0, done.output
    (told,) = (world.folder / "checkpoint" / "skipped").iterdir()
    assert json.loads(told.read_text())["batch"] == 1
    world.run(*parts[2:])
    other = tmp_path / "undisturbed"
    other.mkdir()
    undisturbed = World(other, spark)
    undisturbed.run(parts[0], *parts[2:])
    expected = set().union(*(undisturbed.found[batch] for batch in (1, 2)))
    assert world.found[2] | world.found[3] == expected
    assert expected


def test_records_that_no_task_can_read_end_the_application_in_the_same_way(world, parts):
    world.run(*parts[:2])
    poison = pq.read_table(parts[2])
    times = poison.column("timestamp").to_pylist()
    place = poison.schema.get_field_index("timestamp")
    column = pa.array([None, *times[1:]], poison.schema.field(place).type)
    file = world.folder / "topics" / parts[2].name
    pq.write_table(poison.set_column(place, poison.schema.field(place), column), file)
    os.utime(file, (parts[2].stat().st_atime, parts[2].stat().st_mtime))  # Spark's source takes no file that is much older than another
    failures = []
    with pytest.raises(Exception, match="could not be done"):
        run_recorded(
            world.spark,
            load_settings(world.file, {}),
            str(world.folder / "topics"),
            KnownSchemas(),
            before=lambda ready: failures.append(ready.batches),
        )
    failure = failures[0].failure
    assert isinstance(failure, BatchFailedError)
    for word in ("batch 2 failed 4 times", "ingress, batch 2", "cep checkpoint skip 2"):
        assert word in str(failure)
    assert world.cep("skip", "2").exit_code == 0
    world.run(parts[3])
    assert 3 in world.found


def test_a_batch_that_cannot_be_done_ends_the_application_and_says_what_and_where(world, parts):
    world.run(*parts[:2])
    for entry in (world.folder / "checkpoint" / "state").rglob("log-000000000000-*.bin"):
        entry.unlink()
    failures = []
    for file in parts[2:]:
        (world.folder / "topics" / file.name).hardlink_to(file)
    settings = load_settings(world.file, {})
    with pytest.raises(Exception, match="could not be done"):
        run_recorded(
            world.spark, settings, str(world.folder / "topics"), KnownSchemas(), before=lambda ready: failures.append(ready.batches)
        )
    failure = failures[0].failure
    assert isinstance(failure, StorageError)
    for word in ("batch 2 failed 4 times", "bucket 0", "cep checkpoint verify"):
        assert word in str(failure)
    assert "cep checkpoint skip" not in str(failure), "its records have no part in it"
