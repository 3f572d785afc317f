"""Deployments as plain data: what is loaded is what was stored, planned again; what cannot be loaded is refused in one sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from app.bucket.rescale import moved_groups
from app.config.settings import Settings, load_settings
from app.errors import ConfigurationError, SnapshotError
from app.events.batch import source_number
from app.events.registry import Registry, RegistrySettings
from app.owners.deployment import (
    FORMAT,
    INGESTED,
    Deployment,
    deployment_from_json,
    load_deployment,
    prune_deployments,
    store_deployment,
)
from app.owners.models import StoredModel
from app.pipeline.draining import Past
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.storage.frames import write_frame
from app.storage.open import open_store
from app.storage.store import MissingError
from tests.naive.patterns import WholeQuery, yaml_text
from tests.property.whole_language import TYPES, queries

ROOT = Path(__file__).parents[2]
KINDS = ("ShelfReading", "CounterReading", "ExitReading")
QUERY = """\
# taken out of the shop without being paid
name: theft
version: {version}
from: retail
event: SEQ(ShelfReading s, !(CounterReading c), ExitReading e)
where: "[tag_id] AND s.shelf_id <= 5"
within: 60 s
return: {{tag_id: e.tag_id}}
on_change: drain
on_timeout: drop
shedding: {{shedder: gspice, latency_bound: 1 s}}
---
name: reader
from: query:theft
event: "SEQ(theft a, theft b)"
within: 1 m
enabled: false
"""


def prepared(settings: Settings, past: Past | None = None) -> Deployment:
    registry = Registry(RegistrySettings("mock://deployment"))
    streams = read_streams(settings, registry)
    return prepare(settings, compile_queries(settings, streams), streams, registry, past)


def deployed(folder: Path, version: int = 1, past: Past | None = None, kinds: tuple[str, ...] = KINDS) -> Deployment:
    schemas = [str(ROOT / "schemas" / f"{name}.avsc") for name in kinds]
    retail = {"topics": ["retail"], "schemas": schemas, "time": "time", "ordered_by": "tag_id", "rename": {"exit_id": "door"}}
    (folder / "q.yaml").write_text(QUERY.format(version=version))
    (folder / "settings.yaml").write_text(yaml.safe_dump({"streams": {"retail": retail}, "queries": {"paths": ["q.yaml"]}}))
    return prepared(load_settings(folder / "settings.yaml", {}), past)


def loaded(folder: Path, deployment: Deployment) -> Deployment:
    """Through the file, and not from the cache."""
    name = store_deployment(str(folder / "checkpoint"), deployment)
    load_deployment.cache_clear()
    return load_deployment(str(folder / "checkpoint"), name)


@pytest.mark.parametrize("name", ["all-streams", "quickstart"])
def test_all_shipped_queries_are_the_same_when_they_are_loaded(tmp_path: Path, name: str) -> None:
    deployment = prepared(load_settings(ROOT / "app" / "local" / f"{name}.yaml", {}))
    again = loaded(tmp_path, deployment)
    assert again.catalog.plans == deployment.catalog.plans
    assert again == deployment
    assert again.fingerprint == deployment.fingerprint
    assert all(group.columns[-1] == INGESTED for group in again.catalog.groups)


AVRO = {"k": "long", "v": "long", "s": "string"}


def schema_text(name: str, attributes: tuple[str, ...]) -> str:
    fields = [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    fields += [{"name": one, "type": ["null", AVRO[one]], "default": None} for one in attributes]
    return json.dumps({"type": "record", "name": name, "fields": fields})


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, *HealthCheck])
@given(drawn=st.lists(queries(), min_size=1, max_size=3))
def test_random_queries_are_the_same_when_they_are_loaded(tmp_path_factory: pytest.TempPathFactory, drawn: list[WholeQuery]) -> None:
    folder = tmp_path_factory.mktemp("random")
    for name, attributes in TYPES.items():
        (folder / f"{name}.avsc").write_text(schema_text(name, attributes))
    for number, query in enumerate(drawn):
        (folder / f"q{number}.yaml").write_text(yaml_text(query).replace("name: q", f"name: q{number}"))
    stream = {"topics": ["in"], "schemas": [f"{name}.avsc" for name in TYPES], "time": "time"}
    paths = [f"q{number}.yaml" for number in range(len(drawn))]
    (folder / "settings.yaml").write_text(yaml.safe_dump({"streams": {"input": stream}, "queries": {"paths": paths}}))
    try:
        deployment = prepared(load_settings(folder / "settings.yaml", {}))
    except ConfigurationError as error:
        event(f"refused: {error.findings[0].message}")
        return  # not every random query is one that an application runs
    event("deployed")
    assert loaded(folder, deployment) == deployment


def test_a_query_without_a_model_sheds_as_it_did(tmp_path: Path) -> None:
    deployment = deployed(tmp_path)
    assert deployment.catalog.plans[0].shedding.shedder == "random", "there is no model yet"
    assert loaded(tmp_path, deployment) == deployment


def test_an_old_version_drains_beside_the_new_one_after_it_was_loaded(tmp_path: Path) -> None:
    first = deployed(tmp_path)
    source = source_number(first.topics.index("retail"), 0)
    # the second version is compiled against other schemas: the first one keeps its own
    second = loaded(tmp_path, deployed(tmp_path, 2, Past(loaded(tmp_path, first), {source: 5_000}), (*KINDS, "BackroomReading")))
    assert [(plan.version, plan.draining is None) for plan in second.catalog.plans] == [(2, True), (1, False)]
    assert second.catalog.plans[1] == replace(first.catalog.plans[0], draining=second.catalog.plans[1].draining)
    assert [len(one.definition.stream and one.readers) for texts in second.old if texts for one in texts.streams] == [3]
    third = loaded(tmp_path, deployed(tmp_path, 3, Past(second, {source: 6_000})))
    assert {(plan.version, plan.draining and plan.draining.until_ms) for plan in third.catalog.plans} == {(3, None), (2, None), (1, 66_000)}
    assert loaded(tmp_path, third) == third


def test_a_query_that_others_begin_to_read_is_prepared_its_state_is_moved_before_it_runs(tmp_path: Path) -> None:
    past = Past(deployed(tmp_path), {})
    queries = tmp_path / "q.yaml"
    queries.write_text(queries.read_text().replace("enabled: false", "enabled: true").replace("on_change: drain", "on_change: restart"))
    loaded_settings = load_settings(tmp_path / "settings.yaml", {})
    assert len(prepared(loaded_settings).catalog.plans) == 2, "in a fresh checkpoint there is nothing to be moved"
    assert moved_groups(past.deployment.catalog, prepared(loaded_settings, past).catalog) == ("theft",)


def test_places_in_query_files_are_known_after_loading(tmp_path: Path) -> None:
    deployment = loaded(tmp_path, deployed(tmp_path))
    assert [(file.path, file.text) for file in deployment.files] == [(str(tmp_path / "q.yaml"), QUERY.format(version=1))]


def test_a_query_that_a_later_version_refuses_is_named_with_its_place(tmp_path: Path) -> None:
    deployment = deployed(tmp_path)
    data = deployment.to_json().replace(b"SEQ(ShelfReading s", b"SEK(ShelfReading s")
    with pytest.raises(SnapshotError, match=r'query "theft" of the deployment cannot be planned by this version\n.*q.yaml:5:11: '):
        deployment_from_json(data, FORMAT, lambda digest: b"")


def test_a_query_that_a_later_version_plans_differently_is_planned_anew(tmp_path: Path) -> None:
    deployment = deployed(tmp_path)
    plan = deployment.catalog.plans[0]
    data = deployment.to_json().replace(plan.fingerprint.encode(), b"0" * 32)
    assert deployment_from_json(data, FORMAT, lambda digest: b"") == deployment


def with_model(deployment: Deployment, content: bytes) -> Deployment:
    return replace(deployment, models=(StoredModel("theft.model", hashlib.sha256(content).hexdigest(), content),))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder / "checkpoint")) for path in (folder / "checkpoint").rglob("*") if path.is_file())


def test_models_are_stored_once_and_go_with_the_last_deployment_that_names_them(tmp_path: Path) -> None:
    checkpoint, plain = str(tmp_path / "checkpoint"), deployed(tmp_path)
    first, second = with_model(plain, b"one"), with_model(replace(plain, buckets=7), b"one")
    third = with_model(plain, b"two")
    names = [store_deployment(checkpoint, one) for one in (first, second, third)]
    one, two = (f"models/{hashlib.sha256(content).hexdigest()}" for content in (b"one", b"two"))
    assert files(tmp_path) == sorted([*(f"deployments/{name}" for name in names), one, two])
    load_deployment.cache_clear()
    assert load_deployment(checkpoint, names[0]).models[0].content == b"one"  # type: ignore[union-attr]
    prune_deployments(open_store(checkpoint), {names[1]})
    assert files(tmp_path) == [f"deployments/{names[1]}", one]
    prune_deployments(open_store(checkpoint), set())
    assert files(tmp_path) == []


def damaged(data: bytes) -> Iterator[bytes]:
    yield from (data[:size] for size in range(0, len(data), 97))
    for place in range(0, len(data), 61):
        yield data[:place] + bytes([data[place] ^ 0x24]) + data[place + 1 :]


def test_what_is_torn_or_changed_is_refused_by_its_name(tmp_path: Path) -> None:
    checkpoint, deployment = tmp_path / "checkpoint", with_model(deployed(tmp_path), b"model")
    name = store_deployment(str(checkpoint), deployment)
    for file in (checkpoint / "deployments" / name, *(checkpoint / "models").glob("*")):
        whole = file.read_bytes()
        for data in damaged(whole):
            file.write_bytes(data)
            load_deployment.cache_clear()
            with pytest.raises(SnapshotError, match=f"{file.name} in .* is (torn|damaged|not a file)"):
                load_deployment(str(checkpoint), name)
        file.unlink()
        with pytest.raises(MissingError, match=file.name):
            load_deployment(str(checkpoint), name)
        file.write_bytes(whole)


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    checkpoint, deployment = tmp_path / "checkpoint", with_model(deployed(tmp_path), b"model")
    names = [store_deployment(str(checkpoint), one) for one in (deployment, replace(deployment, buckets=5))]
    (checkpoint / "deployments" / names[0]).rename(checkpoint / "deployments" / names[1])
    with pytest.raises(SnapshotError, match=f"{names[1]} in .* is another deployment"):
        load_deployment(str(checkpoint), names[1])


def test_what_parses_but_is_no_deployment_is_refused(tmp_path: Path) -> None:
    data = deployed(tmp_path).to_json()
    for torn in damaged(data):
        try:
            deployment_from_json(
                torn, FORMAT, lambda digest: b""
            )  # a changed letter in a text may go unnoticed: the name's digest is for that
        except SnapshotError:
            continue
    for foreign in (b"[]", b"3", b'{"files": 1}', b"\xff", b"[" * 100_000):
        with pytest.raises(SnapshotError):
            deployment_from_json(foreign, FORMAT, lambda digest: b"")


def test_a_newer_format_is_refused_in_one_sentence(tmp_path: Path) -> None:
    data = deployed(tmp_path).to_json()
    write_frame(open_store(str(tmp_path)), "deployments/new", "deployment", 99, [data])
    with pytest.raises(SnapshotError, match=r"deployments/new in .* is written by a newer version \(format 99, this one reads 1\)"):
        load_deployment(str(tmp_path), "new")
