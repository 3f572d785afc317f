"""Query files that change while the application runs: what the watcher reads, opens and tells. Batches are directives that are asked for."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.settings import load_settings
from app.control.messages.reports import QueryTally, SourceProgress, StageReport
from app.control.messages.totals import total
from app.control.plane import ControlPlane
from app.control.running_catalog import RunningCatalog
from app.errors import DependencyError
from app.events.batch import source_number
from app.events.registry import Registry, RegistrySettings
from app.owners.deployment import load_deployment, store_deployment
from app.owners.model_store import Choice, ModelStore
from app.pipeline import ingress
from app.pipeline.application import open_catalog, task_settings
from app.pipeline.draining import past_of
from app.pipeline.ingress import get_ready
from app.pipeline.numbers import Numbers, store_numbers
from app.pipeline.preparation import TopicsMissingError, compile_queries, prepare, read_streams
from app.pipeline.reload import reader, watcher
from app.pipeline.reload.changes import changes
from app.pipeline.reload.files import Settling, look
from app.pipeline.reload.reader import Reader
from app.pipeline.reload.watcher import Watcher, watching
from app.storage.open import open_store
from shedding.interface import Training
from shedding.model_file import save
from shedding.registry import METHODS, method
from tests.conformance.shedding_cases import CASES
from tests.kafka.application import until
from tests.unit.test_model_store import learned

ROOT = Path(__file__).parents[2]
QUERY = """\
name: {name}
version: {version}
from: {stream}
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
within: 10 s
on_change: {on_change}
"""
SHEDDING = "shedding: {shedder: bl, latency_bound: 1 s}\n"
READER = """\
name: c
from: [query:a]
event: SEQ(a x, a y)
where: "[tag_id]"
within: 10 s
"""


def text(name: str, version: int = 1, stream: str = "retail", on_change: str = "restart") -> str:
    return QUERY.format(name=name, version=version, stream=stream, on_change=on_change)


class World:
    """An application without Spark: query files, control plane, watcher."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.queries = folder, folder / "queries"
        self.queries.mkdir()
        self.missing: set[str] = set()
        monkeypatch.setattr(reader, "ensure_topics", self.ensure_topics)
        monkeypatch.setattr(watcher, "ANNOUNCED_S", 0.0)
        self.write(a=text("a"), b=text("b"))
        self.settings_file = folder / "settings.yaml"
        self.configure()
        self.settings = load_settings(self.settings_file, {})
        self.registry = Registry(RegistrySettings(f"mock://reload-{folder.name}"))
        streams = read_streams(self.settings, self.registry)
        deployment = prepare(self.settings, compile_queries(self.settings, streams), streams, self.registry)
        self.plane = ControlPlane(self.settings, {}, lambda: 1_000)
        self.plane.open(RunningCatalog(deployment.catalog, store_deployment(self.settings.checkpoint.uri, deployment)))
        self.watcher = Watcher(self.settings, self.plane, Reader(self.settings, self.registry, self.settings_file), deployment)
        self.now_s, self.batch = 100.0, 0

    def configure(self, **more: Any) -> None:
        schemas = [str(ROOT / "schemas" / f"{name}.avsc") for name in ("ShelfReading", "ExitReading")]
        retail = {"topics": ["retail"], "schemas": schemas, "time": "time", "allowed_lateness": "2 s"}
        written = {
            "streams": {"retail": retail, **more},
            "queries": {"paths": ["queries"], "models": "models"},
            "checkpoint": {"path": str(self.folder / "checkpoint")},
            "http": {"host": "127.0.0.1", "port": 0},
        }
        self.settings_file.write_text(yaml.safe_dump(written))

    def ensure_topics(self, settings: Any, catalog: Any) -> None:
        names = tuple(f"cep.{plan.name}" for plan in catalog.plans if plan.name in self.missing)
        if names:
            raise TopicsMissingError(names)

    def write(self, **files: str) -> None:
        for name, content in files.items():
            (self.queries / f"{name}.yaml").write_text(content)

    def turns(self, number: int = 3, pause_s: float = 1.0) -> dict[str, Any]:
        """Some looks; returns what `/queries` tells then."""
        for _ in range(number):
            self.now_s += pause_s
            self.watcher.turn(self.now_s)
        return self.plane.query_set()

    def run_batch(self, time_ms: int) -> str:
        """A batch whose events are of this time; returns the deployment that it ran under."""
        directive = self.plane.directive(self.batch)
        retail = source_number(self.watcher.running.topics.index("retail"), 0)
        report = StageReport(self.batch, "ingress", 0, sources=(SourceProgress(retail, 1, time_ms, time_ms, time_ms),))
        self.plane.finish(total(self.batch, [report]))
        self.batch += 1
        return directive.deployment

    def statuses(self) -> list[tuple[str, int | None, str]]:
        return sorted((one["query"], one.get("version"), one["status"]) for one in self.plane.query_set()["queries"])

    def metric(self, name: str, **labels: str) -> float | None:
        return self.plane.metrics.value(name, **labels)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    made.plane.running.good()
    yield made
    made.plane.close()


