"""Does matching scale out? The same events on one owner and on four, in clusters of several shapes on this machine.

    python -m ops.bench.scale [--quick] [--json FILE]

Recorded topics go through real Spark (``local-cluster``: executors are JVMs of their own) and the whole application but Kafka; composite events are
given back to the driver. Everything but the shape is equal: four buckets, the same batches. For every shape, against one executor with one core:

* ``cpu_ratio``: processor time of all owner processes per event (what they need for deliveries, matching, encoding, logs and snapshots), but that of
  the kernel, which hands out pages to arrays that come and go (a tenth to a third more, twice as much in one run as in the next: ``system_us_per_event``);
* ``fed_ratio``: entries of buckets' logs that were fed, over those that had to be;
* ``memory_ratio``: what all owners together grew by while they took the state in. Allocators are told to give back what is free (``GIVEN_BACK``):
  otherwise a process holds 50 to 250 MB between batches that it will use again, and the ratio of equal runs goes from 1.3 to 2.4 instead of 1.2.

The first batches are left out: every owner is a process that loads the deployment and its kernels once (some 0.2 s and 20 MB), whatever it holds.

The account for more cores: matching is the owners' work alone, a bucket is worked on by one owner at a time, and nothing else grows with their
number. So with *n* cores for owners, a batch's matching takes (time with one owner) × ``cpu_ratio`` × (share of the fullest owner's buckets).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.config.settings import Settings, load_settings
from app.control.messages.reports import ENDS
from app.local.generators import generate
from app.pipeline.application import opened, schema_keeping
from app.pipeline.assemble import ingested, matched
from app.pipeline.batches import Batches
from app.pipeline.session import start_session
from app.pipeline.source import recorded_records
from ops.bench.processes import LOCAL_CLUSTER, TICKS_PER_S, spark_home
from tests.spark.recorded import KnownSchemas, recorded, write_parquet

ROOT = Path(__file__).resolve().parents[2]
ONE = "local-cluster[1,1,1024]"
SHAPES = ("local-cluster[4,1,1024]", "local-cluster[2,2,1024]", "local[4]")
QUERY = """
name: echo
event: SEQ(Quote a, Quote b)
where: "[symbol] AND a.volume = b.volume AND b.price > 1.002 * a.price"
within: 100 s
return: {symbol: b.symbol, low: a.price, high: b.price}
"""
BUCKETS = 4
WARM_UP = 4
"""Batches that are left out: owners load the deployment, kernels and a Kafka client's worth of modules in the first ones."""
SETTLED = 4
"""Looks at the end, of which the one counts at which least memory was held."""
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": str(1 << 18), "MALLOC_TRIM_THRESHOLD_": str(1 << 18), "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Environment of all processes: arrays of more than 256 KiB are pages of their own, which the kernel gets back with them; Arrow asks the same allocator."""
START_MS = 1_780_000_000_000


def make_topics(folder: Path, events: int, batches: int) -> None:
    """One stream of quotes as Parquet files, one per batch."""
    registry, records = KnownSchemas(), []
    for batch in generate("stocks", events, seed=11, start_ms=START_MS, rate_per_s=4000.0).batches:
        records += recorded(batch, "stocks", "symbol", registry)[0]
    write_parquet(folder / "topics", records, batches)


def settings_of(folder: Path, shape: str) -> Settings:
    plain = {
        "streams": {
            "stocks": {
                "topics": ["stocks"],
                "schemas": [str(ROOT / "schemas" / "Quote.avsc")],
                "time": "time",
                "ordered_by": "symbol",
                "idle_after": "1 h",
                "max_ahead": "1000000 d",
            }
        },
        "queries": {"paths": [str(folder / "echo.yaml")]},
        "heartbeat": {"enabled": False},
        "watchdog": {"enabled": False},
        "checkpoint": {"path": str(folder / f"checkpoint-{time.monotonic_ns()}")},
        "http": {"host": "127.0.0.1", "port": 0},
        "spark": {"master": shape, "buckets": BUCKETS, "ingress_tasks": 4, "conf": dict(LOCAL_CLUSTER) if "cluster" in shape else {}},
    }
    (folder / "echo.yaml").write_text(QUERY)
    file = folder / f"settings-{time.monotonic_ns()}.yaml"
    file.write_text(yaml.safe_dump(plain))
    return load_settings(file, {})


@dataclass(frozen=True)
class Look:
    """All owners at the end of a batch: processor time since their start (the kernel's beside it), memory that each shares with nobody, and what came of it."""

    cpu_s: float
    system_s: float
    memory_bytes: int
    composites: int


def look_at(batches: Batches, batch: int, composites: int) -> Look:
    pids = [owner.pid for owner in batches.owners]
    spent = [cpu_s(pid) for pid in pids]
    return Look(sum(user for user, _ in spent), sum(system for _, system in spent), sum(map(private_bytes, pids)), composites)


def cpu_s(pid: int) -> tuple[float, float]:
    """Of a process since its start: its own processor time, and the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICKS_PER_S, int(fields[12]) / TICKS_PER_S


def private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))


def one_run(folder: Path, shape: str) -> dict[str, Any]:
    """All batches in one cluster; runs in a process of its own."""
    settings = settings_of(folder, shape)
    if "cluster" in shape:
        os.environ["SPARK_HOME"] = str(spark_home(folder / f"home-{time.monotonic_ns()}"))
    spark, registry = start_session(settings), KnownSchemas()
    registry.teach(schema_keeping(settings))
    looks: list[Look] = []

    with opened(spark, settings, registry, take=lambda batch, table: looks.append(look_at(ready.batches, batch, table.num_rows))) as ready:
        records = recorded_records(spark, settings, str(folder / "topics"), topics=ready.deployment.topics)
        query = matched(ingested(records, settings, ready.tasks), settings, ready.batches).trigger(availableNow=True).start()
        query.awaitTermination()
        metrics, deadline = ready.plane.metrics, time.monotonic() + 30
        while ready.plane.committed < query.lastProgress["batchId"] and time.monotonic() < deadline:
            time.sleep(0.1)  # progress is told by another thread
        events = sum(metrics.value("cep_events_ended_total", outcome=end) or 0 for end in ENDS)
        fed = {why: metrics.value("cep_log_entries_fed_total", cause=why) or 0 for why in ("own", "start", "lost", "moved")}
        holders = {holding.owner for holding in ready.batches.holdings().values()}
    first, warm, last = looks[0], looks[WARM_UP], looks[-1]
    counted = events * (len(looks) - 1 - WARM_UP) / len(looks)
    spark.stop()
    return {
        "shape": shape,
        "events": events,
        "composites": sum(look.composites for look in looks),
        "holders": len(holders),
        "cpu_us_per_event": 1e6 * (last.cpu_s - warm.cpu_s) / counted,
        "system_us_per_event": 1e6 * (last.system_s - warm.system_s) / counted,
        "fed": fed,
        "fed_ratio": sum(fed.values()) / max(fed["own"], 1),
        "grown_bytes": min(look.memory_bytes for look in looks[-SETTLED:]) - first.memory_bytes,
        "bytes_at_first": first.memory_bytes,
    }


def measured(folder: Path, shape: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "ops.bench.scale", "--shape", shape, "--folder", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | GIVEN_BACK, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode:
        raise SystemExit(f"{shape}: {done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def scale(folder: Path, *, quick: bool, shapes: Sequence[str] = SHAPES) -> dict[str, Any]:
    """All shapes in turn, alternating with one owner."""
    events, batches, rounds = (480_000, 12, 1) if quick else (960_000, 24, 3)
    folder.mkdir(exist_ok=True)
    make_topics(folder, events, batches)
    runs: dict[str, list[dict[str, Any]]] = {shape: [] for shape in (ONE, *shapes)}
    for _ in range(rounds):
        for shape, done in runs.items():
            done.append(measured(folder, shape))
            print(done[-1], flush=True)
    counts = {run["composites"] for some in runs.values() for run in some}
    if len(counts) != 1:
        raise SystemExit(f"the shapes found different numbers of composite events: {counts}")
    compared = {}
    for shape in shapes:
        pairs = list(zip(runs[shape], runs[ONE], strict=True))
        cpu = [run["cpu_us_per_event"] / one["cpu_us_per_event"] for run, one in pairs]
        memory = [run["grown_bytes"] / one["grown_bytes"] for run, one in pairs]
        compared[shape] = {
            "cpu_ratio": statistics.median(cpu),
            "cpu_ratios": cpu,
            "fed_ratio": statistics.median(run["fed_ratio"] for run in runs[shape]),
            "memory_ratio": statistics.median(memory),
            "memory_ratios": memory,
            "holders": [run["holders"] for run in runs[shape]],
        }
    return {
        "cpu_ratio": {shape: one["cpu_ratio"] for shape, one in compared.items()},
        "fed_ratio": {shape: one["fed_ratio"] for shape, one in compared.items()},
        "memory_ratio": {shape: one["memory_ratio"] for shape, one in compared.items()},
        "shapes": compared,
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of few events, for CI")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.shape:
        print(json.dumps(one_run(chosen.folder, chosen.shape)))
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = scale(Path(folder), quick=chosen.quick)
    print(json.dumps({name: figures[name] for name in ("cpu_ratio", "fed_ratio", "memory_ratio")}, indent=1))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
