"""``python3 -m tests`` runs tests that wait beside tests that work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.__main__ import BACKGROUND, beside

WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)\nprint('waited'); sys.exit(3)"
WORKS = "import os, pathlib, sys\nprint('worked at', os.nice(0), flush=True); print('badly', file=sys.stderr); pathlib.Path(sys.argv[1]).touch()"


def test_commands_run_at_the_same_time_and_speak_one_after_the_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = str(tmp_path / "done")
    (first, code, seconds), (second, well, shorter) = beside(
        {"one": [sys.executable, "-c", WAITS, done], "other": [sys.executable, "-c", WORKS, done]}, dict(os.environ)
    )
    assert (first, code, second, well) == ("one", 3, "other", 0), "the one waits for what the other does"
    assert min(seconds, shorter) > 0
    said = capfd.readouterr().out
    assert (
        said.index("waited") < said.index("── other") < said.index(f"worked at {min(19, os.nice(0) + BACKGROUND)}") < said.rindex("badly")
    )
