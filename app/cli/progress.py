"""Progress of long work on standard error, for people only: nothing when it is not a terminal."""

from __future__ import annotations

import atexit
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

PAUSE_S = 0.5
"""Before the bar is shown: what is done by then needs none."""


class Progress:
    """A bar that is gone at the end.

    Args:
        verb: what is being done.
        total: of what `advance` counts; 0: nobody knows.
    """

    def __init__(self, verb: str, total: int) -> None:
        self._verb = verb
        self._total = total or None
        self._done = 0
        self._started = time.monotonic()
        self._bar: Bar | None = None
        self._task = TaskID(0)
        self._visible = sys.stderr.isatty()

    def advance(self, count: int) -> None:
        """So much more is done."""
        self._done += count
        elapsed = time.monotonic() - self._started
        if not self._visible or elapsed < PAUSE_S:
            return
        if self._bar is None:
            self._bar = self._shown()
        rate = f"{self._done / elapsed:,.0f}/s"
        self._bar.update(self._task, completed=self._done, told=f"{self._done:,}", rate=rate)

    def _shown(self) -> Bar:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[told]} ({task.fields[rate]})"),
            TimeRemainingColumn(),
        )
        bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = bar.add_task(self._verb, total=self._total, told="", rate="")
        bar.start()
        atexit.register(self.end)  # whatever ends the command, the terminal gets its cursor back
        return bar

    def end(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
            atexit.unregister(self.end)
