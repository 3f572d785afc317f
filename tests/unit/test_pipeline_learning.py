"""What a round of learning decides: whose model is used, when chance is better, and that neither a person's word nor a query that fails is passed over."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.cli.shedding.shed_queries import read_shed_queries
from app.config.settings import Settings, load_settings
from app.control.plane import ControlPlane
from app.control.running_catalog import RunningCatalog
from app.errors import CepError, ConfigurationError, DependencyError
from app.evaluation.examination import Examination, Lesson
from app.events.batch import Column, Dictionary, EventBatch, take
from app.events.registry import Registry, registry_settings
from app.events.types import Kind
from app.owners.deployment import Deployment, StreamDeployment, load_deployment, store_deployment
from app.owners.model_store import NONE, Choice, ModelStore
from app.owners.models import read_models
from app.owners.query_texts import planned
from app.pipeline.learning import rounds
from app.pipeline.learning.learner import Learner, Limit
from app.pipeline.learning.rounds import Outcome, Wish, learn_round
from app.pipeline.preparation import compile_queries, prepare
from app.pipeline.recorded import streams_at_a_start, without_stragglers
from app.storage.open import open_store

ROOT = Path(__file__).parents[2]
KINDS = ("ShelfReading", "ExitReading")
QUERY = """
name: {name}
from: retail
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id] AND s.shelf_id <= 3"
within: {within}
shedding: {{shedder: espice, latency_bound: 1 s}}
"""
EVENTS = 6000


@dataclass
class World:
    """An application's settings, and what its topics hold."""

    folder: Path
    settings: Settings
    batch: EventBatch
    reads: int = 0

    def write(self, *names: str, within: str = "2 s") -> None:
        for name in names:
            (self.folder / "queries" / f"{name}.yaml").write_text(QUERY.format(name=name, within=within))

    def round(self, wish: Wish | None = None) -> list[Outcome]:
        return list(learn_round(self.settings, Wish() if wish is None else wish, rounds.ignored))

    def configure(self, **retail: Any) -> None:
        file = self.folder / "settings.yaml"
        plain = yaml.safe_load(file.read_text())
        plain["streams"]["retail"] |= retail
        file.write_text(yaml.safe_dump(plain))
        self.settings = load_settings(file, {})

    def prepared(self) -> Deployment:
        """What an application that starts now runs."""
        streams = streams_at_a_start(self.settings, self.settings.streams)
        registry = Registry(registry_settings(self.settings.schema_registry))
        return prepare(self.settings, compile_queries(self.settings, streams), streams, registry)

    @property
    def store(self) -> ModelStore:
        return ModelStore(open_store(self.settings.checkpoint.uri))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Readings of which most are on shelves that no query asks for: worth is easily learned."""
    (tmp_path / "queries").mkdir()
    rng = np.random.default_rng(5)
    lines = []
    for k, kind in enumerate(rng.choice(KINDS, EVENTS).tolist()):
        own = {"shelf_id": int(rng.integers(1, 4))} if kind == "ShelfReading" else {"exit_id": 1}
        lines.append({"type": kind, "time": 1_780_000_000_000 + 20 * k, "tag_id": f"T{rng.integers(0, 20)}", "store_id": 1, **own})
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    retail = {"topics": ["retail"], "schemas": [str(ROOT / "schemas" / f"{name}.avsc") for name in KINDS], "time": "time"}
    plain = {
        "streams": {"retail": retail},
        "queries": {"paths": ["queries"]},
        "schema_registry": {"url": "mock://learning"},
        "checkpoint": {"path": str(tmp_path / "checkpoint")},
        "learning": {"first": "100 ms"},
        "http": {"host": "127.0.0.1", "port": 0},
    }
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(plain))
    found = World(tmp_path, load_settings(tmp_path / "settings.yaml", {}), None)  # type: ignore[arg-type]
    found.write("theft")
    (shed,) = read_shed_queries([tmp_path / "queries" / "theft.yaml"], tmp_path / "events.jsonl", tmp_path / "settings.yaml", None)
    found.batch = shed.batch

    def newest(*_: object) -> EventBatch:
        found.reads += 1
        return found.batch

    monkeypatch.setattr(rounds, "newest_of", newest)
    return found


def says(monkeypatch: pytest.MonkeyPatch, harm: float, random: float, in_use: float | None) -> None:
    """Lessons come out so, whatever is learned."""
    own = Examination.lesson

    def lesson(self: Examination, used: object) -> Lesson:
        return Lesson(own(self, None).model, harm, random, None if used is None else in_use, 100, harm)

    monkeypatch.setattr(Examination, "lesson", lesson)


def test_what_is_better_than_chance_is_taken_and_stays_until_something_is_clearly_better(world, monkeypatch):
    says(monkeypatch, 0.2, 0.5, 0.205)
    assert [one.result for one in world.round()] == ["taken"]
    assert world.store.choice("theft").version == 1
    assert [one.result for one in world.round(Wish(anyway=True))] == ["no better"]
    assert world.store.choice("theft").version == 1


@pytest.mark.parametrize(("in_use", "taken"), [(0.205, True), (0.1, True), (0.02, False)])
def test_where_what_comes_is_other_input_who_is_not_surely_worse_is_taken(world, monkeypatch, in_use, taken):
    """At the overloads that they are judged at a model of other input may still do, and fail where more must go."""
    says(monkeypatch, 0.2, 0.5, None)
    world.round()
    shelves = world.batch.type.values == world.batch.type.values[0]
    world.batch = take(world.batch, np.flatnonzero(~shelves | (np.arange(len(shelves)) % 2 == 0)))
    monkeypatch.undo()
    monkeypatch.setattr(rounds, "newest_of", lambda *_: world.batch)
    says(monkeypatch, 0.2, 0.5, in_use)
    (outcome,) = world.round()
    assert outcome.learned is not None
    assert "other shares" in outcome.learned.why
    assert (outcome.result, world.store.choice("theft").version) == (("taken", 2) if taken else ("no better", 1))


def test_a_model_that_does_clearly_more_harm_than_chance_is_put_aside(world, monkeypatch):
    says(monkeypatch, 0.2, 0.5, None)
    world.round()
    monkeypatch.undo()
    monkeypatch.setattr(rounds, "newest_of", lambda *_: world.batch)
    says(monkeypatch, 0.56, 0.55, 0.9)
    (outcome,) = world.round(Wish(anyway=True))
    assert (outcome.result, world.store.choice("theft").version) == ("no better", NONE)
    assert "random from now on" in outcome.text
    world.store.choose("theft", Choice(1, pinned=True))
    assert world.round(Wish(anyway=True))[0].result == "pinned"
    assert world.store.choice("theft").version == 1, "but not against a person's word"


def test_what_a_pin_kept_from_use_was_not_taken_and_is_not_forgotten(world, monkeypatch):
    says(monkeypatch, 0.2, 0.5, 0.5)
    world.round()
    world.store.choose("theft", Choice(1, pinned=True))
    assert world.round(Wish(anyway=True))[0].result == "pinned"
    assert [one.taken for one in world.store.versions("theft")] == [True, False]
    world.store.choose("theft", Choice(NONE, why="unpinned by a person"))
    (outcome,) = world.round()
    assert (outcome.result, outcome.learned.taken) == ("taken", True), (
        "what was learned last is better than chance, which nobody wants any more"
    )
    assert [one.taken for one in world.store.versions("theft")] == [True, False, True]


def test_a_pin_holds_as_long_as_it_fits_the_query(world, monkeypatch):
    says(monkeypatch, 0.2, 0.5, 0.5)
    world.round()
    world.store.choose("theft", Choice(1, pinned=True))
    assert world.round()[0].result == "pinned"
    world.write("theft", within="3 s")
    (outcome,) = world.round()
    assert (outcome.result, outcome.text.partition(":")[0]) == ("taken", "espice does 20.0% harm, random 50.0%")
    assert world.store.choice("theft") == Choice(2, at_ms=world.store.choice("theft").at_ms, why="there was no model", before=1)
    world.store.choose("theft", Choice(NONE, pinned=True))
    assert world.round()[0].result == "pinned", "chance fits every query"


def test_a_model_that_no_longer_fits_is_put_aside_when_nothing_better_is_found_and_not_looked_for_in_every_round(world, monkeypatch):
    says(monkeypatch, 0.2, 0.5, 0.5)
    world.round()
    world.write("theft", within="3 s")
    monkeypatch.undo()
    monkeypatch.setattr(rounds, "newest_of", lambda *_: world.batch)
    says(monkeypatch, 0.5, 0.5, None)
    (outcome,) = world.round()
    assert (outcome.result, world.store.choice("theft").version) == ("no better", NONE)
    assert [one.result for one in world.round()] == ["still fits"]


def test_whoever_chooses_while_a_round_learns_wins(world, monkeypatch):
    own = Examination.lesson

    def lesson(self: Examination, used: object) -> Lesson:
        world.store.choose("theft", Choice(NONE, pinned=True, why="pinned by a person"))
        return Lesson(own(self, None).model, 0.2, 0.5, None, 100, 0.2)

    monkeypatch.setattr(Examination, "lesson", lesson)
    (outcome,) = world.round()
    assert outcome.result == "pinned"
    assert world.store.choice("theft").pinned


def test_a_query_that_cannot_be_learned_for_leaves_the_others_their_turn(world, monkeypatch):
    world.write("first", "last")
    own = Examination.lesson

    def lesson(self: Examination, used: object) -> Lesson:
        if self.query.plan.name == "first":
            raise MemoryError
        return own(self, used)

    monkeypatch.setattr(Examination, "lesson", lesson)
    found = {one.query: one.result for one in world.round()}
    assert found.pop("first") == "failed"
    assert "failed" not in found.values()
    assert found.keys() == {"last", "theft"}


def test_a_file_that_is_broken_leaves_the_queries_of_others_their_turn(world):
    (world.folder / "queries" / "broken.yaml").write_text("name: broken\nfrom: retail\nevent: SEQ(ShelfReading s\nwithin: 2 s\n")
    assert [(one.query, one.learned is not None) for one in world.round()] == [("theft", True)]
    with pytest.raises(ConfigurationError, match=r"broken\.yaml"):
        world.round(Wish("broken"))


@pytest.fixture
def plane(world: World) -> Iterator[ControlPlane]:
    """Of an application that runs on the world's checkpoint."""
    running = world.prepared()
    opened = ControlPlane(world.settings, {})
    opened.open(RunningCatalog(running.catalog, store_deployment(world.settings.checkpoint.uri, running)))
    yield opened
    opened.close()


