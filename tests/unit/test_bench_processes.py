"""CPU accounting of benchmarks: whoever worked is counted once, however it ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.bench.processes import Family, adopt_orphans

ROOT = Path(__file__).parents[2]
WORK_S = 0.3
BURN = f"import time\nwhile time.process_time() < {WORK_S}: pass\n"
DEADLINE_S = 30


def child(text: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-S", "-c", f"import os, signal, time\n{text}"])


def sampled_until(family: Family, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline
        family.sample()
        time.sleep(0.01)


def alone(call: str) -> None:
    """Runs a check in a process that has no other children: those of the tests' process, servers among them, would be taken for orphans."""
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.unit.test_bench_processes import *\n{call}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ending", ["pass", "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"], ids=["reaped", "ignored"])
def test_a_childs_work_is_counted_once_after_its_end(ending: str) -> None:
    alone(f"check_a_childs_work({ending!r})")


def test_an_orphan_stays_in_the_family() -> None:
    alone("check_an_orphan()")


def check_a_childs_work(ending: str) -> None:
    parent = child(
        f"{ending}\npid = os.fork()\nif pid == 0:\n    {BURN.replace(chr(10), chr(10) + '    ')}\n    os._exit(0)\n"
        "try: os.wait()\nexcept ChildProcessError: pass\ntime.sleep(60)"
    )
    family = Family(parent.pid)
    try:
        sampled_until(family, lambda: family.cpu_s() >= 0.6 * WORK_S)
        sampled_until(family, lambda: len(family.sample()) == 1)
        assert 0.6 * WORK_S <= family.cpu_s() <= 1.6 * WORK_S
    finally:
        parent.kill()
        parent.wait()


def check_an_orphan() -> None:
    adopt_orphans()
    parent = child(f"pid = os.fork()\nif pid == 0:\n    {BURN.replace(chr(10), chr(10) + '    ')}\n    time.sleep(60)\ntime.sleep(60)")
    family = Family(parent.pid)
    sampled_until(family, lambda: len(family.sample()) == 2)
    orphan = next(process.pid for process in family.sample() if process.pid != parent.pid)
    parent.kill()
    parent.wait()
    try:
        sampled_until(family, lambda: family.cpu_s() >= 0.8 * WORK_S)
        assert [process.pid for process in family.sample()] == [orphan]
    finally:
        os.kill(orphan, signal.SIGKILL)
    sampled_until(family, lambda: all(process.zombie for process in family.sample()))
    family.reap()
    assert family.sample() == []
    assert family.cpu_s() >= 0.8 * WORK_S
