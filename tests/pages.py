"""Doing what a page says: its files are written, its commands run, and what they say is held against the page. Standard library only."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 600
"""Longest time of a command; on a busy machine that compiles kernels beside it, minutes."""


@dataclass(frozen=True)
class Step:
    """A fenced block of the page.

    Attributes:
        kind: what stands behind the fence: `sh` and `console` are run, `… file=PATH` is written.
    """

    kind: str
    text: str

    @property
    def file(self) -> str:
        """That is to be written, as the page names it."""
        return self.kind.partition(" file=")[2]

    def commands(self) -> Iterator[tuple[str, str]]:
        """What is typed and what comes back, in order.

        >>> list(Step("console", "$ a\\nb\\n$ c\\n").commands())
        [('a', 'b\\n'), ('c', '')]
        """
        for piece in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            typed, _, told = piece.partition("\n")
            yield typed, told


def steps(page: str) -> list[Step]:
    """The blocks of a page in order.

    >>> steps("a\\n```console\\n$ ls\\n```\\n```\\nno\\n```\\n")
    [Step(kind='console', text='$ ls\\n'), Step(kind='', text='no\\n')]
    """
    return [Step(kind, text) for kind, text in re.findall(r"^```([^\n]*)\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)]


def agrees(told: str, page: str) -> bool:
    """Whether an output is the page's, in which `…` stands for anything.

    >>> agrees("in 3 s\\nmore\\n", "in … s\\n…\\n"), agrees("in 3 s\\n", "at … s\\n")
    (True, False)
    """
    return re.fullmatch(".*".join(map(re.escape, page.strip().split("…"))), told.strip(), flags=re.DOTALL) is not None


@dataclass(frozen=True)
class Reader:
    """Somebody at a shell, in a folder where `python3 -m app` is this project."""

    folder: Path
    environment: dict[str, str]

    def run(self, command: str) -> str:
        """What the shell prints."""
        return self._done(command).stdout

    def succeed(self, command: str) -> None:
        """Runs what must end well, whatever it prints."""
        done = self._done(command)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"

    def _done(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    @contextmanager
    def running(self, command: str, log: Path, how: signal.Signals = signal.SIGTERM) -> Iterator[subprocess.Popen[bytes]]:
        """What runs in a terminal of its own until somebody ends it.

        Args:
            command: typed there.
            log: gets what the terminal shows.
            how: it is ended.
        """
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            yield process
        finally:
            process.send_signal(how)
            try:
                process.wait(300)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def follow(self, step: Step) -> None:
        """Does what a block says."""
        if " file=" in step.kind:
            (self.folder / step.file).write_text(step.text, encoding="utf-8")
        elif step.kind == "sh":
            self.succeed(f"set -e\n{step.text}")
        elif step.kind == "console":
            for command, told in step.commands():
                found = self.run(command)
                assert agrees(found, told), f"$ {command}\n{found}"


def at_home(folder: Path, more: Mapping[str, str] | None = None) -> Reader:
    """A reader in a folder where `python3` is this interpreter and `app` this project: nothing is installed or compiled first."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    own = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return Reader(folder, {**os.environ, **own, **(more or {}), "CEP_BOOTSTRAP": "off", "CEP_KERNELS": "off"})
