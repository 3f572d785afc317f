"""Can a checkpoint be kept there? Tried out, by ``cep run``; `app.storage.check` looks without touching."""

from __future__ import annotations

import uuid

from app.config.addresses import Address, FolderAddress
from app.errors import ConfigurationError, DependencyError, Finding
from app.storage.check import HINT
from app.storage.open import open_store
from app.storage.store import StorageAwayError, StorageError


def try_out(address: Address) -> None:
    """Writes, reads and deletes a file.

    Raises:
        ConfigurationError: a folder that cannot be written to.
        DependencyError: a folder whose disk is away or full, a bucket that cannot be reached or used.
    """
    store, name, content = open_store(address.uri), f"probe-{uuid.uuid4().hex}", b"can be written and read"
    try:
        store.write(name, [content])
        found = store.read(name)
        store.delete([name])
    except StorageError as error:
        if isinstance(address, FolderAddress):
            if isinstance(error, StorageAwayError):
                raise
            raise ConfigurationError([Finding(f"checkpoint.path: {error}", hint=HINT)]) from error
        hint = "are bucket, endpoint and region right, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the pod's role) allowed to use them?"
        raise DependencyError(f"checkpoint.path: {error}\nhint: {hint}") from error
    if found != content:
        raise DependencyError(f"checkpoint.path: {store.uri} does not give back what was written to it")
