"""One driver per checkpoint."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.config.addresses import FolderAddress
from app.config.settings import Settings
from app.errors import CheckpointTakenError, ConfigurationError, Finding


@contextmanager
def sole_driver(settings: Settings) -> Iterator[None]:
    """Holds the checkpoint for this driver: two on one checkpoint would corrupt it.

    Raises:
        CheckpointTakenError: another driver holds it.
        ConfigurationError: the folder cannot be written.
    """
    address = settings.checkpoint.address
    if not isinstance(address, FolderAddress):
        yield  # object stores have no locks; the chart runs one replica
        return
    folder = Path(address.path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "driver.lock").open("w")
    except OSError as error:
        finding = Finding(
            f"checkpoint.path: cannot write to {folder}: {(error.strerror or str(error)).lower()}",
            hint="name a folder that survives the driver",
        )
        raise ConfigurationError([finding]) from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CheckpointTakenError(
                f"another driver works on the checkpoint {folder}\nhint: stop it first, or name another checkpoint.path"
            ) from error
        yield
