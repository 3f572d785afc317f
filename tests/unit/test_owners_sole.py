"""Whoever holds a checkpoint is alone with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.config.settings import Settings
from app.errors import CheckpointTakenError, ConfigurationError
from app.owners.sole import sole_driver, sole_reconciliation


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
