"""A bucket's state as bytes and back: a header in JSON and named parts. Old formats stay readable."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from app.errors import SnapshotError

MAGIC = b"CEPBUCK1"


def pack_state(header: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """Header and parts as bytes; equal states give equal bytes.

    >>> unpack_state(pack_state({"a": 1}, {"x": b"y"}))
    ({'a': 1}, {'x': b'y'})
    """
    named = sorted(parts.items())
    text = json.dumps(
        {"header": header, "parts": [[name, len(part)] for name, part in named]}, sort_keys=True, separators=(",", ":")
    ).encode()
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *(part for _, part in named)])


def unpack_state(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What `pack_state` packed.

    Raises:
        SnapshotError: the bytes are no state of a bucket in a known format.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise SnapshotError("not a bucket's state of a known format")
    (length,) = struct.unpack_from("<I", data, len(MAGIC))
    at = len(MAGIC) + 4 + length
    described = json.loads(data[len(MAGIC) + 4 : at])
    parts = {}
    for name, size in described["parts"]:
        parts[name] = bytes(data[at : at + size])
        if len(parts[name]) != size:
            raise SnapshotError("a bucket's state is cut off")
        at += size
    return described["header"], parts
