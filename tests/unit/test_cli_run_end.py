"""A failed application ends in time, whatever hangs while it cleans up, with what the failure says."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("failure", "code", "told"),
    [
        ("BatchFailedError(7, 3, 'disk full')", 65, "batch 7 failed 3 times: disk full"),
        ("AccountsError('one is missing')", 70, "one is missing"),
        ("DependencyError('no broker')", 69, "no broker"),
        ("QueryFailedError('the JVM is gone')", 1, "the JVM is gone"),
        ("None", 1, "the streaming query failed"),
    ],
)
def test_a_clean_up_that_hangs_keeps_the_failures_code(failure: str, code: int, told: str) -> None:
    text = (
        "from app.cli.running import run\n"
        "from app.errors import DependencyError\n"
        "from app.pipeline.batches import AccountsError, BatchFailedError\n"
        "from app.pipeline.driver import QueryFailedError, Stop\n"
        f"run.CLEAN_UP_SECONDS = 0\nstop = Stop(failure={failure})\nstop.failed.set()\nrun._end_in_any_case(stop)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code
    assert done.stderr.startswith(told)
    assert "did not end within 0 s" in done.stderr