def test_files_as_they_were_at_the_start_change_nothing(world: World) -> None:
    before = world.run_batch(1)
    told = world.turns()
    assert (told["last_reading"]["outcome"], told["generation"]) == ("unchanged", 1)
    assert world.run_batch(2) == before
    (world.queries / "a.yaml").touch()
    assert world.turns()["generation"] == 1


def test_added_changed_removed_and_disabled_queries_are_live_in_the_next_batch(world: World) -> None:
    before = world.run_batch(1)
    world.turns()
    world.write(c=text("c"), a=text("a", version=2))
    (world.queries / "b.yaml").unlink()
    told = world.turns()
    assert (told["last_reading"]["outcome"], told["generation"]) == ("reloaded", 2)
    after = world.run_batch(2)
    assert after != before
    assert {plan.name: plan.version for plan in load_deployment(world.settings.checkpoint.uri, after).catalog.plans} == {"a": 2, "c": 1}
    world.write(c=text("c") + "enabled: false\n")
    world.turns()
    assert world.statuses() == [("a", 2, "running"), ("c", None, "disabled")]
    assert world.plane.directive(world.batch).catalog_version == 3
    assert world.plane.directive(0).deployment == before, "a directive that was decided stays"


def test_a_generation_goes_on_after_a_restart(world: World) -> None:
    world.run_batch(1)
    world.write(c=text("c"))
    world.turns()
    world.run_batch(2)
    named, past = world.watcher._past()
    streams = read_streams(world.settings, world.registry)
    again = prepare(world.settings, compile_queries(world.settings, streams), streams, world.registry, past)
    assert (again.catalog.version, again.fingerprint) == (2, named)


def test_the_last_batch_before_a_restart_is_told_of_by_the_queries_that_ran_in_it(world: World) -> None:
    world.plane.directive(0)
    world.plane.finish(total(0, [StageReport(0, "cep", 0, queries=(QueryTally("a", limited_runs=1),))]))
    world.plane.close()
    world.write(a=text("a", version=2))
    streams = read_streams(world.settings, world.registry)
    changed = prepare(world.settings, compile_queries(world.settings, streams), streams, world.registry, past_of(world.settings))
    world.plane = ControlPlane(world.settings, {}, lambda: 1_000)
    open_catalog(world.settings, world.plane, changed)
    assert [plan.version for plan in changed.catalog.plans] == [2, 1]
    assert [(one.query, one.version) for one in world.plane.directive(1).shed_reports] == [("a", 1)]


def test_a_broken_file_changes_nothing_and_is_told_with_place_and_hint_until_it_is_mended(world: World) -> None:
    before = world.run_batch(1)
    world.turns()
    world.write(b=text("b", version=2).replace("tag_id", "tagid"), c=text("c"))
    told = world.turns()
    assert (told["last_reading"]["outcome"], told["generation"]) == ("broken", 1)
    (finding,) = told["last_reading"]["findings"]
    assert (Path(finding["path"]).name, finding["line"], finding["column"]) == ("b.yaml", 5, 9)
    assert "tag_id" in finding["hint"]
    assert [one["broken"] for one in world.plane.queries()] == [False, True]
    assert world.run_batch(2) == before
    assert (world.metric("cep_config_reload_success"), world.metric("cep_config_reloads_total", outcome="broken")) == (0, 1)
    world.write(b=text("b", version=2))
    assert world.turns()["last_reading"]["outcome"] == "reloaded"
    assert (world.metric("cep_config_reload_success"), world.metric("cep_config_reloads_total", outcome="reloaded")) == (1, 1)
    assert world.statuses() == [("a", 1, "running"), ("b", 2, "running"), ("c", 1, "running")]


