"""The command line as people have it: errors, exit codes, standard output and standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from app.cli.main import main


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it printed as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Shell = Callable[..., Ended]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """`shell("status", "--url", url)` runs a command in this process."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["cep", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        told = capsys.readouterr()
        return Ended(code, told.out, told.err)

    return run
