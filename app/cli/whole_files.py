"""Files that commands write: under another name until they are whole, so that what stood there before is not spoiled by a command that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from app.errors import ConfigurationError, Finding
from app.events.opened import PACKED, EventFile


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """Where to write a file: it takes its place when all is written, and is deleted when anything fails. Devices and pipes are written to at once.

    >>> with whole_file(Path("/dev/null")) as path:
    ...     print(path)
    /dev/null
    """
    if out.exists() and not out.is_file():
        yield out
        return
    target = out.resolve()  # of a link, what it points to
    draft = target.with_name(f".{target.name}.part")
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


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
    file, packing = path.open("wb"), PACKED.get(out.suffix.lower())
    return pa.CompressedOutputStream(file, packing) if packing else file