def test_a_new_query_with_an_error_is_told_as_broken(world: World) -> None:
    world.write(c=text("c").replace("SEQ(", "SEQ("[:-1]))
    world.turns()
    assert ("c", None, "broken") in world.statuses()


def test_a_file_is_not_read_while_it_is_written(world: World) -> None:
    world.turns()
    whole = text("c")
    for end in range(0, len(whole), 20):
        world.write(c=whole[:end])
        assert world.turns(1)["last_reading"]["outcome"] == "unchanged"
    world.write(c=whole)
    assert world.turns(2)["last_reading"]["outcome"] == "reloaded"
    assert world.metric("cep_config_reloads_total", outcome="broken") is None


def test_a_configmap_exchanges_all_files_by_one_link(world: World) -> None:
    world.turns()
    for number, names in enumerate(["ab", "ac"]):
        versioned = world.queries / f"..2026_{number}"
        versioned.mkdir()
        for name in names:
            (versioned / f"{name}.yaml").write_text(text(name))
            visible = world.queries / f"{name}.yaml"
            visible.unlink(missing_ok=True)
            visible.symlink_to(Path("..data") / f"{name}.yaml")
        (world.queries / "..draft").symlink_to(versioned.name)
        (world.queries / "..draft").replace(world.queries / "..data")
        if number == 1:
            (world.queries / "b.yaml").unlink()
        world.turns()
    assert world.statuses() == [("a", 1, "running"), ("c", 1, "running")]
    versioned = world.queries / "..2026_2"
    versioned.mkdir()
    for name in "ac":
        (versioned / f"{name}.yaml").write_text(text(name, version=7))
        os.utime(versioned / f"{name}.yaml", ns=(1, 1))
    (world.queries / "..draft").symlink_to(versioned.name)
    (world.queries / "..draft").replace(world.queries / "..data")
    world.turns()
    assert world.statuses() == [("a", 7, "running"), ("c", 7, "running")]


def test_a_folder_that_is_gone_changes_nothing_and_one_that_is_back_is_read(world: World) -> None:
    world.turns()
    world.queries.rename(world.folder / "elsewhere")
    told = world.turns()
    assert told["last_reading"]["outcome"] == "broken"
    assert "cannot be read" in told["last_reading"]["findings"][0]["message"]
    assert {one["query"] for one in told["queries"]} == {"a", "b"}
    (world.folder / "elsewhere").rename(world.queries)
    assert world.turns()["last_reading"]["outcome"] == "unchanged"


def test_a_folder_without_queries_changes_nothing(world: World) -> None:
    for file in list(world.queries.iterdir()):
        file.unlink()
    assert "no enabled query" in world.turns()["last_reading"]["findings"][0]["message"]
    assert world.statuses() == [("a", 1, "running"), ("b", 1, "running")]


def test_a_missing_topic_is_told_and_the_query_runs_once_it_is_there(world: World) -> None:
    world.missing = {"c"}
    world.write(c=text("c"))
    told = world.turns()["last_reading"]
    assert (told["outcome"], told["findings"][0]["message"]) == ("needs_topics", "topic cep.c does not exist")
    assert "cep topics apply" in told["findings"][0]["hint"]
    counted = world.metric("cep_config_reloads_total", outcome="needs_topics")
    world.turns(8)
    assert world.metric("cep_config_reloads_total", outcome="needs_topics") == counted == 1, "told once"
    world.missing = set()
    assert world.turns(6)["last_reading"]["outcome"] == "reloaded"


