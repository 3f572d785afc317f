"""A bucket's state: named parts, each of buffers that need not be joined; and all of them as one block of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from app.cep.snapshot.preamble import Buffer, Kept, read_preamble, reading, write_preamble
from app.errors import SnapshotError

Part = tuple[str, Sequence[Buffer]]
"""Name and content of a part. Buffers look into the bucket: they are to be used before it is fed again."""
DESCRIPTION = "bucket"
"""The part that is a preamble alone, and says what the others mean."""
BUCKET = Kept(b"CEPBUCKT", "state of a bucket")
PARTS = Kept(b"CEPPARTS", "snapshot of a bucket")


def _as_it_is(described: dict[str, Any]) -> dict[str, Any]:
    return described


READERS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _as_it_is}
"""By format of a bucket's description, what makes it one of the newest format, which is written. Those of old formats stay."""


def description_part(description: Mapping[str, Any]) -> Part:
    """The part that describes the others."""
    return DESCRIPTION, [write_preamble(BUCKET, description)]


def described(parts: Mapping[str, Buffer]) -> dict[str, Any]:
    """What `description_part` wrote, in the newest format.

    Raises:
        SnapshotError: there is no description, or it is damaged or of a newer version.
    """
    if DESCRIPTION not in parts:
        raise SnapshotError("state of a bucket lacks its description")
    preamble = read_preamble(BUCKET, parts[DESCRIPTION])
    with reading(BUCKET.what):
        return READERS[preamble.format](preamble.description)


def pack_parts(parts: Iterable[Part]) -> bytes:
    """All parts as bytes; equal parts give equal bytes.

    >>> {name: bytes(part) for name, part in unpack_parts(pack_parts([("a", [b"x", b"yz"]), ("b", [])])).items()}
    {'a': b'xyz', 'b': b''}
    """
    named = [(name, buffers, sum(map(len, buffers))) for name, buffers in parts]
    joined: list[Buffer] = [write_preamble(PARTS, {"parts": [[name, size] for name, _, size in named]})]
    for _, buffers, size in named:
        joined += [*buffers, bytes(-size % 8)]
    return b"".join(joined)


def unpack_parts(data: Buffer) -> dict[str, memoryview]:
    """What `pack_parts` packed, as views of the bytes.

    Raises:
        SnapshotError: the bytes are no snapshot, cut off, damaged in what describes them, or of a newer version.
    """
    preamble = read_preamble(PARTS, data)
    view, at, parts = memoryview(data), preamble.stop, {}
    with reading(PARTS.what):
        for name, size in preamble.description["parts"]:
            parts[str(name)] = view[at : at + size]
            if len(parts[name]) != size:
                raise SnapshotError(f"snapshot of a bucket is cut off inside {name}")
            at += size + -size % 8
    return parts
