import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.bootstrap.places import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(420)]


@pytest.fixture
def demo(tmp_path):
    """Starts the quick start; whatever a test leaves running is killed."""
    started = []

    def start(*arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "app", "demo", *arguments]
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def descendants(pid: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    found, frontier = set(), {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found |= frontier
    return found


def lines_until(process: subprocess.Popen, text: str) -> list[str]:
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


def all_gone(pids: set[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_composite_events_are_shown_all_thefts_are_found_and_ctrl_c_ends_everything(demo):
    process = demo("--retail-rate", "100", "--stock-rate", "200")
    lines = lines_until(process, "first composite event")
    assert any("broker and registry" in line for line in lines)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:  # a stretch of the retail stream (20 s) is judged when all of it was sent
        seconds = lines_until(process, " events (")[-1].split(" s:")[0]
        if float(seconds) > 22:
            break
    children = descendants(process.pid)
    assert len(children) >= 3
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=150)
    assert process.returncode == 0, rest
    assert "precision 1.0000, recall 1.0000" in rest
    assert all_gone(children, 10)


def test_a_killed_demo_leaves_no_process_behind(demo):
    process = demo()
    lines_until(process, "✓ broker and registry")
    children = descendants(process.pid)
    assert len(children) >= 2
    os.kill(process.pid, signal.SIGKILL)
    assert all_gone(children, 30)
