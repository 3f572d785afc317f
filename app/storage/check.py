"""Can a checkpoint be kept there? Looked at without touching it (``cep validate``), or tried out (``cep run``)."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from app.config.addresses import Address, FolderAddress
from app.errors import ConfigurationError, DependencyError, Finding, Severity
from app.storage.open import open_store
from app.storage.store import StorageError

_HINT = "name a folder that survives the driver, and that who runs the application may write to"


def look(address: Address) -> list[Finding]:
    """What is wrong with a place as seen from this machine; nothing is made, no server is asked.

    A folder that is not there yet and cannot be made here is a warning: it may be another machine's.
    """
    if not isinstance(address, FolderAddress):
        return []
    folder = Path(address.path).absolute()
    nearest = next(above for above in (folder, *folder.parents) if above.exists())
    if not nearest.is_dir():
        return [Finding(f"checkpoint.path: {nearest} is no folder", hint=_HINT)]
    if os.access(nearest, os.W_OK | os.X_OK):
        return []
    if nearest == folder:
        return [Finding(f"checkpoint.path: cannot write to {folder}", hint=_HINT)]
    return [Finding(f"checkpoint.path: {folder} is not there and cannot be made here", hint=_HINT, severity=Severity.WARNING)]


def try_out(address: Address) -> None:
    """Writes, reads and deletes a file.

    Raises:
        ConfigurationError: a folder that cannot be written to.
        DependencyError: a bucket that cannot be reached or used.
    """
    store, name, content = open_store(address.uri), f"probe-{uuid.uuid4().hex}", b"can be written and read"
    try:
        store.write(name, [content])
        found = store.read(name)
        store.delete([name])
    except StorageError as error:
        if isinstance(address, FolderAddress):
            raise ConfigurationError([Finding(f"checkpoint.path: {error}", hint=_HINT)]) from error
        hint = "are bucket, endpoint and region right, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the pod's role) allowed to use them?"
        raise DependencyError(f"checkpoint.path: {error}\nhint: {hint}") from error
    if found != content:
        raise DependencyError(f"checkpoint.path: {store.uri} does not give back what was written to it")