def test_a_query_that_another_one_begins_to_read_needs_a_restart(world: World) -> None:
    before = world.run_batch(1)
    world.turns()
    world.write(a=text("a") + "return: {tag_id: s.tag_id}\n")
    assert world.turns()["last_reading"]["outcome"] == "reloaded", "its fields are told now"
    before = world.run_batch(2)
    world.write(c=READER)
    told = world.turns()["last_reading"]
    assert told["outcome"] == "needs_restart"
    assert [one["message"] for one in told["findings"]] == ['query "a" begins to be read by c: its state moves at the next start']
    assert world.statuses() == [("a", 1, "running"), ("b", 1, "running")]
    assert world.run_batch(3) == before
    (world.queries / "c.yaml").unlink()
    assert world.turns()["last_reading"]["outcome"] == "unchanged"


def test_a_new_stream_and_changed_settings_need_a_restart(world: World) -> None:
    world.turns()
    world.write(c=text("c", stream="parcels"))
    told = world.turns()["last_reading"]
    assert (told["outcome"], told["findings"][0]["message"]) == ("broken", 'unknown stream "parcels"')
    assert "after a restart" in told["findings"][0]["hint"]
    world.configure(parcels={"topics": ["parcels"], "schemas": [str(ROOT / "schemas" / "ExitReading.avsc")], "time": "time"})
    told = world.turns()["last_reading"]
    assert told["outcome"] == "needs_restart"
    assert "streams changed, which needs a restart" in told["findings"][0]["message"]
    assert world.statuses()[:2] == [("a", 1, "running"), ("b", 1, "running")]


def test_a_changed_query_drains_and_leaves_when_time_has_passed_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(a=text("a", on_change="drain"))
    world.turns()
    world.run_batch(5_000)
    world.write(a=text("a", version=2, on_change="drain"))
    world.turns()
    assert world.statuses() == [("a", 1, "draining"), ("a", 2, "running"), ("b", 1, "running")]
    world.run_batch(6_000)
    world.run_batch(6_500)
    world.turns(2, watcher.DRAINS_S)
    (draining,) = [one for one in world.plane.query_set()["queries"] if one["status"] == "draining"]
    assert draining["until_ms"] in (15_000, 16_000), "everything that began before the change is over then"
    world.run_batch(40_000)
    world.run_batch(41_000)
    world.run_batch(42_000)
    world.turns(2, watcher.DRAINS_S)
    assert world.statuses() == [("a", 2, "running"), ("b", 1, "running")]


