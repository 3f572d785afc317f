"""What is in a checkpoint, and whether all of it is whole: for people who look at one that an application does not run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from app.control.messages.batch_log import DIRECTIVE, RUN, RUN_FILE, TOTALS, BatchLog
from app.control.messages.batch_log import FOLDER as BATCHES
from app.errors import CepError
from app.owners.deployment import FOLDER as DEPLOYMENTS
from app.owners.deployment import load_deployment
from app.owners.snapshots import read_snapshot
from app.owners.spark_log import NO_OFFSET
from app.owners.state_log import ENTRY, SNAPSHOT, Generation, Listing, StateLog, state_log
from app.storage.frames import read_frame, require_whole
from app.storage.store import Store, Stored

SPARK = "spark"
"""Folder of Spark's own part."""


@dataclass(frozen=True, slots=True)
class BucketInventory:
    """One bucket's part of a checkpoint."""

    number: int
    listing: Listing
    log_bytes: int

    @property
    def newest(self) -> Generation | None:
        """The newest snapshot."""
        return self.listing.generations[-1] if self.listing.generations else None


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is in a checkpoint.

    Attributes:
        planned, committed: newest batches that Spark has planned, and committed; None before the first.
        runs: of the driver.
        sizes: bytes by folder.
        deployments: fingerprints.
    """

    planned: int | None
    committed: int | None
    runs: int
    buckets: Sequence[BucketInventory]
    sizes: dict[str, int]
    deployments: Sequence[str]

    @property
    def unfinished(self) -> int | None:
        """The batch that was planned and not committed: the next start repeats it."""
        return self.planned if self.planned != self.committed else None


def inventory(store: Store, state: str) -> Inventory:
    """Lists a checkpoint; nothing but names and one small file is read.

    Args:
        store: the checkpoint.
        state: folder of its buckets.

    Raises:
        StorageError: it cannot be read.
    """
    stored = store.names()
    sizes: dict[str, int] = {}
    for one in stored:
        folder = one.name.partition("/")[0]
        sizes[folder] = sizes.get(folder, 0) + one.size
    try:
        runs = int(orjson.loads(read_frame(store, RUN_FILE, RUN).parts[0])["runs"])
    except (CepError, ValueError, KeyError):
        runs = 0
    deployments = sorted(one.name.rpartition("/")[2].partition(".")[0] for one in stored if one.name.startswith(f"{DEPLOYMENTS}/"))
    return Inventory(
        _greatest(stored, f"{SPARK}/offsets/"),
        _greatest(stored, f"{SPARK}/commits/"),
        runs,
        _buckets(store, state, stored),
        sizes,
        deployments,
    )


def faults(store: Store, uri: str, state: str) -> Iterator[str]:
    """Reads all of a checkpoint; everything that is damaged or missing, one sentence each.

    Args:
        store: the checkpoint.
        uri: where it is, as the application has it.
        state: folder of its buckets.
    """
    found = inventory(store, state)
    next_batch = 0 if found.committed is None else found.committed + 1
    if missing := fault_of_spark_log(store):
        yield missing
    yield from _faults_of_frames(store)
    yield from _faults_of_deployments(uri, found)
    yield from _faults_of_single_files(store, state)
    yield from _faults_of_spark(store)
    for bucket in found.buckets:
        yield from _faults_of_bucket(state_log(store, state, bucket.number), bucket, next_batch)
    if found.committed is not None and not found.buckets:
        yield f"Spark has committed batch {found.committed}, but there is no state of any bucket"


def fault_of_spark_log(store: Store) -> str | None:
    """What is missing of Spark's log beside our own: without it Spark would begin anew, under old directives."""
    done, planned = BatchLog(store).latest_batch(TOTALS), newest_batch(store, f"{SPARK}/offsets")
    if done is None or (planned is not None and planned >= done):
        return None
    return f"batch {done} is done, but Spark's log ({SPARK}/offsets) {'is missing' if planned is None else f'ends with batch {planned}'}"


def newest_batch(store: Store, folder: str) -> int | None:
    """The newest batch that has a file in a folder of Spark's; None: no batch has."""
    return _greatest(store.names(folder), f"{folder}/")


