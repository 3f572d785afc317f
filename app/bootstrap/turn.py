"""One at a time: two processes that need the same folder take turns, and a dead one never blocks the next."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.bootstrap.progress import say


@contextmanager
def exclusive(lock_file: Path) -> Iterator[None]:
    """Hold an advisory lock on the file while the block runs; the kernel frees it if the process dies."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"… another process is at work here, waiting for it ({lock_file})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
