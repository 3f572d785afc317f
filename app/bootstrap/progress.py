"""Lines for the person who waits: what is done, how far it is, how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_TERMINAL_WIDTH = 110
_QUIET_SECONDS = 10.0
"""Without a terminal (CI logs) a step in progress prints at most one line per this time."""


class Progress:
    """One step under way; :meth:`tell` replaces the line on a terminal and is rationed elsewhere."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._last_line = self.started

    def tell(self, detail: str) -> None:
        """Show how far the step is."""
        now = time.monotonic()
        line = f"… {self.title}: {detail} ({now - self.started:.0f} s)"
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{line[:_TERMINAL_WIDTH]}")
            sys.stderr.flush()
        elif now - self._last_line >= _QUIET_SECONDS:
            self._last_line = now
            print(line, file=sys.stderr, flush=True)

    def finish(self, mark: str, detail: str) -> None:
        """Leave a line that stays."""
        clear = "\r\x1b[K" if self._terminal else ""
        elapsed = time.monotonic() - self.started
        print(f"{clear}{mark} {self.title}{': ' + detail if detail else ''} ({elapsed:.1f} s)", file=sys.stderr, flush=True)


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
