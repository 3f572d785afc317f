"""Models that the application has learned, in the checkpoint: versions, choices, and what a deployment makes of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from app.cli.main import cli
from app.errors import CepError
from app.owners.model_store import KEPT, NONE, Choice, Learned, ModelStore
from app.storage.posix import PosixStore


def learned(query: str = "theft", *, taken: bool = True, fingerprint: str = "f") -> Learned:
    return Learned(
        query, NONE, fingerprint, "gspice", 1_780_000_000_000, 5000, 0, 9, 40, 0.1, 0.4, None, "there was no model", taken, {"A": 1.0}
    )


@pytest.fixture
def store(tmp_path):
    return ModelStore(PosixStore(tmp_path / "checkpoint"))


def test_nothing_is_in_use_before_anything_was_chosen(store):
    assert (store.choices(), store.choice("theft"), store.versions(), store.in_use()) == ({}, Choice(), [], {})
    store.add(learned(), b"one")
    assert (store.choices(), store.in_use()) == ({}, {})


def test_versions_count_on_and_the_choice_says_which_is_in_use(store):
    first, second = store.add(learned(), b"one"), store.add(learned(taken=False), b"two")
    assert [first.version, second.version] == [1, 2]
    assert store.content(second) == b"two"
    store.choose("theft", Choice(1, at_ms=5, why="better"))
    assert store.in_use() == {"theft": first}
    store.choose("theft", Choice(2, pinned=True))
    assert store.in_use() == {"theft": replace(second, taken=True)}
    assert ModelStore(store._store).choices() == {"theft": Choice(2, pinned=True, before=1)}, "as another process sees it"
    store.choose("theft", Choice())
    assert store.in_use() == {}


def test_who_decided_by_another_choice_changes_nothing(store):
    seen = store.choice("theft")
    assert store.choose("theft", Choice(NONE, pinned=True, why="pinned by a person"), instead_of=seen)
    assert not store.choose("theft", Choice(store.add(replace(learned(), taken=False), b"one").version), instead_of=seen)
    assert store.choice("theft").pinned
    assert [one.taken for one in store.versions("theft")] == [False]


def test_choices_that_another_process_makes_are_seen(store):
    store.add(learned(), b"one")
    store.choose("theft", Choice(1))
    other = ModelStore(store._store)
    assert other.choices() == {"theft": Choice(1)}
    for version in (0, 1, 0):
        store.choose("theft", Choice(version))
    assert other.choices() == {"theft": Choice(0, before=1)}
    assert len(list(store._store.names("model-choices"))) <= 2, "the log of choices does not grow"


def test_the_oldest_versions_go_but_never_the_one_in_use(store):
    store.choose("theft", Choice(store.add(learned(), b"one").version))
    for _ in range(KEPT + 3):
        store.add(learned(), b"more")
    versions = [one.version for one in store.versions("theft")]
    assert versions == [1, *range(5, KEPT + 5)]
    assert store.content(store.version("theft", 1)) == b"one"
    with pytest.raises(CepError, match="no model of version 3"):
        store.version("theft", 3)


def test_what_was_in_use_before_stays_however_many_were_no_better(store, commands):
    for content in (b"first", b"never in use", b"second"):
        store.add(learned(taken=False), content)
    for version in (1, 3):
        store.choose("theft", Choice(version))
    for _ in range(2 * KEPT):
        store.add(learned(taken=False), b"no better")
    assert [one.version for one in store.versions("theft")][:3] == [1, 3, KEPT + 4]
    commands("rollback", "theft")
    assert store.choice("theft").version == 1
    assert store.content(store.version("theft", 1)) == b"first"


def test_a_rollback_goes_to_what_was_in_use_and_not_to_what_was_rolled_back(store, commands):
    for _ in range(3):
        store.choose("theft", Choice(store.add(learned(), b"one").version))
    commands("rollback", "theft")
    assert store.choice("theft").version == 2, "3 was bad"
    commands("unpin", "theft")
    store.choose("theft", Choice(store.add(learned(), b"one").version))
    commands("rollback", "theft")
    assert store.choice("theft").version == 2
    commands("pin", "theft", "0")
    commands("rollback", "theft")
    assert store.choice("theft").version == 2, "also from chance"


def test_only_what_came_into_use_was_taken(store):
    store.add(learned(taken=False), b"one")
    store.choose("theft", Choice(NONE))
    assert not store.version("theft", 1).taken
    store.choose("theft", Choice(1))
    assert store.version("theft", 1).taken
    assert store.before("theft", Choice(1)) is None


def test_a_damaged_or_missing_model_counts_as_none(store):
    known = store.add(learned(), b"one")
    store._store.write(known.file, [b"other"])
    assert store.content(known) is None
    store._store.delete([known.file])
    assert store.content(known) is None


@pytest.mark.parametrize("torn", [b"", b'{"query": "the', b"[1]", b"{}", b"\xff\xfe"])
def test_a_damaged_record_counts_as_no_version_is_told_once_and_its_number_is_not_given_again(store, commands, torn):
    for content in (b"one", b"two"):
        store.choose("theft", Choice(store.add(learned(), content).version))
    store._store.write("models/theft/2.json", [torn])
    with capture_logs() as logs:
        assert [one.version for one in store.versions("theft")] == [1]
        assert (store.in_use(), store.before("theft", Choice(2, before=1)).version) == ({}, 1)
    assert [(one["log_level"], one["file"]) for one in logs] == [("warning", "models/theft/2.json")]
    assert "theft" in commands("ls")
    commands("unpin", "theft")
    assert store.add(learned(), b"three").version == 3, "2 is still chosen, and must not become what nobody chose"


@pytest.mark.parametrize("torn", [b"", b"null", b'{"version": 2, "pin'])
def test_of_a_damaged_choice_the_one_before_it_holds(store, commands, torn):
    for content in (b"one", b"two"):
        store.choose("theft", Choice(store.add(learned(), content).version))
    store._store.write("model-choices/theft/00000002.json", [torn])
    with capture_logs() as logs:
        for _ in range(2):
            assert (store.choice("theft"), store.choices()) == (Choice(1), {"theft": Choice(1)})
    assert [(one["log_level"], one["file"]) for one in logs] == [("warning", "model-choices/theft/00000002.json")]
    commands("pin", "theft", "2")
    assert store.choice("theft").version == 2
    for number in (2, 3):
        store._store.write(f"model-choices/theft/0000000{number}.json", [torn])
    other = ModelStore(store._store)
    assert (other.choice("theft"), other.choices()) == (Choice(), {"theft": Choice()})


@pytest.fixture
def commands(tmp_path, store):
    settings = tmp_path / "settings.yaml"
    settings.write_text(json.dumps({"checkpoint": {"path": str(tmp_path / "checkpoint")}}))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["models", *arguments, "--settings", str(settings)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return run


def test_people_see_and_choose_versions(store, commands):
    assert "no model was learned yet" in commands("ls")
    for taken in (True, False, True):
        store.add(learned(taken=taken), b"model")
    store.choose("theft", Choice(3))
    assert [(one["version"], one["chosen"]) for one in json.loads(commands("ls", "--json"))] == [(1, False), (2, False), (3, True)]
    assert json.loads(commands("show", "theft"))["version"] == 3
    assert json.loads(commands("show", "theft", "2"))["taken"] is False
    commands("rollback", "theft")
    assert store.choice("theft").version == 1, "version 2 was never in use"
    assert store.choice("theft").pinned
    commands("unpin", "theft")
    assert (store.choice("theft").version, store.choice("theft").pinned) == (1, False)
    commands("pin", "theft", "2")
    assert (store.choice("theft").version, store.choice("theft").pinned) == (2, True)
    assert "2* pinned" in commands("ls")
    commands("pin", "theft", "0")
    assert "sheds at random" in commands("ls")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("pin", "theft", "7"), "no model of version 7"),
        (("pin", "other", "0"), "no model was learned"),
        (("rollback", "theft"), "no earlier version"),
        (("show", "theft"), "no model in use"),
    ],
)
def test_what_cannot_be_chosen_is_said_with_a_hint(store, commands, arguments, hint):
    store.add(learned(), b"model")
    with pytest.raises(CepError, match=hint) as caught:
        commands(*arguments)
    assert "hint: " in str(caught.value)


def test_models_of_queries_that_nobody_knows_any_more_go_when_they_are_old(store):
    for query in ("theft", "gone", "renamed"):
        store.add(learned(query), b"one")
        store.choose(query, Choice(store.add(learned(query), b"two").version))
    at_ms = learned().learned_at_ms
    assert store.retire({"theft"}, at_ms) == [], "not older than that"
    assert store.retire({"theft", "renamed"}, at_ms + 1) == ["gone"]
    assert {one.query for one in store.versions()} == {*store.choices()} == {"theft", "renamed"}
    assert not list(store._store.names("models/gone"))
