"""What a lock lists, brought by pip: Spark, which pip has to build, beside everything else, and kernels compiled as soon as numba is there.

One pip for all took 47 s of a first start on 2 free cores with one of them idle; so it takes 34, and the kernels are three quarters done when the
first command begins (`ops/bench/README.md`).
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.bootstrap.kernels import compiling_kernels
from app.bootstrap.lines import child_lines
from app.bootstrap.progress import Progress

_OF_KERNELS = ("numpy", "llvmlite", "numba")
_BUILT = "pyspark"
"""Has no wheel: pip unpacks 450 MB and packs them again; without compression that takes 4 instead of 13 s."""
_UNCOMPRESSED = '--config-settings="--build-option=bdist_wheel --compression=stored"'
_PIP_WITH_SETTINGS = (23, 1)
"""The first version that takes settings of a build in a file of requirements."""
# Python compiles modules when they are imported; compiling all of them here took 35 of 50 s of CPU
_OPTIONS = ("--disable-pip-version-check", "--progress-bar", "off", "--no-compile", "--require-hashes")


def blocks(lock: str) -> dict[str, str]:
    """The lines of a lock by package: its pin and its hashes, or both pins where versions of Python have their own."""
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        begins = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==", line)
        name = begins.group(1).lower() if begins else name
        if name:
            found[name] = found.get(name, "") + line
    return found


def install(python: Path, lock: Path, progress: Progress) -> str:
    """Install what the lock lists into the environment of ``python``.

    Returns:
        Nothing, or the end of what pip said if it failed.
    """
    listed = blocks(lock.read_text(encoding="utf-8"))
    if {*_OF_KERNELS, _BUILT} <= listed.keys() and _side_by_side(python, listed, progress):
        return ""
    pip = _Pip(python, progress, len(listed))
    pip.run(lock)
    return pip.failure


def _side_by_side(python: Path, listed: dict[str, str], progress: Progress) -> bool:
    """Whether that went well; if not, pip is asked for all at once, goes on from what is there, and says what is wrong."""
    pip = _Pip(python, progress, len(listed))
    with tempfile.TemporaryDirectory() as folder:
        spark, kernels, rest = (Path(folder) / name for name in ("spark.txt", "kernels.txt", "rest.txt"))
        built = listed[_BUILT]
        if _pip_version(python) >= _PIP_WITH_SETTINGS:
            built = built.replace(" \\\n", f" {_UNCOMPRESSED} \\\n", 1)
        spark.write_text(built, encoding="utf-8")
        kernels.write_text("".join(listed[name] for name in _OF_KERNELS), encoding="utf-8")
        rest.write_text("".join(text for name, text in listed.items() if name not in (*_OF_KERNELS, _BUILT)), encoding="utf-8")
        beside = threading.Thread(target=pip.run, args=(spark, "--no-deps"), daemon=True)
        with pip.ended():
            beside.start()
            pip.run(kernels, "--no-deps")
            with compiling_kernels(str(python)) if not pip.failure else contextlib.nullcontext():
                if not pip.failure:
                    pip.run(rest, "--no-deps")
                beside.join()
    return not pip.failure


def _pip_version(python: Path) -> tuple[int, ...]:
    said = subprocess.run([str(python), "-m", "pip", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"pip (\d+)\.(\d+)", said)
    return tuple(int(part) for part in version.groups()) if version else (0,)


class _Pip:
    """Runs of pip that bring packages of one lock, and how far they are together."""

    def __init__(self, python: Path, progress: Progress, count: int) -> None:
        self.failure = ""
        """The end of what the first of them said that failed."""
        self._command = [str(python), "-m", "pip", "install", *_OPTIONS]
        self._progress = progress
        self._count = count
        self._seen = 0
        self._running: list[subprocess.Popen[str]] = []

    def run(self, requirements: Path, *more: str) -> None:
        """Install what a file lists, and show where it is."""
        command: Sequence[str] = [*self._command, *more, "-r", str(requirements)]
        lines: list[str] = []
        with child_lines(command) as (process, output):
            self._running.append(process)
            for line in output:
                lines = [*lines[-20:], line]
                self._tell(line)
        if process.returncode and not self.failure:
            self.failure = "\n".join(lines) or f"pip ended with {process.returncode}"

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """None of them is left behind by whoever leaves early."""
        try:
            yield
        finally:
            for process in self._running:
                process.terminate()

    def _tell(self, line: str) -> None:
        if line.startswith("Collecting "):
            self._seen += 1
            self._progress.tell(f"{self._seen} of {self._count}, {line.split()[1].split('==', maxsplit=1)[0]}")
        elif line.startswith(("Downloading ", "Building ", "Preparing ")):
            self._progress.tell(f"{self._seen} of {self._count}, {line}")
        elif line.startswith("Installing collected packages"):
            self._progress.tell(f"{self._seen} of {self._count}, unpacking")
