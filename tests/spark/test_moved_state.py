"""State that is moved while the application is stopped: to other numbers of buckets, and where a query begins and ceases to be read by another one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml
from typer.testing import CliRunner

from app.cli.main import cli
from app.local.generators import generate
from app.pipeline.numbers import load_numbers
from tests.spark.recorded import write_parquet
from tests.spark.test_recorded_topics import START_MS, build_world, emitted, run

READ = """\
name: taken-out
from: retail
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
within: 20 s
return: {tag_id: s.tag_id}
"""
READER = """\
name: two-of-them
from: [query:taken-out]
event: SEQ('taken-out' a, 'taken-out' b)
where: "a.tag_id != b.tag_id"
within: 4 s
"""
FILES = 6


def begun(folder: Path, records: list) -> list[Path]:
    """Files that are not yet where the application reads."""
    write_parquet(folder / "all", records, FILES)
    (folder / "topics-moved").mkdir()
    return sorted((folder / "all").iterdir())


def arrive(folder: Path, files: list[Path]) -> None:
    for file in files:
        file.rename(folder / "topics-moved" / file.name)


def rescaled(folder: Path, buckets: int) -> str:
    done = CliRunner().invoke(cli, ["checkpoint", "rescale", "--buckets", str(buckets), "--settings", str(folder / "run.yaml")])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_other_numbers_of_buckets_change_no_identity(spark, tmp_path):
    kinds = {"retail": ("tag_id", "retail"), "stocks": ("symbol", "stocks")}
    events = {
        topic: (key, generate(kind, 6000, seed=3, start_ms=START_MS, rate_per_s=100.0).batches) for topic, (key, kind) in kinds.items()
    }
    folder, records, expected = build_world(tmp_path, events, ("shoplifting", "price-run", "cross-symbol-move"))
    files = begun(folder, records)
    for buckets in (2, 3, 1):
        if buckets != 2:
            assert f"to {buckets} buckets" in rescaled(folder, buckets)
        arrive(folder, files[:2])
        del files[:2]
        run(spark, folder, "moved", buckets)
    found = emitted(folder, "moved")
    assert len(found) == len(set(found)), "nothing twice"
    # without an end of input the last quotes wait for later ones: their matches are the only ones that may be missing
    last = min(max(r["time"] for r in records if r["topic"] == "stocks" and r["partition"] == p) for p in range(3))
    assert set(found) <= set(expected)
    assert all(expected[one]["query"] != "shoplifting" and expected[one]["time"] >= last - 2000 for one in set(expected) - set(found))
    checkpoint = folder / "checkpoint-moved"
    assert load_numbers(str(checkpoint)).home.folder == "state-2"
    assert {path.parts[-3:-1] for path in checkpoint.glob("state*/*/*.bin")} == {("state-2", "bucket-0")}, "nothing is left of where it was"
    verified = CliRunner().invoke(cli, ["checkpoint", "verify", "--settings", str(folder / "run.yaml")])
    assert verified.exit_code == 0, verified.output


def test_a_query_that_another_one_begins_and_ceases_to_read_loses_and_repeats_nothing(spark, tmp_path):
    events = {"retail": ("tag_id", generate("retail", 3000, seed=5, start_ms=START_MS, rate_per_s=50.0).batches)}
    (tmp_path / "taken-out.yaml").write_text(READ)
    (tmp_path / "two-of-them.yaml").write_text(READER)
    folder, records, expected = build_world(tmp_path, events, (str(tmp_path / "taken-out"),))
    plain, files, folders = yaml.safe_load((folder / "settings.yaml").read_text()), begun(folder, records), []
    for queries in (["taken-out"], ["taken-out", "two-of-them"], ["taken-out"]):
        plain["queries"]["paths"] = [str(folder / f"{query}.yaml") for query in queries]
        (folder / "settings.yaml").write_text(yaml.safe_dump(plain))
        arrive(folder, files[:2])
        del files[:2]
        run(spark, folder, "moved", 2)
        folders.append(load_numbers(str(folder / "checkpoint-moved")).home.folder)
    assert folders == ["state", "state-1", "state-2"]
    rows = [row for file in sorted((folder / "out-moved").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    by_topic: dict[str, list[str]] = {}
    for row in rows:
        by_topic.setdefault(row["topic"], []).extend(h["value"].decode() for h in row["headers"] or () if h["key"] == "ce_id")
    found = by_topic["cep.taken-out"]
    assert len(found) == len(set(found))
    assert set(found) == set(expected)
    assert by_topic["cep.two-of-them"], "the reader found something too"
    borders = np.cumsum([len(part) for part in np.array_split(np.arange(len(records)), FILES)])[[1, 3]]
    places = [[event["position"] for event in one["events"]] for one in expected.values()]
    crossing = [sum(min(own) < border <= max(own) for own in places) for border in borders.tolist()]
    assert min(crossing) > 3, "state that is moved matters"
