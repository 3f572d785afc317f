"""Makes an archive: ``python -m tests.golden.checkpoints NAME``, by hand; see the package. Half a minute, and it needs Spark.

It runs an application over generated topics, with restarts and snapshots, and packs it where it stops half-way. Two other runs say what that is worth:
an undisturbed one over all of the topics, which gives what is expected, and one that begins with the second half, which does without the state.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from app.config.settings import Settings
from app.local.generators import generate
from app.pipeline.session import start_session
from tests.golden.checkpoints.daemon import SNAPSHOTS_AFTER
from tests.golden.checkpoints.kept import COMING, SETTINGS, KeptApplication, packed
from tests.spark.recorded import ROOT, KnownSchemas, recorded, write_parquet

START_MS = 1_780_000_000_000
FILES, RUNS = 12, (5, 3)
"""Recorded files, one per batch; how many of them come before each start of the runs that are packed."""
EVENTS = {"retail": ("tag_id", 1500), "stocks": ("symbol", 1500)}
"""By topic and kind of stream, the records' key and how many there are."""
SCHEMAS = {"retail": ("ShelfReading", "CounterReading", "ExitReading", "BackroomReading"), "stocks": ("Quote",)}
QUERIES = {
    "paid": """\
from: retail
event: SEQ(ShelfReading s, !(ExitReading e), CounterReading c)
where: "[tag_id]"
within: 1 hour
return: {tag_id: s.tag_id, store: c.store_id}
""",
    "rising": """\
from: stocks
event: SEQ(Quote a, Quote+ b[])
where: "[symbol] AND b[first].price > a.price AND b[i].price > b[i-1].price"
within: 4 s
strategy: skip-till-next-match
on_timeout: emit
return: {symbol: a.symbol, last: "b[last].price", steps: count(b)}
""",
    "rising-chain": """\
from: stocks
event: SEQ(Quote a, Quote+ b[])
where: "[symbol] AND b[i].price > b[i-1].price"
strategy: skip-till-next-match
within: 4 s
""",
    "not-again": """\
from: stocks
event: SEQ(Quote a, !(Quote b))
where: "[symbol] AND b.price > a.price AND a.volume > 7000"
within: 3 s
""",
    "rose-again": """\
from: ["query:rising", stocks]
event: SEQ(rising r, Quote q)
where: "[symbol] AND q.price > r.last AND r.steps >= 3"
within: 2 s
return: {symbol: r.symbol, steps: r.steps}
""",
    "in-place": """\
from: retail
select: [shelf_id]
key: [tag_id]
coalesce: {duration: until-next, max_gap: 3 s}
window: {range: 6 s, slide: 2 s}
""",
    "store-3": "from: retail\nevent: SEQ(ShelfReading a, CounterReading b)\nwhere: a.store_id = 3 AND a.tag_id = b.tag_id\nwithin: 20 s\n",
    "store-17": "from: retail\nevent: SEQ(ShelfReading a, CounterReading b)\nwhere: a.store_id = 17 AND a.tag_id = b.tag_id\nwithin: 20 s\n",
}
TOPICS = {f"cep.{query}" for query in QUERIES} | {"cep.timeouts"}
ENGINES = {"family", "stacks", "runs", "chains", "coalesce"}


def furnished(folder: Path) -> Path:
    """A folder with everything but a checkpoint."""
    for name in ("queries", "schemas"):
        (folder / name).mkdir(parents=True)
    for name, text in QUERIES.items():
        (folder / "queries" / f"{name}.yaml").write_text(f"name: {name}\n{text}", encoding="utf-8")
    for name in (name for names in SCHEMAS.values() for name in names):
        shutil.copy(ROOT / "schemas" / f"{name}.avsc", folder / "schemas")
    common = {"time": "time", "idle_after": "1 h", "max_ahead": "1000000 d"}
    streams = {
        topic: {**common, "topics": [topic], "schemas": [f"schemas/{name}.avsc" for name in names]} for topic, names in SCHEMAS.items()
    }
    streams["retail"]["ordered_by"], streams["stocks"]["allowed_lateness"] = "tag_id", "2 s"
    plain = {"streams": streams, "queries": {"paths": ["queries"]}, "heartbeat": {"enabled": False}, "spark": {"buckets": 2}}
    (folder / SETTINGS).write_text(yaml.safe_dump(plain), encoding="utf-8")
    registry, records = KnownSchemas(folder / "schemas"), []
    for topic, (key, events) in EVENTS.items():
        for batch in generate(topic, events, seed=5, start_ms=START_MS, rate_per_s=50.0).batches:
            records += recorded(batch, topic, key, registry)[0]
    write_parquet(folder / COMING, sorted(records, key=lambda one: one["time"]), FILES)
    return folder


def undisturbed(spark: Any, folder: Path, files: int) -> KeptApplication:
    """Over all recorded files but the first ones, in one run."""
    application = KeptApplication(furnished(folder), teaches=True)
    for file in sorted((folder / COMING).iterdir())[:files]:
        file.unlink()
    application.arrive()
    application.run(spark)
    return application


def stopped(spark: Any, folder: Path) -> KeptApplication:
    """Half-way, after some starts."""
    application = KeptApplication(furnished(folder), teaches=True)
    for files in RUNS:
        application.arrive(files)
        application.run(spark)
    for bucket in application.buckets():
        assert [one.batch for one in bucket.listing.generations] == list(SNAPSHOTS_AFTER), f"bucket {bucket.number} has generations"
        assert max(bucket.listing.entries) == sum(RUNS) - 1 > max(SNAPSHOTS_AFTER), f"bucket {bucket.number} has a log since then"
    assert application.engines() >= ENGINES, application.engines()
    return application


def main(name: str) -> None:
    """Makes the archive of this name."""
    spark = start_session(Settings(spark={"conf": {"spark.python.daemon.module": "tests.golden.checkpoints.daemon"}}))
    with tempfile.TemporaryDirectory(prefix="cep-") as temporary:
        kept = stopped(spark, Path(temporary) / "kept")
        expected = undisturbed(spark, Path(temporary) / "undisturbed", 0).told
        without = undisturbed(spark, Path(temporary) / "without", sum(RUNS)).told
        assert set(kept.told) <= set(expected), "a restart changes nothing"
        owed = {one.partition(" ")[0] for one in set(expected) - set(kept.told) - set(without)}
        assert owed == TOPICS, f"without the state nothing of these is lost: {TOPICS - owed}"
        archive = Path(__file__).parent / f"{name}.tar.xz"
        packed(kept, expected, archive)
        print(f"{archive.name}: {archive.stat().st_size} bytes, {len(kept.told)} of {len(expected)} composite events told")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
