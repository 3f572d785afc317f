"""How everything begins that is kept: what it is, in which format, and a description in JSON; checked, so that wrong bytes are refused here.

Layout: eight letters, uint32 format, uint32 length of the description, uint32 CRC of these two and the description, the description, padding to
eight bytes. What follows is the business of whoever wrote it; numbers are little-endian. This layout is the same in all formats to come.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from app.errors import SnapshotError

Buffer = bytes | memoryview
_PREFIX = struct.Struct("<8sIII")
_CHECKED = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Kept:
    """A kind of thing that is kept.

    Attributes:
        letters: eight of them, that it begins with.
        what: in messages.
        format: in which it is written; greater ones are of newer versions.
    """

    letters: bytes
    what: str
    format: int = 1


@dataclass(frozen=True, slots=True)
class Preamble:
    """A preamble that was read.

    Attributes:
        format: at most that of the kind's.
        description: what was described.
        stop: where what follows begins.
    """

    format: int
    description: dict[str, Any]
    stop: int


def write_preamble(kept: Kept, description: Mapping[str, Any]) -> bytes:
    """The preamble; its length is a multiple of eight.

    >>> read_preamble(Kept(b"ABCDEFGH", "example"), write_preamble(Kept(b"ABCDEFGH", "example"), {"a": 1}) + b"rest")
    Preamble(format=1, description={'a': 1}, stop=32)
    """
    text = json.dumps(description, sort_keys=True, separators=(",", ":")).encode()
    prefix = _PREFIX.pack(kept.letters, kept.format, len(text), _checksum(kept.format, text))
    return b"".join([prefix, text, bytes(-(len(prefix) + len(text)) % 8)])


def read_preamble(kept: Kept, data: Buffer) -> Preamble:
    """The preamble at the beginning of the bytes.

    Raises:
        SnapshotError: they are of another kind, of a newer version, cut off, or damaged.
    """
    view = memoryview(data)
    if not begins(kept, view):
        raise SnapshotError(f"these bytes are no {kept.what}")
    if len(view) < _PREFIX.size:
        raise SnapshotError(f"{kept.what} is cut off in its first bytes")
    _, number, length, checksum = _PREFIX.unpack_from(view)
    if number > kept.format:
        raise SnapshotError(f"{kept.what} was written by a newer version: format {number}, this one reads up to {kept.format}")
    text = bytes(view[_PREFIX.size : _PREFIX.size + length])
    if len(text) != length or _checksum(number, text) != checksum:
        raise SnapshotError(f"{kept.what} is cut off or damaged in its description")
    with reading(kept.what):
        stop = _PREFIX.size + length
        return Preamble(number, dict(json.loads(text)), stop + -stop % 8)


def begins(kept: Kept, data: Buffer) -> bool:
    """Whether the bytes begin as those of this kind do."""
    return bytes(memoryview(data)[: len(kept.letters)]) == kept.letters


def _checksum(number: int, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(_CHECKED.pack(number, len(text))))


@contextmanager
def reading(what: str) -> Iterator[None]:
    """While something kept is read: whatever goes wrong is a `SnapshotError`.

    Raises:
        SnapshotError: something went wrong.
    """
    try:
        yield
    except (SnapshotError, MemoryError):
        raise
    except Exception as error:  # what a wrong content lets out is whatever its parts raise: KeyError, ValueError, pyarrow's own, ...
        raise SnapshotError(f"{what} is damaged: {error!r}") from error
