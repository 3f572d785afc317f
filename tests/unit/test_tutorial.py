"""The tutorial is typed as it stands: its files are written, its commands run, and what they say is what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.cli.demo.world import demo_settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
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
        """What the shell prints; the tests' process must not be asked anything."""
        done = subprocess.run(
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
        return done.stdout

    def follow(self, step: Step) -> None:
        """Does what a block says."""
        if " file=" in step.kind:
            (self.folder / step.kind.partition(" file=")[2]).write_text(step.text, encoding="utf-8")
        elif step.kind == "sh":
            assert self.run(f"set -e\n{step.text}") == ""
        elif step.kind == "console":
            for command, told in step.commands():
                found = self.run(command)
                assert agrees(found, told), f"$ {command}\n{found}"


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """The demo's settings are there, as if it ran with ``--keep demo``."""
    (tmp_path / "demo").mkdir()
    demo_settings(tmp_path / "demo", "localhost:9092", "http://localhost:8081", 8080)
    programs = tmp_path / "programs"
    programs.mkdir()
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    own = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return Reader(tmp_path, {**os.environ, **own, "CEP_BOOTSTRAP": "off", "CEP_KERNELS": "off"})


@pytest.mark.slow
def test_the_tutorial_says_what_happens(reader: Reader) -> None:
    for step in steps(PAGE):
        reader.follow(step)


def test_every_block_of_the_page_is_of_a_known_kind() -> None:
    kinds = [re.sub(r" file=.*", " file", step.kind) for step in steps(PAGE)]
    assert set(kinds) == {"sh", "console", "console kafka", "yaml file", "json file", ""}
    assert [step.text for step in steps(PAGE) if not step.kind] == [
        "python3 -m app demo --keep demo\n",
        "python3 -m app run --settings fridges/settings.yaml\n",
    ], "what runs until somebody ends it is told apart"
    assert kinds.count("console") >= 6
