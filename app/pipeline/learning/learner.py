"""The driver's thread that has models learned: every so often a process of its own, whose choices the watcher of the query files puts into the next deployment."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from app.config.secret_variables import is_secret
from app.config.settings import Settings
from app.control.plane import ControlPlane
from app.observe.logs import get_logger, log_failure
from app.owners.models import WITHOUT_MODEL, learns
from app.pipeline.learning.child import BEGUN, ERROR, TOLD
from app.pipeline.learning.rounds import Outcome, Wish
from app.query.plan import Plan

JOIN_S = 10.0
LONGEST_S = 7200.0
"""Of one step of one query: a contest matches some seventy times without shedding, and where that grows beyond all measure the others would never have their turn."""
LAST_WORDS = 2000
"""Characters of what a process that failed has said."""

log = get_logger(__name__)


class Limit:
    """Ends something that says nothing for too long.

    Args:
        seconds: since `begin`, which may be called again and again.
        ended: ends it.
    """

    def __init__(self, seconds: float, ended: Callable[[], None]) -> None:
        self._seconds, self._ended = seconds, ended
        self.reached = False
        self._timer = self._started()

    def begin(self) -> None:
        """From now on."""
        self._timer.cancel()
        self._timer = self._started()

    def end(self) -> None:
        """Nothing is ended any more."""
        self._timer.cancel()

    def _started(self) -> threading.Timer:
        timer = threading.Timer(self._seconds, self._reach)
        timer.daemon = True
        timer.start()
        return timer

    def _reach(self) -> None:
        self.reached = True
        self._ended()


@dataclass(slots=True)
class Learner:
    """Has models learned until it is stopped.

    Attributes:
        settings: of the application.
        plane: knows what runs, and counts.
        longest_s: how long the process may say nothing.
    """

    settings: Settings
    plane: ControlPlane
    longest_s: float = LONGEST_S
    stopped: threading.Event = field(default_factory=threading.Event)
    _process: subprocess.Popen[bytes] | None = None
    _said: dict[str, str] = field(default_factory=dict)
    _in_work: str | None = None
    """The query that the process looks at, or looked at when it ended."""
    _nothing_in: int | None = None
    """A generation of queries none of which wants a model."""

    def run(self) -> None:
        """A round after every pause. Nothing that happens here ends the application."""
        learning = self.settings.learning
        pause_ms = learning.first
        while not self.stopped.wait(pause_ms / 1000):
            pause_ms = learning.every
            running = self.plane.catalog
            if running is None or running.catalog.version == self._nothing_in or not any(map(sheds, running.catalog.plans)):
                continue
            try:
                if not self._round(self._wish(running.deployment)):
                    self._nothing_in = running.catalog.version
            except Exception as error:  # noqa: BLE001 - shedding goes on with what there is
                log_failure(log, "models could not be learned; it is tried again", error)

    def stop(self) -> None:
        """Ends a round that goes on."""
        self.stopped.set()
        process = self._process
        if process is not None:
            process.terminate()

    def _round(self, wish: Wish) -> bool:
        """Whether there was anything to be learned, or it cannot be known."""
        told = 0
        command = [sys.executable, "-m", "app.pipeline.learning.child"]
        with (
            tempfile.TemporaryFile() as words,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, env=_environment()) as process,
        ):
            self._process = process
            if self.stopped.is_set():
                process.terminate()
            assert process.stdin is not None  # noqa: S101 - asked for
            assert process.stdout is not None  # noqa: S101 - asked for
            with process.stdin as way:
                pickle.dump((self.settings, wish), way)
            limit = Limit(self.longest_s, process.terminate)
            for line in process.stdout:
                told += 1
                limit.begin()
                self._take(json.loads(line))
            limit.end()
            code, self._process = process.wait(), None
            if code and not self.stopped.is_set():
                words.seek(0)
                said = words.read()[-LAST_WORDS:].decode(errors="replace")
                if self._in_work is not None:
                    why = f"took longer than {self.longest_s:.0f} s" if limit.reached else "ended"
                    what = f"the process that learns models {why}; the next round begins behind this query"
                    log.warning(what, query=self._in_work, code=code, said=said)
                elif said:
                    log.warning("the process that learns models ended before any query", code=code, said=said)
                self._count_failure()
        return bool(told or code)

    def _wish(self, deployment: str) -> Wish:
        """Of a round: nobody is looked at yet."""
        behind, self._in_work = self._in_work, None
        return Wish(behind=behind, deployment=deployment)

    def _count_failure(self) -> None:
        """Of the query that was looked at, or of all that go by a model or wait for one where it did not come to any: who waits sheds at random."""
        running = self.plane.catalog
        waiting = (
            []
            if running is None
            else [plan.name for plan in running.catalog.plans if sheds(plan) and (learns(plan) or plan.shedding.shedder == WITHOUT_MODEL)]
        )
        for query in waiting if self._in_work is None else [self._in_work]:
            self.plane.metrics.add("cep_learning_total", 1, query=query, outcome="failed")

    def _take(self, line: dict[str, Any]) -> None:
        if BEGUN in line:
            self._in_work = line[BEGUN]
        elif TOLD in line:
            log.debug("learning", progress=line[TOLD])
        elif ERROR in line:
            log.warning("models could not be learned; it is tried again", reason=line[ERROR])
        else:
            outcome = Outcome.from_plain(line)
            self._in_work = None
            self.plane.metrics.add("cep_learning_total", 1, query=outcome.query, outcome=outcome.result.replace(" ", "_"))
            version = None if outcome.learned is None else outcome.learned.version
            failed = outcome.result == "failed"
            saying = f"{outcome.result}: {outcome.text}" if failed else outcome.result
            fresh = self._said.get(outcome.query) != saying  # what stays as it is every ten minutes is said once
            self._said[outcome.query] = saying
            say = log.warning if failed and fresh else log.info if version is not None or fresh else log.debug
            say("model " + outcome.result, query=outcome.query, version=version, detail=outcome.text, seconds=outcome.seconds)


def sheds(plan: Plan) -> bool:
    """Whether the query sheds at all, and is not on its way out."""
    return plan.shedding.latency_bound_ms is not None and plan.draining is None


def _environment() -> dict[str, str]:
    """Ours, in which `app.pipeline.session` says where the application is, without secrets: these come with the settings."""
    return {name: value for name, value in os.environ.items() if not is_secret(name, value)}


@contextmanager
def learning(settings: Settings, plane: ControlPlane) -> Iterator[None]:
    """Has models learned while the block runs, if the settings want it."""
    if not settings.learning.enabled:
        yield
        return
    learner = Learner(settings, plane)
    thread = threading.Thread(target=learner.run, name="learner", daemon=True)
    thread.start()
    try:
        yield
    finally:
        learner.stop()
        thread.join(timeout=JOIN_S)
