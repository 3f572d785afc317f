"""A settings file to begin from is one that works, wherever it lies, and never in the place of another."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.bootstrap.places import PROJECT, QUICKSTART
from app.cli.running.init import _scalar, settings_text
from app.config.settings import load_settings


@pytest.mark.parametrize("below", [".", "own/folder"])
def test_it_loads_and_names_what_is_there(cep, tmp_path: Path, below: str) -> None:
    file = tmp_path / below / "my.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    code, told, errors = cep("init", str(file), "--brokers", "kafka-1:9092,kafka-2:9092", "--registry", "https://registry.example")
    assert code == 0, errors
    assert f"cep topics plan --settings {file}" in told
    assert "ops/settings.md" in file.read_text(encoding="utf-8")
    settings = load_settings(file, {})
    assert settings.kafka.bootstrap_servers == "kafka-1:9092,kafka-2:9092"
    assert settings.schema_registry.url == "https://registry.example"
    assert all(Path(path).exists() for stream in settings.streams.values() for path in stream.schemas)
    assert settings.queries.paths
    assert all(Path(path).exists() for path in settings.queries.paths)
    code, _, errors = cep("validate", "--settings", str(file), *map(str, settings.queries.paths))
    assert code == 0, errors


def test_at_the_root_of_the_project_paths_are_short() -> None:
    """The README's place."""
    text = settings_text(QUICKSTART.read_text(encoding="utf-8"), PROJECT, "localhost:9092", "http://localhost:8081")
    assert yaml.safe_load(text)["queries"]["paths"][0].startswith("queries/")
    assert ".." not in text


def test_a_file_that_is_there_stays(cep, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("mine")
    code, _, errors = cep("init", "my.yaml")
    assert (code, (tmp_path / "my.yaml").read_text()) == (1, "mine")
    assert "is there already" in errors
    assert cep("init", "nowhere/my.yaml")[0] == 78


def test_odd_addresses_and_places_are_quoted_and_what_no_application_takes_is_told(cep, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    assert cep("init", str(file), "--brokers", "[::1]:9092", "--registry", "http://registry/ccompat/v7")[0] == 0
    settings = load_settings(file, {})
    assert (settings.kafka.bootstrap_servers, settings.schema_registry.url) == ("[::1]:9092", "http://registry/ccompat/v7")
    assert _scalar("../a, #b/schemas/Quote.avsc") == '"../a, #b/schemas/Quote.avsc"', "it would end the list's entry"
    code, _, errors = cep("init", str(tmp_path / "other.yaml"), "--registry", "http://u:secret@host")
    assert code == 78
    assert "secret" not in errors
    assert not (tmp_path / "other.yaml").exists()
