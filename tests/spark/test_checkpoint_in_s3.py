"""Spark's own checkpoint in S3: a query starts, stops, is killed, and goes on where it was; what Spark writes there is read through our store."""

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml

from app.bootstrap.artifacts import is_there, s3_jars
from app.config.settings import load_settings
from app.local.generators import generate
from app.storage.open import open_store
from tests.spark.recorded import ROOT, KnownSchemas, recorded, run_recorded, write_parquet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def jars():
    """Spark's S3 client: 13 MB that continuous integration fetches, and people who want to."""
    if not is_there("s3") and not os.environ.get("CI"):
        pytest.skip("the jars are not in the cache: python -c 'from app.bootstrap.artifacts import s3_jars; s3_jars()'")
    s3_jars()


QUERY = """
import json, sys, time
from pathlib import Path
from app.config.settings import load_settings
from app.pipeline.session import start_session
settings = load_settings(Path(sys.argv[1]), {})
spark = start_session(settings)
records = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
writer = records.writeStream.format("noop").option("checkpointLocation", settings.checkpoint.spark_location)
query = writer.start()
batches = []
while query.isActive and len(batches) < int(sys.argv[2]):
    time.sleep(0.05)
    known = {p["batchId"]: p for p in query.recentProgress if p["numInputRows"]}
    batches = [[n, (json.loads(known[n]["sources"][0]["startOffset"] or "null") or {}).get("offset", 0)] for n in sorted(known)]
if query.exception():
    raise SystemExit(str(query.exception()))
print(json.dumps(batches), flush=True)
if sys.argv[3] == "stop":
    query.stop()
    spark.stop()
else:
    sys.stdin.read()
"""


@pytest.fixture
def settings_file(tmp_path, bucket, s3_server):
    file = tmp_path / "settings.yaml"
    place = {"path": f"s3a://{bucket}/shop/checkpoint", "s3": {"endpoint": s3_server, "region": "us-east-1"}}
    file.write_text(yaml.safe_dump({"checkpoint": place}))
    return file


def run_query(settings_file, batches, ending):
    """Batches (number, offset at which it began) that one process ran, until it was stopped in good order, or killed."""
    command = [sys.executable, "-c", QUERY, str(settings_file), str(batches), ending]
    log = settings_file.with_suffix(".log")
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        line = process.stdout.readline()
        if ending == "kill":
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert line, log.read_text()[-5000:]
    return json.loads(line)


def test_a_query_goes_on_after_a_stop_and_after_a_kill(settings_file, s3_server, bucket):
    first = run_query(settings_file, 3, "stop")
    second = run_query(settings_file, 3, "kill")
    third = run_query(settings_file, 3, "stop")
    assert first[0] == [0, 0]
    for before, after in ((first, second), (second, third)):
        number, offset = after[0]
        assert number >= before[-1][0]
        assert offset == 10 * number, "a batch begins where the one before it ended: ten rows each"
        assert number <= before[-1][0] + 40, "it goes on, it does not begin anew"
    store = open_store(f"s3://{bucket}/shop/checkpoint?scheme=http&endpoint_override={s3_server.removeprefix('http://')}")
    offsets = {int(file.name.rpartition("/")[2]) for file in store.names("spark/offsets")}
    assert max(offsets) >= third[-1][0]
    assert store.read(f"spark/offsets/{max(offsets)}").startswith(b"v")


APPLICATION = """
import json, sys
from pathlib import Path
from app.config.settings import load_settings
from app.pipeline.session import start_session
from tests.spark.recorded import KnownSchemas, run_recorded
settings, found = load_settings(Path(sys.argv[1]), {}), []
def take(batch, table):
    found.extend(h["value"].decode() for row in table.to_pylist() for h in row["headers"] or () if h["key"] == "ce_id")
run_recorded(start_session(settings), settings, sys.argv[2], KnownSchemas(), take)
print(json.dumps(found), flush=True)
"""


def run_application(settings_file, topics):
    """Identities that one process found in the files that are there."""
    command = [sys.executable, "-c", APPLICATION, str(settings_file), str(topics)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_whole_application_goes_on_from_a_checkpoint_in_s3(tmp_path, settings_file, spark):
    records = []
    for batch in generate("stocks", 2000, seed=8, start_ms=1_780_000_000_000, rate_per_s=100.0).batches:
        records += recorded(batch, "stocks", "symbol", KnownSchemas())[0]
    write_parquet(tmp_path / "all", sorted(records, key=lambda one: one["time"]), 4)
    stocks = {"topics": ["stocks"], "schemas": [str(ROOT / "schemas" / "Quote.avsc")], "time": "time", "ordered_by": "symbol"}
    plain = {
        "streams": {"stocks": {**stocks, "idle_after": "1 h", "max_ahead": "1000000 d"}},
        "queries": {"paths": [str(ROOT / "queries" / "price-run.yaml")]},
        "heartbeat": {"enabled": False},
        "http": {"host": "127.0.0.1", "port": 0},
    }
    settings_file.write_text(yaml.safe_dump({**plain, **yaml.safe_load(settings_file.read_text())}))
    topics, found = tmp_path / "topics", []
    topics.mkdir()
    parts = sorted((tmp_path / "all").iterdir())
    for some in (parts[:2], parts[2:]):
        for part in some:
            (topics / part.name).hardlink_to(part)
        found += run_application(settings_file, topics)
    local = tmp_path / "local.yaml"
    local.write_text(yaml.safe_dump({**plain, "checkpoint": {"path": str(tmp_path / "checkpoint")}}))
    expected = []

    def take(batch, table):
        expected.extend(h["value"].decode() for row in table.to_pylist() for h in row["headers"] or () if h["key"] == "ce_id")

    run_recorded(spark, load_settings(local, {}), str(topics), KnownSchemas(), take)
    assert sorted(found) == sorted(expected)
    assert expected
