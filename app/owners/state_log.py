"""A bucket's state in storage: what it was fed, batch by batch, and a snapshot now and then.

A bucket is a pure function of what it is fed, so the log of its inputs *is* its state's changes: writes are proportional to what arrived,
never to the state. Every file carries the epoch of the owner that wrote it. An owner that was replaced while it hung may still write, but never
under a name that anybody reads: of two entries of one batch the one with the greater epoch counts, and a snapshot only where its epoch is that of
its batch's entry (`ops/decisions/0032`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.storage.frames import read_frame, write_frame
from app.storage.store import Part, Store

STATE = "state"
"""Folder of all buckets in the checkpoint, until they are moved; then there is a number behind it (`StateHome`)."""
ENTRY, SNAPSHOT = "bucket-log", "bucket-snapshot"
FORMAT = 1
KEEP_GENERATIONS = 2
"""Where the newest snapshot is damaged, the one before and the log since then are there."""
_NAME = re.compile(r"(log|snapshot)-(\d{12})-(\d+)\.bin$")


@dataclass(frozen=True, slots=True)
class StateHome:
    """Where in a checkpoint its state is.

    Attributes:
        number: how often it was moved (`app.owners.rescaling`).
        newest: the batch whose directive was the newest one when it was moved last; -1: there was none.
        deployment: under which it has been since then.
    """

    number: int = 0
    newest: int = -1
    deployment: str = ""

    @property
    def folder(self) -> str:
        """Of all buckets.

        >>> StateHome().folder, StateHome(2).folder
        ('state', 'state-2')
        """
        return f"{STATE}-{self.number}" if self.number else STATE


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """A snapshot: the state after a batch, as an owner of this epoch had it."""

    batch: int
    epoch: int
    size: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is of a bucket.

    Attributes:
        entries: by batch, the epoch of the entry that counts.
        generations: snapshots that count, the oldest first.
        dead: names of files that nobody will read again, because an owner wrote them that had been replaced.
    """

    entries: Mapping[int, int] = field(default_factory=dict)
    generations: tuple[Generation, ...] = ()
    dead: tuple[str, ...] = ()


class StateLog:
    """The log of one bucket.

    Args:
        store: the checkpoint.
        folder: of the bucket in it.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self.store, self._folder = store, folder
        self._files: dict[tuple[int, int], frozenset[str]] = {}
        self._going: list[str] = []
        self._broken: set[tuple[int, int]] = set()

    def pass_over(self, generation: Generation) -> None:
        """Notes that a snapshot cannot be read: it is no generation to fall back on."""
        self._broken.add((generation.batch, generation.epoch))

    def listing(self) -> Listing:
        """What there is; files that are none of ours are passed over."""
        found: dict[str, list[Generation]] = {"log": [], "snapshot": []}
        for stored in self.store.names(self._folder):
            if name := _NAME.search(stored.name):
                found[name[1]].append(Generation(int(name[2]), int(name[3]), stored.size))
        entries = {one.batch: one.epoch for one in sorted(found["log"])}
        counts = [one for one in sorted(found["snapshot"]) if entries.get(one.batch, one.epoch) == one.epoch]
        newest = {one.batch: one for one in counts}
        dead = [self.entry_name(one.batch, one.epoch) for one in found["log"] if entries[one.batch] != one.epoch]
        dead += [self.snapshot_name(one) for one in found["snapshot"] if newest.get(one.batch) != one]
        return Listing(entries, tuple(sorted(newest.values())), tuple(dead))

    def entry_name(self, batch: int, epoch: int) -> str:
        """Of the file with what the bucket was fed in a batch."""
        return f"{self._folder}/log-{batch:012}-{epoch}.bin"

    def snapshot_name(self, generation: Generation) -> str:
        """Of the file with a generation."""
        return f"{self._folder}/snapshot-{generation.batch:012}-{generation.epoch}.bin"

    def append(self, batch: int, epoch: int, parts: Sequence[Part]) -> int:
        """Writes what the bucket was fed in a batch; returns the bytes written."""
        return write_frame(self.store, self.entry_name(batch, epoch), ENTRY, FORMAT, parts)

    def entry(self, batch: int, epoch: int) -> tuple[memoryview, ...]:
        """What the bucket was fed in a batch.

        Raises:
            StorageError, SnapshotError: it cannot be read, or is damaged.
        """
        return read_frame(self.store, self.entry_name(batch, epoch), ENTRY).parts

    def prune(self, committed: int, keep_batches: int, at_once: int | None = None) -> Sequence[Generation]:
        """Deletes what no restart can need: older generations, and the log before the oldest that stays.

        Args:
            committed: newest batch that Spark has committed.
            keep_batches: how far back of it a checkpoint can be rewound.
            at_once: so many files now, the others by `prune_more`; None: all. A thousand of them take ten seconds in a bucket.

        Returns:
            the generations that are deleted.
        """
        listing = self.listing()
        there = {(one.batch, one.epoch) for one in listing.generations}
        self._files = {place: files for place, files in self._files.items() if place in there}
        whole = [one for one in listing.generations if (one.batch, one.epoch) not in self._broken]
        rewindable = [one for one in whole if one.batch <= committed - keep_batches]
        oldest = max(0, len(whole) - KEEP_GENERATIONS)
        first = min(oldest, max(0, len(rewindable) - 1))
        named = self._named_by(whole[first:])
        older = [one for one in listing.generations if whole[first:] and one.batch < whole[first].batch]
        gone = [one for one in older if named is not None and self.snapshot_name(one) not in named]
        entries = []
        if rewindable and len(whole) >= KEEP_GENERATIONS:  # else the log from its beginning is what can be rewound to
            start = whole[first].batch
            entries = [self.entry_name(batch, epoch) for batch, epoch in listing.entries.items() if batch < start]
        dead = [name for name in listing.dead if name not in (named or ())]
        # entries first: a snapshot whose blocks are gone has no log behind it, whoever is interrupted
        self._going = [*entries, *(self.snapshot_name(one) for one in gone), *dead]
        self.prune_more(len(self._going) if at_once is None else at_once)
        return gone

    def prune_more(self, most: int) -> bool:
        """Deletes so many more files of what `prune` has found; returns whether there was anything left to be deleted."""
        now, self._going = self._going[:most], self._going[most:]
        self.store.delete(now)
        return bool(now)

    def remember(self, generation: Generation, files: Iterable[str]) -> None:
        """Notes which files hold blocks of a snapshot: they stay as long as it does."""
        self._files[generation.batch, generation.epoch] = frozenset(files)

    def _named_by(self, generations: Sequence[Generation]) -> frozenset[str] | None:
        """Files whose blocks these snapshots name; None where nobody remembers."""
        known = [self._files.get((one.batch, one.epoch)) for one in generations]
        return None if None in known else frozenset(name for files in known for name in files or ())


def state_log(store: Store, folder: str, number: int) -> StateLog:
    """The log of a bucket.

    Args:
        store: the checkpoint.
        folder: of all buckets in it; see `StateHome.folder`.
        number: the bucket's.
    """
    return StateLog(store, f"{folder}/bucket-{number}")