def newer_schemas(world: World) -> None:
    """Compatible ones, under which the query is another."""
    text = (ROOT / "schemas" / "ShelfReading.avsc").read_text()
    (world.folder / "ShelfReading.avsc").write_text(text.replace('"int"', '"double"'))
    world.configure(schemas=["ShelfReading.avsc", str(ROOT / "schemas" / "ExitReading.avsc")])


@pytest.mark.parametrize("named", [True, False])
def test_models_are_for_the_queries_that_run_whatever_schemas_and_files_say_since(world, plane, monkeypatch, named):
    says(monkeypatch, 0.2, 0.5, 0.5)
    running = load_deployment(world.settings.checkpoint.uri, plane.catalog.deployment)
    if named:
        wish = Wish(deployment=running.fingerprint)
    else:  # a command finds it in the checkpoint
        wish = Wish()
        plane.directive(0)
        plane.await_directive()
    newer_schemas(world)
    assert world.prepared().catalog.plans[0].fingerprint != running.catalog.plans[0].fingerprint, "or nothing is shown"
    world.write("theft", "another", within="3 s")
    (outcome,) = world.round(wish)
    assert (outcome.result, outcome.learned.fingerprint) == ("taken", running.catalog.plans[0].fingerprint)
    models, _ = read_models(planned(running.texts), None, world.store)
    assert models["theft"].file == outcome.learned.file, "the application can use it"
    world.store.choose("theft", Choice(outcome.learned.version, pinned=True))
    assert [one.result for one in world.round(wish)] == ["pinned"]
    with pytest.raises(CepError, match="once the application has run it"):
        world.round(replace(wish, query="another"))


