"""The application as a process of its own, as people start it: for tests and benchmarks, which want to know what it answers."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ("-m", "app")
NOBODY = 0
"""In place of a status: there was no answer."""


def start_application(
    settings: Path, log: Path, environment: Mapping[str, str] | None = None, program: Sequence[str] = PROGRAM
) -> subprocess.Popen[bytes]:
    """Starts it, as the leader of a group of its own: who kills the group kills JVM and workers as well.

    Args:
        settings: file.
        log: what it says is added there.
        environment: variables beside ours.
        program: arguments of Python in place of ``-m app``.
    """
    variables = {**os.environ, **(environment or {}), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *program, "run", "--settings", str(settings)]
    with log.open("ab") as told:
        return subprocess.Popen(command, stdout=told, stderr=told, cwd=ROOT, env=variables, start_new_session=True)


def answer_of(port: int, path: str, timeout_s: float = 5) -> tuple[int, str]:
    """What it answers on this machine: status, and text; `NOBODY` and nothing while it does not."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout_s) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError:
        return NOBODY, ""
