"""Spark's own checkpoint in S3: a query starts, stops, is killed, and goes on where it was; what Spark writes there is read through our store."""

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml

from app.bootstrap.artifacts import is_there
from app.storage.open import open_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not is_there("s3"), reason="the jars are not in the cache: python -c 'from app.bootstrap.artifacts import s3_jars; s3_jars()'"
    ),
]

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
    batches = [[n, json.loads(known[n]["sources"][0]["startOffset"] or "{}").get("offset", 0)] for n in sorted(known)]
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
