"""Spark's log of offsets, corrected between two runs: Spark takes a topic that is no longer read for lost data, and does not see that one was created again.

A topic that is left out of the log is new to Spark; one that is put into it goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.config.addresses import FolderAddress, parse_address
from app.config.settings import SPARK_FOLDER
from app.owners.spark_log import OF_BATCH, OF_FIRST_SOURCE, Offsets, read_offsets
from app.storage.open import open_store

_FIRST_SOURCE = "sources/0/0"
"""Where Spark keeps the offsets at which the first batch begins."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What is to be changed in the log.

    Attributes:
        without: topics that are left out.
        starts: topic partitions that go on from an offset.
    """

    without: frozenset[str] = frozenset()
    starts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.without or self.starts)

    def of(self, offsets: Mapping[tuple[str, int], int]) -> Offsets:
        """Offsets, corrected.

        >>> Correction(frozenset({"a"}), {("b", 0): 7}).of({("a", 0): 3, ("c", 1): 5})
        {('c', 1): 5, ('b', 0): 7}
        """
        return {place: offset for place, offset in offsets.items() if place[0] not in self.without} | dict(self.starts)


class OffsetLog:
    """``<checkpoint>/spark/offsets`` while Spark does not run."""

    def __init__(self, checkpoint: str) -> None:
        self._store, self._address = open_store(checkpoint), parse_address(checkpoint)

    def committed(self) -> Offsets:
        """Up to where everything was committed, 0 for partitions that were only planned; empty in a fresh checkpoint, and where the source is not Kafka.

        A topic that was only planned is left out: a correction that was interrupted put it there, and is made again.
        """
        parts = [_offsets_of(name, self._read(name)) for name in self._last_entries()]
        if len(parts) < 2:
            return parts[0] if parts else {}
        planned, begins = parts
        topics = {topic for topic, _ in begins}
        return {place: 0 for place in planned if place[0] in topics} | begins

    def correct(self, correction: Correction) -> None:
        """Corrects where the next batch begins; one that was planned and is not committed is repeated without the topics that are left out."""
        for name in self._last_entries() if correction else ():
            self._rewrite(name, correction)

    def drop_torn(self, decided: int | None) -> list[str]:
        """Deletes the newest entries where a power cut has left nothing of them: a commit, whose batch is then repeated, and the offsets of a batch that had not begun.

        Args:
            decided: the newest batch that has a directive; its offsets were safe before that.

        Returns:
            Their names.
        """
        dropped = []
        for folder in ("commits", "offsets"):
            newest = max(self._numbers(folder), default=-1)
            name = f"{folder}/{newest}"
            may_go = folder == "commits" or decided is None or newest > decided
            if newest >= 0 and may_go and not self._read(name).strip("\0 \n"):
                self._forget_checksum(name)
                self._store.delete([f"{SPARK_FOLDER}/{name}"])
                dropped.append(name)
        return dropped

    def _last_entries(self) -> list[str]:
        """The last entry; where its batch is not committed, that in which it begins behind it."""
        planned = self._numbers("offsets")
        if not planned:
            return []
        last = max(planned)
        begins = f"offsets/{last - 1}" if last - 1 in planned else _FIRST_SOURCE
        return [f"offsets/{last}"] if last in self._numbers("commits") else [f"offsets/{last}", begins]

    def _numbers(self, folder: str) -> set[int]:
        names = [stored.name.rpartition("/")[2] for stored in self._store.names(f"{SPARK_FOLDER}/{folder}")]
        return {int(name) for name in names if name.isdecimal()}

    def _read(self, name: str) -> str:
        return self._store.read(f"{SPARK_FOLDER}/{name}").decode()

    def _rewrite(self, name: str, correction: Correction) -> None:
        text = self._read(name)
        self._forget_checksum(name)
        self._store.write(f"{SPARK_FOLDER}/{name}", [_corrected(name, text, correction).encode()])

    def _forget_checksum(self, name: str) -> None:
        """Hadoop's local file systems check it, and read what has none; in a bucket there are none. First: a checksum must never be of another text."""
        if isinstance(self._address, FolderAddress):
            path = Path(self._address.path) / SPARK_FOLDER / name
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _offsets_of(name: str, text: str) -> Offsets:
    """None of them where the source is not Kafka."""
    return read_offsets(f"{SPARK_FOLDER}/{name}", text, OF_FIRST_SOURCE if name == _FIRST_SOURCE else OF_BATCH) or {}


def _corrected(name: str, text: str, correction: Correction) -> str:
    """The offsets are the last line of a log entry, and of the beginning of the first batch."""
    lines = text.splitlines()
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in correction.of(_offsets_of(name, text)).items():
        topics.setdefault(topic, {})[str(partition)] = offset
    return "\n".join([*lines[:-1], json.dumps(topics, separators=(",", ":"))])
