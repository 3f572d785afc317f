"""Why an event is not taken, or a match is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.cep.why_not.plain_events import Seen
from app.cep.why_not.plain_run import Run

Cause = Literal["type", "key", "test", "window", "gap", "strategy", "different", "predicate", "negation", "until"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an event is not taken, or a match is none. ``event``: the one that is not taken, or that prevents."""

    cause: Cause
    text: str
    event: Seen | None = None


@dataclass(frozen=True, slots=True)
class Met:
    """What becomes of a partial match at an event: those that took it, itself if it passed, the reason if it did not."""

    taken: tuple[Run, ...]
    passed: Run | None
    over: Reason | None = None
