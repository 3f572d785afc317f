"""A child process that writes to a log file, ends when told to, and dies with us."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from app.errors import DependencyError

_TETHER = Path(__file__).with_name("tether.py")
_POLL_SECONDS = 0.05
_LOG_TAIL_LINES = 15


class Child:
    """A child process in a session of its own: Ctrl-C in the terminal reaches us only, and we end it in the right order.

    Start it from a thread that lives as long as it shall (Linux ties it to the thread, not to the process).
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str | None] | None = None) -> None:
        """Starts it.

        Args:
            name: for messages.
            command: the program and what it is given.
            log: file that both its outputs are appended to.
            environment: variables beside ours, or (None) not to be handed on.
        """
        self.name = name
        self.log = log
        merged = {**os.environ, **(environment or {})}
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", str(_TETHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={variable: text for variable, text in merged.items() if text is not None},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Wait for a condition.

        Raises:
            DependencyError: the child ended, or the deadline passed; with the end of its log.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self.exit_code is not None:
                raise DependencyError(f"{self.name} ended with {self.exit_code} before it was ready{self._log_tail()}")
            if time.monotonic() > deadline:
                raise DependencyError(f"{self.name} was not ready after {seconds:.0f} s{self._log_tail()}")
            time.sleep(_POLL_SECONDS)

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it still runs after this time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def interrupt(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.exit_code is None:
            self._process.send_signal(number)

    def terminate(self, seconds: float = 15.0) -> int:
        """SIGTERM, then after the grace time SIGKILL; returns the exit code."""
        if self.exit_code is None:
            self._process.terminate()
            if self.wait(seconds) is None:
                self._process.kill()
        return self._process.wait()

    def kill(self) -> None:
        """SIGKILL, for tests of what happens then."""
        if self.exit_code is None:
            self._process.kill()
        self._process.wait()

    def _log_tail(self) -> str:
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        except OSError:
            return ""
        return f"; the end of {self.log}:\n" + "\n".join(f"    {line}" for line in lines)
