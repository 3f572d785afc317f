"""Files that commands write: never one over another or over what is read, and under another name until they are whole, so that what stood there before is not spoiled by a command that fails."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from app.errors import ConfigurationError, Finding
from app.files.opened import PACKED, STANDARD_INPUT, EventFile, event_files

DEVICES = (Path("/dev"), Path("/dev/fd"))
MOUNTED = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM)
"""What a file says that can be written and not replaced, as one that is mounted by itself."""


def require_apart(written: Mapping[str, Path | None], events: Iterable[Path] = ()) -> None:
    """Refuses files of which one would take the place of another, or of the events, before anything is read.

    Args:
        written: files by the options that name them.
        events: files, folders and globs that are read.

    Raises:
        ConfigurationError: with a finding for each of them.
    """
    named = [(option, path) for option, path in written.items() if path is not None]
    findings = [
        Finding(f"{option} {path} would overwrite what {other} writes", hint=f"give {option} another name")
        for (other, first), (option, path) in combinations(named, 2)
        if _same(first, path)
    ]
    findings += _overwritten(named, events)
    if findings:
        raise ConfigurationError(findings)


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file, not of a device, a pipe, or what is open already: there one comes behind the other."""
    if _descriptor(one) is not None and _descriptor(other) is not None:
        return False
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return one.resolve() == other.resolve()


def _overwritten(named: Iterable[tuple[str, Path]], events: Iterable[Path]) -> Iterable[Finding]:
    present = [(option, path) for option, path in named if path.is_file()]
    if not present:
        return
    try:
        files = event_files(path for path in events if str(path) != STANDARD_INPUT)
    except OSError:  # what is not there is told by who reads it
        return
    for option, path in present:
        own = next((file for file in files if file.path.is_file() and file.path.samefile(path)), None)
        if own is not None:
            yield Finding(f"{option} {path} would overwrite the events of {own.name}", hint=f"give {option} another name")


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """Where to write a file: it takes its place when all is written, and is deleted when anything fails. Devices and pipes are written to at once, and so is a file in a folder where no other may be made.

    >>> with whole_file(Path("/dev/null")) as path:
    ...     print(path)
    /dev/null
    """
    target = out.resolve()  # of a link, what it points to
    replaceable = not out.exists() or (out.is_file() and os.access(target.parent, os.W_OK))
    if not replaceable or _descriptor(out) is not None:
        yield out
        return
    draft = target.with_name(f".{target.name}.part")
    try:
        yield draft
        try:
            draft.replace(target)
        except OSError as error:
            if error.errno not in MOUNTED:
                raise
            shutil.copyfile(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(out: Path, content: bytes) -> None:
    """A file that is there with all of its content, or as it was.

    >>> write_whole(Path("/dev/null"), b"figures")
    """
    with whole_file(out) as path, opened(path) as file:
        file.write(content)


def opened(path: Path) -> BinaryIO:
    """A file to write to; behind what was written before where its name is that of an open one, as /dev/stdout.

    Raises:
        ConfigurationError: the name is that of an open file, and none is open there.
    """
    descriptor = _descriptor(path)
    if descriptor is None:
        return path.open("wb")
    sys.stdout.flush()
    try:
        return os.fdopen(os.dup(descriptor), "wb")
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            [Finding(f"{path}: no open file has this number", hint="let the shell open it, as 3> FILE does for /dev/fd/3, or name a file")]
        ) from error


def _descriptor(path: Path) -> int | None:
    """Of an open file that the path stands for; opened by the path it would be a second time, and from its beginning."""
    name = path.absolute()
    if name.parent not in DEVICES:
        return None
    number = {"stdout": "1", "stderr": "2"}.get(name.name, name.name)
    return int(number) if number.isdecimal() and (name.parent == DEVICES[1] or not name.name.isdecimal()) else None


@contextmanager
def lines_file(out: Path) -> Iterator[Any]:
    """A file of JSON lines to write to, packed as its name says.

    Raises:
        ConfigurationError: the name is one of another format.
    """
    file = EventFile.of(out)
    if file.kind != "json":
        raise ConfigurationError(
            [Finding(f"{out}: what is written are JSON lines", hint=f"name it {out.stem}.jsonl, packed .jsonl.gz or .jsonl.zst")]
        )
    with whole_file(out) as path, packed(path, out) as lines:
        yield lines


def packed(path: Path, out: Path) -> Any:
    """The path, open for writing; packed as the other name says, without regard to case."""
    file, packing = opened(path), PACKED.get(out.suffix.lower())
    return pa.CompressedOutputStream(file, packing) if packing else file
