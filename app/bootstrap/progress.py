"""Lines for the person who waits: what is done, how far it is, how long it took. Steps may go on side by side; they share the last line of a terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TERMINAL_WIDTH = 110
_QUIET_SECONDS = 10.0
"""Without a terminal (CI logs) steps in progress print at most one line per this time."""
_BAR = 20

_active: list[Progress] = []
_printing = threading.RLock()


def on_terminal() -> bool:
    """Whether a line may be written over: not in files and pipes, and not where somebody wants plain text (NO_COLOR, TERM=dumb)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Progress:
    """One step under way; a thread keeps its line fresh, so that a long silence of pip does not look like the end."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = time.monotonic()
        self._detail = ""
        self._over = threading.Event()
        with _printing:
            _active.append(self)
        threading.Thread(target=self._refresh, daemon=True).start()

    def tell(self, detail: str) -> None:
        """Say how far the step is; shown within a second on a terminal, within ten elsewhere."""
        self._detail = detail

    def tell_share(self, done: int, total: int) -> None:
        """Say how far the step is, as a bar."""
        filled = _BAR * done // max(1, total)
        self.tell(f"[{'=' * filled}{' ' * (_BAR - filled)}] {done} of {total}")

    def finish(self, mark: str, detail: str) -> None:
        """Leave a line that stays."""
        self._over.set()
        with _printing:
            _active.remove(self)
            elapsed = time.monotonic() - self.started
            say(f"{mark} {self.title}{': ' + detail if detail else ''} ({elapsed:.1f} s)")

    def line(self) -> str:
        """How far it is."""
        return f"{self.title}{': ' + self._detail if self._detail else ''} ({time.monotonic() - self.started:.0f} s)"

    def _refresh(self) -> None:
        while not self._over.wait(1.0 if on_terminal() else _QUIET_SECONDS):
            with _printing:
                if _active and _active[0] is self:  # the oldest one speaks for all
                    line = "… " + " · ".join(one.line() for one in _active)
                    if on_terminal():
                        print(f"\r\x1b[K{line[:_TERMINAL_WIDTH]}", end="", file=sys.stderr, flush=True)
                    else:
                        print(line, file=sys.stderr, flush=True)


@contextmanager
def step(title: str, detail: str = "") -> Iterator[Progress]:
    """A step that may take long: announced, timed, its end or failure told."""
    say(f"→ {title}{': ' + detail if detail else ''}")
    progress = Progress(title)
    try:
        yield progress
    except BaseException as error:
        progress.finish("✗", "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    progress.finish("✓", "")


def say(text: str) -> None:
    """One line on stderr that stays."""
    with _printing:
        print(f"\r\x1b[K{text}" if on_terminal() else text, file=sys.stderr, flush=True)
