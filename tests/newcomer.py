"""A newcomer with nothing but README.md: types what its section says, from the demo to a query of its own and to an overload, and looks at the console.

    python3 -m tests.newcomer            with this interpreter and what it has, in a folder of its own: minutes
    python3 -m tests.newcomer --fresh    with a copy of the project, no environment and empty caches, as on a new machine: many minutes

Standard library only. Says what was seen, and after how many seconds. Exit code 0: all of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.pages import ROOT, Reader, Step, agrees, at_home, steps

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = "Change a query, then overload it"
QUERY = "rise"
PATIENCE_S = 300.0
"""Whatever is waited for comes in seconds, on a busy machine in minutes."""
FRESH_S = 5400.0
"""An environment is installed and kernels are compiled first."""
OURS = ("CEP_", "PYTHON", "VIRTUAL_ENV")
"""Beginnings of variables that a new machine does not have."""
THEIRS = "CEP_IVY_SETTINGS"
"""Where Java artifacts come from: the machine's own, as pip's configuration is."""
Found = TypeVar("Found")


def section(page: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its kind.

    >>> section("## A\\nx\\n## B\\ny\\n", "A")
    'x\\n'
    """
    return page.partition(f"## {heading}\n")[2].partition("\n## ")[0].rstrip("\n") + "\n"


def typed() -> list[Step]:
    """The blocks of the README's section, in order."""
    return steps(section(PAGE, SECTION))


def fresh(folder: Path) -> Reader:
    """Somebody who has just cloned the project: no environment, no caches, no variables of ours; pip's configuration is the machine's."""
    clone = folder / "clone"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    kept = {name: value for name, value in os.environ.items() if name == THEIRS or not name.startswith(OURS)}
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(one for one in kept["PATH"].split(os.pathsep) if one != own)
    caches = {"CEP_CACHE": str(folder / "cache"), "CEP_VENV": str(folder / "environment"), "PIP_NO_CACHE_DIR": "1"}
    return Reader(clone, {**kept, **caches, "PATH": path, "PYTHONUNBUFFERED": "1"})


@dataclass
class Newcomer:
    """Types, waits and looks.

    Attributes:
        patience_s: longest time of a wait.
        seen: what was seen, and how many seconds after the beginning.
    """

    reader: Reader
    logs: Path
    patience_s: float = PATIENCE_S
    seen: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def until(self, what: str, look: Callable[[], Found]) -> Found:
        """Waits until a look shows something; notes when."""
        deadline = time.monotonic() + self.patience_s
        while not (found := look()):
            self._alive()
            assert time.monotonic() < deadline, f"not seen in {self.patience_s:.0f} s: {what}\n{self._told()[-4000:]}"
            time.sleep(0.5)
        self.seen[what] = time.monotonic() - self._began
        print(f"✓ {self.seen[what]:.0f} s: {what}", flush=True)
        return found

    @contextmanager
    def demo(self, step: Step) -> Iterator[Console]:
        """The demo in a terminal of its own, until Ctrl-C; its console, once it is told where."""
        self._log = self.logs / f"terminal-{len(self.seen)}.log"
        with self.reader.running(step.text.strip(), self._log, signal.SIGINT) as self._process:
            told = self.until(step.text.strip(), lambda: re.search(r"console: (http://\S+)/", self._told()))
            yield Console(told[1])
        assert self._process.returncode == 0, f"the demo ended with {self._process.returncode}\n{self._told()[-4000:]}"

    def _told(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _alive(self) -> None:
        assert self._process.poll() is None, self._told()[-4000:]


@dataclass(frozen=True)
class Console:
    """The page, and the JSON beside it."""

    address: str

    def text(self, path: str) -> str:
        """A page; nothing while there is none."""
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.address}{path}", timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def query(self) -> dict[str, Any]:
        """What it tells of the newcomer's query; nothing while it does not run."""
        return json.loads(self.text(f"/queries/{QUERY}/console.json") or "{}")

    def shows(self, *words: str) -> bool:
        """Whether all of it stands on the query's page."""
        page = self.text(f"/queries/{QUERY}/").lower()
        return all(word.lower() in page for word in words)

    def composite_event(self, version: int) -> bool:
        """Whether the page shows one that this version of the query found."""
        told = self.query()
        records = told.get("composite_events", {}).get("records", [])
        found = [record for record in records if record["version"] == version]
        return told.get("version") == version and bool(found) and self.shows(found[0]["fields"]["symbol"], "Recent composite events")

    def shedding(self) -> bool:
        """Whether the query sheds, and why is on its page."""
        told = self.query()
        begun = any(one["reason"] == "SHEDDING_BEGINS" for one in told.get("decisions", ()))
        return begun and any(told["last_hour"]["drop_ratio"]) and self.shows("shedding begins", "Drop ratio")

    def verdict(self) -> str:
        """The word of the newest verdict, once it is on the page."""
        records = self.query().get("verdicts", {}).get("records", [])
        word = str(records[0]["verdict"]).replace("_", " ").lower() if records else ""
        return word if word and self.shows("Verdicts", word) else ""


def follow(newcomer: Newcomer) -> None:
    """Does what the section says, and sees what it promises."""
    begin, query, check, change, tail, overload = typed()
    reader = newcomer.reader
    with newcomer.demo(begin) as console:
        reader.follow(query)
        reader.follow(check)
        newcomer.until("a composite event of the new query in the console", lambda: console.composite_event(1))
        newcomer.until("the query on the first page", lambda: f'href="/queries/{QUERY}/"' in console.text("/"))
        reader.follow(change)
        newcomer.until("a composite event of the changed query in the console", lambda: console.composite_event(2))
        ((command, told),) = tail.commands()
        newcomer.until(command, lambda: agrees(reader.run(command), told))
    with newcomer.demo(overload) as console:
        newcomer.until("the query sheds, and the console says why", console.shedding)
        newcomer.until("a verdict on a composite event in the console", console.verdict)


def main(arguments: list[str]) -> int:
    """What ``python3 -m tests.newcomer`` does; returns the exit code."""
    if arguments not in ([], ["--fresh"]):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 64
    with tempfile.TemporaryDirectory(prefix="cep-newcomer-") as name:
        folder = Path(name)
        reader = fresh(folder) if arguments else at_home(folder)
        follow(Newcomer(reader, folder, FRESH_S if arguments else PATIENCE_S))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