def test_events_are_read_with_the_schemas_of_the_start(world, plane, monkeypatch):
    read: list[StreamDeployment] = []
    monkeypatch.setattr(rounds, "newest_of", lambda _, streams, *__: read.extend(streams) or world.batch)
    running = load_deployment(world.settings.checkpoint.uri, plane.catalog.deployment)
    newer_schemas(world)
    world.round(Wish(deployment=running.fingerprint))
    assert set(map(repr, read)) == set(map(repr, running.streams))


def test_of_what_ran_last_only_what_reads_streams_of_the_settings_is_learned_for(world, plane):
    plain = yaml.safe_load((world.folder / "settings.yaml").read_text())
    plain["streams"] = {"renamed": plain["streams"]["retail"]}
    (world.folder / "settings.yaml").write_text(yaml.safe_dump(plain))
    world.settings = load_settings(world.folder / "settings.yaml", {})
    assert world.round(Wish(deployment=plane.catalog.deployment)) == []


def test_a_round_is_told_what_runs(world, plane, monkeypatch):
    wishes: list[Wish] = []

    def begun(self: Learner, wish: Wish) -> bool:
        wishes.append(wish)
        self.stopped.set()
        return True

    monkeypatch.setattr(Learner, "_round", begun)
    Learner(world.settings, plane).run()
    assert wishes == [Wish(deployment=plane.catalog.deployment)]


