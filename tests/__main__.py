"""``python3 -m tests``: static checks and all tests, in an environment that it makes if need be.

    python3 -m tests                everything that CI runs
    python3 -m tests --fast         the loop while developing: no JVM, no slow tests, five examples per property: about two minutes
    python3 -m tests --nightly      also the image, a newcomer with empty caches, 20,000 examples per property: hours
    python3 -m tests ARGUMENTS...   only pytest, with these arguments

Tests with Spark or Kafka wait for half of their time, so all others run beside them with what they leave of the processor, and so does the installation of what checks the chart (`tests.tools`); what is said there follows when they are done. On a slow machine their last properties draw few examples (`tests.hurry`), so that the run ends in time.

Standard library only: it starts on a bare Python.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO

from app.bootstrap.class_archive import make_class_archive
from app.bootstrap.environment import TEST_LOCK, enter
from app.bootstrap.failure import SetupError
from app.bootstrap.kernels import warm_kernels
from app.bootstrap.places import PROJECT

TOOLS = f"{os.path.dirname(sys.executable)}/"  # noqa: PTH120 - a link's folder, not its target's
FAST = ("-m", "not (slow or spark or kafka or image)", "-p", "tests.parts")
HURRY = ("-p", "tests.hurry", "--hurry-after", "2700")
"""From half of what continuous integration allows."""
SELECTIONS = {
    "--fast": {
        "pytest, first half": [*FAST, "--part", "1/2"],
        "pytest, second half": [*FAST, "--part", "2/2"],
    },
    "--nightly": {"pytest": ["--timeout", "14400"]},
    "": {
        "pytest, Spark and Kafka": ["-m", "(spark or kafka) and not image", "--durations=20"],
        "pytest, all others": ["-m", "not (spark or kafka or image)", "--durations=20", *HURRY],
    },
}
"""Selections of tests that run beside each other, by what they are called."""

INSTALLATION = "ops tools"
BACKGROUND = 10
"""Niceness of all but the tests with Spark or Kafka: the whole waits for these, and some of them look at clocks."""
NONE_SELECTED = 5
"""Pytest's exit code where no test fits: those who name some may mean tests of one selection, not of none."""

Results = list[tuple[str, int, float]]
"""Names, exit codes, seconds."""


def main(arguments: list[str]) -> int:
    """Run the checks; returns how many failed."""
    started = time.monotonic()
    if "-h" in arguments or "--help" in arguments:
        print(__doc__)
        return 0
    choice = arguments[0] if arguments and arguments[0] in SELECTIONS else ""
    rest = arguments[1:] if choice else arguments
    pytest = [sys.executable, "-m", "pytest"]
    if rest and not choice:
        return subprocess.run([*pytest, *rest], cwd=PROJECT, check=False).returncode
    checks = {
        "ruff": [f"{TOOLS}ruff", "check", "."],
        "format": [f"{TOOLS}ruff", "format", "--check", "--quiet", "."],
        "mypy": [f"{TOOLS}mypy"],
        "import contracts": [f"{TOOLS}lint-imports"],
    }
    tests = {name: [*pytest, "-q", *selection, *rest] for name, selection in SELECTIONS[choice].items()}
    environment = {"HYPOTHESIS_PROFILE": choice.removeprefix("--") or "ci", **os.environ}
    if choice == "--nightly":
        environment.setdefault("CEP_NEWCOMER", "fresh")
    results = [result for name, command in checks.items() for result in beside({name: command}, environment)]
    if choice != "--fast":
        tests[INSTALLATION] = [sys.executable, "-m", "ops.tools"]
        environment |= {"CEP_OPS_TOOLS": "coming"}
    tested = [result for result in beside(tests, environment) if result[0] != INSTALLATION]  # what cannot be had, tests skip and say so
    elsewhere = rest and any(code != NONE_SELECTED for _, code, _ in tested)
    results += [(name, 0 if code == NONE_SELECTED and elsewhere else code, seconds) for name, code, seconds in tested]
    print()
    for name, code, seconds in results:
        print(f"✓ {name} ({seconds:.1f} s)" if code == 0 else f"✗ {name} ({seconds:.1f} s, exit code {code})")
    failed = sum(code != 0 for _, code, _ in results)
    print(f"{'all checks passed' if not failed else f'{failed} of {len(results)} checks failed'} ({time.monotonic() - started:.0f} s)")
    return failed


def beside(commands: dict[str, list[str]], environment: dict[str, str]) -> Results:
    """Runs commands at the same time, all but the first with what it leaves of the processor. What the first one says is seen at once, the others' when all before them are done."""
    with ThreadPoolExecutor() as pool, ExitStack() as files:
        said = {name: files.enter_context(TemporaryFile()) for name in [*commands][1:]}
        running = {name: pool.submit(_run, command, environment, said.get(name)) for name, command in commands.items()}
        for name, run in running.items():
            print(f"── {name}: {' '.join(commands[name]).replace(TOOLS, '')}", flush=True)
            run.result()
            if name in said:
                said[name].seek(0)
                copyfileobj(said[name], sys.stdout.buffer)
        return [(name, *run.result()) for name, run in running.items()]


def _run(command: list[str], environment: dict[str, str], said: IO[bytes] | None) -> tuple[int, float]:
    begun = time.monotonic()
    if said is not None:
        command = ["nice", "-n", str(BACKGROUND), *command]
    code = subprocess.run(command, cwd=PROJECT, env=environment, stdout=said, stderr=said and subprocess.STDOUT, check=False).returncode
    return code, time.monotonic() - begun


if __name__ == "__main__":
    try:
        enter(TEST_LOCK, "tests", sys.argv[1:])
        warm_kernels()
        make_class_archive()
    except SetupError as error:
        print(error, file=sys.stderr)
        sys.exit(69)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(main(sys.argv[1:]))
