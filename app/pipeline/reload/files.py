"""Watched files: what they are now, and whether they have settled. Polled, since notifications do not cross NFS, and a ConfigMap's files change by a symbolic link."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from app.owners.models import SUFFIX
from app.query.compile import query_files


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when it was looked at.

    Attributes:
        real: where its symbolic links lead; a mounted ConfigMap exchanges one of them for all its files at once.
        modified_ns: its time of modification; None: it is not there.
    """

    path: Path
    real: Path | None = None
    modified_ns: int | None = None
    size: int = 0
    inode: int = 0


Look = tuple[Seen, ...]


def look(queries: Iterable[Path], models: Path | None = None, others: Iterable[Path] = ()) -> Look:
    """All watched files now.

    Args:
        queries: files and folders, as in the settings.
        models: the folder of models.
        others: single files.
    """
    try:
        found = [*query_files(queries), *(() if models is None else sorted(models.glob(f"*{SUFFIX}"))), *others]
    except OSError:  # a folder went while it was read
        return ()
    return tuple(_seen(path) for path in found)


def _seen(path: Path) -> Seen:
    try:
        real = path.resolve(strict=True)
        known = real.stat()
    except (OSError, RuntimeError):  # gone, or a circle of links
        return Seen(path)
    return Seen(path, real, known.st_mtime_ns, known.st_size, known.st_ino)


@dataclass(slots=True)
class Settling:
    """Says when a change is to be read: once it has been the same on two looks, and once only.

    >>> settling, a, b = Settling(), (Seen(Path("a")),), (Seen(Path("b")),)
    >>> [settling.is_due(one) for one in (a, a, a, b, a, b, b, b)]
    [False, True, False, False, False, False, True, False]
    """

    _last: Look | None = None
    _read: Look | None = field(default=None)

    def is_due(self, now: Look) -> bool:
        """Whether this is a change that has settled; from then on it counts as read."""
        settled, self._last = now == self._last, now
        if not settled or now == self._read:
            return False
        self._read = now
        return True

    def again(self) -> None:
        """What was read last is to be read once more."""
        self._read = None
