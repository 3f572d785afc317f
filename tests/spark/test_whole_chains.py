"""`prefix` in the application: in a shop where few steal half of the events go, and of the alerts next to none is lost and none is false."""

import tempfile

import pytest
import yaml

from app.cli.shedding.train import train
from app.config.settings import load_settings
from app.control.law.watchdog import Watchdog
from app.local.generators import generate
from tests.spark.recorded import ROOT, KnownSchemas, run_recorded, write_parquet
from tests.spark.test_recorded_topics import START_MS, build_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chains")
    text = (ROOT / "queries" / "shoplifting.yaml").read_text()
    (folder / "shoplifting.yaml").write_text(f"{text}\nshedding: {{shedder: prefix, latency_bound: 1 s}}\n")
    readings = generate("retail", 20_000, seed=4, start_ms=START_MS, rate_per_s=200.0).batches
    folder, records, expected = build_world(folder, {"retail": ("tag_id", readings)}, (str(folder / "shoplifting"),))
    write_parquet(folder / "topics", records, 8)
    train([folder / "shoplifting.yaml"], folder / "events.jsonl", folder / "shoplifting.model", config=folder / "settings.yaml")
    return folder, set(expected)


def test_half_of_the_events_go_and_nothing_false_is_told(spark, world, monkeypatch):
    folder, true = world
    monkeypatch.setattr(Watchdog, "ratios", property(lambda _: {"shoplifting": 0.45}))
    settings = yaml.safe_load((folder / "settings.yaml").read_text())
    settings["queries"]["models"] = str(folder)
    settings |= {"checkpoint": {"path": tempfile.mkdtemp(dir=folder)}, "http": {"host": "127.0.0.1", "port": 0}}
    (folder / "run.yaml").write_text(yaml.safe_dump(settings))
    found, planes = set(), []

    def take(_, table) -> None:
        for row in table.to_pylist():
            if row["topic"] == "cep.alerts":
                found.add(next(header["value"].decode() for header in row["headers"] if header["key"] == "ce_id"))

    run_recorded(
        spark,
        load_settings(folder / "run.yaml", {}),
        str(folder / "topics"),
        KnownSchemas(),
        take,
        before=lambda at: planes.append(at.plane),
    )
    assert len(true) > 100
    assert found <= true
    assert len(found) > 0.95 * len(true)
    metrics = planes[0].metrics
    candidates = metrics.value("cep_candidate_events_total", query="shoplifting")
    assert 0.3 < metrics.value("cep_events_shed_total", query="shoplifting", shedder="prefix") / candidates < 0.6
