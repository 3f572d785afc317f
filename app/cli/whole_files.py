"""Files that commands write: under another name until they are whole, so that what stood there before is not spoiled by a command that fails."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from app.errors import ConfigurationError, Finding
from app.files.opened import PACKED, EventFile

DEVICES = (Path("/dev"), Path("/dev/fd"))
MOUNTED = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM)
"""What a file says that can be written and not replaced, as one that is mounted by itself."""


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
    """A file to write to; behind what was written before where its name is that of an open one, as /dev/stdout."""
    descriptor = _descriptor(path)
    if descriptor is None:
        return path.open("wb")
    sys.stdout.flush()
    return os.fdopen(os.dup(descriptor), "wb")


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
