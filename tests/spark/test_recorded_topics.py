"""Recorded topics through local Spark give the composite events of `cep replay`: same identities, whatever the batches and restarts."""

import json
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from app.cli.main import cli
from app.config.settings import load_settings
from app.local.generators import generate
from app.local.recordings import RECORDINGS, default_folder, read_recording
from tests.spark.recorded import ROOT, KnownSchemas, recorded, run_recorded, write_parquet

START_MS = 1_780_000_000_000
QUERIES = ("shoplifting", "counterfeit-path", "price-run", "cross-symbol-move")


def build_world(folder, events: dict, queries: tuple[str, ...]):
    """Events by topic (with key and batches), settings, and what `cep replay` finds. Queries are shipped ones, or paths without suffix."""
    schema = lambda *names: [str(ROOT / "schemas" / f"{one}.avsc") for one in names]  # noqa: E731
    retail = schema("ShelfReading", "CounterReading", "ExitReading", "BackroomReading")
    settings = {
        "streams": {
            "retail": {"topics": ["retail"], "schemas": retail, "time": "time", "ordered_by": "tag_id", "idle_after": "1 h"},
            "stocks": {
                "topics": ["stocks"],
                "schemas": schema("Quote"),
                "time": "time",
                "allowed_lateness": "2 s",
                "idle_after": "1 h",
                "max_ahead": "1000000 d",
            },
        },
        "queries": {"paths": [str(ROOT / "queries" / f"{query}.yaml") for query in queries]},
        "heartbeat": {"enabled": False},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    registry = KnownSchemas()
    records, lines = [], []
    for topic, (key, batches) in events.items():
        for batch in batches:
            found, plain = recorded(batch, topic, key, registry)
            records += found
            lines += [{**event, "stream": topic} for event in plain]
    order = sorted(range(len(records)), key=lambda k: records[k]["time"])
    records, lines = [records[k] for k in order], [lines[k] for k in order]
    (folder / "events.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    arguments = [part for query in queries for part in ("--queries", str(ROOT / "queries" / f"{query}.yaml"))]
    out = folder / "replay.jsonl"
    done = CliRunner().invoke(
        cli,
        [
            "replay",
            *arguments,
            "--events",
            str(folder / "events.jsonl"),
            "--config",
            str(folder / "settings.yaml"),
            "--identities",
            "--out",
            str(out),
        ],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    expected = {found["id"]: found for found in map(json.loads, out.read_text().splitlines())}
    assert {found["query"] for found in expected.values()} == {Path(query).name for query in queries}, (
        "every query finds something, or the test shows nothing"
    )
    return folder, records, expected


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Generated streams."""
    kinds = {"retail": ("tag_id", "retail"), "stocks": ("symbol", "stocks")}
    events = {
        topic: (key, generate(kind, 6000, seed=3, start_ms=START_MS, rate_per_s=100.0).batches) for topic, (key, kind) in kinds.items()
    }
    return build_world(tmp_path_factory.mktemp("recorded"), events, QUERIES)


@pytest.fixture(scope="module")
def gf_2015(tmp_path_factory):
    """The beginning of GF-2015 (not part of the project; see README of the recordings)."""
    if not (default_folder() / RECORDINGS["GF-2015"].file).exists():
        pytest.skip("the recording GF-2015 is not here")
    events = {"stocks": ("symbol", read_recording("GF-2015", events=60_000).batches)}
    return build_world(tmp_path_factory.mktemp("gf"), events, ("price-run",))


def run(spark, folder, name: str, buckets: int) -> None:
    """The application over the files that are there, until they are used up; the next call goes on from the checkpoint."""
    plain = yaml.safe_load((folder / "settings.yaml").read_text())
    plain |= {"checkpoint": {"path": str(folder / f"checkpoint-{name}")}, "http": {"host": "127.0.0.1", "port": 0}}
    plain |= {"spark": {"buckets": buckets}}
    (folder / "run.yaml").write_text(yaml.safe_dump(plain))
    settings = load_settings(folder / "run.yaml", {})
    out = folder / f"out-{name}"
    out.mkdir(exist_ok=True)

    def take(batch, table) -> None:
        pq.write_table(table, out / f"{batch:06}.parquet")  # a repeated batch writes its file again

    def every_partition(ready) -> None:
        ready.plane.assign((topic, partition) for topic in ready.deployment.topics for partition in range(3))

    run_recorded(spark, settings, str(folder / f"topics-{name}"), KnownSchemas(), take, before=every_partition)


def emitted(folder, name: str) -> list[str]:
    rows = [row for file in sorted((folder / f"out-{name}").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    assert {row["topic"] for row in rows}.isdisjoint({"cep.late", "cep.dead-letters"})
    return [h["value"].decode() for row in rows for h in row["headers"] or () if h["key"] == "ce_id"]  # shed reports have none


@pytest.mark.parametrize(("name", "files", "buckets"), [("few", 3, 1), ("many", 11, 3)])
def test_recorded_topics_give_the_identities_of_replay(spark, world, name, files, buckets):
    check(spark, world, name, files, buckets)


def test_a_real_recording_gives_the_identities_of_replay(spark, gf_2015):
    check(spark, gf_2015, "gf", 5, 2)


def check(spark, world, name: str, files: int, buckets: int) -> None:
    folder, records, expected = world
    topics = folder / f"topics-{name}"
    write_parquet(folder / f"all-{name}", records, files)
    topics.mkdir()
    parts = sorted((folder / f"all-{name}").iterdir())
    for part in parts[: files // 2]:
        part.rename(topics / part.name)
    run(spark, folder, name, buckets)
    for part in parts[files // 2 :]:
        part.rename(topics / part.name)
    run(spark, folder, name, buckets)
    found = emitted(folder, name)
    assert len(found) == len(set(found)), "nothing twice"
    # without an end of input the last quotes wait for later ones: their matches are the only ones that may be missing
    missing = set(expected) - set(found)
    last = min(max(r["time"] for r in records if r["topic"] == "stocks" and r["partition"] == p) for p in range(3))
    assert set(found) <= set(expected)
    assert all(expected[one]["query"] in ("price-run", "cross-symbol-move") and expected[one]["time"] >= last - 2000 for one in missing)
