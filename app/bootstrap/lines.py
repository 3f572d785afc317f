"""The output of a child process, line by line, and no child left behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def child_lines(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """Run a command and hand out its stripped lines (both outputs in one); whoever leaves early ends it.

    Yields:
        The process, whose exit code is known after the block, and its lines.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        try:
            yield process, (line.strip() for line in process.stdout or ())
        except BaseException:
            process.terminate()
            raise
