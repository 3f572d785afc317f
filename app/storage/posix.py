"""Files on a local disk or a shared volume: a draft per attempt, synced, renamed, and the folder synced.

Drafts lie together in ``.drafts`` below the root, each under a random name: two attempts never meet in one, a listing never shows one, and what
an attempt that was killed left behind is found in one place.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from app.storage.store import LEFT_OVER_S, Part, Stored, checked, failing, too_short

DRAFTS = ".drafts"
BUFFER = 1 << 20
"""Small parts are gathered up to so many bytes before they are written; larger ones go to the system as they are."""


class PosixStore:
    """A `Store` in a folder. The file system must rename atomically and know ``fsync`` (ext4, xfs, tmpfs, NFS, CephFS, EFS).

    Args:
        root: the folder; made at the first write.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._synced_folders: set[Path] = set()

    @property
    def uri(self) -> str:
        """The folder."""
        return str(self.root)

    def write(self, name: str, parts: Iterable[Part]) -> int:
        """See `Store.write`."""
        with self._failing("write", checked(name)):
            draft = self.scratch() / uuid.uuid4().hex
            try:
                with draft.open("xb", buffering=BUFFER) as file:
                    size = sum(file.write(part) for part in parts)
                    file.flush()
                    os.fsync(file.fileno())
                self._publish(draft, name)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            return size

    def write_file(self, name: str, path: Path) -> int:
        """See `Store.write_file`."""
        with self._failing("write", checked(name)):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                size = os.fstat(file.fileno()).st_size
            self._publish(path, name)
            return size

    def sync(self, names: Iterable[str]) -> None:
        """See `Store.sync`."""
        folders: dict[Path, None] = {}
        for name in names:
            path = self.root / checked(name)
            with self._failing("sync", name):
                for one in (path, path.with_name(f".{path.name}.crc")):
                    if _sync(one, os.O_RDONLY):
                        folders[path.parent] = None
        for folder in folders:
            _sync_folder(folder)

    def read(self, name: str) -> bytes:
        """See `Store.read`."""
        with self._failing("read", checked(name)):
            return (self.root / name).read_bytes()

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """See `Store.read_range`."""
        with self._failing("read", checked(name)), (self.root / name).open("rb") as file:
            file.seek(offset)
            data = file.read(length)
            size = os.fstat(file.fileno()).st_size
        if len(data) < length:
            raise too_short(name, self.uri, size, offset + length)
        return data

    def names(self, folder: str = "") -> list[Stored]:
        """See `Store.names`."""
        with self._failing("list", checked(folder) if folder else ""):
            return sorted(_files(self.root / folder if folder else self.root, f"{folder}/" if folder else ""))

    def delete(self, names: Iterable[str]) -> None:
        """See `Store.delete`. Not synced: a file that a crash brings back is deleted again."""
        for name in names:
            with self._failing("delete", checked(name)):
                (self.root / name).unlink(missing_ok=True)

    def scratch(self) -> Path:
        """See `Store.scratch`: on the same file system as the files, so that a rename is enough."""
        folder = self.root / DRAFTS
        with self._failing("make", DRAFTS):
            self._make_folder(folder)
        return folder

    def sweep(self) -> int:
        """See `Store.sweep`. Old is told by the file system's own time: clocks of other machines may differ."""
        with self._failing("sweep", DRAFTS):
            return sweep_folder(self.scratch())

    def _publish(self, draft: Path, name: str) -> None:
        target = self.root / name
        self._make_folder(target.parent)
        try:
            draft.rename(target)
        except FileNotFoundError:  # somebody removed the folder meanwhile
            self._synced_folders.clear()
            self._make_folder(target.parent)
            draft.rename(target)
        _sync_folder(target.parent)

    def _make_folder(self, folder: Path) -> None:
        """Makes a folder so that it is still there after a crash: a new name is safe when the folder above was synced."""
        if folder in self._synced_folders:
            return
        missing = [folder, *folder.parents]
        missing = missing[: next((k for k, above in enumerate(missing) if above.is_dir()), len(missing))]
        for new in reversed(missing):
            new.mkdir(exist_ok=True)  # of several attempts at once
            _sync_folder(new.parent)
        self._synced_folders.add(folder)

    def _failing(self, what: str, name: str) -> AbstractContextManager[None]:
        return failing(what, name, self.uri)


def sweep_folder(folder: Path) -> int:
    """Deletes files and folders of attempts that ended over an hour ago."""
    probe = folder / uuid.uuid4().hex
    probe.touch()
    now = probe.stat().st_mtime
    probe.unlink()
    swept = 0
    for entry in list(os.scandir(folder)):
        try:
            if now - entry.stat(follow_symlinks=False).st_mtime >= LEFT_OVER_S:
                remove: Callable[[str], object] = shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink
                remove(entry.path)
                swept += 1
        except (FileNotFoundError, PermissionError):  # another process sweeps, too, or the attempt has ended well; or it is somebody else's
            continue
    return swept


def _sync_folder(folder: Path) -> None:
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> bool:
    """Whether it was there."""
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):  # whoever writes there will say what is wrong
        return False
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def _files(folder: Path, prefix: str) -> Iterator[Stored]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files(Path(entry.path), f"{prefix}{entry.name}/")
            continue
        try:
            yield Stored(prefix + entry.name, entry.stat().st_size)
        except FileNotFoundError:  # deleted while we looked
            continue
