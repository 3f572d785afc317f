"""What the audit topic is told of a change of models: why it was, and how good the model is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.owners.model_store import NONE, Choice, Learned, ModelStore
from app.owners.models import StoredModel
from app.pipeline.learning.told import GIVEN, GONE, model_changes
from app.storage.posix import PosixStore


@pytest.fixture
def store(tmp_path):
    """With two versions, of which the first is in use."""
    found = ModelStore(PosixStore(tmp_path / "checkpoint"))
    for harm, why in ((0.1, "there was no model"), (0.2, "old enough to be judged anew")):
        found.add(Learned("theft", NONE, "f", "gspice", 0, 5000, 0, 9, 40, harm, 0.4, None, why, True), f"{harm}".encode())
    found.choose("theft", Choice(1, why="there was no model"))
    return found


def running(model: StoredModel | None) -> Any:
    """A deployment of one query."""
    shedding = SimpleNamespace(shedder="random" if model is None else "gspice")
    plan = SimpleNamespace(name="theft", version=1, shedding=shedding, draining=None)
    return SimpleNamespace(catalog=SimpleNamespace(plans=[plan]), models=[model])


def stored(store: ModelStore, version: int) -> StoredModel:
    known = store.version("theft", version)
    return StoredModel(known.file, known.digest, b"")


def told(store: ModelStore, before: StoredModel | None, after: StoredModel | None) -> dict[str, Any]:
    (change,) = model_changes(store, running(before), running(after))
    return change


def test_a_model_that_comes_into_use_is_told_with_its_figures(store):
    change = told(store, None, stored(store, 1))
    assert (change["why"], change["harm"], change["harm_random"], change["shedder_before"]) == ("there was no model", 0.1, 0.4, "random")


@pytest.mark.parametrize("why", ["pinned by a person", "random does less harm"])
def test_who_is_shed_at_random_by_choice_is_told_why(store, why):
    store.choose("theft", Choice(NONE, why=why))
    change = told(store, stored(store, 1), None)
    assert (change["why"], change["model"], change["model_before"], change["harm"]) == (why, None, "models/theft/1.model", None)


def test_a_model_that_no_longer_fits_is_gone_whatever_was_chosen(store):
    assert told(store, stored(store, 1), None)["why"] == GONE


def test_a_choice_that_was_made_meanwhile_is_not_told_of_the_one_before(store):
    store.choose("theft", Choice(2, pinned=True, why="pinned by a person"))
    change = told(store, None, stored(store, 1))
    assert (change["why"], change["harm"]) == ("there was no model", 0.1)


def test_a_model_that_a_person_has_put_there_has_no_figures(store):
    change = told(store, None, StoredModel("/models/theft.model", store.version("theft", 1).digest, b""))
    assert (change["why"], change["harm"]) == (GIVEN, None)