def test_a_deployment_is_prepared_again_when_another_has_run_since(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a query that ran for one batch would not drain."""
    world.write(a=text("a", on_change="drain"))
    world.turns()
    world.run_batch(1)
    world.write(a=text("a", version=2, on_change="drain"))
    world.turns()
    prepared = Reader.read

    def read_while_a_batch_begins(self: Reader, running: Any, past: Any) -> Any:
        reading = prepared(self, running, past)
        monkeypatch.setattr(Reader, "read", prepared)
        world.run_batch(2)
        return reading

    monkeypatch.setattr(Reader, "read", read_while_a_batch_begins)
    world.write(a=text("a", version=3, on_change="drain"))
    world.turns(2)
    assert world.statuses()[-2:] == [("a", 2, "running"), ("b", 1, "running")]
    world.turns(1)
    assert [one for one in world.statuses() if one[0] == "a"] == [("a", 1, "draining"), ("a", 2, "draining"), ("a", 3, "running")]


def test_metrics_of_queries_that_are_gone_go_with_them(world: World) -> None:
    world.plane.metrics.add("cep_candidate_events_total", 3, query="b")
    world.plane.metrics.add_counts("cep_detection_latency_seconds", [1], 0.1, query="b")
    world.turns()
    (world.queries / "b.yaml").unlink()
    world.turns()
    body = world.plane.metrics.text()[0].decode()
    assert 'query="b"' not in body
    assert 'query="a"' in body


def test_a_coming_deployment_is_announced_before_it_is_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run_batch(1)
    world.turns()
    stored = []

    def store(checkpoint: str, deployment: Any) -> str:
        stored.append(store_deployment(checkpoint, deployment))
        return stored[-1]

    announce = world.plane.announce

    def announced(fingerprint: str) -> None:
        announce(fingerprint)
        world.run_batch(2)

    monkeypatch.setattr(watcher, "store_deployment", store)
    monkeypatch.setattr(world.plane, "announce", announced)
    world.write(c=text("c"))
    world.turns()
    coming, using = world.plane.directive(1), world.plane.directive(2)
    assert (coming.coming, using.deployment, using.coming) == (stored[0], stored[0], "")
    assert json.loads(coming.to_json())["coming"] == stored[0]


def test_a_worker_gets_ready_for_a_coming_deployment_beside_its_batch(world: World) -> None:
    world.write(c=text("c"))
    world.turns()
    fingerprint = world.watcher.running.fingerprint
    tasks = task_settings(world.settings, world.plane)
    get_ready(tasks, fingerprint)
    for thread in threading.enumerate():
        if thread.name == "coming-deployment":
            thread.join(20)
    made = ingress._made_plan.cache_info().misses
    assert ingress._plan(world.settings.checkpoint.uri, fingerprint, 0).selection.layout.stream == "retail"
    assert ingress._made_plan.cache_info().misses == made, "it was made before it was asked for"
    assert ingress._made_decoder(tasks, fingerprint, 0) is ingress._made_decoder(tasks, world.plane.directive(0).deployment, 0)


def test_links_and_missing_files_are_seen_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("x")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    seen = {one.path.name: one for one in look([tmp_path, tmp_path / "nothing.yaml"])}
    assert seen["link.yaml"].real == tmp_path / "real.yaml"
    assert seen["nothing.yaml"].modified_ns is None
    settling = Settling()
    assert [settling.is_due(look([tmp_path])) for _ in range(3)] == [False, True, False]
    (tmp_path / "real.yaml").write_text("xy")
    assert [settling.is_due(look([tmp_path])) for _ in range(3)] == [False, True, False]


def test_changes_are_told_by_name(world: World) -> None:
    world.write(c=text("c"), d=text("d"))
    world.turns()
    before = world.watcher.running.catalog
    world.write(a=text("a", version=2), b=text("renamed"), c=text("c") + "title: another\n", e=text("e").replace("10 s", "11 s"))
    world.write(d=text("d") + "enabled: false\n")
    world.turns()
    assert changes(before, world.watcher.running.catalog, frozenset({"d"})).told() == {
        "added": ["e"],
        "changed": ["a"],
        "renamed": ["b → renamed"],
        "disabled": ["d"],
        "adjusted": ["c"],
    }


@pytest.mark.slow
def test_nothing_that_happens_while_looking_ends_the_watcher(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on, ends when it is told to, and is gone then."""
    world.plane.first_batch.good()
    monkeypatch.setattr(watcher, "RETRY_S", 0.01)
    looks: list[int] = []

    def turn(self: Watcher, now_s: float) -> None:
        looks.append(1)
        raise RuntimeError("a disk that is gone")

    monkeypatch.setattr(Watcher, "turn", turn)
    with watching(world.settings, world.plane, world.watcher.running, world.registry):
        until(lambda: len(looks) > 2, seconds=20, pause=0.01)
        assert "query-files" in {thread.name for thread in threading.enumerate()}
    assert "query-files" not in {thread.name for thread in threading.enumerate()}


def test_where_files_are_not_watched_they_are_told_once_and_nothing_is_changed(world: World) -> None:
    reload = world.settings.queries.reload.model_copy(update={"enabled": False})
    settings = world.settings.model_copy(update={"queries": world.settings.queries.model_copy(update={"reload": reload})})
    world.write(
        a=text("a", version=2).replace("10 s", "11 s"),
        b=text("b") + "enabled: false\n",
        c="name: c\nevent: SEQ(",
        d=text("d") + "enabled: false\n",
    )
    before = world.plane.catalog
    world.plane.first_batch.good()
    with watching(settings, world.plane, world.watcher.running, world.registry):
        until(lambda: world.plane.query_set()["last_reading"]["read_at_ms"] is not None, seconds=20, pause=0.01)
    told = world.plane.query_set()
    assert world.plane.catalog is before
    assert {one["query"]: one["status"] for one in told["queries"]} == {"a": "running", "b": "running", "c": "broken", "d": "disabled"}
    assert told["last_reading"]["outcome"] == "reloaded"


def test_models_of_queries_that_are_in_no_file_and_no_deployment_leave_the_checkpoint(world: World) -> None:
    store_numbers(world.settings.checkpoint.uri, Numbers().in_buckets(1))
    store = ModelStore(open_store(world.settings.checkpoint.uri))
    for query in ("a", "b", "gone"):
        store.choose(query, Choice(store.add(learned(query), b"model").version))
    world.write(b=text("b") + "enabled: false\n")
    world.turns()
    world.run_batch(1)
    world.write(c="name: [")
    world.turns(2, pause_s=watcher.PRUNE_S)
    assert {one.query for one in store.versions()} == {"a", "b", "gone"}, "what a broken file holds nobody knows"
    (world.queries / "c.yaml").unlink()
    world.turns(2, pause_s=watcher.PRUNE_S)
    assert {one.query for one in store.versions()} == {*store.choices()} == {"a", "b"}


@pytest.fixture
def models(world: World, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    """With two versions for the query a, which runs and sheds at random; others could read b."""
    monkeypatch.setattr(watcher, "tell_model_changes", lambda *_: None)
    world.write(a=text("a") + SHEDDING, b=text("b") + "return: {tag_id: s.tag_id}\n")
    world.turns()
    plan, store = world.watcher.running.catalog.plans[0], ModelStore(open_store(world.settings.checkpoint.uri))
    for seed in (1, 2):
        trained = method("bl").train(CASES[METHODS["bl"].level].observations(2), Training(seed, query=plan.fingerprint))
        save(trained, world.folder / "made.model")
        store.add(replace(learned("a", fingerprint=plan.fingerprint), shedder="bl"), (world.folder / "made.model").read_bytes())
    return store


def model_of(world: World, name: str) -> str | None:
    running = world.watcher.running
    return {plan.name: model and model.file for plan, model in zip(running.catalog.plans, running.models, strict=True)}[name]


@pytest.mark.parametrize("outcome", ["broken", "needs_restart", "needs_topics"])
def test_a_model_that_is_chosen_waits_for_no_file_to_be_mended_and_for_no_restart(world: World, models: ModelStore, outcome: str) -> None:
    world.run_batch(1)
    world.missing = {"d"}
    world.write(
        **{
            "broken": {"b": text("b", version=2).replace("tag_id", "tagid"), "a": text("a", version=9) + SHEDDING},
            "needs_restart": {"c": READER.replace("query:a", "query:b").replace("(a x, a y)", "(b x, b y)")},
            "needs_topics": {"d": text("d")},
        }[outcome]
    )
    assert world.turns()["last_reading"]["outcome"] == outcome
    for version in (1, 2):
        models.choose("a", Choice(version, pinned=True))
        told = world.turns(4)
        assert (told["last_reading"]["outcome"], model_of(world, "a")) == (outcome, f"models/a/{version}.model")
        assert world.run_batch(2) == world.watcher.running.fingerprint
    models.choose("a", Choice())
    world.turns(4)
    assert model_of(world, "a") is None
    assert [(plan.name, plan.version) for plan in world.watcher.running.catalog.plans] == [("a", 1), ("b", 1)]


def test_a_choice_that_could_not_be_taken_is_tried_again(world: World, models: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(b=text("b").replace("tag_id", "tagid"))
    world.turns()
    prepared = reader.prepare

    def away(*_: Any, **__: Any) -> Any:
        raise DependencyError("the storage is away")

    monkeypatch.setattr(reader, "prepare", away)
    models.choose("a", Choice(1))
    world.turns(4)
    assert model_of(world, "a") is None
    monkeypatch.setattr(reader, "prepare", prepared)
    world.turns(4)
    assert model_of(world, "a") == "models/a/1.model"


def test_files_that_were_never_right_since_the_start_keep_no_choice_from_being_taken(world: World, models: ModelStore) -> None:
    again = Reader(world.settings, world.registry, world.settings_file)
    world.watcher = Watcher(world.settings, world.plane, again, world.watcher.running)
    world.write(b=text("b").replace("tag_id", "tagid"))
    assert world.turns()["last_reading"]["outcome"] == "broken"
    models.choose("a", Choice(1))
    world.turns(4)
    assert model_of(world, "a") == "models/a/1.model"
