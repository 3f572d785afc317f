"""Snapshots beside the batches: a forked child writes the state as it is at that moment, while its owner goes on.

The child shares the owner's memory page by page until one of them writes, so nothing is copied beforehand and no batch waits. It writes a local draft
and ends; the owner makes the draft a file of the checkpoint (`app.storage`), because neither clients of S3 nor connections survive a fork.
What earlier snapshots hold is not written again (`app.owners.blocks`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from app.bucket.bucket import Bucket
from app.errors import CepError
from app.observe.logs import get_logger
from app.owners.blocks import Cut, Known, assembled, cut_up, known_of
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

CHILD_S = 900.0
"""A fork of a process with threads can find a lock taken for ever; then there is no snapshot this time."""
CHILD_PAUSE_S = 0.05

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A bucket's state after a batch, what it ran then, and what the next snapshot need not write again."""

    deployment: str
    parts: Mapping[str, memoryview]
    known: Known

    @property
    def size(self) -> int:
        """Bytes of the state."""
        return sum(map(len, self.parts.values()))


@dataclass(frozen=True, slots=True)
class Written:
    """A snapshot that is safe.

    Attributes:
        size: bytes of its file.
        known: for the next one.
    """

    size: int
    known: Known


def is_due(entries: int, entry_bytes: int, snapshot_bytes: int, spread: int = 0) -> bool:
    """Whether the log has outgrown the last snapshot.

    Args:
        entries: of the log since then.
        entry_bytes: of these.
        snapshot_bytes: of the last snapshot.
        spread: of the bucket, 0 to 255; takes a part of the entries away, so that buckets are not all due at once.
    """
    return entry_bytes > max(AFTER_BYTES, snapshot_bytes) or entries >= AFTER_ENTRIES - spread


def read_snapshot(state: StateLog, generation: Generation) -> Snapshot:
    """Reads a generation, and of other snapshots the blocks that it names.

    Raises:
        StorageError, SnapshotError: it is missing or damaged.
    """
    name = state.snapshot_name(generation)
    head, *own = read_frame(state.store, name, SNAPSHOT).parts
    files = orjson.loads(head)["files"]
    state.remember(generation, files)
    others = {file: (lambda file=file: read_frame(state.store, file, SNAPSHOT).parts[1:]) for file in files[1:]}
    return Snapshot(orjson.loads(head)["deployment"], assembled(head, own, others), known_of(head, generation.size))


def cut_snapshot(name: str, deployment: str, bucket: Bucket, known: Known) -> Cut:
    """A bucket's state, as it is to be written under a name."""
    return cut_up(name, bucket.snapshot_parts(), known, deployment=deployment)


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

    def write(self, name: str, make: Callable[[], Cut], done: Callable[[Written], None]) -> None:
        """Begins to write a snapshot.

        Args:
            name: of the file in the store.
            make: cuts the state; called in the child.
            done: told when it is safe; called in a thread.
        """
        draft = self._store.scratch() / f"snapshot-{os.getpid()}-{time.monotonic_ns()}"
        child = os.fork()
        if child == 0:
            _write_and_end(draft, make)
        self._running = threading.Thread(target=self._publish, args=(child, draft, name, done), name="snapshot", daemon=True)
        self._running.start()

    def wait(self) -> None:
        """Until the snapshot that is on its way is safe, or has failed."""
        if self._running is not None:
            self._running.join()

    def _publish(self, child: int, draft: Path, name: str, done: Callable[[Written], None]) -> None:
        status = _ended(child)
        try:
            if status != 0:
                log.error("snapshot not written", file=name, status=os.waitstatus_to_exitcode(status))
                return
            head = _head_of(draft).read_bytes()
            size = self._store.write_file(name, draft)
            done(Written(size, known_of(head, size)))
        except (CepError, OSError) as error:
            log.error("snapshot not written", file=name, reason=str(error))  # noqa: TRY400 - the reason is told whole
        finally:
            for file in (draft, _head_of(draft)):
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)


def _ended(child: int) -> int:
    """Waits for the child, not for ever; its wait status."""
    deadline = time.monotonic() + CHILD_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(CHILD_PAUSE_S)


def _head_of(draft: Path) -> Path:
    """Beside the draft, what the owner must know of it."""
    return draft.with_suffix(".head")


def _write_and_end(draft: Path, make: Callable[[], Cut]) -> None:
    """The child's life. No connection may stay open in it: whoever waits for the owner's end would not see it."""
    code = 1
    try:
        os.closerange(3, 1 << 16)
        os.nice(NICENESS)
        cut = make()
        _head_of(draft).write_bytes(cut.head)
        with draft.open("wb") as file:
            for part in framed(SNAPSHOT, FORMAT, [cut.head, *cut.fresh]):
                file.write(part)
        code = 0
    except BaseException:  # noqa: BLE001 - the owner knows the exit code only
        traceback.print_exc()
    finally:
        os._exit(code)
