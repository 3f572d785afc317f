"""Deployments leave the checkpoint when no bucket can be rebuilt under them any more, and never before."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from app.owners import retiring
from app.owners.deployment import FOLDER, store_deployment
from app.owners.retiring import oldest_batch, prune_retired
from app.owners.state_log import StateLog, state_log
from app.storage.posix import PosixStore
from app.storage.store import Part, Store
from tests.unit.test_pipeline_deployment import deployed, with_model

STATE = "state"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return PosixStore(tmp_path / "checkpoint")


def logged(store: Store, buckets: dict[int, range]) -> list[StateLog]:
    """Buckets whose logs hold these batches."""
    logs = [state_log(store, STATE, number) for number in buckets]
    for log, batches in zip(logs, buckets.values(), strict=True):
        for batch in batches:
            log.append(batch, 1, [b"what it was fed"])
    return logs


def there(store: Store) -> set[str]:
    return {file.name.removeprefix(f"{FOLDER}/") for file in store.names(FOLDER)}


def test_a_bucket_may_be_rebuilt_from_the_snapshot_before_its_log(store: Store) -> None:
    assert oldest_batch(store, STATE) is None
    logged(store, {0: range(40, 60), 11: range(52, 60)})
    assert oldest_batch(store, STATE) == 39


def test_what_no_directive_names_goes_when_all_logs_begin_behind_it(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retiring, "FEW", 1)
    plain = deployed(tmp_path)
    deployments = [with_model(plain, b"old"), with_model(plain, b"older still"), plain]
    old, older, running = (store_deployment(store.uri, one) for one in deployments)
    store.write("models/a-query/1.model", [b"what was learned"])
    logs = logged(store, {0: range(90, 101), 1: range(60, 101)})
    assert prune_retired(store, STATE, {running, old}, newest=100) == []
    assert there(store) == {old, older, running}, "batch 60 may have been fed under it"
    logs[1].store.delete(logs[1].entry_name(batch, 1) for batch in range(60, 101))
    logged(store, {1: range(101, 105)})
    assert prune_retired(store, STATE, {running, old}, newest=150) == [], "a bucket is rebuilt from batch 89 on"
    logs[0].store.delete(logs[0].entry_name(batch, 1) for batch in range(90, 101))
    logged(store, {0: range(102, 105)})
    assert prune_retired(store, STATE, {running}, newest=200) == [], "the log that begins with 101 follows a snapshot of batch 100"
    logs[1].store.delete([logs[1].entry_name(101, 1)])
    assert prune_retired(store, STATE, {running}, newest=200) == [older]
    assert there(store) == {old, running}, "the other one was named until now"
    models = {file.name for file in store.names("models")}
    assert "models/a-query/1.model" in models, "what was learned is somebody else's"
    assert len(models) == 2, "and a model goes with the last deployment that names it"


def test_who_is_named_again_is_noted_anew(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retiring, "FEW", 1)
    plain = deployed(tmp_path)
    back, running = (store_deployment(store.uri, one) for one in (with_model(plain, b"back"), plain))
    logged(store, {0: range(300, 310)})
    assert prune_retired(store, STATE, {running}, newest=310) == []
    assert prune_retired(store, STATE, {running, back}, newest=320) == []
    logged(store, {1: range(330, 340)})
    assert prune_retired(store, STATE, {running}, newest=340) == [], "it may have been in use until batch 340"


def test_a_few_are_not_worth_a_look(store: Store, tmp_path: Path) -> None:
    running = store_deployment(store.uri, deployed(tmp_path))
    assert prune_retired(store, STATE, {running}, newest=5) == []
    assert not [file for file in store.names() if file.name == retiring.FILE]


def test_a_model_that_is_stored_whole_is_not_written_again_and_a_torn_one_is(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = with_model(deployed(tmp_path), b"learned")
    written: list[str] = []
    write = PosixStore.write

    def writing(self: PosixStore, name: str, parts: Iterable[Part]) -> int:
        written.append(name)
        return write(self, name, parts)

    monkeypatch.setattr(PosixStore, "write", writing)
    for _ in range(2):
        store_deployment(store.uri, deployment)
    models = [name for name in written if name.startswith("models/")]
    assert len(models) == 1, "an upload that fails deletes what others name"
    (file,) = (Path(store.uri) / "models").glob("*")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    store_deployment(store.uri, deployment)
    assert file.read_bytes() == whole
