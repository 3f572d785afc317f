"""State of a bucket as a log in the checkpoint: what was fed to it, batch by batch, and a snapshot now and then.

A bucket is a pure function of what it is fed, so the log of its inputs *is* its state's changes: writes are proportional to what
arrived, never to the state. A worker whose copy is some batches old catches up by feeding the missing ones; a cold one starts from
the last snapshot. A batch that Spark repeats writes the same bytes again. Why not Spark's state store: ops/decisions/0002.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from pyarrow import fs

from app.errors import SnapshotError
from app.pipeline.checkpoint_files import checkpoint_files

MAGIC = b"CEPLOG1\n"
KEEP_SNAPSHOTS = 2
"""The batch in flight may be repeated, and needs the snapshot *before* its own."""
NAME = re.compile(r"(log|snapshot)-(\d{12})\.bin$")


def framed(parts: Sequence[bytes]) -> bytes:
    """Parts as one checked block of bytes.

    >>> unframed(framed([b"a", b""]))
    [b'a', b'']
    """
    sizes = struct.pack(f"<I{len(parts)}Q", len(parts), *map(len, parts))
    body = b"".join([sizes, *parts])
    return MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def unframed(data: bytes) -> list[bytes]:
    """The parts of a block made by `framed`.

    Raises:
        SnapshotError: the block is torn, corrupt or of another format.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise SnapshotError("not a state log of this format")
    body = data[len(MAGIC) + 4 :]
    if zlib.crc32(body) != struct.unpack_from("<I", data, len(MAGIC))[0]:
        raise SnapshotError("state log is torn or corrupt")
    (count,) = struct.unpack_from("<I", body)
    sizes = struct.unpack_from(f"<{count}Q", body, 4)
    parts, at = [], 4 + 8 * count
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    return parts


@dataclass(frozen=True, slots=True)
class Position:
    """What a listing of the folder says: the batches that have a snapshot, and those that have a log entry."""

    snapshots: tuple[int, ...]
    entries: tuple[int, ...]


class StateLog:
    """The log of one bucket, below ``<checkpoint>/cep-state/<query id>/bucket-<n>``.

    Local and PVC paths as well as object stores (``s3://``, ``hdfs://``) through Arrow's file systems.
    """

    def __init__(self, root: str, query_id: str, bucket: int) -> None:
        self._fs, base = checkpoint_files(root)
        self._folder = f"{base}/cep-state/{query_id}/bucket-{bucket}"
        self._fs.create_dir(self._folder, recursive=True)

    def position(self) -> Position:
        """Lists the folder."""
        found: dict[str, list[int]] = {"log": [], "snapshot": []}
        for info in self._fs.get_file_info(fs.FileSelector(self._folder)):
            if name := NAME.match(info.base_name):
                found[name[1]].append(int(name[2]))
        return Position(tuple(sorted(found["snapshot"])), tuple(sorted(found["log"])))

    def append(self, batch_id: int, parts: Sequence[bytes]) -> int:
        """Writes what the bucket was fed in this batch; returns the bytes written. Writing it again replaces the same bytes."""
        return self._write(f"log-{batch_id:012}.bin", parts)

    def entry(self, batch_id: int) -> list[bytes]:
        """What the bucket was fed in this batch.

        Raises:
            SnapshotError: no such entry, or it is corrupt.
        """
        return self._read(f"log-{batch_id:012}.bin")

    def write_snapshot(self, batch_id: int, parts: Sequence[bytes]) -> int:
        """Writes the state *after* this batch, then prunes what no repetition can need."""
        size = self._write(f"snapshot-{batch_id:012}.bin", parts)
        self._prune()
        return size

    def snapshot(self, batch_id: int) -> list[bytes]:
        """The state after this batch."""
        return self._read(f"snapshot-{batch_id:012}.bin")

    def _prune(self) -> None:
        position = self.position()
        if len(position.snapshots) <= KEEP_SNAPSHOTS:
            return
        oldest = position.snapshots[-KEEP_SNAPSHOTS]
        names = [f"snapshot-{b:012}.bin" for b in position.snapshots if b < oldest]
        names += [f"log-{b:012}.bin" for b in position.entries if b <= oldest]
        for name in names:
            self._fs.delete_file(f"{self._folder}/{name}")

    def _write(self, name: str, parts: Sequence[bytes]) -> int:
        data = framed(parts)
        draft = f"{self._folder}/.{name}.draft"
        with self._fs.open_output_stream(draft) as stream:
            stream.write(data)
        self._fs.move(draft, f"{self._folder}/{name}")
        return len(data)

    def _read(self, name: str) -> list[bytes]:
        try:
            with self._fs.open_input_stream(f"{self._folder}/{name}") as stream:
                return unframed(stream.readall())
        except FileNotFoundError as error:
            raise SnapshotError(f"the state log has no {name}; the checkpoint is incomplete") from error
