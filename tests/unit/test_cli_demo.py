import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from app.cli.demo import demo, world
from app.cli.demo.composites import Composite, Seen
from app.cli.demo.screen import LinesScreen, Scene, TableScreen
from app.cli.demo.world import QUICKSTART, Chunk, Feed, demo_settings
from app.config.settings import load_settings
from app.errors import DependencyError
from app.local.child import Child
from app.local.generators.stream import Truth
from app.local.ports import free_ports
from app.local.sending import Outlet

TELLS = "import json, os; print(json.dumps(dict(os.environ)))"


def composite(number: int, query: str = "shoplifting", latency_ms: int = 500) -> Composite:
    return Composite(f"id-{number}", query, 1000, 1000 + latency_ms, {"tag_id": f"T{number}"})


def scene(seen: Seen, streaming_s: float) -> Scene:
    return Scene({"retail": 10}, streaming_s, 12.5 if seen.total else None, seen, "http://127.0.0.1:1")


def test_a_composite_event_that_is_delivered_twice_counts_once():
    seen = Seen()
    assert seen.add([composite(1), composite(2)]) == [composite(1), composite(2)]
    assert seen.add([composite(2), composite(3, "price-run")]) == [composite(3, "price-run")]
    assert (seen.total, dict(seen.by_query)) == (3, {"shoplifting": 2, "price-run": 1})
    assert seen.latency_ms(50) == 500
    assert np.isnan(Seen().latency_ms(50))


def test_plain_lines_come_every_two_seconds_and_the_first_composite_event_at_once(capsys):
    seen, screen = Seen(), LinesScreen()
    screen.show(scene(seen, 0.1), [])
    screen.show(scene(seen, 0.6), [])
    assert len(capsys.readouterr().out.splitlines()) == 1
    new = seen.add([composite(1)])
    screen.show(scene(seen, 1.1), new)
    first = capsys.readouterr().out
    assert "first composite event 12.5 s after the start" in first
    assert "tag_id=T1" in first
    screen.show(scene(seen, 1.6), seen.add([composite(2)]))
    assert not capsys.readouterr().out
    screen.show(scene(seen, 3.2), [])
    assert "tag_id=T2" in capsys.readouterr().out


def test_the_table_shows_the_latest_composite_event(capsys):
    seen = Seen()
    with TableScreen() as screen:
        new = seen.add([composite(7)])
        screen.show(scene(seen, 1.0), new)
    assert "tag_id=T7" in capsys.readouterr().out


@pytest.mark.parametrize("stream", ["retail", "stocks", "climate", "transit"])
def test_the_demos_settings_are_the_shipped_ones_with_the_embedded_addresses(tmp_path, stream):
    path = demo_settings(tmp_path, "127.0.0.1:1", "http://127.0.0.1:2", 3)
    settings = load_settings(path, {})
    shipped = load_settings(QUICKSTART, {})
    assert settings.kafka.bootstrap_servers == "127.0.0.1:1"
    assert (settings.schema_registry.url, settings.http.port) == ("http://127.0.0.1:2", 3)
    assert settings.streams[stream].topics == shipped.streams[stream].topics
    assert all(schema.is_file() for schema in settings.streams[stream].schemas)
    assert yaml.safe_load(path.read_text())["checkpoint"]["path"].startswith(str(tmp_path))


def test_the_demos_application_does_not_hear_of_settings_of_another_one(tmp_path, monkeypatch):
    for name, text in {
        "CEP_KAFKA__BOOTSTRAP_SERVERS": "prod:9092",
        "CEP_STREAMS": "{}",
        "CEP_PORT": "of Kubernetes",
        "OTHER": "stays",
    }.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(demo, "Child", lambda name, _, log, environment: Child(name, [sys.executable, "-c", TELLS], log, environment))
    child = demo._start_application(tmp_path / "settings.yaml", tmp_path)
    assert child.wait(60) == 0
    seen = json.loads(child.log.read_text())
    assert not {"CEP_KAFKA__BOOTSTRAP_SERVERS", "CEP_STREAMS"} & set(seen)
    assert (seen["CEP_PORT"], seen["OTHER"], seen["CEP_BOOTSTRAP"]) == ("of Kubernetes", "stays", "off")


def test_a_folder_may_be_named_from_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load_settings(demo_settings(Path("here"), "127.0.0.1:1", "http://127.0.0.1:2", 3), {})
    assert settings.queries.paths == (tmp_path / "here" / "queries",)
    assert settings.checkpoint.path == str(tmp_path / "here" / "checkpoint")


def test_queries_are_copies_to_be_changed_and_stay_changed(tmp_path):
    shipped = {path.name: path.read_text() for path in load_settings(QUICKSTART, {}).queries.paths}
    path = demo_settings(tmp_path, "127.0.0.1:1", "http://127.0.0.1:2", 3)
    copies = tmp_path / "queries"
    assert load_settings(path, {}).queries.paths == (copies,)
    assert {one.name: one.read_text() for one in copies.iterdir()} == shipped
    (copies / "price-run.yaml").write_text("mine")
    (copies / "shoplifting.yaml").unlink()
    demo_settings(tmp_path, "127.0.0.1:1", "http://127.0.0.1:2", 3)
    assert (copies / "price-run.yaml").read_text() == "mine"
    assert not (copies / "shoplifting.yaml").exists()


def test_streams_are_generated_in_pieces_that_fit_into_memory_whatever_their_rate(monkeypatch):
    monkeypatch.setattr(world, "CHUNK_EVENTS", 1000)
    feed = Feed("stocks", 1e6, Outlet("t", {}, {}))
    batches, sent = feed._batches(0), 0
    while len(feed.chunks) < 2:
        sent += len(next(batches))
    assert sent > 1000
    assert feed.chunks[0].complete


def test_only_stretches_that_were_sent_as_a_whole_are_judged():
    feed = Feed("retail", 1.0, Outlet("t", {}, {}))
    truths = [{"shoplifting": Truth(("tag_id",), frozenset({(name,)}))} for name in "AB"]
    feed.chunks = [Chunk(0, truths[0], complete=True), Chunk(1, truths[1])]
    assert feed.truth("shoplifting").expected == {("A",)}


def test_an_application_that_is_too_slow_is_to_be_started_again_and_one_that_ended_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_READY_SECONDS", 0.2)
    (port,) = free_ports(1)
    slow = Child("application", [sys.executable, "-S", "-c", "import time; time.sleep(60)"], tmp_path / "slow.log")
    try:
        with pytest.raises(DependencyError, match=r"not ready after 0 s(.|\n)*hint: .*Start it again"):
            demo._until_ready(slow, port)
    finally:
        slow.kill()
    ended = Child("application", [sys.executable, "-S", "-c", "raise SystemExit(78)"], tmp_path / "ended.log")
    monkeypatch.setattr(demo, "_READY_SECONDS", 60.0)
    with pytest.raises(DependencyError, match="ended with 78") as raised:
        demo._until_ready(ended, port)
    assert "hint" not in str(raised.value)
