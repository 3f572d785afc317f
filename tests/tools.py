"""Programs of `python -m ops.tools`, for tests that ask them. They are installed beside the first tests (`tests/__main__.py`): whoever needs one before waits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

import pytest

from app.bootstrap.places import PROJECT
from ops.tools.pins import tools_folder

VARIABLE = "CEP_OPS_TOOLS"
"""`coming`: somebody installs them now. Without it they are there or not."""


@cache
def all_there() -> bool:
    """Whether all could be had, once they are; False where nobody installs any."""
    install = [sys.executable, "-m", "ops.tools"]
    return (
        os.environ.get(VARIABLE) == "coming" and not subprocess.run(install, cwd=PROJECT, stdout=subprocess.DEVNULL, check=False).returncode
    )


def program(name: str) -> str | None:
    """Where a program is, among those or on PATH. A test that finds none skips, unless all were installed: then it fails."""
    everything = all_there()
    found = shutil.which(name, path=str(tools_folder() / "bin")) or shutil.which(name)
    if not found and everything:
        pytest.fail(f"{name} is not among the tools that were installed")
    return found
