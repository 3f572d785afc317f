"""Is the application alive, started, ready? Named checks, asked when somebody asks.

A check returns None when all is well, else the reason in a few words. Liveness never looks at batches: a slow batch is no reason to be killed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Check = Callable[[], str | None]
Question = Literal["livez", "readyz", "startupz"]
QUESTIONS: tuple[Question, ...] = ("livez", "readyz", "startupz")


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a question: good or not, and one line per check."""

    good: bool
    lines: tuple[str, ...]


class Pulse:
    """The heartbeat of a loop: it comes by, and somebody looks how long ago that was."""

    def __init__(self, clock_s: Callable[[], float], timeout_s: float) -> None:
        self._clock_s = clock_s
        self._timeout_s = timeout_s
        self._last_s = clock_s()

    def beat(self) -> None:
        """The loop comes by."""
        self._last_s = self._clock_s()

    def check(self) -> str | None:
        """A `Check`: bad when the loop has not come by for too long."""
        silent = self._clock_s() - self._last_s
        return None if silent <= self._timeout_s else f"main loop silent for {silent:.0f} s"


class Flag:
    """Something that has to happen, or to stay true: starts with a reason why it is not."""

    def __init__(self, reason: str) -> None:
        self._reason: str | None = reason

    def good(self) -> None:
        """It happened."""
        self._reason = None

    def bad(self, reason: str) -> None:
        """It is no longer so."""
        self._reason = reason

    def check(self) -> str | None:
        """A `Check`."""
        return self._reason


class Health:
    """All checks by question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks: dict[Question, dict[str, Check]] = {question: {} for question in QUESTIONS}

    def add(self, question: Question, name: str, check: Check) -> None:
        """Adds a check, or replaces the one of this name."""
        with self._lock:
            self._checks[question][name] = check

    def ask(self, question: Question) -> Answer:
        """Runs the checks of a question; one that raises is bad."""
        with self._lock:
            checks = dict(self._checks[question])
        reasons = {name: _reason(check) for name, check in checks.items()}
        lines = tuple(f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}" for name, reason in reasons.items())
        return Answer(all(reason is None for reason in reasons.values()), lines)


class Probes:
    """What the driver answers to all three questions from the first second on, with the flags behind it.

    Args:
        clock_s: for the pulse.
        liveness_timeout_s: how long the main loop may be silent.

    Attributes:
        started: Spark's context is up, executors were waited for, and the query has begun.
        running: the streaming query runs.
        first_batch: one is finished.
        moving: no batch has stalled; good until somebody says otherwise.
        pulse: of the main loop.
        health: the checks.
    """

    def __init__(self, clock_s: Callable[[], float], liveness_timeout_s: float) -> None:
        self.started, self.running, self.first_batch = (
            Flag("Spark is starting"),
            Flag("no query runs yet"),
            Flag("no batch is finished yet"),
        )
        self.moving = Flag("")
        self.moving.good()
        self.pulse = Pulse(clock_s, liveness_timeout_s)
        self.health = Health()
        self.health.add("readyz", "moving", self.moving.check)
        self.health.add("livez", "main-loop", self.pulse.check)
        self.health.add("startupz", "spark", self.started.check)
        for name, check in (("spark", self.started.check), ("query", self.running.check), ("first-batch", self.first_batch.check)):
            self.health.add("readyz", name, check)


def _reason(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever a check raises is the answer
        return f"{type(error).__name__}: {error}"
