"""The interface: whole files under relative names, seen whole or not at all, there to stay once they were written."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.errors import CepError, DependencyError

Part = bytes | bytearray | memoryview
LEFT_OVER_S = 3600
"""A draft that nobody wrote to for so long is a dead attempt's; a live one writes all the time."""


class StorageError(CepError):
    """A stored file cannot be read, written or listed; the text names the file."""


class MissingError(StorageError):
    """There is no file of this name."""


class StorageAwayError(StorageError, DependencyError):
    """The storage does nothing for us now: its server is away, or its disk is full. Says nothing about the file, which may be whole."""


@dataclass(frozen=True, slots=True, order=True)
class Stored:
    """One file of a listing."""

    name: str
    """From the store's root, as `Store.read` takes it."""
    size: int
    """Bytes."""


class Store(Protocol):
    """Files below one root. Names are relative, with slashes: ``state/bucket-3/log-000000000007-12.bin``; no part begins with a dot.

    Every file is written once and whole: readers (of this and of other machines) see all of it or nothing, and when a write has returned,
    the file survives a crash of this machine. Writing a name again replaces the file; attempts at the same time do not mix: one of them wins.
    Safe to use from several threads. Open it in the process that uses it: a client of S3 does not survive a fork.

    All methods raise `StorageError` when the storage does not do what it should, with the name in the text.
    """

    @property
    def uri(self) -> str:
        """What `app.storage.open.open_store` took."""

    def write(self, name: str, parts: Iterable[Part]) -> int:
        """Writes a file of these parts, one after the other; returns its bytes. If the parts raise, nothing was written."""

    def write_file(self, name: str, path: Path) -> int:
        """Makes a file that lies in `scratch` a file of the store; returns its bytes. The local file is gone afterwards."""

    def sync(self, names: Iterable[str]) -> None:
        """Makes files that somebody else has written (Spark, which syncs nothing) survive a crash of this machine, and their checksums beside them. What is not there is left out."""

    def read(self, name: str) -> bytes:
        """All of a file.

        Raises:
            MissingError: there is none of this name.
        """

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Exactly ``length`` bytes from ``offset`` on.

        Raises:
            MissingError: there is no file of this name.
            StorageError: it ends before.
        """

    def names(self, folder: str = "") -> list[Stored]:
        """All files below a folder, at any depth, by name; none if there is no such folder. Files that begin with a dot are not shown."""

    def delete(self, names: Iterable[str]) -> None:
        """Deletes files. One that is not there is deleted already."""

    def scratch(self) -> Path:
        """A local folder for files that `write_file` will take; whoever makes one chooses a name that nobody else has."""

    def sweep(self) -> int:
        """Deletes what dead attempts left over an hour ago; returns how many files."""


def checked(name: str) -> str:
    """The name, if it is one.

    >>> checked("state/bucket-3/log.bin")
    'state/bucket-3/log.bin'

    Raises:
        StorageError: absolute, with empty parts, or with parts that begin with a dot.
    """
    if "\0" in name or any(not part or part.startswith(".") for part in name.split("/")):
        raise StorageError(f'"{name}" is no name of a stored file')
    return name


_AWAY = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EDQUOT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENOSPC,
        errno.ENOTCONN,
        errno.EREMOTEIO,
        errno.ESTALE,
        errno.ETIMEDOUT,
        None,  # an object store's answer, or that it gave none
    }
)
"""What the system says where a later attempt may go well and the file may be whole. A block that cannot be read (EIO) is damage."""
_HINTS = {
    errno.ENOSPC: "make room there; nothing of the file was kept",
    errno.EDQUOT: "raise the quota; nothing of the file was kept",
    errno.EACCES: "who runs the application needs the right to read and write there",
    errno.EPERM: "who runs the application needs the right to read and write there",
    errno.EEXIST: "a file lies where a folder should be",
    errno.EROFS: "mount it writable, or name another place in checkpoint.path",
    errno.EXDEV: "make the file in the folder that scratch() names",
    errno.ESTALE: "the volume went away under the application; is its server up?",
}


def failure(what: str, name: str, uri: str, error: OSError) -> StorageError:
    """The error to raise for what the system said, in words for an operator."""
    reason = (error.strerror or str(error)).strip()
    hint = _HINTS.get(error.errno or 0)
    kind = StorageAwayError if error.errno in _AWAY else StorageError
    return kind(f"cannot {what} {name or 'the folder'} in {uri}: {reason[:1].lower()}{reason[1:]}" + (f"\nhint: {hint}" if hint else ""))


def too_short(name: str, uri: str, size: int, wanted: int) -> StorageError:
    """The error to raise for a range that goes beyond the end."""
    return StorageError(f"cannot read {name} in {uri} up to byte {wanted}: it has {size}")


@contextmanager
def failing(what: str, name: str, uri: str) -> Iterator[None]:
    """What the system says in here is told in words for an operator: `MissingError` for a file that is not there to be read, else `failure`."""
    try:
        yield
    except FileNotFoundError as error:
        if what == "read":
            raise MissingError(f"there is no {name} in {uri}") from error
        raise failure(what, name, uri, error) from error
    except OSError as error:
        raise failure(what, name, uri, error) from error
