"""Lines for the person who waits: what is done, how far it is, how long it took."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TERMINAL_WIDTH = 110
_QUIET_SECONDS = 10.0
"""Without a terminal (CI logs) a step in progress prints at most one line per this time."""


class Progress:
    """One step under way; a thread keeps its line fresh, so that a long silence of pip does not look like the end."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = time.monotonic()
        self._detail = ""
        self._terminal = sys.stderr.isatty()
        self._over = threading.Event()
        threading.Thread(target=self._refresh, daemon=True).start()

    def tell(self, detail: str) -> None:
        """Say how far the step is; shown within a second on a terminal, within ten elsewhere."""
        self._detail = detail

    def finish(self, mark: str, detail: str) -> None:
        """Leave a line that stays."""
        self._over.set()
        clear = "\r\x1b[K" if self._terminal else ""
        elapsed = time.monotonic() - self.started
        print(f"{clear}{mark} {self.title}{': ' + detail if detail else ''} ({elapsed:.1f} s)", file=sys.stderr, flush=True)

    def _refresh(self) -> None:
        while not self._over.wait(1.0 if self._terminal else _QUIET_SECONDS):
            line = f"… {self.title}{': ' + self._detail if self._detail else ''} ({time.monotonic() - self.started:.0f} s)"
            print(
                f"\r\x1b[K{line[:_TERMINAL_WIDTH]}" if self._terminal else line,
                end="" if self._terminal else "\n",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def step(title: str, detail: str = "") -> Iterator[Progress]:
    """A step that may take long: announced, timed, its end or failure told."""
    progress = Progress(title)
    print(f"→ {title}{': ' + detail if detail else ''}", file=sys.stderr, flush=True)
    try:
        yield progress
    except BaseException as error:
        progress.finish("✗", "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    progress.finish("✓", "")


def say(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr, flush=True)
