"""A batch that Spark repeats does exactly what it did: same directive, same events shed, same records out, but for the moment at which composite events were built."""

import json

import orjson
import pytest
import yaml

from app.cli.shedding.train import train
from app.config.settings import load_settings
from app.control.law.watchdog import Watchdog
from app.local.generators import generate
from shedding.registry import METHODS
from tests.spark.recorded import ROOT, KnownSchemas, recorded, run_recorded, write_parquet
from tests.undated import undated_row

START_MS = 1_780_000_000_000
FILES = 10
QUERY = """
name: hasty
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
strategy: skip-till-next-match
within: 2 s
return: {symbol: b.symbol, price: b.price}
shedding: {shedder: %s, latency_bound: 1 s}
"""


@pytest.fixture(scope="module", params=["random", "gspice", "prefix", "pspice", "stateful", "hspice"])
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeated")
    query = QUERY % request.param
    (folder / "hasty.yaml").write_text(query.replace("till-next", "till-any") if request.param == "hspice" else query)
    stocks = {
        "topics": ["stocks"],
        "schemas": [str(ROOT / "schemas" / "Quote.avsc")],
        "time": "time",
        "ordered_by": "symbol",
        "idle_after": "1 h",
    }
    settings = {
        "streams": {"stocks": stocks},
        "queries": {"paths": [str(folder / "hasty.yaml")], "models": str(folder)},
        "heartbeat": {"enabled": False},
        "checkpoint": {"path": str(folder / "checkpoint")},
        "http": {"host": "127.0.0.1", "port": 0},
        "watchdog": {"warm_up_batches": 0},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    records, plain = [], []
    for batch in generate("stocks", 6000, seed=4, start_ms=START_MS, rate_per_s=200.0).batches:
        found, events = recorded(batch, "stocks", "symbol", KnownSchemas())
        records, plain = records + found, plain + events
    (folder / "shedder").write_text(request.param)
    if METHODS[request.param].learns:
        (folder / "events.jsonl").write_bytes(b"\n".join(map(orjson.dumps, plain)))
        train([folder / "hasty.yaml"], folder / "events.jsonl", folder / "hasty.model", config=folder / "settings.yaml")
    write_parquet(folder / "topics", records, FILES)
    return folder


def run(spark, folder) -> tuple[dict[int, list[tuple]], dict[int, bytes]]:
    """What every batch wrote, and the directives."""
    settings = load_settings(folder / "settings.yaml", {})
    written: dict[int, list[tuple]] = {}
    directives: dict[int, bytes] = {}
    planes = []

    def take(batch: int, table) -> None:
        rows = table.to_pylist()
        written[batch] = sorted(map(undated_row, rows))
        directives[batch] = planes[0].directive(batch).to_json()

    run_recorded(spark, settings, str(folder / "topics"), KnownSchemas(), take, before=lambda ready: planes.append(ready.plane))
    return written, directives


def test_the_last_batch_repeated_sheds_the_same_events_and_writes_the_same_records(spark, world, monkeypatch):
    monkeypatch.setattr(Watchdog, "ratios", property(lambda _: {"hasty": 0.6}))
    written, directives = run(spark, world)
    last = max(written)
    assert last == FILES - 1
    assert b'"drop_ratio":0.6' in directives[last]
    shed = [value for topic, _, value, _ in written[last] if topic == "cep.audit"]
    assert shed, "shed reports of the batch before leave with this one"
    (report,) = json.loads(directives[last])["shed_reports"]
    shedder = (world / "shedder").read_text()
    assert report["shedder"] == shedder
    realised = report["dropped"] / report["considered"]
    if shedder == "hspice":
        assert report["level"] == "PAIRS"
    if METHODS[shedder].level in ("events", "events per partial match"):
        assert realised == pytest.approx(0.6, abs=0.1)
    else:  # of the partial matches that there would be; some were ended before
        assert report["level"] == "PARTIAL_MATCHES"
        assert 0.1 < realised < 0.65
    assert [topic for topic, *_ in written[last]].count("cep.hasty") > 0
    commit = world / "checkpoint" / "spark" / "commits" / str(last)
    commit.unlink()
    (commit.parent / f".{last}.crc").unlink(missing_ok=True)
    monkeypatch.setattr(Watchdog, "ratios", property(lambda _: {"hasty": 0.1}))  # what the clock would decide now
    again, repeated = run(spark, world)
    assert list(again) == [last]
    assert repeated[last] == directives[last]
    assert again[last] == written[last]
