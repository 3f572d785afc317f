"""What several unit tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.cli.main import main


@pytest.fixture
def cep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture):
    """Runs a command in an empty folder; gives exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cep", *arguments])
        code = 0
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    return run