def test_records_of_a_later_version_are_read(world):
    (learned,) = [one.learned for one in world.round()]
    world.store.choose("theft", Choice(learned.version))
    learned, store = world.store.version("theft", learned.version), open_store(world.settings.checkpoint.uri)
    for stored in (*store.names("models"), *store.names("model-choices")):
        if stored.name.endswith(".json"):
            plain = json.loads(store.read(stored.name))
            store.write(stored.name, [json.dumps({**plain, "of a later version": 1}).encode()])
    assert [one.to_plain() for one in world.store.versions()] == [json.loads(json.dumps(learned.to_plain()))]
    assert world.store.choice("theft").version == learned.version
    assert [one.result for one in world.round()] == ["still fits"]


def test_a_round_begins_behind_the_query_that_the_last_one_broke_off_at(world, monkeypatch):
    world.write("first", "last")
    says(monkeypatch, 0.2, 0.5, 0.2)
    begun: list[str] = []
    list(learn_round(world.settings, Wish(behind="last"), rounds.ignored, begun.append))
    assert begun == ["theft", "first", "last"]


def test_events_are_read_once_for_all_queries_of_a_stream_and_kept_no_longer(world, monkeypatch):
    plain = yaml.safe_load((world.folder / "settings.yaml").read_text())
    plain["streams"]["again"] = {**plain["streams"]["retail"], "topics": ["again"]}
    (world.folder / "settings.yaml").write_text(yaml.safe_dump(plain))
    world.settings = load_settings(world.folder / "settings.yaml", {})
    world.write("another", "last")
    another = world.folder / "queries" / "another.yaml"
    another.write_text(another.read_text().replace("from: retail", "from: again"))
    says(monkeypatch, 0.2, 0.5, 0.2)
    kept: list[Any] = []
    lessons = rounds._Lessons
    monkeypatch.setattr(rounds, "_Lessons", lambda *given: kept.append(lessons(*given)) or kept[-1])
    begun: list[str] = []
    for _ in learn_round(world.settings, Wish(), rounds.ignored, begun.append):
        assert {streams for streams, _ in kept[0]._read} in ({("again",)}, {("retail",)})
    assert begun == ["another", "last", "theft"]
    assert world.reads == 2