def _greatest(stored: Sequence[Stored], folder: str) -> int | None:
    names = [one.name.removeprefix(folder) for one in stored if one.name.startswith(folder)]
    return max((int(name) for name in names if name.isdigit()), default=None)


def _buckets(store: Store, state: str, stored: Sequence[Stored]) -> list[BucketInventory]:
    numbers = {int(one.name.split("/")[1].removeprefix("bucket-")) for one in stored if one.name.startswith(f"{state}/bucket-")}
    sizes = dict.fromkeys(numbers, 0)
    for one in stored:
        if one.name.startswith(f"{state}/bucket-") and "/log-" in one.name:
            sizes[int(one.name.split("/")[1].removeprefix("bucket-"))] += one.size
    return [BucketInventory(number, state_log(store, state, number).listing(), sizes[number]) for number in sorted(numbers)]


def _faults_of_frames(store: Store) -> Iterator[str]:
    log = BatchLog(store)
    for batch, kind in log.logged_files():
        try:
            log.frozen(batch) if kind == DIRECTIVE else log.totals(batch)
        except CepError as error:
            yield str(error)
    if log.latest_batch(TOTALS) is not None and log.latest_batch(DIRECTIVE) is None:
        yield "there are totals of batches, but no directive"


def _faults_of_single_files(store: Store, state: str) -> Iterator[str]:
    """Numbers, runs, schemas, what the registry answered: all that is neither of a batch, nor a deployment, nor of a bucket."""
    others = (f"{SPARK}/", f"{DEPLOYMENTS}/", f"{BATCHES}/", f"{state}/")
    for one in store.names():
        if one.name.endswith(".bin") and not one.name.startswith(others):
            try:
                require_whole(store.read(one.name), one.name)
            except CepError as error:
                yield str(error)


def _faults_of_spark(store: Store) -> Iterator[str]:
    """Of Spark's log as much as we know of it: a version, and lines of JSON."""
    for folder in (f"{SPARK}/offsets", f"{SPARK}/commits"):
        for one in store.names(folder):
            if not one.name.rpartition("/")[2].isdecimal():
                continue
            version, *lines = store.read(one.name).decode(errors="replace").splitlines() or [""]
            if not version.startswith("v") or not lines or not all(line == NO_OFFSET or _is_json(line) for line in lines):
                yield f"{one.name} is torn"


def _is_json(line: str) -> bool:
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True


def _faults_of_deployments(uri: str, found: Inventory) -> Iterator[str]:
    for fingerprint in found.deployments:
        try:
            load_deployment(uri, fingerprint)
        except CepError as error:
            yield f"deployment {fingerprint}: {error}"


def _faults_of_bucket(log: StateLog, bucket: BucketInventory, next_batch: int) -> Iterator[str]:
    """Every file that counts is read; and from the newest snapshot on, or the beginning, the log reaches the next batch."""
    for generation in bucket.listing.generations:
        try:
            if _is_to_begin_from(bucket, generation, next_batch):
                read_snapshot(log, generation)
            else:
                read_frame(log.store, log.snapshot_name(generation), SNAPSHOT)
        except CepError as error:
            yield str(error)
    for batch, epoch in sorted(bucket.listing.entries.items()):
        try:
            read_frame(log.store, log.entry_name(batch, epoch), ENTRY)
        except CepError as error:
            yield str(error)
    whole = [generation.batch for generation in bucket.listing.generations if generation.batch < next_batch]
    first = (whole[-1] + 1) if whole else min(bucket.listing.entries, default=next_batch)
    if not whole and first > 0:
        yield f"bucket {bucket.number}: there is no snapshot, and its log begins with batch {first}"
    if missing := [batch for batch in range(first, next_batch) if batch not in bucket.listing.entries]:
        yield f"bucket {bucket.number}: its log lacks the batches {missing[:5]}{'…' if len(missing) > 5 else ''} before {next_batch}"


def _is_to_begin_from(bucket: BucketInventory, generation: Generation, next_batch: int) -> bool:
    """Whether a start may rebuild the bucket from a snapshot; an older one is there for its blocks only, and those that it names may be gone (`StateLog.prune`)."""
    return generation == bucket.newest or all(batch in bucket.listing.entries for batch in range(generation.batch, next_batch))
