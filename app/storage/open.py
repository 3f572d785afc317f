"""The one door to storage: a text says where, this says with what."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from app.config.addresses import FolderAddress, parse_address
from app.errors import ConfigurationError, Finding
from app.storage.objects import ObjectStore
from app.storage.posix import PosixStore
from app.storage.store import Store


def open_store(uri: str, scratch: Path | None = None) -> Store:
    """The store at a folder (plain or ``file:``) or an S3 prefix (``s3://`` or ``s3a://``, options behind ``?``, see `app.config.addresses`).

    Nothing is asked or made before the first use.

    Args:
        uri: where; what `BucketAddress.uri` gives holds everything but credentials, which come from the usual environment variables.
        scratch: local folder for files on their way to S3; by default one below the system's temporary folder.

    Raises:
        ConfigurationError: another kind of place.
    """
    try:
        address = parse_address(uri)
    except ValueError as error:
        raise ConfigurationError([Finding(str(error))]) from error
    if isinstance(address, FolderAddress):
        return PosixStore(Path(address.path))
    return ObjectStore(address, scratch or Path(tempfile.gettempdir()) / f"cep-scratch-{os.getuid()}")
