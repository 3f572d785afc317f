"""A copy of a checkpoint."""

from __future__ import annotations

from app.errors import CepError
from app.storage.store import Store

PIECE_BYTES = 64 << 20


class ForkError(CepError):
    """The checkpoint cannot be copied there."""


def fork(source: Store, target: Store) -> tuple[int, int]:
    """Copies all files; returns how many, and their bytes.

    Raises:
        ForkError: there is something already.
        StorageError: a file cannot be read or written.
    """
    if held := target.names():
        raise ForkError(f"{target.uri} holds {len(held)} files already, {held[0].name} first\nhint: name an empty place")
    files = source.names()
    for file in files:
        pieces = range(0, file.size, PIECE_BYTES)
        target.write(file.name, (source.read_range(file.name, at, min(PIECE_BYTES, file.size - at)) for at in pieces))
    return len(files), sum(file.size for file in files)
