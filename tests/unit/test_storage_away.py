"""Storage that is away: what owners say is understood by the driver, and the application ends with the exit code for "later"."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from app.cli.main import main
from app.cli.running import run
from app.control.placement import OwnerId
from app.errors import DependencyError
from app.owners.driver import OwnersFailedError
from app.owners.wire import RefusedError
from app.storage.store import StorageAwayError, StorageError, failure

OWNERS = [OwnerId("h", port, port) for port in (1, 2)]


@pytest.mark.parametrize(
    ("kinds", "away"),
    [
        (["StorageAwayError"], True),
        (["StorageAwayError", "DependencyError"], True),
        (["StorageError"], False),
        (["StorageAwayError", "SnapshotError"], False),
    ],
)
def test_an_attempt_failed_for_what_is_outside_only_if_every_owner_says_so(kinds: list[str], *, away: bool) -> None:
    refused = {owner: RefusedError(kind, "cannot read state/x") for owner, kind in zip(OWNERS, kinds, strict=False)}
    assert OwnersFailedError((), refused).unreachable is away
    assert not OwnersFailedError(OWNERS[:1], refused).unreachable


@pytest.mark.parametrize(
    ("kinds", "of_storage"),
    [
        (["StorageError"], True),
        (["StorageAwayError", "TornError"], True),
        (["MissingError", "ValueError"], False),
        (["DependencyError"], True),
    ],
)
def test_records_have_no_part_in_what_storage_does(kinds: list[str], *, of_storage: bool) -> None:
    refused = {owner: RefusedError(kind, "cannot read state/x") for owner, kind in zip(OWNERS, kinds, strict=False)}
    assert OwnersFailedError((), refused).of_storage is of_storage
    assert not OwnersFailedError(OWNERS[:1], refused).of_storage


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ESTALE, StorageAwayError), (errno.ENOSPC, StorageAwayError), (errno.EIO, StorageError)]
)
def test_what_the_system_says_decides_whether_a_file_or_the_storage_is_at_fault(number: int, kind: type[StorageError]) -> None:
    assert type(failure("read", "state/x", "/c", OSError(number, os.strerror(number)))) is kind


def test_the_application_ends_with_the_code_for_later() -> None:
    """The first kind that fits counts, and everything fits the last one."""
    code = next(code for kind, code in run.EXIT_CODES if isinstance(StorageAwayError("away"), kind))
    assert code == next(code for kind, code in run.EXIT_CODES if isinstance(DependencyError("away"), kind)) == os.EX_UNAVAILABLE


def test_a_command_on_a_checkpoint_that_is_away_ends_with_69(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("checkpoint: {path: 's3a://bucket/x', s3: {endpoint: 'http://127.0.0.1:9', region: here}}\n")
    monkeypatch.setattr(sys, "argv", ["cep", "checkpoint", "ls", "--settings", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == os.EX_UNAVAILABLE
    assert "NETWORK_CONNECTION" in capsys.readouterr().err
