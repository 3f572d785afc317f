"""Whoever holds a checkpoint is alone with it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from app.config.settings import Settings
from app.errors import CheckpointTakenError, ConfigurationError
from app.owners import sole
from app.owners.sole import sole_driver, sole_reconciliation
from app.storage.store import StorageAwayError


def settings(path: str) -> Settings:
    return Settings.model_validate({"checkpoint": {"path": path}})


@pytest.mark.parametrize(
    ("alone", "told"), [(sole_driver, "another driver works"), (sole_reconciliation, "another reconciliation publishes")]
)
def test_a_second_one_is_refused_until_the_first_has_ended(tmp_path: Path, alone, told: str) -> None:
    known = settings(str(tmp_path / "checkpoint"))
    with alone(known):
        with pytest.raises(CheckpointTakenError, match=told), alone(known):
            pass
        with alone(settings(str(tmp_path / "other"))):
            pass
    with alone(known):
        pass


def test_a_reconciliation_may_run_beside_the_application(tmp_path: Path) -> None:
    known = settings(str(tmp_path))
    with sole_driver(known), sole_reconciliation(known):
        pass


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write to"), sole_reconciliation(settings(str(tmp_path / "file" / "checkpoint"))):
        pass


def failing(number: int):
    """What the system does instead of what it is asked for."""

    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    return fails


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ESTALE])
@pytest.mark.parametrize(("where", "what"), [(Path, "mkdir"), (Path, "open"), (sole.fcntl, "flock")])
def test_a_disk_that_is_full_or_away_is_no_wrong_configuration(tmp_path: Path, monkeypatch, where, what: str, number: int) -> None:
    monkeypatch.setattr(where, what, failing(number))
    with pytest.raises(StorageAwayError, match=r"cannot write driver\.lock in"), sole_driver(settings(str(tmp_path))):
        pass


def test_a_file_system_without_locks_is_not_taken_for_another_driver(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sole.fcntl, "flock", failing(errno.ENOLCK))
    told = r"cannot lock a file in .*: no locks available\nhint: this file system gives no locks"
    with pytest.raises(ConfigurationError, match=told), sole_driver(settings(str(tmp_path))):
        pass
