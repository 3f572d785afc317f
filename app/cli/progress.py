"""Progress of long work on standard error, for people only: nothing when it is not a terminal."""

from __future__ import annotations

import sys
import time

PAUSE_S = 0.2
"""Between two updates: more often is not seen, and costs."""


class Progress:
    """One line that is written over; gone at the end.

    Args:
        verb: what is being done.
        total: of what `advance` counts.
    """

    def __init__(self, verb: str, total: int) -> None:
        self._verb = verb
        self._total = max(1, total)
        self._done = 0
        self._visible = sys.stderr.isatty()
        self._next = time.monotonic() + PAUSE_S
        self._started = time.monotonic()

    def advance(self, count: int) -> None:
        """So much more is done."""
        self._done += count
        now = time.monotonic()
        if self._visible and now >= self._next:
            self._next = now + PAUSE_S
            rate = self._done / (now - self._started)
            print(f"\r{self._verb} {self._done:,} of {self._total:,} ({rate:,.0f}/s) ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Takes the line away."""
        if self._visible and self._done:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
