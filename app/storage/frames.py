r"""One framing for every stored thing: what it is, in which format, in which parts, and a checksum that finds what is torn.

``CEPFILE\n`` · length of the kind (u8) · format (u16) · number of parts (u32) · kind · length of every part (u64) · CRC-32 of all that · the parts ·
CRC-32 of the parts; all numbers little-endian. The head has a checksum of its own, so a damaged number is never taken for another kind or format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from app.errors import SnapshotError
from app.storage.store import Part, Store

MAGIC = b"CEPFILE\n"
_FIXED = struct.Struct("<8sBHI")
_SUM = struct.Struct("<I")
FIRST = frozenset({1})


class TornError(SnapshotError):
    """The file is shorter than it says, longer, or damaged."""


class ForeignError(SnapshotError):
    """Not a file of this application (or of a version before there were frames)."""


class OtherKindError(SnapshotError):
    """A whole file, but of another kind than expected here."""


class FormatError(SnapshotError):
    """A whole file of the expected kind, in a format that this version does not read: most likely of a newer version."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a file held."""

    format: int
    parts: tuple[memoryview, ...]
    """Views of the bytes that were opened: nothing is copied."""


def framed(kind: str, format: int, parts: Sequence[Part]) -> Iterator[Part]:  # noqa: A002 - the word of the house
    """The bytes of a file, piece by piece, for `Store.write`; the parts themselves are passed on, not copied.

    >>> opened("note", b"".join(framed("note", 1, [b"a", b""]))).parts[0].tobytes()
    b'a'
    """
    views = [_flat(part) for part in parts]
    name = kind.encode("ascii")
    head = _FIXED.pack(MAGIC, len(name), format, len(views)) + name + struct.pack(f"<{len(views)}Q", *map(len, views))
    yield head + _SUM.pack(zlib.crc32(head))
    checksum = 0
    for view in views:
        checksum = zlib.crc32(view, checksum)
        yield view
    yield _SUM.pack(checksum)


def require_whole(data: Part, name: str = "") -> None:
    """Checks a file of any kind and format.

    Raises:
        TornError, ForeignError: it is not whole, or not one of ours.
    """
    kind, number, _, _ = _head(_flat(data), f"{name} is " if name else "")
    opened(kind, data, (number,), name)


def opened(kind: str, data: Part, formats: Collection[int] = FIRST, name: str = "") -> Frame:
    """The parts of a file made by `framed`, all of it checked.

    Args:
        kind: what is expected.
        data: the whole file.
        formats: that the caller reads.
        name: of the file, for the text of errors.

    Raises:
        TornError, ForeignError, OtherKindError, FormatError: all of them `SnapshotError`; no other error, whatever the bytes are.
    """
    view = _flat(data)
    where = f"{name} is " if name else ""
    found, number, lengths, start = _head(view, where)
    end = start + sum(lengths)
    if len(view) != end + _SUM.size:
        raise TornError(f"{where}torn: {len(view)} bytes, {end + _SUM.size} expected")
    if found != kind:
        raise OtherKindError(f'{where}of the kind "{found}", not "{kind}"')
    if number not in formats:
        newer = "by a newer version" if number > max(formats) else "by a version too old for this one"
        raise FormatError(f"{where}written {newer} (format {number}, this one reads {_range(formats)})")
    parts = tuple(view[a:b] for a, b in pairwise(accumulate(lengths, initial=start)))
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    if checksum != _SUM.unpack_from(view, end)[0]:
        raise TornError(f"{where}damaged: its checksum does not fit")
    return Frame(number, parts)


def write_frame(store: Store, name: str, kind: str, format: int, parts: Sequence[Part]) -> int:  # noqa: A002 - as `framed`
    """Writes a framed file; returns its bytes."""
    return store.write(name, framed(kind, format, parts))


def read_frame(store: Store, name: str, kind: str, formats: Collection[int] = FIRST) -> Frame:
    """Reads a framed file; errors name it.

    Raises:
        MissingError, StorageError: see `Store.read`.
        SnapshotError: see `opened`.
    """
    return opened(kind, store.read(name), formats, f"{name} in {store.uri}")


def _head(view: memoryview, where: str) -> tuple[str, int, tuple[int, ...], int]:
    """Kind, format, lengths of the parts, and where the first one begins."""
    if view[: len(MAGIC)] != MAGIC[: len(view)]:
        raise ForeignError(f"{where}not a file of this application")
    if len(view) < _FIXED.size:
        raise TornError(f"{where}torn: {len(view)} bytes")
    _, kind_length, number, count = _FIXED.unpack_from(view)
    at = _FIXED.size + kind_length
    end = at + 8 * count
    if end + _SUM.size > len(view) or zlib.crc32(view[:end]) != _SUM.unpack_from(view, end)[0]:
        raise TornError(f"{where}torn or damaged: its head does not fit its checksum")
    return view[_FIXED.size : at].tobytes().decode("ascii"), number, struct.unpack_from(f"<{count}Q", view, at), end + _SUM.size


def _flat(part: Part) -> memoryview:
    """The bytes of a part, whatever its items are."""
    view = memoryview(part)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _range(formats: Collection[int]) -> str:
    least, greatest = min(formats), max(formats)
    return str(least) if least == greatest else f"{least} to {greatest}"
