"""Snapshots beside the batches: a forked child writes the state as it is at that moment, while its owner goes on.

The child shares the owner's memory page by page until one of them writes, so nothing is copied beforehand and no batch waits. It writes a local draft
and ends; the owner makes the draft a file of the checkpoint (`app.storage`), because neither clients of S3 nor connections survive a fork.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from app.errors import CepError
from app.observe.logs import get_logger
from app.owners.state_log import FORMAT, SNAPSHOT, Generation, StateLog
from app.storage.frames import framed, read_frame
from app.storage.store import Store

AFTER_BYTES = 64 << 20
"""Of log since the last snapshot: about a million events, a second or two of feeding again; but never less than the last snapshot's own size, so
that snapshots at most double what is written."""
AFTER_ENTRIES = 1024
"""Bounds what a new owner must feed again, however quiet the input was: 2 s at 2 ms per small entry."""
NICENESS = 15
"""A snapshot is in no hurry; batches are."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A bucket's state after a batch, and what it ran then."""

    deployment: str
    state: memoryview


def is_due(entries: int, entry_bytes: int, snapshot_bytes: int, spread: int = 0) -> bool:
    """Whether the log has outgrown the last snapshot.

    Args:
        entries: of the log since then.
        entry_bytes: of those entries.
        snapshot_bytes: of the last snapshot.
        spread: of the bucket, 0 to 255; takes a part of the entries away, so that buckets are not all due at once.
    """
    return entry_bytes > max(AFTER_BYTES, snapshot_bytes) or entries >= AFTER_ENTRIES - spread


def read_snapshot(state: StateLog, generation: Generation) -> Snapshot:
    """Reads a generation.

    Raises:
        StorageError, SnapshotError: it is missing or damaged.
    """
    head, data = read_frame(state.store, state.snapshot_name(generation), SNAPSHOT).parts
    return Snapshot(orjson.loads(head)["deployment"], data)


def snapshot_parts(deployment: str, state: bytes) -> list[bytes]:
    """What `read_snapshot` reads."""
    return [orjson.dumps({"deployment": deployment}), state]


class SnapshotWriter:
    """Writes one snapshot at a time. For one thread.

    Args:
        store: the checkpoint.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a snapshot is on its way."""
        return self._running is not None and self._running.is_alive()

    def write(self, name: str, parts: Callable[[], Sequence[bytes]], done: Callable[[int], None]) -> None:
        """Begins to write a snapshot.

        Args:
            name: of the file in the store.
            parts: the state; called in the child.
            done: told its bytes when it is safe; called in a thread.
        """
        draft = self._store.scratch() / f"snapshot-{os.getpid()}-{time.monotonic_ns()}"
        child = os.fork()
        if child == 0:
            _write_and_end(draft, parts)
        self._running = threading.Thread(target=self._publish, args=(child, draft, name, done), name="snapshot", daemon=True)
        self._running.start()

    def wait(self) -> None:
        """Until the snapshot that is on its way is safe, or has failed."""
        if self._running is not None:
            self._running.join()

    def _publish(self, child: int, draft: Path, name: str, done: Callable[[int], None]) -> None:
        _, status = os.waitpid(child, 0)
        try:
            if status != 0:
                log.error("snapshot not written", file=name, status=os.waitstatus_to_exitcode(status))
                return
            done(self._store.write_file(name, draft))
        except CepError as error:
            log.error("snapshot not written", file=name, reason=str(error))  # noqa: TRY400 - the reason is told whole
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def _write_and_end(draft: Path, parts: Callable[[], Sequence[bytes]]) -> None:
    """The child's life. No connection may stay open in it: whoever waits for the owner's end would not see it."""
    code = 1
    try:
        os.closerange(3, 1 << 16)
        os.nice(NICENESS)
        with draft.open("wb") as file:
            for part in framed(SNAPSHOT, FORMAT, parts()):
                file.write(part)
        code = 0
    finally:
        os._exit(code)
