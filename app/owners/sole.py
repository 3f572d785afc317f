"""One driver per checkpoint, and one reconciliation that publishes."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.config.addresses import FolderAddress
from app.config.settings import Settings
from app.errors import CepError, CheckpointTakenError, ConfigurationError, Finding
from app.storage.store import StorageAwayError, failure


@contextmanager
def sole_driver(settings: Settings) -> Iterator[None]:
    """Holds the checkpoint for this driver: two on one checkpoint would corrupt it.

    Raises:
        CheckpointTakenError: another driver holds it.
        ConfigurationError: the folder cannot be written, or its file system gives no locks.
        StorageAwayError: its disk is away, or full.
    """
    taken = "another driver works on the checkpoint {folder}\nhint: stop it first, or name another checkpoint.path"
    with _held(settings, "driver.lock", taken):
        yield


@contextmanager
def sole_reconciliation(settings: Settings) -> Iterator[None]:
    """Holds what stands on the topics for this reconciliation: two that compare with the same would both publish what is missing.

    Raises:
        CheckpointTakenError: another reconciliation holds it.
        ConfigurationError: the folder cannot be written, or its file system gives no locks.
        StorageAwayError: its disk is away, or full.
    """
    taken = "another reconciliation publishes for the checkpoint {folder}\nhint: wait for its end; --dry-run may run beside it"
    with _held(settings, "reconcile.lock", taken):
        yield


@contextmanager
def _held(settings: Settings, name: str, taken: str) -> Iterator[None]:
    """A lock in the checkpoint; whoever holds it is alone with it, until its process ends."""
    address = settings.checkpoint.address
    if not isinstance(address, FolderAddress):
        yield  # object stores have no locks; the chart runs one replica
        return
    folder = Path(address.path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / name).open("w")
    except OSError as error:
        raise _unfit(folder, name, "write to", error, "name a folder that survives the driver") from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CheckpointTakenError(taken.format(folder=folder)) from error
        except OSError as error:
            raise _unfit(folder, name, "lock a file in", error, "this file system gives no locks: name a folder on another") from error
        yield


def _unfit(folder: Path, name: str, what: str, error: OSError, hint: str) -> CepError:
    """The error to raise for what the system said: a disk that is away or full is for later, anything else for who has named the folder."""
    told = failure("write", name, str(folder), error)
    if isinstance(told, StorageAwayError):
        return told
    return ConfigurationError([Finding(f"checkpoint.path: cannot {what} {folder}: {(error.strerror or str(error)).lower()}", hint=hint)])
