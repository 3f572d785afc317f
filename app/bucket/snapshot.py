"""A bucket's state as bytes and back: a header in JSON and named parts. Old formats stay readable."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
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


def bits_moved(old: NDArray[np.uint64], place: Sequence[int], new: NDArray[np.uint64], layout: ItemLayout, query: int) -> None:
    """Moves a query's bits to where they belong in another layout.

    Args:
        old: uint64 (events, words), bitmaps of a snapshot.
        place: of the query in them: word, shift, items.
        new: uint64 (events, words), in-out, in the layout.
        layout: of the query's group.
        query: its index in the catalog of the layout.
    """
    word, shift, items = place
    to = layout.place[query]
    bits = (old[:, word] >> np.uint64(shift)) & np.uint64((1 << items) - 1)
    new[:, layout.word[to]] |= bits << np.uint64(layout.shift[to])


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