def test_a_model_whose_file_is_damaged_is_learned_anew(world, monkeypatch):
    says(monkeypatch, 0.2, 0.5, 0.2)
    world.round()
    world.round(Wish(anyway=True))  # no better, so it was tried last and not taken
    (world.folder / "checkpoint" / world.store.version("theft", 1).file).write_bytes(b"torn")
    (outcome,) = world.round()
    assert (outcome.result, world.store.choice("theft").version) == ("taken", 3)
    assert world.store.version("theft", 3).why == "version 1 cannot be used"


def test_with_other_panes_a_model_is_another(world, monkeypatch):
    says(monkeypatch, 0.2, 0.5, 0.5)
    world.round()
    file = world.folder / "queries" / "theft.yaml"
    file.write_text(file.read_text().replace("latency_bound", "pane: 9 events, latency_bound"))
    assert world.round()[0].result == "taken"
    assert [one.pane for one in world.store.versions("theft")] == ["", "9 events"]


@pytest.mark.parametrize(("in_use", "taken"), [(0.205, True), (0.02, False)])
def test_a_model_of_a_stream_that_had_just_begun_gives_way_to_one_of_twice_as_many_events(world, monkeypatch, in_use, taken):
    says(monkeypatch, 0.2, 0.5, None)
    whole = world.batch
    world.batch = take(whole, np.arange(0, len(whole), 2))
    world.round()
    monkeypatch.undo()
    world.batch = whole
    monkeypatch.setattr(rounds, "newest_of", lambda *_: world.batch)
    says(monkeypatch, 0.2, 0.5, in_use)
    (outcome,) = world.round()
    assert outcome.learned is not None
    assert outcome.learned.why == f"there are {len(whole):,} events, version 1 had {len(whole) // 2:,}"
    assert (outcome.result, world.store.choice("theft").version) == (("taken", 2) if taken else ("no better", 1))


def test_a_broker_that_is_away_ends_the_round_and_is_no_querys_fault(world, monkeypatch):
    def away(*_: object) -> EventBatch:
        raise DependencyError("no answer from the brokers")

    world.write("first", "last")
    monkeypatch.setattr(rounds, "newest_of", away)
    with pytest.raises(DependencyError, match="no answer"):
        world.round()


def test_a_process_that_says_nothing_for_too_long_is_ended():
    ended = threading.Event()
    limit = Limit(0.2, ended.set)
    for _ in range(4):
        time.sleep(0.1)
        limit.begin()
    assert not ended.is_set(), "it says something"
    assert ended.wait(10)
    assert limit.reached
    quiet = Limit(0.05, lambda: pytest.fail("it has ended by itself"))
    quiet.end()
    time.sleep(0.2)
    assert not quiet.reached


def events(times: list[int], sources: list[int]) -> EventBatch:
    size = len(times)
    types = Column(Kind.STRING, np.zeros(size, np.int32), None, Dictionary.of([b"A"]))
    offsets = [sources[:n].count(source) for n, source in enumerate(sources)]
    return EventBatch(np.array(times), np.array(sources), np.array(offsets), types, {})


def test_events_that_the_application_would_refuse_as_late_teach_nothing():
    batch = events([1_000, 90_000_000, 2_000, 89_999_000, 3_000], [0, 1, 0, 1, 0])
    assert without_stragglers(batch, 60_000) is batch, "each topic partition has its own time"
    late = events([90_000_000, 1_000, 90_000_500, 89_999_000], [0, 0, 0, 0])
    assert without_stragglers(late, 60_000).offset.tolist() == [0, 2, 3]
    backwards = take(late, np.array([3, 2, 1, 0]))
    assert sorted(without_stragglers(backwards, 60_000).offset.tolist()) == [0, 2, 3], "in whatever order they are given"
