"""A snapshot as blocks: what an earlier snapshot of the bucket holds already is named, not written again.

States are long arrays that grow at one end and shrink at the other, so most of their content is the same as a while ago, at another place. Borders of
blocks follow from the content (a rolling hash over 64 words), so the same rows give the same blocks wherever they lie. Before all files that a
snapshot names are together two and a half times its state, everything is written anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from app.errors import SnapshotError
from app.owners.kernels_blocks import cut
from app.storage.store import Part

LEAST_WORDS, MEAN_WORDS, MOST_WORDS = 8 << 10, 32 << 10, 128 << 10
"""Sizes of blocks: 64 KiB, 256 KiB and 1 MiB. Smaller ones find more that is equal, and make longer lists."""
GARBAGE = 2.5
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Block:
    """Where a block is: a file, and its place among the file's blocks (from 1)."""

    file: str
    place: int
    size: int


@dataclass(frozen=True, slots=True)
class Known:
    """What the last snapshot of a bucket holds.

    Attributes:
        blocks: by digest.
        files: bytes of the files that it names, itself included.
    """

    blocks: Mapping[str, Block] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    """Bytes of the state."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A state, cut.

    Attributes:
        head: the first part of the snapshot's file, for `assembled` and `known_of`.
        fresh: the blocks that no earlier file holds.
    """

    head: bytes
    fresh: Sequence[Part]


def cut_up(file: str, state: Iterable[tuple[str, Sequence[Part]]], known: Known, **told: Any) -> Cut:
    """Cuts a state into blocks.

    Args:
        file: name of the snapshot's own file.
        state: names of parts and their buffers.
        known: of an earlier snapshot; those of its blocks that come again are named.
        told: what else the head says, as JSON values.
    """
    fresh: list[Part] = []
    found: dict[str, Block] = {}
    parts, total, kept = [], 0, list(state)
    for name, buffers in kept:
        places = []
        for block in (block for buffer in buffers for block in _blocks(buffer)):
            digest = hashlib.blake2b(block, digest_size=DIGEST_BYTES).hexdigest()
            here = known.blocks.get(digest) or found.get(digest)
            if here is None:
                fresh.append(block)
                here = found[digest] = Block(file, len(fresh), len(block))
            places.append((here, digest))
            total += len(block)
        parts.append((name, places))
    named = {here.file for _, places in parts for here, _ in places} - {file}
    if known.blocks and sum(known.files.get(one, 0) for one in named) > GARBAGE * max(total, 1):
        return cut_up(file, kept, Known(), **told)
    files = [file, *sorted(named)]
    number = {one: k for k, one in enumerate(files)}
    described = [[name, [[number[here.file], here.place, here.size, digest] for here, digest in places]] for name, places in parts]
    sizes = [known.files.get(one, 0) for one in files]
    return Cut(orjson.dumps({**told, "files": files, "sizes": sizes, "parts": described}), fresh)


def known_of(head: bytes | memoryview, own_size: int) -> Known:
    """What a snapshot holds, for the next one.

    Args:
        head: of the snapshot.
        own_size: bytes of its file.
    """
    plain = orjson.loads(head)
    files = plain["files"]
    blocks = {digest: Block(files[file], place, size) for _, places in plain["parts"] for file, place, size, digest in places}
    total = sum(size for _, places in plain["parts"] for _, _, size, _ in places)
    return Known(blocks, {**dict(zip(files, plain["sizes"], strict=True)), files[0]: own_size}, total)


def assembled(
    head: bytes | memoryview, own: Sequence[memoryview], others: Mapping[str, Callable[[], Sequence[memoryview]]]
) -> dict[str, memoryview]:
    """The state's parts.

    Args:
        head: of the snapshot.
        own: blocks of its file.
        others: by file name, what gives the blocks of that file when it is called; each is called once, one after the other.

    Raises:
        SnapshotError: a block is not what it should be.
    """
    plain = orjson.loads(head)
    parts = {name: bytearray(sum(size for _, _, size, _ in places)) for name, places in plain["parts"]}
    for number, file in enumerate(plain["files"]):
        blocks = own if number == 0 else others[file]()
        for name, places in plain["parts"]:
            at = 0
            for of, place, size, digest in places:
                if of == number:
                    parts[name][at : at + size] = _checked(blocks, place, size, digest, file)
                at += size
    return {name: memoryview(part) for name, part in parts.items()}


def _checked(blocks: Sequence[memoryview], place: int, size: int, digest: str, file: str) -> memoryview:
    if place > len(blocks) or len(blocks[place - 1]) != size:
        raise SnapshotError(f"{file} has no block {place} of {size} bytes, which another snapshot names")
    block = blocks[place - 1]
    if hashlib.blake2b(block, digest_size=DIGEST_BYTES).hexdigest() != digest:
        raise SnapshotError(f"{file}: block {place} is not the one that another snapshot names")
    return block


def _blocks(buffer: Part) -> Iterator[memoryview]:
    """A buffer's blocks; short ones, and those that are no arrays of words, are one."""
    view = memoryview(buffer).cast("B") if memoryview(buffer).nbytes else memoryview(b"")
    whole = len(view) // 8
    if whole <= LEAST_WORDS:
        if len(view):
            yield view
        return
    words = np.frombuffer(view, np.uint8, 8 * whole)
    aligned = words.view(np.uint64) if words.ctypes.data % 8 == 0 else np.frombuffer(bytes(words), np.uint64)
    ends = np.empty(whole // LEAST_WORDS + 2, dtype=np.int64)
    count = cut(aligned, LEAST_WORDS, MOST_WORDS, np.uint64(MEAN_WORDS - 1), ends)
    start = 0
    for end in ends[:count].tolist():
        last = len(view) if end == whole else 8 * end
        yield view[start:last]
        start = last
