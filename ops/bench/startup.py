"""What a command costs from the shell to its end: processor time and time by the clock of a child process, least of several, all caches warm.

    python -m ops.bench.startup [--repeat 5] [--only NAME] [--json FILE]

Children write bytecode, whatever this process was told, and are run once before they are measured: kernels, bytecode and the files' pages are there.
Beside the commands stands what nobody can go below: the interpreter, and numba.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.bootstrap.bytecode import bytecode_in_cache

ROOT = Path(__file__).parents[2]
CEP = (sys.executable, "-m", "app")
QUERY = "queries/shoplifting.yaml"
EVENTS = 1_000
COMPLETE = {"_CEP_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "cep re"}
ENTRANCE = "import sys; sys.argv = ['cep']; from app.cli.main import main; main()"


@dataclass(frozen=True, slots=True)
class Case:
    """A command.

    Attributes:
        target: seconds of processor time; None where it only stands beside the others.
    """

    command: tuple[str, ...]
    target: float | None = None
    environment: tuple[tuple[str, str], ...] = ()


def cases(events: Path) -> dict[str, Case]:
    """What is measured, by name."""
    return {
        "python": Case((sys.executable, "-c", "pass")),
        "numba": Case((sys.executable, "-c", "import numba")),
        "help": Case((*CEP, "--help"), 0.3),
        "version": Case((*CEP, "version"), 0.3),
        "completion": Case((sys.executable, "-c", ENTRANCE), 0.3, tuple(COMPLETE.items())),
        "status": Case((*CEP, "status", "--help"), 0.8),
        "dlq": Case((*CEP, "dlq", "ls", "--help"), 0.8),
        "tail": Case((*CEP, "tail", "--help")),
        "doctor": Case((*CEP, "doctor", "--help")),
        "validate": Case((*CEP, "validate", QUERY), 0.8),
        "explain": Case((*CEP, "explain", QUERY), 0.8),
        "explain runs": Case((*CEP, "explain", "queries/price-run.yaml"), 0.8),
        "test": Case((*CEP, "test", QUERY), 1.5),
        "replay": Case((*CEP, "replay", "--queries", QUERY, "--events", str(events), "--out", os.devnull), 2.0),
        "daemon": Case((sys.executable, "-c", "import app.pipeline.daemon")),
        "driver": Case((sys.executable, "-c", "import app.cli.running.run")),
    }


def write_events(path: Path) -> None:
    """Readings of a shop, of which some make the query's composite events."""
    types = ("ShelfReading", "CounterReading", "ExitReading")
    lines = (
        {"type": types[k % 3], "time": 1000 * k, "tag_id": f"T{k % 97}", "store_id": 1, "shelf_id": k % 7, "exit_id": 1}
        for k in range(EVENTS)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def once(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of processor time (user and system), and by the clock.

    Raises:
        RuntimeError: the command failed.
    """
    started = time.perf_counter()
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read() if child.stderr else b""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)}: {said.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - started


def measured(case: Case, repeat: int) -> dict[str, float | None]:
    """Least of so many runs, after one that warms up."""
    environment = os.environ | dict(case.environment)
    once(case.command, environment)
    runs = [once(case.command, environment) for _ in range(repeat)]
    return {"cpu_s": min(cpu for cpu, _ in runs), "wall_s": min(wall for _, wall in runs), "target_s": case.target}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", help="a case's name, or a part of it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bytecode_in_cache()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.jsonl"
        write_events(events)
        for name, case in cases(events).items():
            if options.only is None or options.only in name:
                figures[name] = found = measured(case, options.repeat)
                target = f", target {case.target} s" if case.target else ""
                print(f"{name:12} {found['cpu_s']:6.2f} s CPU, {found['wall_s']:6.2f} s by the clock{target}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
